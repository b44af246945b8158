package fwupd

import (
	"testing"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/toolcontract"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Each command line of this package was tried with the real tools.
func TestContractHasAllCommands(t *testing.T) {
	const id = "0000000000000000000000000000000000000000"
	argv := func(commands ...command.Command) (lines [][]string) {
		for _, c := range commands {
			lines = append(lines, c.Argv)
		}
		return lines
	}
	both := func(build func(plugin string) command.Command) []command.Command {
		return []command.Command{build(capsulePlugin), build(drivePlugin)}
	}
	built := map[string][][]string{
		"getDevices": argv(both(getDevices)...),
		"getHistory": argv(getHistory()),
		"getDetails": argv(append(both(func(p string) command.Command { return getDetails("{blank}", p) }),
			both(func(p string) command.Command { return getDetails("{missing}", p) })...)...),
		"install": argv(install("{blank}", id, capsulePlugin, "lock"), installOlder("{blank}", id, capsulePlugin, "lock"),
			installATA("{blank}", id, "lock")),
		"activateATA":   argv(activateATA(id, "lock")),
		"identifyDrive": argv(identifyDrive(inventory.Identity{Node: "sg4095"})),
	}
	toolcontract.Covers(t, ".", built, append(toolcontract.SG(), toolcontract.Fwupdtool())...)
}
