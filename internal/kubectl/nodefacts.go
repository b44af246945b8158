package kubectl

import (
	"context"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// nodeFacts are what decides about a request for a node.
type nodeFacts struct {
	node *v1alpha1.NodeFirmware
	// devices are in order of name, and jobs in the order in which they were made.
	devices []*v1alpha1.NodeDevice
	jobs    []v1alpha1.FirmwareJob
	// policy of the node; nil where the person may not see Nodes, or there is none.
	policy *v1alpha1.RolloutPolicy
	// bad are the images that are quarantined, as the quarantines say.
	bad quarantine.Set
}

func gatherNode(ctx context.Context, api client.Reader, name string) (*nodeFacts, error) {
	n, err := object[*v1alpha1.NodeFirmware](ctx, api, "node", name)
	if err != nil {
		return nil, err
	}
	g := &gathering{ctx: ctx, api: api}
	f := &nodeFacts{node: n, policy: g.policyOf(n.Name)}
	g.eachDevice(n.Name, func(d *v1alpha1.NodeDevice) { f.devices = append(f.devices, d) })
	for _, j := range g.jobsOf(n.Name) {
		f.jobs = append(f.jobs, *j)
	}
	desired.SortJobs(f.jobs)
	slices.SortFunc(f.devices, func(a, b *v1alpha1.NodeDevice) int { return strings.Compare(a.Name, b.Name) })
	if g.err != nil {
		return nil, g.err
	}
	quarantines, err := all[*v1alpha1.FirmwareQuarantine](ctx, api, &v1alpha1.FirmwareQuarantineList{}, nil)
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

// held is the job that holds the node; nil where none does, and where it was deleted.
func (f *nodeFacts) held() *v1alpha1.FirmwareJob { return f.job(f.node.Status.HeldBy) }

func (f *nodeFacts) job(name string) *v1alpha1.FirmwareJob {
	at := slices.IndexFunc(f.jobs, func(j v1alpha1.FirmwareJob) bool { return j.Name == name })
	if at < 0 {
		return nil
	}
	return &f.jobs[at]
}

// next is the newest job of the node that has not ended; nil for none.
func (f *nodeFacts) next() *v1alpha1.FirmwareJob {
	for i := range slices.Backward(f.jobs) {
		if !f.jobs[i].Ended() {
			return &f.jobs[i]
		}
	}
	return nil
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

// failed are the devices that wait for a retry: a failure is recorded that the request which is there does not clear.
func (f *nodeFacts) failed(retry plan.Clearance) (out []*v1alpha1.NodeDevice) {
	for _, d := range f.devices {
		waits := d.Status.Failure != nil && !retry.Clears(&d.Status.Failure.Request)
		for _, image := range d.Spec.Firmware.Images() {
			waits = waits || len(desired.Failures(f.jobs, retry, d, image)) > 0
		}
		if waits {
			out = append(out, d)
		}
	}
	return out
}
