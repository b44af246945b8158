package nvme

import (
	"strconv"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
)

const tool = "nvme"

// resetTimeout bounds a controller reset: the controller may take two minutes to become ready (CAP.TO) before the
// kernel gives up on it.
const resetTimeout = 5 * time.Minute

// identify reads the controller itself. sysfs and "nvme list" show what the kernel read when it first saw the drive.
func identify(device string) command.Command {
	return command.Command{Argv: []string{tool, "id-ctrl", device, "-o", "json"}}
}

// firmwareLog reads the Firmware Slot Information log.
func firmwareLog(device string) command.Command {
	return command.Command{Argv: []string{tool, "fw-log", device, "-o", "json"}}
}

// download transfers an image to the drive's buffer, in pieces of the size the drive asks for.
func download(device, path, lock string, granularity int, progress driver.Progress) command.Command {
	argv := []string{tool, "fw-download", device, "--fw=" + path, "--progress"}
	if granularity > 0 {
		argv = append(argv, "--xfer="+strconv.Itoa(granularity))
	}
	return command.Command{Argv: argv, Kind: command.Write, Lock: lock, Progress: downloadProgress(progress)}
}

// commit stores the downloaded image in a slot and makes it the one to run after the next reset (action 1). Action 3,
// which activates at once, is never sent: when a drive changes its firmware is a decision of its own.
func commit(device, lock string, slot int) command.Command {
	return command.Command{
		Argv: []string{tool, "fw-commit", device, "--slot=" + strconv.Itoa(slot), "--action=1"},
		Kind: command.Write,
		Lock: lock,
	}
}

// commitHeld makes the image a slot holds already the one to run after the next reset (action 2). It writes no image, and
// works for a read-only slot too.
func commitHeld(device, lock string, slot int) command.Command {
	return command.Command{
		Argv: []string{tool, "fw-commit", device, "--slot=" + strconv.Itoa(slot), "--action=2"},
		Kind: command.Write,
		Lock: lock,
	}
}

// reset resets the controller, which activates what was committed.
func reset(device, lock string) command.Command {
	return command.Command{Argv: []string{tool, "reset", device}, Kind: command.Write, Timeout: resetTimeout, Lock: lock}
}
