package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

type state struct {
	// object is nil when there is none (any more).
	object *v1alpha1.FirmwareJob
	// known is the job of the object in the journal, nil when the daemon never took it up. Where there is no object it is the
	// job of that name that holds the node.
	known *journal.Job
	// holds is the job of that name that holds the node, be the object its own or of a later job; nil when none does.
	holds *journal.Job
	// begunBefore says that the journal remembers that it began the job, and nothing more of it.
	begunBefore bool
	// erased lists the drives that an earlier job of the same name was to erase.
	erased []string
	// unlisted are the drives of this host that have no NodeDevice, by unique id, for a job by which a policy erases.
	unlisted []string
	// outOfService says that the node is out of service for the product, and no job of the journal runs or holds it. It is known
	// only where the job was begun and the journal does not have it.
	outOfService bool
	// busy names the job that runs now; empty when none does.
	busy string
	// mine says that this process may begin the job.
	mine bool
	// release and retry are the last requests of a person for this node.
	release, retry plan.Clearance
	// devices of the node by name, for a job that is not known yet.
	devices map[string]v1alpha1.NodeDevice
	// wishes of people for these devices; none while the job may not begin.
	wishes wishes
	// cleaning is what people say about the steps of a job that names a CleaningPolicy; nothing while the job may not begin.
	cleaning cleans
	// records are what the journal says of the devices by unique id, for an update or a restore that is not known yet.
	records map[string]journal.Device
	// entries are what is archived, device by device and the newest first, and stays the job that holds the node, nil for none: for a
	// restore that is not known yet.
	entries []archive.Entry
	stays   *journal.Job
	now     time.Time
}

func (r *Reconciler) gather(ctx context.Context, name string) (state, error) {
	f := state{now: r.now(), mine: r.Only == "" || r.Only == name, devices: map[string]v1alpha1.NodeDevice{}}
	view, err := r.Journal.View()
	if err != nil {
		return f, err
	}
	object := &v1alpha1.FirmwareJob{}
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: name}, object); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return f, fmt.Errorf("get job %s: %w", name, err)
	case object.Spec.NodeName != r.NodeName:
		return f, nil
	default:
		f.object, f.known = object, view.Job(string(object.UID))
	}
	if held := view.Held(); held != nil && held.Name == name {
		f.holds = held
	}
	if f.object == nil {
		f.known = f.holds
	}
	if active := view.Active(); active != nil && active.Record.Outcome == "" {
		f.busy = active.Name
	}
	if err := r.gatherRequests(ctx, &f); err != nil {
		return f, err
	}
	if f.object == nil || f.known != nil {
		return f, nil
	}
	if f.begunBefore, err = r.Journal.Began(string(f.object.UID)); err == nil {
		err = r.gatherDevices(ctx, f)
	}
	if err == nil && f.mine && view.Active() == nil && f.startedBefore() && (!f.object.Ended() || f.object.Held()) {
		f.outOfService, err = r.outOfService(ctx)
	}
	if err != nil || !f.mayBegin() || f.object.Ended() || f.startedBefore() || isToStop(f.object) {
		return f, err
	}
	switch f.object.Spec.Task.Type {
	case v1alpha1.JobTypeUpdate:
		f.records = view.Devices
		f.wishes, err = r.gatherWishes(ctx, f)
	case v1alpha1.JobTypeSteps:
		if by := object.Spec.Task.CleaningPolicyRef; by != nil {
			f.cleaning, err = r.gatherCleaning(ctx, by.Name)
			if err == nil && slices.ContainsFunc(object.Spec.Task.Steps, isErase) {
				f.unlisted, err = r.gatherUnlisted(ctx, f)
			}
		}
		if err == nil {
			f.erased, err = r.gatherErased(f)
		}
	case v1alpha1.JobTypeRestore:
		f.records, f.stays = view.Devices, view.Held()
		f.entries, err = r.Archive.List()
	}
	return f, err
}

// cleans is the CleaningPolicy that a job names, and what it is about; nil for what does not exist.
type cleans struct {
	policy   *v1alpha1.CleaningPolicy
	node     *corev1.Node
	firmware *v1alpha1.NodeFirmware
}

// gatherCleaning reads past the cache, once for a job.
func (r *Reconciler) gatherCleaning(ctx context.Context, policy string) (cleans, error) {
	p, perr := find[v1alpha1.CleaningPolicy](ctx, r, policy)
	n, nerr := find[corev1.Node](ctx, r, r.NodeName)
	f, ferr := find[v1alpha1.NodeFirmware](ctx, r, r.NodeName)
	return cleans{p, n, f}, errors.Join(perr, nerr, ferr)
}

func isErase(s v1alpha1.RequestedStep) bool { return s.Name == string(plan.Erase) }

// gatherUnlisted reads the drives of this host: which of them a policy erases, and whether they are as many as it names, is told by their
// NodeDevices, and others than this node may delete these.
func (r *Reconciler) gatherUnlisted(ctx context.Context, f state) ([]string, error) {
	devices, err := r.Host.Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the drives of this node: %w", err)
	}
	listed := map[string]bool{}
	for _, d := range f.devices {
		listed[d.Status.UniqueID] = true
	}
	var out []string
	for _, d := range devices {
		if d.Class == inventory.Disk && !listed[d.UniqueID] {
			out = append(out, d.UniqueID)
		}
	}
	return out, nil
}

// gatherErased lists the drives of the job that another one of its name was to erase: one manifest that is applied again, or restored from a
// backup, makes a job with another UID.
func (r *Reconciler) gatherErased(f state) ([]string, error) {
	var out []string
	for _, s := range f.object.Spec.Task.Steps {
		if !isErase(s) {
			continue
		}
		erased, err := r.Journal.Erased(f.object.Name, f.devices[s.Device].Status.UniqueID)
		if err != nil {
			return nil, err
		}
		if erased {
			out = append(out, s.Device)
		}
	}
	return out, nil
}

// outOfService reports whether the node is out of service for the product. One that is being returned is not.
func (r *Reconciler) outOfService(ctx context.Context) (bool, error) {
	state, err := r.Maintenance.State(ctx)
	if err != nil {
		return false, fmt.Errorf("ask whether the node is out of service: %w", err)
	}
	switch state.Phase {
	case step.MaintenanceRequested, step.MaintenanceReady, step.MaintenanceBroken:
		return true, nil
	}
	return false, nil
}

// gatherRequests reads what a person requested for the node.
func (r *Reconciler) gatherRequests(ctx context.Context, f *state) error {
	var node v1alpha1.NodeFirmware
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: r.NodeName}, &node); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get node firmware %s: %w", r.NodeName, err)
	}
	f.release, f.retry = desired.Release(&node), desired.Retry(&node)
	return nil
}

func (r *Reconciler) gatherDevices(ctx context.Context, f state) error {
	var devices v1alpha1.NodeDeviceList
	if err := r.Client.List(ctx, &devices); err != nil {
		return fmt.Errorf("list devices of the node: %w", err)
	}
	for _, d := range devices.Items {
		if d.Spec.NodeName == r.NodeName {
			f.devices[d.Name] = d
		}
	}
	return nil
}
