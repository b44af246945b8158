package rollout_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// longest is a text of n bytes that begins with a number.
func longest(n, number int) string {
	s := fmt.Sprintf("n%04d", number)
	return s + strings.Repeat("x", n-len(s))
}

// TestALargePolicyStaysSmall: the longest names, as many admitted nodes, updates and queued nodes as a policy can have, and the
// longest messages, are one object of less than 256 KiB in the store, with what the API server adds to it.
func TestALargePolicyStaysSmall(t *testing.T) {
	w := newWorld(t)
	size := intstr.FromInt32(1)
	wave := v1alpha1.RolloutWave{Name: strings.Repeat("w", 63), Size: &size}
	p := newPolicy("default", intstr.FromString("100%"), nil)
	w.create(p)
	edge := func(i int) v1alpha1.RolloutStatus {
		var from []string
		for version := range 8 {
			from = append(from, longest(64, version))
		}
		return v1alpha1.RolloutStatus{
			Model: longest(257, i), FromVersions: from, Version: longest(64, 2), Digest: v1alpha1.Digest(fmt.Sprintf("sha256:%064x", i)),
			Wave: wave.Name, LastVerdictTime: &metav1.Time{Time: w.clock}, Failed: 1, HaltedTime: &metav1.Time{Time: w.clock}, Message: longest(1024, i),
		}
	}
	const nodes = 260
	var group errgroup.Group
	group.SetLimit(8)
	for i := range nodes {
		group.Go(func() error {
			n, e := newNode(longest(253, i), nil), edge(0)
			state := n.Status
			if err := w.Create(t.Context(), n); err != nil {
				return err
			}
			n.Status = state
			if err := w.Status().Update(t.Context(), n); err != nil {
				return err
			}
			return w.Create(t.Context(), &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: longest(253, i)}, Spec: v1alpha1.FirmwareJobSpec{
				NodeName: n.Name, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{
					Name: "bios", UniqueID: "bios", Model: e.Model, FromVersion: e.FromVersions[0], Version: e.Version, Digest: e.Digest,
				}}},
			}})
		})
	}
	require.NoError(t, group.Wait())
	o := w.operator()
	o.pass()
	w.change("default", func(p *v1alpha1.RolloutPolicy) { p.Spec.Waves = []v1alpha1.RolloutWave{wave} })
	p = w.policy("default")
	for i := range 64 {
		p.Status.Rollouts = append(p.Status.Rollouts, edge(i))
	}
	require.NoError(t, w.Status().Update(t.Context(), p))
	o.pass()
	o.pass() // the messages of the haltsare shorter now, and so are those that quote them

	p = w.policy("default")
	stored, err := json.Marshal(p)
	require.NoError(t, err)
	managed, err := json.Marshal(p.ManagedFields)
	require.NoError(t, err)
	t.Logf("%d bytes, %d of them in managedFields; %d nodes are admitted", len(stored), len(managed), len(p.Status.Admitted))
	assert.Less(t, len(stored), 256<<10)
	assert.Greater(t, len(p.Status.Admitted), 200)
	require.Len(t, p.Status.Rollouts, 64)
	for _, r := range p.Status.Rollouts {
		assert.NotEmpty(t, r.Message)
		require.NotNil(t, r.HaltedTime)
	}
	before := w.versions()
	w.operator().pass()
	assert.True(t, maps.Equal(before, w.versions()), "a pass at rest writes")
}
