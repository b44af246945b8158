package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// DemoOptions configure the demo.
type DemoOptions struct {
	// MaxUnavailable is the highest number of nodes that are disturbed at once.
	MaxUnavailable int
	// BadImage continues, when the fleet is done, with firmware that has to be rolled back.
	BadImage bool
	// CutOff continues with firmware that cuts its node off and has to be rolled back there; the lab needs Options.Uplink.
	CutOff bool
	// Settings continues with a setting that takes a link down and has to be given back.
	Settings bool
	// Cleaning ends with a node that leaves service and has its drives erased.
	Cleaning bool
	// Timeout ends a demo that does not finish.
	Timeout time.Duration
	// Screen takes a line for each change of the fleet, or shows it where it is a *Screen.
	Screen io.Writer
}

// Demo declares new firmware for the whole fleet in one template and settings in another, and watches both roll until every machine has them.
// The report is the result; the error says why it failed.
func (l *Lab) Demo(ctx context.Context, o DemoOptions) (*Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("the fleet was not done after %s", o.Timeout))
	defer cancel()
	list := targets()
	report, err := l.newReport(list)
	if err != nil {
		return nil, err
	}
	seen, err := l.observe(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.declare(ctx, inWaves(o.MaxUnavailable)); err != nil {
		return nil, fmt.Errorf("declare rollout policy: %w", err)
	}
	for _, t := range list {
		if err := t.publish(ctx, l); err != nil {
			return nil, err
		}
	}
	l.sayMirror(list)
	firmware, settings := fleetTemplate(list), fleetSettings(list)
	foretold, err := l.foretell(ctx, firmware.DeepCopy(), settings.DeepCopy())
	if err != nil {
		return nil, err
	}
	began := time.Now()
	for _, template := range []client.Object{settings, firmware} {
		if err := l.admin.Create(ctx, template); client.IgnoreAlreadyExists(err) != nil {
			return nil, fmt.Errorf("declare template: %w", err)
		}
	}
	l.say("\nDeclared for %d nodes: FirmwareTemplate %s, with new versions for BIOS, NICs and disks, and ConfigurationTemplate %s, with 8 virtual\n"+
		"functions for each NIC. One node goes first, then two, then at most %d at once; each gets both in one maintenance and with one reboot.",
		len(l.Nodes), firmware.Name, settings.Name, o.MaxUnavailable)

	err = l.watch(ctx, newView(o.Screen, began), list)
	report.DurationSeconds = time.Since(began).Seconds()
	report.MaxDisturbed, report.Rollouts = seen.maxDisturbed(), slices.Clone(l.rollouts)
	// The deadline may have ended the watch; the report still has to say what the machines run.
	err = errors.Join(err, l.complete(context.WithoutCancel(ctx), report, o, list, foretold, began, err))
	if err == nil && o.BadImage {
		report.Rollback, err = l.badImage(ctx, o, list)
		report.fail(err)
	}
	if err == nil && o.CutOff {
		report.CutOff, err = l.cutOff(ctx, o, list)
		report.fail(err)
	}
	if err == nil && o.Settings {
		report.Settings, err = l.wrongSetting(ctx, o, list)
		report.fail(err)
	}
	if err == nil && o.Cleaning {
		report.Cleaned, err = l.handOver(ctx, o)
		report.fail(err)
	}
	return report, err
}

// watch follows the fleet until it is done, a job that began meanwhile failed, or the context ends.
func (l *Lab) watch(ctx context.Context, v *view, list []target) error {
	return follow(ctx, v, func(ctx context.Context) (sight, error) {
		p, err := l.picture(ctx, list, v.began)
		if err != nil {
			return sight{}, err
		}
		if p.failure != "" {
			v.show(p)
			return sight{}, verdictError(p.failure)
		}
		return sight{p, p.undone()}, nil
	})
}

