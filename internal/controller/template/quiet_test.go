package template

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// While the cache does not show our own write yet, an event about something else causes no second one.
func TestLateCacheWritesOnce(t *testing.T) {
	s := newStore(t)
	s.seed(devicesPerNode)
	s.list()
	const name = "node-00000-nic-0"
	old := s.devices[name]
	k := key{device, name}

	result, err := s.r.Reconcile(t.Context(), k)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, result.RequeueAfter, resync)
	require.Equal(t, 1, s.firmwareWrites[name])

	written := s.devices[name]
	s.devices[name] = old // the cache is late
	s.r.mu.Lock()
	s.r.index.SetDevice(old)
	s.r.mu.Unlock()
	result, err = s.r.Reconcile(t.Context(), k)
	require.NoError(t, err)
	assert.Equal(t, again, result.RequeueAfter, "it looks again")
	assert.Equal(t, 1, s.firmwareWrites[name])

	s.devices[name] = written
	s.drain(t)
	assert.Equal(t, 1, s.firmwareWrites[name])
	assert.Empty(t, s.r.versions, "nothing is remembered once the cache has it")
}

// However many devices change, a template's status is written once in an interval, and not at all when it is true.
func TestTemplateStatusIsWrittenAtMostOnceInAnInterval(t *testing.T) {
	s := settled(t, scaleTemplates*devicesPerNode*2)
	k := key{template, "template-0"}
	reconcile := func() time.Duration {
		result, err := s.r.Reconcile(t.Context(), k)
		require.NoError(t, err)
		if result.RequeueAfter >= resync {
			return 0
		}
		return result.RequeueAfter
	}
	s.clock = s.clock.Add(time.Minute)
	before := s.templateWrites
	require.Zero(t, reconcile())
	assert.Equal(t, before, s.templateWrites, "nothing changed")

	for i := range devicesPerNode {
		s.putDevice(nicName(i), func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running = v1 })
		wait := reconcile()
		if i > 0 {
			assert.Equal(t, time.Second, wait)
		}
	}
	assert.Equal(t, before+1, s.templateWrites, "the first change at once")
	assert.Equal(t, int32(1), s.templates[k.name].Status.Devices.UpToDate)

	s.clock = s.clock.Add(time.Second)
	require.Zero(t, reconcile())
	assert.Equal(t, before+2, s.templateWrites, "the others together")
	assert.Equal(t, int32(devicesPerNode), s.templates[k.name].Status.Devices.UpToDate)
	s.clock = s.clock.Add(time.Second)
	require.Zero(t, reconcile())
	assert.Equal(t, before+2, s.templateWrites)
}

// A status that goes on to change is written less and less often, and what a person waits for still at once. R000-6
func TestAStatusThatGoesOnToChangeIsWrittenLessOften(t *testing.T) {
	s := settled(t, scaleTemplates*devicesPerNode*40)
	name := "template-0"
	change := func(n int, version string) {
		s.putDevice(fmt.Sprintf("node-%05d-nic-%d", n/devicesPerNode*scaleTemplates, n%devicesPerNode), func(d *v1alpha1.NodeDevice) {
			d.Status.Firmware.Running = version
		})
	}
	second := func() {
		_, err := s.r.Reconcile(t.Context(), key{template, name})
		require.NoError(t, err)
		s.clock = s.clock.Add(time.Second)
	}
	s.clock = s.clock.Add(2 * time.Minute)
	before := s.templateWrites
	const seconds = 161
	for i := range seconds {
		change(i, v1)
		second()
	}
	assert.Equal(t, 7, s.templateWrites-before, "after 0, 1, 4, 13 and 40 seconds, and then every 60")

	for i := seconds; i < 40*devicesPerNode; i++ {
		change(i, v1)
	}
	second()
	ready := meta.FindStatusCondition(s.templates[name].Status.Conditions, v1alpha1.ConditionReady)
	assert.Equal(t, metav1.ConditionTrue, ready.Status, "the template is done, and says so within a second")

	s.clock = s.clock.Add(2 * time.Minute)
	before = s.templateWrites
	for i := range 2 {
		change(i, running)
		second()
	}
	assert.Equal(t, before+2, s.templateWrites, "a rest makes it quick again")
}

// The status of a template does not wait until the devices of the fleet are written.
func TestStatusNeverWaitsForDevices(t *testing.T) {
	f := newFleet(t)
	f.hold = make(chan struct{})
	release := sync.OnceFunc(func() { close(f.hold) })
	defer release()
	f.source("s", imageFor(board, v1, 1))
	var names []string
	for i := range 20 {
		node := fmt.Sprintf("n%d", i)
		f.node(node, map[string]string{"pool": "gpu"})
		names = append(names, f.discover(node, board, v1))
	}
	f.startOperator()
	f.template("t", "gpu", v1, "s")
	f.awaitTemplate("t", func(c *assert.CollectT, tpl *v1alpha1.FirmwareTemplate) {
		assert.Equal(c, int32(len(names)), tpl.Status.Devices.Matched)
	})
	assert.Zero(t, f.writes.firmware.Load(), "no device is written yet")
	release()
	for _, name := range names {
		f.awaitVersion(name, v1, "t")
	}
}
