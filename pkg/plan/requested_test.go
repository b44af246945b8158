package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// R003-23: exactly the requested steps in the given order, also those that are switched off.
func TestRequestedStepsRunInTheGivenOrderAndNoOther(t *testing.T) {
	c, err := plan.NewCatalog(map[string]int32{"nic.flash": 0}, erase)
	require.NoError(t, err)
	for name, r := range map[string]struct {
		requests []plan.Request
		want     []string
	}{
		"one that only looks": {[]plan.Request{{Name: "verify-inventory"}}, []string{"verify-inventory "}},
		"every device it is for": {[]plan.Request{{Name: "verify-firmware"}},
			[]string{"verify-firmware bios", "verify-firmware nic-a", "verify-firmware nic-b", "verify-firmware disk"}},
		"one device, and then another step": {[]plan.Request{{Name: "verify-firmware", Device: "disk"}, {Name: "verify-inventory"}},
			[]string{"verify-firmware disk", "verify-inventory "}},
		"a change is wrapped": {[]plan.Request{{Name: "reset-bios-settings"}},
			[]string{"preflight ", "maintenance ", "reset-bios-settings bios", "reboot ", "health ", "release "}},
		"what looks first needs no maintenance": {[]plan.Request{
			{Name: "verify-inventory"}, {Name: "scrub", Device: "disk"}, {Name: "verify-firmware", Device: "disk"}, {Name: "scrub", Device: "nic-a"}},
			[]string{"preflight ", "verify-inventory ", "maintenance ", "scrub disk", "verify-firmware disk", "scrub nic-a", "reboot ", "health ", "release "}},
	} {
		t.Run(name, func(t *testing.T) {
			steps, err := c.Requested(r.requests, machine)
			require.NoError(t, err)
			assert.Equal(t, r.want, names(steps))
		})
	}
}

// R003-1: whatever the steps of a cleaning are and in whatever order, the node has left service before the first of them, and is judged
// before it returns.
func TestEveryStepOfACleaningRunsOutOfService(t *testing.T) {
	c, err := plan.NewCatalog(nil, erase)
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		var requests []plan.Request
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"verify-inventory", "verify-firmware", "scrub", "reset-bios-settings"}), 1, 4,
			rapid.ID[string]).Draw(t, "steps") {
			requests = append(requests, plan.Request{Name: name})
		}
		asked, err := c.Requested(requests, machine)
		require.NoError(t, err)
		own := []plan.Kind{plan.Preflight, plan.Maintenance, plan.Reboot, plan.Health, plan.Release}
		asked = slices.DeleteFunc(asked, func(s plan.Step) bool { return slices.Contains(own, s.Kind) })
		steps, err := c.Cleaning(requests, machine)
		require.NoError(t, err)

		require.Equal(t, slices.Concat([]string{"preflight ", "maintenance "}, names(asked), []string{"reboot ", "health ", "release "}), names(steps))
		for _, s := range steps {
			assert.Equal(t, !slices.Contains(own, s.Kind), s.OutOfService, s.Kind)
		}
	})
}

// R003-6: a step gets what the person gave for it, and nothing that it does not take.
func TestStepGetsTheArgumentsAndTheDeadlineOfItsRequest(t *testing.T) {
	takes := erase
	takes.Arguments = []string{"level", "passes"}
	c, err := plan.NewCatalog(nil, takes)
	require.NoError(t, err)
	full := []plan.Argument{{Name: "level", Value: "full"}}
	steps, err := c.Requested([]plan.Request{
		{Name: "scrub", Device: "disk", Arguments: full, Deadline: 12 * time.Hour}, {Name: "scrub", Device: "nic-a"},
	}, machine)
	require.NoError(t, err)
	require.Equal(t, []string{"scrub disk", "scrub nic-a"}, names(steps[2:4]))
	assert.Equal(t, full, steps[2].Arguments)
	assert.Equal(t, 12*time.Hour, steps[2].Deadline)
	assert.Empty(t, steps[3].Arguments)
	assert.Equal(t, time.Hour, steps[3].Deadline)

	for want, r := range map[string]plan.Request{
		"step scrub takes no argument depth; it takes level, passes":   {Name: "scrub", Arguments: []plan.Argument{{Name: "depth", Value: "1"}}},
		"step verify-firmware takes no arguments; leave level out":     {Name: "verify-firmware", Arguments: full},
		"step verify-inventory takes no arguments; leave level out":    {Name: "verify-inventory", Arguments: full},
		"step reset-bios-settings takes no arguments; leave level out": {Name: "reset-bios-settings", Arguments: full},
	} {
		_, err := c.Requested([]plan.Request{r}, machine)
		assert.ErrorContains(t, err, want)
	}
}

