package step

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Guilt is what is known about the firmware that a job installed.
type Guilt string

// The grades of guilt.
const (
	// Acquitted: no firmware of the job explains what is wrong.
	Acquitted Guilt = "Acquitted"
	// Suspected: it may be at fault, and so may something else.
	Suspected Guilt = "Suspected"
	// Convicted: it is at fault.
	Convicted Guilt = "Convicted"
)

// Case is what a judgement rests on. What was wrong before the job is marked in the complaints.
type Case struct {
	// Changed are the devices whose firmware the job changed.
	Changed []Update
	// With is what is wrong with the new firmware.
	With []Complaint
	// Restored are the devices whose previous firmware ran again when Without was found; empty while there are none.
	Restored []string
	Without  []Complaint
	// Alone says that the API server could not be asked when Without was found.
	Alone bool
}

// Judgement is what follows from a case.
type Judgement struct {
	Guilt Guilt
	// Devices are those whose new firmware is blamed; empty exactly where it is acquitted.
	Devices []string
	// Evidence is what the blame is based on.
	Evidence Evidence
	// Message says why, for people; empty where the complaints say it all.
	Message string
}

// Judge decides whose firmware is to blame. Before anything is restored the firmware that may explain a complaint is charged, and
// restoring it is the test. What is as wrong with the previous firmware is not the new one's doing, and what ceased to be is.
func (c Case) Judge() Judgement {
	charged := suspects(c.Changed, c.With)
	switch {
	case len(charged) == 0:
		return Judgement{Guilt: Acquitted, Message: c.foreign()}
	case len(c.Restored) == 0:
		return c.charge(charged)
	}
	return c.retry(charged)
}

// foreign says that nothing is explained.
func (c Case) foreign() string {
	if len(c.Changed) == 0 {
		return "This job changed no firmware, so no image is blamed"
	}
	return fmt.Sprintf("This job changed nothing that explains it (it changed %s), so the new firmware stays and no image is blamed",
		strings.Join(named(c.Changed), ", "))
}

// charge blames the devices by what is wrong with the new firmware alone.
func (c Case) charge(devices []string) Judgement {
	out := Judgement{Guilt: Suspected, Devices: devices, Evidence: OfNode}
	for _, of := range c.With {
		switch {
		case of.Before || !slices.Contains(devices, of.Device):
		case of.Subject.network():
			out.Evidence = Network
		default:
			out.Guilt, out.Evidence = Convicted, OfDevice
			return out
		}
	}
	return out
}

// retry judges the devices charged by what is wrong without their new firmware.
func (c Case) retry(charged []string) Judgement {
	var guilty, open []string
	var others, untried []Update
	for _, u := range c.Changed {
		switch {
		case !slices.Contains(c.Restored, u.Device):
			others = append(others, u)
		case !slices.Contains(charged, u.Device):
		case c.untried(u):
			untried = append(untried, u)
		case c.trial(u) == mended:
			guilty = append(guilty, u.Device)
		case c.trial(u) == unclear:
			open = append(open, u.Device)
		}
	}
	restored := strings.Join(c.Restored, ", ")
	if len(guilty) > 0 {
		var gone []string
		for _, was := range c.With {
			if !was.Before && c.fate(was) == mended {
				gone = append(gone, was.Message)
			}
		}
		message := fmt.Sprintf("With the previous firmware on %s these complaints are gone: %s; so the image of %s is blamed. The others remain",
			restored, strings.Join(gone, "; "), strings.Join(guilty, ", "))
		also := accused(others, c.Without)
		if len(also) > 0 {
			message += ", and the image of " + strings.Join(also, ", ") + " is blamed for what is wrong with it"
		}
		return Judgement{Guilt: Convicted, Devices: append(guilty, also...), Message: message}
	}
	j := Judgement{Guilt: Suspected, Evidence: OfNode}
	if len(untried) > 0 {
		j = c.charge(named(untried))
	}
	if j.Devices = slices.Concat(named(untried), open, c.rest(others)); len(j.Devices) == 0 {
		return Judgement{Guilt: Acquitted, Message: fmt.Sprintf(
			"The previous firmware runs again on %s and the node is as unhealthy with it, so no image is blamed", restored)}
	}
	j.Message = fmt.Sprintf("The node is unhealthy after the rollback of %s too, which does not clear the image of %s", restored,
		strings.Join(j.Devices, ", "))
	return j
}

