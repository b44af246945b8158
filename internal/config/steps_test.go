package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
)

func TestStepPriorities(t *testing.T) {
	got, err := config.StepPriorities{"nic.flash=820", "disk.flash=0", "node.verify-inventory=950"}.Parse()
	require.NoError(t, err)
	assert.Equal(t, map[string]int32{"nic.flash": 820, "disk.flash": 0, "node.verify-inventory": 950}, got)
	for setting, want := range map[string]string{
		"nic.flash":            "want INTERFACE.STEP=PRIORITY",
		"=5":                   "want INTERFACE.STEP=PRIORITY",
		"nic.flash=10.5":       "a whole number",
		"nic.flash=4294967296": "a whole number",
		"nic.flash=":           "a whole number",
	} {
		_, err := config.StepPriorities{setting}.Parse()
		require.ErrorContains(t, err, want, setting)
		d := validDaemon()
		d.StepPriorities = config.StepPriorities{setting}
		require.ErrorContains(t, d.Validate(), "--step-priority")
	}
	_, err = config.StepPriorities{"nic.flash=1", "nic.flash=2"}.Parse()
	assert.ErrorContains(t, err, "given twice")
}
