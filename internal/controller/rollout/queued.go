package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/index"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// bars says for each queued job that must not be admitted why, by uid.
//
// The quarantine is computed here and now, from the very jobs whose ends give places back: when one failed because of its
// image, its place goes to no other node with that image, though nobody has written the quarantine down yet.
func (r *Reconciler) bars(ctx context.Context, f facts) (map[string]schedule.Bar, error) {
	b := barrier{r: r, facts: f, set: r.quarantined(f), held: map[string]bool{}}
	for _, j := range f.jobs {
		if r.state(j) == schedule.Held {
			b.held[j.Spec.NodeName] = true
		}
	}
	if err := b.findUnhealthy(ctx); err != nil {
		return nil, err
	}
	out := map[string]schedule.Bar{}
	for uid, j := range f.jobs {
		if r.state(j) != schedule.Queued {
			continue
		}
		bar, err := b.of(ctx, j)
		if err != nil {
			return nil, err
		}
		if bar.Reason != "" {
			out[uid] = bar
		}
	}
	return out, nil
}

func (r *Reconciler) quarantined(f facts) quarantine.Set {
	return quarantine.Compute(r.witnesses.Hear(slices.Collect(maps.Values(f.jobs)), f.sources), f.sources)
}

// barrier is what decides about queued jobs in one pass.
type barrier struct {
	r     *Reconciler
	facts facts
	set   quarantine.Set
	// held are the nodes that a failed job holds.
	held map[string]bool
	// unhealthy are the devices by node that a job left unhealthy and nobody has forgiven.
	unhealthy map[string][]v1alpha1.NodeDevice
}

func (b *barrier) of(ctx context.Context, j *v1alpha1.FirmwareJob) (schedule.Bar, error) {
	if j.Spec.Type == v1alpha1.JobTypeSteps {
		return b.ofSteps(ctx, j)
	}
	if bar, err := b.byQuarantine(ctx, j); err != nil || bar.Reason != "" {
		return bar, err
	}
	return b.byHealth(j), nil
}

// ofSteps lets steps run where the daemon has looked at the machine, and on a node that a failed job holds: there they
// may be what mends it. Elsewhere nobody knows yet what they would run on, and the job waits.
func (b *barrier) ofSteps(ctx context.Context, j *v1alpha1.FirmwareJob) (schedule.Bar, error) {
	node := j.Spec.NodeName
	if b.held[node] {
		return schedule.Bar{}, nil
	}
	firmware, err := b.firmware(ctx, node)
	if err != nil || isScanned(firmware) {
		return schedule.Bar{}, err
	}
	return schedule.Bar{Reason: schedule.NodeNotReady, Message: fmt.Sprintf(
		"The daemon has not scanned node %s yet, so no steps are run there; see whether its pod of the DaemonSet "+
			"firmware-daemon runs.", node)}, nil
}

// byQuarantine bars a job with an image that is quarantined for the model of its device.
func (b *barrier) byQuarantine(ctx context.Context, j *v1alpha1.FirmwareJob) (schedule.Bar, error) {
	for _, u := range j.Spec.Updates {
		if !b.set.Holds(u.Digest) {
			continue
		}
		model, err := b.model(ctx, u.Device)
		if err != nil {
			return schedule.Bar{}, err
		}
		if e, is := b.set.Blocks(u.Digest, model); is {
			return schedule.Bar{Reason: schedule.Quarantined, Message: fmt.Sprintf(
				"Version %s for device %s is quarantined: in job %s it made a device of model %s on node %s unhealthy. "+
					"Wish for another version, or %s",
				u.Version, u.Device, e.Job, e.Model, e.NodeName, b.howToLift(u.Digest))}, nil
		}
	}
	return schedule.Bar{}, nil
}

// howToLift names the first source by name that can lift the quarantine of an image.
func (b *barrier) howToLift(d v1alpha1.Digest) string {
	name := ""
	for i := range b.facts.sources {
		src := &b.facts.sources[i]
		holds := slices.ContainsFunc(src.Status.Images, func(i v1alpha1.StoredImage) bool { return i.Digest == d }) ||
			slices.ContainsFunc(src.Status.Quarantine, func(e v1alpha1.QuarantinedImage) bool { return e.Digest == d })
		if holds && (name == "" || src.Name < name) {
			name = src.Name
		}
	}
	if name == "" {
		return "list the image in a FirmwareSource again and set its liftQuarantineRequestedAt."
	}
	return "lift it: " + status.LiftQuarantine(name)
}

// byHealth bars an update of a device that a job left unhealthy, and any update that would take over a held node with such
// a device: it would return the node to service.
func (b *barrier) byHealth(j *v1alpha1.FirmwareJob) schedule.Bar {
	for _, d := range b.unhealthy[j.Spec.NodeName] {
		listed := slices.ContainsFunc(j.Spec.Updates, func(u v1alpha1.DeviceUpdate) bool { return u.Device == d.Name })
		if listed || b.held[j.Spec.NodeName] {
			return schedule.Bar{Reason: schedule.DeviceUnhealthy, Message: fmt.Sprintf(
				"Job %s left device %s unhealthy. Mend it, then set spec.retryRequestedAt of nodefirmware/%s; "+
					"a job of type Steps may run before.",
				d.Status.Unhealthy.Job, d.Name, j.Spec.NodeName)}
		}
	}
	return schedule.Bar{}
}

func (b *barrier) findUnhealthy(ctx context.Context) error {
	b.unhealthy = map[string][]v1alpha1.NodeDevice{}
	var devices v1alpha1.NodeDeviceList
	onlyUnhealthy := client.MatchingFields{index.Unhealthy: index.Some}
	if err := b.r.client.List(ctx, &devices, onlyUnhealthy, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list unhealthy node devices: %w", err)
	}
	for _, d := range devices.Items {
		if d.Status.Unhealthy == nil {
			continue
		}
		firmware, err := b.firmware(ctx, d.Spec.NodeName)
		if err != nil {
			return err
		}
		if retry := firmware.Spec.RetryRequestedAt; retry == nil || !d.Status.Unhealthy.Since.Before(retry) {
			b.unhealthy[d.Spec.NodeName] = append(b.unhealthy[d.Spec.NodeName], d)
		}
	}
	return nil
}

// model is the model of a device, "" when nobody knows the device.
func (b *barrier) model(ctx context.Context, device string) (string, error) {
	d := &v1alpha1.NodeDevice{}
	if err := b.r.client.Get(ctx, types.NamespacedName{Name: device}, d); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("read node device %s: %w", device, err)
	}
	return quarantine.ModelOf(d), nil
}

// firmware is the NodeFirmware of a node, empty when there is none.
func (b *barrier) firmware(ctx context.Context, node string) (*v1alpha1.NodeFirmware, error) {
	out := &v1alpha1.NodeFirmware{}
	if err := b.r.client.Get(ctx, types.NamespacedName{Name: node}, out); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read node firmware %s: %w", node, err)
	}
	return out, nil
}

func isScanned(f *v1alpha1.NodeFirmware) bool { return f != nil && f.Status.LastScanTime != nil }
