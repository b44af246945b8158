package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// erase is a step of a driver.
var erase = plan.Definition{Kind: "scrub", Interface: "sim", Changes: true, Deadline: time.Hour}

var machine = []plan.Target{
	{Device: "bios", Class: inventory.BIOS}, {Device: "nic-a", Class: inventory.NIC, Driver: "sim"},
	{Device: "nic-b", Class: inventory.NIC, Driver: "other"}, {Device: "disk", Class: inventory.Disk, Driver: "sim"},
}

func names(steps []plan.Step) []string {
	var out []string
	for _, s := range steps {
		out = append(out, string(s.Kind)+" "+s.Device)
	}
	return out
}

func keys(defs []plan.Definition) []string {
	var out []string
	for _, d := range defs {
		out = append(out, d.Key())
	}
	return out
}

// TestStepsThatUpdatesDoNotNeedAreOffByDefault proves R003-4.
func TestStepsThatUpdatesDoNotNeedAreOffByDefault(t *testing.T) {
	c, err := plan.NewCatalog(nil, erase)
	require.NoError(t, err)
	for _, d := range c.Enabled() {
		assert.Contains(t, plan.UpdateKinds, d.Kind)
	}
	assert.Len(t, c.Enabled(), 25)
	assert.Len(t, c.All(), 25+7+1)
	assert.NotContains(t, keysOf(c.Enabled()), "disk.erase")
	assert.Contains(t, keysOf(c.All()), "disk.erase")
	_, err = plan.NewCatalog(map[string]int32{"disk.erase": 850})
	require.ErrorContains(t, err, "priority of disk.erase: no update runs this step; request it in a job of type Steps")
	_, err = plan.NewCatalog(map[string]int32{"disk.erase": 0})
	require.NoError(t, err)
}

// A device that gets settings alone is neither archived nor flashed, and one that gets none is not configured.
func TestSettingsAreAStepOfTheirOwn(t *testing.T) {
	kinds := func(target plan.Target) (out []plan.Kind) {
		for _, s := range plan.DefaultCatalog().Steps([]plan.Target{target}) {
			out = append(out, s.Kind)
		}
		return out
	}
	nic := plan.Target{Device: "d", Class: inventory.NIC}
	assert.NotContains(t, kinds(nic), plan.Configure)
	nic.Settings = true
	assert.Equal(t, []plan.Kind{
		plan.Preflight, plan.Archive, plan.Maintenance, plan.Flash, plan.Configure, plan.Activate, plan.Reboot, plan.Verify, plan.Health, plan.Release,
	}, kinds(nic))
	nic.SettingsOnly = true
	assert.Equal(t, []plan.Kind{
		plan.Preflight, plan.Maintenance, plan.Configure, plan.Activate, plan.Reboot, plan.Verify, plan.Health, plan.Release,
	}, kinds(nic))
}

// TestPriorityZeroNeverRuns proves R003-10, R003-14.
func TestPriorityZeroNeverRuns(t *testing.T) {
	c, err := plan.NewCatalog(map[string]int32{"disk.flash": 0, "bios.archive": 0})
	require.NoError(t, err)
	assert.NotContains(t, keys(c.Enabled()), "disk.flash")
	steps := names(c.Steps(machine))
	assert.NotContains(t, steps, "flash disk")
	assert.NotContains(t, steps, "archive bios")
	assert.Contains(t, steps, "flash nic-a")
	assert.False(t, c.Runs(plan.Flash, inventory.Disk))
	assert.True(t, c.Runs(plan.Flash, inventory.NIC))
	assert.False(t, c.Runs(plan.Archive, inventory.BIOS))
}

// TestOverrideReorders proves R003-11.
func TestOverrideReorders(t *testing.T) {
	c, err := plan.NewCatalog(map[string]int32{"nic.flash": 850, "node.verify-inventory": 950})
	require.NoError(t, err)
	steps := names(c.Steps(machine))
	assert.Equal(t, []string{
		"preflight ", "archive bios", "verify-inventory ", "archive nic-a", "archive nic-b", "archive disk", "maintenance ",
		"flash nic-a", "flash nic-b", "flash bios", "flash disk",
	}, steps[:11])
}

