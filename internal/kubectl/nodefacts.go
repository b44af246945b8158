package kubectl

import (
	"context"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// nodeFacts are what decides about a request for a node.
type nodeFacts struct {
	node *v1alpha1.NodeFirmware
	// devices are in order of name, and jobs in the order in which they were made.
	devices []*v1alpha1.NodeDevice
	jobs    []v1alpha1.FirmwareJob
	// policy of the node; nil where the person may not see Nodes, or there is none. Unclear are those that may be it, where that was not read.
	policy  *v1alpha1.RolloutPolicy
	unclear []*v1alpha1.RolloutPolicy
	// bad are the images that are quarantined, as the quarantines say.
	bad quarantine.Set
}

func gatherNode(ctx context.Context, api client.Reader, name string) (*nodeFacts, error) {
	n, err := object[*v1alpha1.NodeFirmware](ctx, api, "node", name)
	if err != nil {
		return nil, err
	}
	g := &explain.Gathering{Ctx: ctx, API: api}
	f := &nodeFacts{node: n, policy: g.PolicyOf(n.Name), jobs: sortedJobsOf(g, n.Name)}
	if g.Hidden {
		f.unclear, g.Err = reading.All[*v1alpha1.RolloutPolicy](ctx, api, &v1alpha1.RolloutPolicyList{}, nil)
	}
	g.EachDevice(n.Name, func(d *v1alpha1.NodeDevice) { f.devices = append(f.devices, d) })
	slices.SortFunc(f.devices, func(a, b *v1alpha1.NodeDevice) int { return strings.Compare(a.Name, b.Name) })
	if g.Err != nil {
		return nil, g.Err
	}
	quarantines, err := reading.All[*v1alpha1.FirmwareQuarantine](ctx, api, &v1alpha1.FirmwareQuarantineList{}, nil)
	if err != nil {
		return nil, err
	}
	known := quarantine.Facts{Pool: func(string) string { return "" }}
	for _, q := range quarantines {
		known.Quarantines = append(known.Quarantines, *q)
	}
	f.bad = quarantine.Compute(known)
	return f, nil
}

// gatherJobs reads what decides about a job of the node, which may report nothing, or be gone.
func gatherJobs(ctx context.Context, api client.Reader, node string) (*nodeFacts, error) {
	g := &explain.Gathering{Ctx: ctx, API: api}
	f := &nodeFacts{node: &v1alpha1.NodeFirmware{}, jobs: sortedJobsOf(g, node)}
	g.Get(f.node, node)
	return f, g.Err
}

// sortedJobsOf are the jobs of a node in the order in which they were made.
func sortedJobsOf(g *explain.Gathering, node string) (out []v1alpha1.FirmwareJob) {
	for _, j := range g.JobsOf(node) {
		out = append(out, *j)
	}
	desired.SortJobs(out)
	return out
}

// held is the job that holds the node; nil where none does, and where it was deleted.
func (f *nodeFacts) held() *v1alpha1.FirmwareJob { return f.job(f.node.Status.HeldBy) }

func (f *nodeFacts) job(name string) *v1alpha1.FirmwareJob {
	at := slices.IndexFunc(f.jobs, func(j v1alpha1.FirmwareJob) bool { return j.Name == name })
	if at < 0 {
		return nil
	}
	return &f.jobs[at]
}

// next is the job of the node that has not ended; nil for none.
func (f *nodeFacts) next() *v1alpha1.FirmwareJob {
	var all []*v1alpha1.FirmwareJob
	for i := range f.jobs {
		all = append(all, &f.jobs[i])
	}
	return explain.Unended(all)
}

// tookOver reports whether the job has the node from a failed one that held it, and so holds it again if it fails.
func (f *nodeFacts) tookOver(j *v1alpha1.FirmwareJob) bool {
	if slices.ContainsFunc(f.jobs, func(o v1alpha1.FirmwareJob) bool { return status.SupersededBy(&o) == j.Name }) {
		return true
	}
	if j.Spec.Task.Follows == "" || j.Status.StartTime == nil {
		return false
	}
	before := f.job(j.Spec.Task.Follows) // a release that came before the job began leaves nothing to take over
	return before == nil || before.Held()
}

// heldBefore is the other job that holds the node, and keeps holding it while this one runs or until this one takes it over; empty for none.
func (f *nodeFacts) heldBefore(j *v1alpha1.FirmwareJob) string {
	if f.tookOver(j) {
		return ""
	}
	for i := range f.jobs {
		if o := &f.jobs[i]; o.Name != j.Name && o.Held() {
			return o.Name
		}
	}
	if by := f.node.Status.HeldBy; by != j.Name { // its job was deleted
		return by
	}
	return ""
}

func (f *nodeFacts) device(name string) *v1alpha1.NodeDevice {
	at := slices.IndexFunc(f.devices, func(d *v1alpha1.NodeDevice) bool { return d.Name == name })
	if at < 0 {
		return nil
	}
	return f.devices[at]
}

// pool is the RolloutPolicy by which quarantines are judged; empty, for any, where it is not known.
func (f *nodeFacts) pool() string {
	if f.policy == nil {
		return ""
	}
	return f.policy.Name
}

// quarantined is the quarantine that keeps an image from a device; nil for none.
func (f *nodeFacts) quarantined(d *v1alpha1.NodeDevice, image v1alpha1.Digest) *v1alpha1.FirmwareQuarantine {
	if q, bad := f.bad.Blocks(image, d.Status.ModelKey(), f.pool()); bad {
		return &q
	}
	return nil
}

// surelyQuarantined is the quarantine that keeps an image from a device whatever the RolloutPolicy of the node is, where that was not read; nil for
// none. Only what is known is a reason to refuse.
func (f *nodeFacts) surelyQuarantined(d *v1alpha1.NodeDevice, image v1alpha1.Digest) *v1alpha1.FirmwareQuarantine {
	q := f.quarantined(d, image)
	for _, p := range f.unclear {
		if q != nil && !quarantine.InForce(q, p.Name) {
			return nil
		}
	}
	return q
}

// failed are the devices that wait for a retry: a failure is recorded that the request which is there does not clear.
func (f *nodeFacts) failed(retry plan.Clearance) (out []*v1alpha1.NodeDevice) {
	for _, d := range f.devices {
		waits := d.Status.Failure != nil && !retry.Clears(&d.Status.Failure.Request)
		if c := d.Status.Configuration; c != nil && c.Failure != nil {
			waits = waits || !retry.Clears(&c.Failure.Request)
		}
		for _, image := range d.Spec.Firmware.Images() {
			waits = waits || len(desired.Failures(f.jobs, retry, d, image)) > 0
		}
		if waits {
			out = append(out, d)
		}
	}
	return out
}
