package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// R003-35: what would run, in which order, can be read before anything does.
func TestPlanShowsTheStepsInOrder(t *testing.T) {
	s := newStage(t)
	docs, err := cli.Load([]string{s.template(t)})
	require.NoError(t, err)
	p, err := cli.MakePlan(s.scan(t), docs, cli.Describe(docs.Sources), map[string]string{"pool": "gpu"}, nil)
	require.NoError(t, err)
	p.Order(plan.DefaultCatalog())
	require.NotEmpty(t, p.Steps)
	assert.Equal(t, cli.PlannedStep{Step: "preflight", Priority: 1000}, p.Steps[0])
	assert.Equal(t, cli.PlannedStep{Step: "release", Priority: 300}, p.Steps[len(p.Steps)-1])
	flashes := 0
	for i, step := range p.Steps {
		if i > 0 {
			assert.LessOrEqual(t, step.Priority, p.Steps[i-1].Priority)
		}
		if step.Step == "flash" {
			assert.NotEmpty(t, step.Device)
			flashes++
		}
	}
	assert.Positive(t, flashes)
	text := print(t, cli.Table, p)
	assert.Contains(t, text, "STEP          DEVICE")
	assert.Less(t, strings.Index(text, "maintenance"), strings.Index(text, "\nflash"))

	none, err := plan.NewCatalog(map[string]int32{"bios.flash": 0, "nic.flash": 0, "disk.flash": 0})
	require.NoError(t, err)
	p.Order(none)
	assert.NotContains(t, print(t, cli.Table, p), "\nflash", "what is switched off is not listed")
}

func TestPlanOfNothingHasNoSteps(t *testing.T) {
	var p cli.Plan
	p.Order(plan.DefaultCatalog())
	assert.Empty(t, p.Steps)
	assert.NotContains(t, print(t, cli.Table, p), "STEP")
}

// R003-12, R003-50: every step, also those that are off, with what a person needs to know to change its place.
func TestListSteps(t *testing.T) {
	c, err := plan.NewCatalog(map[string]int32{"node.verify-inventory": 990})
	require.NoError(t, err)
	list := cli.ListSteps(c)
	assert.Equal(t, cli.KnownStep{Name: "verify-inventory", Interface: "node", Priority: 990, Key: "node.verify-inventory",
		Interruption: "AtOnce", Changes: "No", Deadline: "10m0s"}, list.Steps[1])
	assert.Contains(t, list.Steps, cli.KnownStep{Name: "flash", Interface: "NIC", Priority: 820, Key: "nic.flash",
		Interruption: "AfterStep", Changes: "Yes", Deadline: "30m0s"})
	var text bytes.Buffer
	require.NoError(t, cli.Print(&text, cli.Table, list))
	assert.Regexp(t, `reset-bios-settings +BIOS +off +AfterStep +Yes +10m0s +bios.reset-bios-settings`, text.String())
}
