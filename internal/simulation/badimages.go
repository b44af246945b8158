package simulation

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// sourceName is the one FirmwareSource of a simulation.
const sourceName = "simulated"

// badImages is what is quarantined, by the product's own rule: one node quarantines an image for its policy, two for all.
type badImages struct {
	pools  quarantine.Pools
	source v1alpha1.FirmwareSource
	jobs   []*v1alpha1.FirmwareJob
	lifts  int
	set    quarantine.Set
	nodes  map[string]*node
}

func newBadImages(pools quarantine.Pools) badImages {
	return badImages{pools: pools, source: v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: sourceName}},
		nodes: map[string]*node{}}
}

// imageOf is the digest of the image for a model.
func imageOf(model, version string) v1alpha1.Digest {
	return v1alpha1.Digest(fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(model+" "+version))))
}

// modelOf is the model of a device for the quarantine, which counts no report without one.
func modelOf(d device) string { return cmp.Or(d.Model, "unknown") }

// report is a node's report that the image of a device made it unhealthy.
func (b *badImages) report(n *node, d device, now time.Time) {
	name := fmt.Sprintf("%s-%d", n.Name, n.attempts)
	b.nodes[n.Name] = n
	b.jobs = append(b.jobs, &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now)},
		Spec: v1alpha1.FirmwareJobSpec{
			NodeName: n.Name, Task: v1alpha1.JobTask{Devices: []v1alpha1.TaskDevice{
				{Name: d.Name, Version: d.To, Digest: d.Digest, Model: modelOf(d)},
			}},
		},
		Status: v1alpha1.FirmwareJobStatus{
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue}},
			Blamed:     []v1alpha1.BlamedDevice{{Device: d.Name}},
		},
	})
	b.compute(now)
}

// lift is a person who lifts everything that was reported up to now.
func (b *badImages) lift(now time.Time) {
	b.lifts++
	b.source.Spec.LiftQuarantine = fmt.Sprintf("request %d", b.lifts)
	b.compute(now)
	b.compute(now) // the source takes the lift over, and then no job is needed to remember it
	b.jobs = nil
}

func (b *badImages) compute(now time.Time) {
	pool := func(name string) string { return b.pools.Of(b.nodes[name].Labels) }
	b.set = quarantine.Compute(quarantine.Facts{Jobs: b.jobs, Sources: []v1alpha1.FirmwareSource{b.source}, Pool: pool, Now: now})
	for _, j := range b.jobs {
		held := v1alpha1.StoredImage{Digest: j.Spec.Task.Devices[0].Digest}
		if !b.holds(held.Digest) {
			b.source.Status.Images = append(b.source.Status.Images, held)
		}
	}
	b.source.Status.Quarantine, _ = b.set.Listed(&b.source)
}

func (b *badImages) holds(d v1alpha1.Digest) bool {
	for _, i := range b.source.Status.Images {
		if i.Digest == d {
			return true
		}
	}
	return false
}

// blocks is why the image for a device of a node must not be flashed; nil when it may be.
func (b *badImages) blocks(n *node, d device) *schedule.QuarantinedUpdate {
	if b.set.Empty() {
		return nil
	}
	e, blocked := b.set.Blocks(d.Digest, modelOf(d), b.pools.Of(n.Labels))
	if !blocked {
		return nil
	}
	return &schedule.QuarantinedUpdate{Device: d.Name, Version: d.To, FailedJob: e.Job, FailedNode: e.NodeName,
		FailedModel: e.Model, Lift: "lift the quarantine: " + status.LiftQuarantine(sourceName)}
}
