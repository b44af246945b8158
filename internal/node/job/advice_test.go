package job_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// TestAdviceIsAnEventOfTheRunningJobAndDecidesNothing proves R002-14.
func TestAdviceIsAnEventOfTheRunningJobAndDecidesNothing(t *testing.T) {
	d := newDaemon(t)
	id := d.Add(inventory.NIC, "nic", inventory.ActivateDeviceReset)
	d.create("j", id)
	d.admit("j")
	require.NoError(t, d.reconcile("j"))
	d.Window.OnReady = func() {
		d.r.Advise(health.Advice{Failing: true, Message: "the fan is slow"})
		d.r.Advise(health.Advice{Message: "the fan is fine"})
	}
	d.work()
	d.r.Advise(health.Advice{Failing: true, Message: "nobody works"})
	require.NoError(t, d.reconcile("j"))
	var emitted []string
	for len(d.events.Events) > 0 {
		if e := <-d.events.Events; strings.Contains(e, v1alpha1.ReasonHealthAdvice) {
			emitted = append(emitted, e)
		}
	}
	assert.Equal(t, []string{"Warning HealthAdvice the fan is slow", "Normal HealthAdvice the fan is fine"}, emitted)
	require.NotNil(t, condition(d.get("j"), v1alpha1.ConditionComplete))
}