// picture reads the state of the fleet from the API. Jobs from before are ignored.
func (l *Lab) picture(ctx context.Context, list []target, since time.Time) (*picture, error) {
	var (
		nodes        corev1.NodeList
		jobs         v1alpha1.FirmwareJobList
		devices      v1alpha1.NodeDeviceList
		maintenances maintenancev1alpha1.NodeMaintenanceList
		firmware     = fleetTemplate(list)
		settings     = fleetSettings(list)
	)
	for _, o := range []client.ObjectList{&nodes, &jobs, &devices, &maintenances} {
		if err := l.admin.List(ctx, o); err != nil {
			return nil, err
		}
	}
	for _, template := range []client.Object{firmware, settings} {
		if err := l.admin.Get(ctx, client.ObjectKeyFromObject(template), template); err != nil {
			return nil, err
		}
	}
	waves, err := l.lookAtWaves(ctx)
	if err != nil {
		return nil, err
	}
	p := &picture{inMaintenance: len(maintenances.Items), waves: waves}
	ready := func(s v1alpha1.TemplateStatus, generation int64) bool {
		return meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) && s.ObservedGeneration == generation
	}
	p.templatesReady = ready(firmware.Status, firmware.Generation) && ready(settings.Status, settings.Generation)
	for _, n := range nodes.Items {
		p.rows = append(p.rows, newRow(n, jobs.Items, devices.Items))
	}
	for i := range p.rows {
		r := &p.rows[i]
		if slices.ContainsFunc(l.Nodes, func(n *Node) bool { return n.Name == r.node && n.uplink != nil && n.uplink.down() }) {
			r.state, r.step = "cut off", "last heard of: "+r.step
		}
	}
	slices.SortFunc(p.rows, func(a, b row) int { return compareNatural(a.node, b.node) })
	for _, j := range jobs.Items {
		if j.Status.StartTime != nil && !j.Ended() {
			p.running++
		}
		c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionFailed)
		if c != nil && c.Status == "True" && !j.CreationTimestamp.Time.Before(since.Truncate(time.Second)) {
			p.failure = fmt.Sprintf("job %s failed: %s: %s", j.Name, c.Reason, c.Message)
		}
	}
	return p, nil
}

// newReport records what the machines run at the beginning.
func (l *Lab) newReport(list []target) (*Report, error) {
	r := &Report{}
	for _, n := range l.Nodes {
		node := NodeReport{Name: n.Name}
		for _, t := range list {
			for _, key := range t.keys {
				from, err := n.Machine.Running(key)
				if err != nil {
					return nil, err
				}
				node.Devices = append(node.Devices, DeviceReport{Name: key, Class: string(t.selector.Class), From: from, To: t.image.Version})
				node.due = node.due || from != t.image.Version
			}
		}
		node.due = node.due || n.unsettled(list) != nil
		r.Nodes = append(r.Nodes, node)
	}
	return r, nil
}

// complete reads the machines back and checks: every device at its target and with its settings, one maintenance and one reboot for each node
// that needed them, as many reboots as were foretold, never more nodes disturbed than allowed.
func (l *Lab) complete(ctx context.Context, r *Report, o DemoOptions, list []target, foretold map[string]int, began time.Time, failure error) error {
	var jobs v1alpha1.FirmwareJobList
	var problems []error
	if err := l.admin.List(ctx, &jobs); err != nil {
		problems = append(problems, fmt.Errorf("list jobs: %w", err))
	}
	for i, n := range l.Nodes {
		node := &r.Nodes[i]
		node.Reboots, node.ForetoldReboots = n.Reboots(), foretold[n.Name]
		for _, j := range jobs.Items {
			earlier := j.CreationTimestamp.Time.Before(began.Truncate(time.Second))
			if start, end := maintained(&j); j.Spec.NodeName == n.Name && !earlier && start != nil {
				node.Maintenances++
				node.MaintenanceStart, node.MaintenanceEnd = start, end
			}
		}
		needed := 0
		if node.due {
			needed = 1
		}
		for d := range node.Devices {
			device := &node.Devices[d]
			running, err := n.Machine.Running(device.Name)
			if err != nil {
				problems = append(problems, err)
			}
			if device.Running = running; running != device.To {
				problems = append(problems, fmt.Errorf("%s of %s runs %s instead of %s", device.Name, n.Name, running, device.To))
			}
		}
		problems = append(problems, n.unsettled(list))
		if node.Reboots != needed || node.Maintenances != needed {
			problems = append(problems, fmt.Errorf("%s had %d reboots and %d maintenances instead of %d each", n.Name, node.Reboots, node.Maintenances, needed))
		}
		if node.Reboots != node.ForetoldReboots {
			problems = append(problems, fmt.Errorf("%s had %d reboots, and kubectl firmware plan had listed %d", n.Name, node.Reboots, node.ForetoldReboots))
		}
	}
	if r.MaxDisturbed > o.MaxUnavailable {
		problems = append(problems, fmt.Errorf("%d nodes were disturbed at once; %d are allowed", r.MaxDisturbed, o.MaxUnavailable))
	}
	err := errors.Join(problems...)
	r.Result = "Succeeded"
	r.fail(errors.Join(failure, err))
	return err
}

// maintained is when the maintenance of a job began and ended; nil for what did not happen.
func maintained(j *v1alpha1.FirmwareJob) (start, end *time.Time) {
	for _, s := range j.Status.Steps {
		switch at := s.CompletionTime; {
		case s.State != v1alpha1.StepSucceeded || at == nil:
		case s.Name == string(plan.Maintenance):
			start = &at.Time
		case s.Name == string(plan.Release):
			end = &at.Time
		}
	}
	return start, end
}
