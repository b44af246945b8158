package nvme

import (
	"context"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
)

// transport sends the driver's admin commands to a drive and returns the answers. It decides nothing.
type transport interface {
	// read asks for Identify Controller and the slot log. The log may be missing where the drive does not accept firmware.
	read(ctx context.Context, node string) (controller, slotLog, error)
	// download transfers the image and commits it to the slot with admin.ReplaceAtReset. The answer is the drive's to the
	// commit; a refused download is an error.
	download(ctx context.Context, t target, img driver.Image, slot int, progress driver.Progress) (answer, error)
	// commit commits what the slot holds already.
	commit(ctx context.Context, t target, slot int, action admin.Action) (answer, error)
	// reset resets the controller.
	reset(ctx context.Context, t target) error
	// usable returns why the transport cannot work on this machine.
	usable() error
}

// target is the drive that a command changes.
type target struct {
	node, lock string
	controller controller
}

func (t target) path() string { return "/dev/" + t.node }

// answer is the status a drive returned for a command that changes it, and the command, for error messages.
type answer struct {
	status  admin.Status
	command command.Command
	result  command.Result
}

// resetTimeout bounds a controller reset: the controller may take two minutes to become ready (CAP.TO) before the
// kernel gives up on it.
const resetTimeout = 5 * time.Minute
