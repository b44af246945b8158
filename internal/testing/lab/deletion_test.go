package lab

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance/nodemaintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// A person deletes one object after the other while updates run, with the garbage collector of Kubernetes at work. The
// machines are safe, no more nodes are out of service than the policy allows, and what should come back does.
func TestAnyObjectMayBeDeletedWhileAnUpdateRuns(t *testing.T) {
	t.Parallel()
	l := startLab(t, 2)
	require.NoError(t, l.plane.StartGarbageCollector(t.Context()))
	first, second := l.scene(t, 0), l.scene(t, 1)
	most := l.watchCordons(t)

	release := first.hold("write", 0)
	list := first.want("cx7")
	eventually(t, "the write begins", func() bool { return first.running("flash") })
	first.remove(&v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultRolloutPolicy}})
	first.remove(&v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: first.node.Name}})
	first.remove(&v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: list[0].sourceName()}}) // it waits: a template uses it
	var devices v1alpha1.NodeDeviceList
	require.NoError(t, l.admin.List(t.Context(), &devices, client.MatchingFields{"spec.nodeName": first.node.Name}))
	for i := range devices.Items {
		first.remove(&devices.Items[i])
	}
	eventually(t, "the ledger is made again from the job", func() bool { return slices.Contains(l.admitted(t), first.node.Name) })
	release()
	first.requireDone(list, 1)
	eventually(t, "what the node is comes back", func() bool {
		err := l.admin.List(t.Context(), &devices, client.MatchingFields{"spec.nodeName": first.node.Name})
		return err == nil && len(devices.Items) > 0 &&
			l.admin.Get(t.Context(), client.ObjectKey{Name: first.node.Name}, &v1alpha1.NodeFirmware{}) == nil
	})

	release = second.hold("write", 0)
	second.want("bios")
	eventually(t, "the write begins", func() bool { return second.running("flash") })
	job := second.job()
	second.remove(&maintenancev1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster.Namespace, Name: nodemaintenance.Name(second.node.Name),
	}})
	second.remove(job)
	second.remove(&v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "only-" + second.node.Name}})
	release()
	eventually(t, "the job stops and holds the node", func() bool {
		j := second.job()
		return j != nil && j.UID == job.UID && j.Held()
	})
	assert.NotNil(t, second.job().DeletionTimestamp, "it is kept until the node is released")
	assert.Contains(t, l.admitted(t), second.node.Name)
	assert.Zero(t, second.node.Reboots())
	second.patchNode(func(n *v1alpha1.NodeFirmware) { n.Spec.Requests.Release = "as it is" })
	eventually(t, "the job goes with the release", func() bool {
		return apierrors.IsNotFound(l.admin.Get(t.Context(), client.ObjectKeyFromObject(job), job))
	})
	eventually(t, "its place is free", func() bool { return len(l.admitted(t)) == 0 })
	eventually(t, "the node is in service", func() bool { return second.maintenances() == 0 && !second.kubeNode().Spec.Unschedulable })
	assert.LessOrEqual(t, most.Load(), int32(1), "nodes out of service at once")
}

func (s *scene) remove(o client.Object) {
	s.t.Helper()
	require.NoError(s.t, client.IgnoreNotFound(s.lab.admin.Delete(s.t.Context(), o)))
}

// admitted are the nodes in the ledger of the default policy; none while there is no such policy.
func (l *Lab) admitted(t *testing.T) []string {
	var p v1alpha1.RolloutPolicy
	if client.IgnoreNotFound(l.admin.Get(t.Context(), client.ObjectKey{Name: v1alpha1.DefaultRolloutPolicy}, &p)) != nil {
		return nil
	}
	var out []string
	for _, a := range p.Status.Admitted {
		out = append(out, a.Node)
	}
	return out
}

// watchCordons counts the most nodes that were out of service at once, until the test ends.
func (l *Lab) watchCordons(t *testing.T) *atomic.Int32 {
	most, done := &atomic.Int32{}, make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for t.Context().Err() == nil {
			var nodes corev1.NodeList
			if l.admin.List(t.Context(), &nodes) == nil {
				now := int32(0)
				for _, n := range nodes.Items {
					if n.Spec.Unschedulable {
						now++
					}
				}
				most.Store(max(most.Load(), now))
			}
			select {
			case <-t.Context().Done():
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() { <-done })
	return most
}
