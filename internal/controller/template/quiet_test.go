package template

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// While the cache does not show our own write yet, an event about something else causes no second one.
func TestLateCacheCausesNoSecondWrite(t *testing.T) {
	s := newStore(t)
	s.seed(devicesPerNode)
	s.list()
	const name = "node-00000-nic-0"
	old := s.devices[name]
	k := key{device, name}

	result, err := s.r.Reconcile(t.Context(), k)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, result.RequeueAfter, s.r.Resync)
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
		if result.RequeueAfter >= s.r.Resync {
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
	assert.Equal(t, int32(1), s.templates[k.name].Status.DevicesApplied)

	s.clock = s.clock.Add(time.Second)
	require.Zero(t, reconcile())
	assert.Equal(t, before+2, s.templateWrites, "the others together")
	assert.Equal(t, int32(devicesPerNode), s.templates[k.name].Status.DevicesApplied)
	s.clock = s.clock.Add(time.Second)
	require.Zero(t, reconcile())
	assert.Equal(t, before+2, s.templateWrites)
}