// TestOwnStepForItsDevicesOnly proves R003-6.
func TestOwnStepForItsDevicesOnly(t *testing.T) {
	c, err := plan.NewCatalog(map[string]int32{"sim.scrub": 850}, erase)
	require.NoError(t, err)
	var got []plan.Step
	for _, s := range c.Steps(machine) {
		if s.Kind == "scrub" {
			got = append(got, s)
		}
	}
	assert.Equal(t, []string{"scrub disk", "scrub nic-a"}, names(got))
	assert.True(t, got[0].Task)
	assert.True(t, got[0].Writes())
	assert.Equal(t, time.Hour, got[0].Deadline)
}

// TestTieBetweenInterfacesGoesBIOSThenNICThenDisk proves R003-18.
func TestTieBetweenInterfacesGoesBIOSThenNICThenDisk(t *testing.T) {
	c, err := plan.NewCatalog(map[string]int32{
		"disk.flash": 800, "storagecontroller.flash": 800, "nic.flash": 800, "bios.flash": 800, "node.verify-inventory": 450, "nic.verify-firmware": 450, "sim.look": 450,
	}, plan.Definition{Kind: "look", Interface: "sim"})
	require.NoError(t, err)
	enabled := keys(c.Enabled())
	assert.Subset(t, enabled, []string{"bios.flash", "nic.flash", "disk.flash"})
	at := func(key string) int {
		for i, k := range enabled {
			if k == key {
				return i
			}
		}
		t.Fatal(key)
		return 0
	}
	assert.Equal(t, []int{1, 2, 3}, []int{
		at("nic.flash") - at("bios.flash"), at("storagecontroller.flash") - at("bios.flash"), at("disk.flash") - at("bios.flash"),
	}, "storage controllers come between the two")
	assert.Equal(t, []int{1, 2}, []int{at("nic.verify-firmware") - at("node.verify-inventory"), at("sim.look") - at("node.verify-inventory")})
}

