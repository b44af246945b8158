package nvme

import (
	"strconv"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
)

const tool = "nvme"

// cliIdentify reads the controller itself. sysfs and "nvme list" show what the kernel read when it first saw the drive.
func cliIdentify(device string) command.Command {
	return command.Command{Argv: []string{tool, "id-ctrl", device, "-o", "json"}}
}

// cliSlotLog reads the Firmware Slot Information log.
func cliSlotLog(device string) command.Command {
	return command.Command{Argv: []string{tool, "fw-log", device, "-o", "json"}}
}

// cliDownload transfers an image to the drive's buffer, in pieces of the size the drive asks for.
func cliDownload(device, path, lock string, granularity int, progress driver.Progress) command.Command {
	argv := []string{tool, "fw-download", device, "--fw=" + path, "--progress"}
	if granularity > 0 {
		argv = append(argv, "--xfer="+strconv.Itoa(granularity))
	}
	return command.Command{Argv: argv, Kind: command.Write, Lock: lock, Progress: progress.Lines(parsePercent)}
}

func cliCommit(device, lock string, slot int, action admin.Action) command.Command {
	return command.Command{
		Argv: []string{tool, "fw-commit", device, "--slot=" + strconv.Itoa(slot), "--action=" + strconv.Itoa(int(action))},
		Kind: command.Write,
		Lock: lock,
	}
}

func cliReset(device, lock string) command.Command {
	return command.Command{Argv: []string{tool, "reset", device}, Kind: command.Write, Timeout: resetTimeout, Lock: lock}
}
