package step

import (
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// rollbackDue reports whether a rollback has to be decided: new firmware is at fault, and everything else that was
// written has been read back.
func (r Record) rollbackDue() bool {
	if r.Outcome != "" || r.Failure == nil || len(r.Failure.Blames) == 0 || r.Rollback != nil || r.Released {
		return false
	}
	i := r.Current()
	return i < 0 || r.Steps[i].Kind != plan.Verify
}

// suspicion says that it is not certain whether the images are at fault; empty where it is.
func (f Failure) suspicion() string {
	switch images := "; the image of " + strings.Join(f.Blames, ", ") + " is suspected: "; f.Evidence {
	case Network:
		return images + "only the network was missed"
	case OfNode:
		return images + "nothing that was wrong names the device"
	}
	return ""
}

// former names what the devices at fault had before, for people.
func (r Record) former() string {
	if slices.ContainsFunc(r.Failure.Blames, r.Flashed) {
		return "the previous firmware"
	}
	return "what the devices were told before"
}

// rollBack decides on the rollback. If one device at fault cannot be restored, none is, and a person has to act.
func rollBack(r Record, f Facts) Action {
	var stuck []string
	for _, name := range r.Failure.Blames {
		dev, u := f.Devices[name], r.update(name)
		switch {
		case dev.WriteRunning:
			return Action{Verb: Await, Step: -1, Message: "a write to " + name + " is still running; it is never killed"}
		case r.told(name) && u.NoUndo != "":
			stuck = append(stuck, name+": "+u.NoUndo)
		case !r.Flashed(name):
		case dev.runsNothingBut(u.From) && !r.mayHide(name, dev) || u.Rollback != inventory.RollbackNone:
		default:
			stuck = append(stuck, strings.TrimSuffix(name+": "+u.RollbackMessage, ": "))
		}
	}
	if len(stuck) == 0 {
		return Action{Verb: RollBack, Step: -1, Devices: r.Failure.Blames, Message: r.former() + " is being restored"}
	}
	message := r.former() + " cannot be restored: " + strings.Join(stuck, "; ") + r.Failure.suspicion()
	return Action{Verb: RollBack, Step: -1, Message: message, Failure: &Failure{
		Reason: RollbackUnavailable, Message: message, Step: r.Failure.Step, Held: !r.InService,
	}}
}