// TestRefusesUnworkableCatalog proves R003-19.
func TestRefusesUnworkableCatalog(t *testing.T) {
	sim := func(kind plan.Kind) plan.Definition { return plan.Definition{Kind: kind, Interface: "sim"} }
	for name, c := range map[string]struct {
		priorities map[string]int32
		extra      []plan.Definition
		want       string
	}{
		"tie inside an interface": {map[string]int32{"sim.a": 450, "sim.b": 450}, []plan.Definition{sim("a"), sim("b")},
			"sim.a and sim.b both have the priority 450"},
		"tie with a fixed step":         {map[string]int32{"node.verify-inventory": 1000}, nil, "node.preflight and node.verify-inventory both"},
		"unknown step":                  {map[string]int32{"nic.flsh": 800}, nil, "priority of nic.flsh: there is no such step; known are"},
		"class in capitals":             {map[string]int32{"NIC.flash": 800}, nil, "priority of NIC.flash: there is no such step"},
		"negative":                      {map[string]int32{"nic.flash": -1}, nil, "priority of nic.flash: -1 is negative"},
		"no health gate":                {map[string]int32{"node.health": 0}, nil, "priority of node.health: every update needs this step"},
		"no verification":               {map[string]int32{"disk.verify": 0}, nil, "priority of disk.verify: every update needs this step"},
		"flash before the maintenance":  {map[string]int32{"nic.flash": 910}, nil, "node.maintenance (900) must run before nic.flash (910)"},
		"flash beside the maintenance":  {map[string]int32{"nic.flash": 900}, nil, "node.maintenance (900) must run before nic.flash (900)"},
		"flash after the activation":    {map[string]int32{"disk.flash": 705}, nil, "disk.flash (705) must run before bios.configure (780)"},
		"settings after the activation": {map[string]int32{"disk.configure": 705}, nil, "disk.configure (705) must run before bios.activate (730)"},
		"health before the reboot":      {map[string]int32{"node.health": 650}, nil, "disk.verify (510) must run before node.health (650)"},
		"a change without maintenance": {map[string]int32{"bios.reset-bios-settings": 950}, nil,
			"bios.reset-bios-settings (950) must run after node.maintenance (900)"},
		"a change after the reboot": {map[string]int32{"bios.reset-bios-settings": 450}, nil,
			"bios.reset-bios-settings (450) must run before node.reboot (600)"},
		"firmware compared too early": {map[string]int32{"nic.verify-firmware": 750}, nil,
			"nic.verify-firmware (750) must run after node.reboot (600)"},
		"a look at a node in service": {map[string]int32{"node.verify-inventory": 200}, nil,
			"node.verify-inventory (200) must run before node.release (300)"},
		"name of an own step":  {nil, []plan.Definition{sim("flash")}, "step flash of sim has the name of a step of this product"},
		"name of a rollback's": {nil, []plan.Definition{sim("restore")}, "step restore of sim has the name"},
		"name of an extra":     {nil, []plan.Definition{sim(plan.VerifyFirmware)}, "step verify-firmware of sim has the name"},
		"name of two drivers": {nil, []plan.Definition{sim("a"), {Kind: "a", Interface: "other"}},
			"step a is declared by sim and by other"},
		"name nobody could ask for": {nil, []plan.Definition{sim("Erase all")}, `step "Erase all" of sim`},
		"no interface":              {nil, []plan.Definition{{Kind: "a"}}, "step a belongs to no interface"},
		"negative default":          {nil, []plan.Definition{{Kind: "a", Interface: "sim", Priority: -1}}, "step a of sim has a negative"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plan.NewCatalog(c.priorities, c.extra...)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestTooManyStepsAreRefused(t *testing.T) {
	var extra []plan.Definition
	for i := range 40 {
		extra = append(extra, plan.Definition{Kind: plan.Kind("s" + string(rune('0'+i/10)) + string(rune('0'+i%10))), Interface: "sim", Priority: int32(2000 + i)})
	}
	_, err := plan.NewCatalog(nil, extra...)
	require.ErrorContains(t, err, "65 steps are switched on")
	_, err = plan.NewCatalog(nil, extra[1:]...)
	assert.NoError(t, err)
}

// Whatever is configured: what loads keeps the order an update needs, and gives the same list for any order of devices.
func TestLoadedCatalogKeepsOrder(t *testing.T) {
	all, err := plan.NewCatalog(nil, erase)
	require.NoError(t, err)
	stage := map[plan.Kind]int{}
	for i, k := range []plan.Kind{plan.Preflight, plan.Archive, plan.Maintenance, plan.Flash, plan.Activate, plan.Reboot, plan.Verify, plan.Health, plan.Release} {
		stage[k] = i
	}
	rapid.Check(t, func(t *rapid.T) {
		priorities := rapid.MapOfN(rapid.SampledFrom(keys(all.All())), rapid.Int32Range(0, 1000), 0, 4).Draw(t, "priorities")
		c, err := plan.NewCatalog(priorities, erase)
		if err != nil {
			return
		}
		steps := c.Steps(machine)
		last := 0
		for i, s := range steps {
			assert.Positive(t, s.Priority)
			if i > 0 {
				assert.LessOrEqual(t, s.Priority, steps[i-1].Priority)
			}
			if !s.Task {
				assert.GreaterOrEqual(t, stage[s.Kind], last)
				last = stage[s.Kind]
			}
			if s.Writes() {
				assert.GreaterOrEqual(t, last, stage[plan.Maintenance], "%s without maintenance", s.Kind)
				assert.LessOrEqual(t, last, stage[plan.Reboot], "%s after the reboot", s.Kind)
			}
		}
		assert.Equal(t, steps, c.Steps(rapid.Permutation(machine).Draw(t, "devices")))
	})
}

func keysOf(defs []plan.Definition) (out []string) {
	for _, d := range defs {
		out = append(out, d.Key())
	}
	return out
}