func TestImpossibleRequestSaysWhy(t *testing.T) {
	c, err := plan.NewCatalog(nil, erase)
	require.NoError(t, err)
	for want, requests := range map[string][]plan.Request{
		"step polish is not known on this node; known are erase, reset-bios-settings, scrub, verify-firmware, verify-inventory": {{Name: "polish"}},
		"step flash is part of an update":                                     {{Name: "flash", Device: "nic-a"}},
		"step restore is part of an update":                                   {{Name: "restore"}},
		"step verify-firmware: nic-z is not a device of this node":            {{Name: "verify-firmware", Device: "nic-z"}},
		"step reset-bios-settings is not for the device disk: it is for BIOS": {{Name: "reset-bios-settings", Device: "disk"}},
		"step scrub is not for the device nic-b: it is for sim":               {{Name: "scrub", Device: "nic-b"}},
		"verify-inventory works on the whole node; leave its device disk out": {{Name: "verify-inventory", Device: "disk"}},
		"step verify-inventory is requested twice":                            {{Name: "verify-inventory"}, {Name: "verify-inventory"}},
	} {
		steps, err := c.Requested(requests, machine)
		assert.ErrorContains(t, err, want)
		assert.Empty(t, steps)
		steps, err = c.Cleaning(requests, machine)
		assert.ErrorContains(t, err, want)
		assert.Empty(t, steps)
	}
	_, err = c.Requested([]plan.Request{{Name: "reset-bios-settings"}}, machine[1:])
	assert.ErrorContains(t, err, "step reset-bios-settings is for BIOS, and this node has no such device")
}

func TestJobOfMoreStepsThanItsStatusHoldsIsRefused(t *testing.T) {
	var many []plan.Target
	for i := range 256 {
		many = append(many, plan.Target{Device: fmt.Sprintf("d%03d", i), Class: inventory.Disk})
	}
	twice := []plan.Request{{Name: "verify-firmware"}, {Name: "verify-firmware"}}
	_, err := plan.Catalog{}.Requested(twice, many)
	require.NoError(t, err)
	_, err = plan.Catalog{}.Requested(append(twice, plan.Request{Name: "verify-inventory"}), many)
	assert.ErrorContains(t, err, "the job has 513 steps, and at most 512 fit")
}

// R003-43: no request erases a drive that it does not name with its serial number, and none does it twice.
func TestEraseIsOnlyForANamedDrive(t *testing.T) {
	named := plan.Request{Name: "erase", Device: "disk", Arguments: []plan.Argument{{Name: "serialNumber", Value: "S1"}}}
	steps, err := plan.DefaultCatalog().Requested([]plan.Request{named}, machine)
	require.NoError(t, err)
	assert.Equal(t, []string{"preflight ", "maintenance ", "erase disk", "reboot ", "health ", "release "}, names(steps))
	assert.False(t, steps[2].Interruptible)
	assert.Equal(t, 4*time.Hour, steps[2].Deadline)
	any, other, silent := named, named, named
	any.Device, other.Device, silent.Arguments = "", "nic-a", []plan.Argument{{Name: "method", Value: "Block"}}
	for want, requests := range map[string][]plan.Request{
		"step erase is only for a device that the request names":        {any},
		"step erase is not for the device nic-a: it is for Disk":        {other},
		"step erase needs the argument serialNumber":                    {silent},
		"step erase disk is requested twice; create a second job":       {named, named},
		"step erase takes no argument force; it takes serialNumber, me": {{Name: "erase", Device: "disk", Arguments: []plan.Argument{{Name: "force", Value: "1"}}}},
	} {
		_, err := plan.DefaultCatalog().Requested(requests, machine)
		assert.ErrorContains(t, err, want)
	}
}
