package simulation

import (
	"crypto/sha256"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// badImages is what is quarantined, by the product's own rule: one node quarantines an image for its policy, two for all.
type badImages struct {
	pools       quarantine.Pools
	quarantines []v1alpha1.FirmwareQuarantine
	jobs        []*v1alpha1.FirmwareJob
	set         quarantine.Set
	nodes       map[string]*node
}

func newBadImages(pools quarantine.Pools) badImages {
	return badImages{pools: pools, nodes: map[string]*node{}}
}

// imageOf is the digest of the image for a model.
func imageOf(model, version string) v1alpha1.Digest {
	return v1alpha1.Digest(fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(model+" "+version))))
}

// modelOf is the model of a device for the quarantine.
func modelOf(d device) string { return v1alpha1.ModelKey("", "", "simulated", d.Model) }

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
	for i := range b.quarantines {
		b.quarantines[i].Spec.State = v1alpha1.QuarantineLifted
		b.quarantines[i].Generation++
	}
	b.compute(now)
	b.jobs = nil
}

// compute writes the quarantines as the controller does.
func (b *badImages) compute(now time.Time) {
	pool := func(name string) string { return b.pools.Of(b.nodes[name].Labels) }
	b.set = quarantine.Compute(quarantine.Facts{Jobs: b.jobs, Quarantines: b.quarantines, Pool: pool, Now: now})
	b.quarantines = b.set.All()
	for i := range b.quarantines {
		b.quarantines[i].Status.ObservedGeneration = b.quarantines[i].Generation
	}
}

// blocks is why the image for a device of a node must not be flashed; nil when it may be.
func (b *badImages) blocks(n *node, d device) *schedule.QuarantinedUpdate {
	if len(b.quarantines) == 0 {
		return nil
	}
	q, blocked := b.set.Blocks(d.Digest, modelOf(d), b.pools.Of(n.Labels))
	if !blocked {
		return nil
	}
	return &schedule.QuarantinedUpdate{Device: d.Name, Version: d.To, Why: quarantine.Why(&q), Lift: quarantine.Lift(&q)}
}
