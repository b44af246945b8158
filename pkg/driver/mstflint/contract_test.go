package mstflint

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/toolcontract"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Each command line of this package was tried with the real tools.
func TestContractHasAllCommands(t *testing.T) {
	absent, err := inventory.ParsePCIAddress(toolcontract.Absent)
	require.NoError(t, err)
	sriov := []inventory.Setting{{Name: sriovEnabled, Value: "1"}, {Name: sriovVFs, Value: "8"}}
	argv := func(commands ...command.Command) (lines [][]string) {
		for _, c := range commands {
			line := append([]string(nil), c.Argv...)
			for i, a := range line {
				if a == toolcontract.Absent {
					line[i] = "{absent}"
				}
			}
			lines = append(lines, line)
		}
		return lines
	}
	toolcontract.Covers(t, ".", map[string][][]string{
		"queryDevice": argv(queryDevice(absent)),
		"queryImage":  argv(queryImage("{blank}"), queryImage("{missing}")),
		"verifyImage": argv(verifyImage("{blank}"), verifyImage("{missing}")),
		"readImage":   argv(readImage(absent, "{out}")),
		"burn":        argv(burn(absent, "{blank}", "lock", nil), burn(absent, "{missing}", "lock", nil)),
		"queryReset":  argv(queryReset(absent)),
		"reset":       argv(reset(absent, levelLivePatch, "lock"), reset(absent, levelPCIReset, "lock")),
		"reactivate":  argv(reactivate(absent, "lock")),
		"config": argv(
			queryConfig(absent, cpuModel, offloadEngine), queryConfig(absent), tryConfig(absent, sriov), setConfig(absent, sriov, "lock"),
		),
	}, toolcontract.Mstflint(), toolcontract.Mstfwreset(), toolcontract.Mstconfig())
}
