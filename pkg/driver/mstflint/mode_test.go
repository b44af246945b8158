package mstflint

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const nic, dpu, enabled, embedded = "DISABLED(1)", "ENABLED(0)", "ENABLED(0)", "EMBEDDED_CPU(1)"

// settings is the layout of mstconfig 4.21 with -e, as sriov-network-operator's tests and the sources show it.
func settings(current, next string) string {
	line := func(mark, name, standard, current, next string) string {
		return fmt.Sprintf("%s       %-43s %-20s %-20s %-20s\n", mark, name, standard, current, next)
	}
	mark := " "
	if next != dpu {
		mark = "*"
	}
	return "\nDevice #1:\n----------\n\nDevice type:        BlueField2          \nName:               MBF2H332A-AEEO_Ax_Bx\n" +
		"Device:             0000:3b:00.0        \n\n" +
		fmt.Sprintf("%-52s%-20s %-20s %-20s\n", "Configurations:", "Default", "Current", "Next Boot") +
		line(" ", cpuModel, embedded, embedded, embedded) + line(mark, offloadEngine, dpu, current, next) +
		"The '*' shows parameters with next value different from default/current value.\n"
}

func TestParseMode(t *testing.T) {
	for _, c := range []struct {
		current, next, change string
		dpu                   bool
	}{
		{dpu, dpu, "", true},
		{nic, nic, "", false},
		{nic, dpu, "INTERNAL_CPU_OFFLOAD_ENGINE from DISABLED(1) to ENABLED(0)", false},
		{dpu, nic, "INTERNAL_CPU_OFFLOAD_ENGINE from ENABLED(0) to DISABLED(1)", true},
	} {
		m, err := parseMode(settings(c.current, c.next))
		require.NoError(t, err)
		assert.Equal(t, c.dpu, m.dpu())
		assert.Equal(t, c.change, m.change())
	}
}

func TestParseModeRefusesUnknown(t *testing.T) {
	row := func(name, value string) string { return "        " + name + strings.Repeat("    "+value, 3) + "\n" }
	for _, out := range []string{
		"", "-E- Failed to open the device\n",
		"Configurations:                                     Next Boot\n        INTERNAL_CPU_MODEL    EMBEDDED_CPU(1)\n",
		"Configurations: Default Current Next Boot\n" + row(cpuModel, embedded),
		row(cpuModel, embedded) + row(offloadEngine, enabled),
		settings("PARTIAL(2)", "PARTIAL(2)"), settings(nic, "PARTIAL(2)"),
		strings.ReplaceAll(settings(dpu, dpu), embedded, "OTHER_CPU(2)"),
	} {
		_, err := parseMode(out)
		assert.Error(t, err, out)
	}
}

func FuzzParseMode(f *testing.F) {
	f.Add(settings(dpu, nic))
	f.Add("Configurations: Default Current Next Boot\n")
	f.Fuzz(func(t *testing.T, out string) {
		if m, err := parseMode(out); err == nil {
			assert.NotEmpty(t, m.model.current)
			assert.NotEmpty(t, m.offload.next)
		}
	})
}
