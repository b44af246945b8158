package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// badTarget is the target of a rule with another version: an image that is valid, but takes the links of its card down.
func badTarget(good target, version string) target {
	bad := good
	bad.file, bad.source = "fw-"+bad.image.PSID+"-"+version+".bin", bad.rule+"-bad"
	bad.image.Version, bad.image.LinkDown = version, true
	return bad
}

// RollbackReport is the outcome of an image that takes the link of its card down.
type RollbackReport struct {
	Version string `json:"version"`
	// Node that got it first, and how often its card was written: the image, and the previous firmware.
	Node   string `json:"node,omitempty"`
	Writes int    `json:"writes"`
	// Reboots of that node for it.
	Reboots int `json:"reboots"`
	// Spared nodes never got it.
	Spared int `json:"spared"`
	// Halted says why the rollout was halted before it was resumed.
	Halted string `json:"halted,omitempty"`
	// DurationSeconds from the change of the template until the image was quarantined everywhere and every node in service.
	DurationSeconds float64 `json:"durationSeconds"`
}

// trial is firmware that has to be rolled back, declared for the whole fleet, one node at a time.
type trial struct {
	policy *v1alpha1.RolloutPolicy
	// good is what runs before, bad what is declared.
	good, bad target
	// resume says that the rollout halts, and is resumed before the template is restored.
	resume bool
}

// badImage declares network firmware that takes the link of its card down, and watches that the first node rolls back by
// itself, the image is quarantined and the other nodes are spared. In the end it restores the template.
func (l *Lab) badImage(ctx context.Context, o DemoOptions, list []target) (*RollbackReport, error) {
	t := trial{policy: inWaves(1), resume: true, good: list[2], bad: badTarget(list[2], "28.42.1000")}
	l.say("\nDeclaring NIC firmware %s, whose image is in order and takes the link down, for %d nodes, one at a time.",
		t.bad.image.Version, len(l.Nodes))
	return l.try(ctx, o, list, t)
}

// try declares the bad firmware of a trial, follows the fleet until nothing takes it any more, reads the machines, and
// restores the template.
func (l *Lab) try(ctx context.Context, o DemoOptions, list []target, t trial) (*RollbackReport, error) {
	if err := l.declare(ctx, t.policy); err != nil {
		return nil, fmt.Errorf("declare rollout policy: %w", err)
	}
	if err := t.bad.publish(ctx, l); err != nil {
		return nil, err
	}
	before := make([]int, len(l.Nodes))
	for i, n := range l.Nodes {
		before[i] = n.Reboots()
	}
	began := time.Now()
	if err := l.editRule(ctx, list, t.bad); err != nil {
		return nil, err
	}
	if err := l.untilQuarantined(ctx, newView(o.Screen, began), list, t.bad.wanted); err != nil {
		return nil, err
	}
	report, err := l.judgeRollback(t, before)
	report.DurationSeconds = time.Since(began).Seconds()
	if err != nil {
		return report, err
	}
	if t.resume {
		if report.Halted, err = l.resume(ctx, t, newView(o.Screen, began), list); err != nil {
			return report, err
		}
	}
	if err := l.editRule(ctx, list, t.good); err != nil { // as a person restores the template
		return report, err
	}
	return report, l.watch(ctx, newView(o.Screen, time.Now()), list)
}

// editRule edits the template rule of the target.
func (l *Lab) editRule(ctx context.Context, list []target, t target) error {
	template := fleetTemplate(list)
	return l.edit(ctx, template, func() {
		for i := range template.Spec.Rules {
			if rule := &template.Spec.Rules[i]; rule.Name == t.rule {
				rule.Version, rule.SourceRef.Name = t.image.Version, t.sourceName()
			}
		}
	})
}

// edit reads the object, and writes it with the change; again where somebody, as the operator its status, wrote it meanwhile.
func (l *Lab) edit(ctx context.Context, o client.Object, change func()) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := l.admin.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change()
		return l.admin.Update(ctx, o)
	})
	if err != nil {
		return fmt.Errorf("edit %T %s: %w", o, o.GetName(), err)
	}
	return nil
}