// rest are those of the devices that were not restored which may explain what is still wrong. The node as a whole says nothing about
// them while a device is unwell that they do not explain.
func (c Case) rest(others []Update) []string {
	out := suspects(others, c.Without)
	ofDevice := slices.ContainsFunc(c.Without, func(w Complaint) bool { return !w.ofHost() })
	return slices.DeleteFunc(out, func(device string) bool {
		return ofDevice && !slices.ContainsFunc(others, func(u Update) bool { return u.Device == device && u.explainsAny(others, c.Without) })
	})
}

// accused are those of the devices that a complaint names for more than its network.
func accused(devices []Update, complaints []Complaint) []string {
	return named(slices.DeleteFunc(slices.Clone(devices), func(u Update) bool {
		return !slices.ContainsFunc(complaints, func(w Complaint) bool { return !w.Before && w.Device == u.Device && !w.Subject.network() })
	}))
}

// untried reports whether a device that was restored does not run its previous firmware.
func (c Case) untried(u Update) bool {
	return slices.ContainsFunc(c.Without, func(w Complaint) bool { return w.Device == u.Device && w.Subject.Kind == VersionSubject })
}

// fate is what became of a complaint when the previous firmware ran again.
type fate int

const (
	stays fate = iota
	unclear
	mended
)

// fate of a complaint with the new firmware. Executables run only where nothing else is wrong. An array that threw a drive out does not take
// it back by itself, whatever firmware that runs.
func (c Case) fate(was Complaint) fate {
	onlyChecks := !slices.ContainsFunc(c.Without, func(w Complaint) bool { return w.Subject.Kind != CheckSubject })
	switch {
	case slices.ContainsFunc(c.Without, func(w Complaint) bool { return w.Subject.covers(was.Subject) }):
		if was.Subject.Kind == ArraySubject && was.Device != "" {
			return unclear
		}
		return stays
	case was.Subject.Kind == ReadySubject && c.Alone, was.Subject.Kind == CheckSubject && (c.Alone || !onlyChecks):
		return unclear
	}
	return mended
}

// trial is what became of the complaints that a restored device may explain: those that name it before those of the node as a whole.
func (c Case) trial(u Update) fate {
	own, host, hasOwn := stays, stays, false
	for _, was := range c.With {
		switch {
		case was.Before:
		case was.ofHost():
			host = max(host, c.fate(was))
		case u.explains(c.Changed, was):
			own, hasOwn = max(own, c.fate(was)), true
		}
	}
	if hasOwn && own == stays && host > stays {
		return unclear
	}
	if hasOwn {
		return own
	}
	return host
}

// Suspects are the devices whose firmware the job changed and which may explain one of the complaints.
func (r Record) Suspects(complaints []Complaint) []string { return suspects(r.changed(), complaints) }

// suspects are those of the changed devices that explain a complaint, or else all of them where the node as a whole is unhealthy.
func suspects(changed []Update, complaints []Complaint) []string {
	var out []string
	for _, u := range changed {
		if u.explainsAny(changed, complaints) {
			out = append(out, u.Device)
		}
	}
	if len(out) == 0 && slices.ContainsFunc(complaints, func(c Complaint) bool { return c.ofHost() && !c.Before }) {
		return named(changed)
	}
	return out
}

func (u Update) explainsAny(changed []Update, complaints []Complaint) bool {
	return slices.ContainsFunc(complaints, func(c Complaint) bool { return u.explains(changed, c) })
}

// explains reports whether the firmware of the device may cause the complaint about a device: about itself, or where that is none of
// the changed ones, about what it drives. A BIOS lists every device and sets every link; a storage controller has the disks and arrays.
func (u Update) explains(changed []Update, c Complaint) bool {
	switch {
	case c.Before || c.ofHost():
		return false
	case c.Device != "" && slices.Contains(named(changed), c.Device):
		return c.Device == u.Device
	}
	return u.Class == inventory.BIOS || u.Class == inventory.StorageController && c.Class == inventory.Disk
}

func named(updates []Update) []string {
	var out []string
	for _, u := range updates {
		out = append(out, u.Device)
	}
	return out
}