// bad says of a device by which digest what is at fault is desired of it, empty where it is not, and what failed on it.
type bad func(*v1alpha1.NodeDevice) (digest v1alpha1.Digest, failed *v1alpha1.DeviceFailure)

// wanted is the bad of an image.
func (t target) wanted(d *v1alpha1.NodeDevice) (v1alpha1.Digest, *v1alpha1.DeviceFailure) {
	if d.Spec.Firmware == nil || d.Spec.Firmware.Version != t.image.Version {
		return "", nil
	}
	return d.Spec.Firmware.Digest, d.Status.Failure
}

// untilQuarantined follows the fleet until no device takes what is at fault any more and every node is in service.
func (l *Lab) untilQuarantined(ctx context.Context, v *view, list []target, is bad) error {
	return follow(ctx, v, func(ctx context.Context) (sight, error) {
		p, err := l.picture(ctx, list, v.began)
		if err != nil {
			return sight{}, err
		}
		taking, err := l.takers(ctx, is)
		return sight{p, append(taking, p.unfinished()...)}, err
	})
}

// takers lists the devices that may still get what is at fault, and the nodes of whose device it is not desired yet.
func (l *Lab) takers(ctx context.Context, is bad) ([]string, error) {
	var devices v1alpha1.NodeDeviceList
	if err := l.admin.List(ctx, &devices); err != nil {
		return nil, err
	}
	var out []string
	assigned := 0
	for i := range devices.Items {
		d := &devices.Items[i]
		digest, failed := is(d)
		if digest == "" {
			continue
		}
		assigned++
		if !refuses(d, digest, failed) {
			out = append(out, d.Name+" to refuse what is at fault")
		}
	}
	if left := len(l.Nodes) - assigned; left > 0 {
		out = append(out, fmt.Sprintf("the template to reach %d more devices", left))
	}
	return out, nil
}

// refuses reports whether what is desired of the device is kept from it, because it is quarantined, or because it failed on this very device.
// While its job runs, that device may show the first for a moment; afterwards it shows the second.
func refuses(d *v1alpha1.NodeDevice, digest v1alpha1.Digest, failed *v1alpha1.DeviceFailure) bool {
	if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionBlocked); c != nil {
		return c.Reason == v1alpha1.ReasonQuarantined
	}
	return failed != nil && failed.Digest == digest
}

// judgeRollback reads the machines: one of them was written twice, and runs its previous firmware again.
func (l *Lab) judgeRollback(t trial, rebootsBefore []int) (*RollbackReport, error) {
	r := &RollbackReport{Version: t.bad.image.Version}
	key := t.bad.keys[0]
	var problems []error
	for i, n := range l.Nodes {
		operations, err := n.Machine.Operations()
		problems = append(problems, err)
		got := false
		writes := 0
		for _, op := range operations {
			if op.Device != key || op.Action != "Write" {
				continue
			}
			if got = got || op.Version == t.bad.image.Version; got {
				writes++
			}
		}
		running, err := n.Machine.Running(key)
		problems = append(problems, err)
		if running != t.good.image.Version {
			problems = append(problems, fmt.Errorf("%s of %s runs %s instead of %s again", key, n.Name, running, t.good.image.Version))
		}
		if !got {
			r.Spared++
			continue
		}
		if r.Node != "" {
			problems = append(problems, fmt.Errorf("%s got the image though it had failed on %s", n.Name, r.Node))
		}
		r.Node, r.Writes, r.Reboots = n.Name, writes, n.Reboots()-rebootsBefore[i]
	}
	switch {
	case r.Node == "":
		problems = append(problems, fmt.Errorf("no card got version %s, so nothing was rolled back", t.bad.image.Version))
	case r.Writes != 2:
		problems = append(problems, fmt.Errorf("the card of %s was written %d times instead of twice", r.Node, r.Writes))
	}
	return r, errors.Join(problems...)
}
