package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

// Survey asks the vendors' tools that the drivers run for their versions, and returns the configuration with which those that must not
// be used are refused: a driver without its tool gives way to others, or says why. The log gets one message for each tool that is
// there and was not tested. It reaches no device. It fails when the context ends.
func Survey(
	ctx context.Context, root sysfs.Tree, tools command.Config, list DriverList,
) (command.Config, []vendortool.Finding, error) {
	runner, err := command.NewExecRunner(tools)
	if err != nil {
		return tools, nil, err
	}
	log := cmp.Or(tools.Log, slog.New(slog.DiscardHandler))
	found := vendortool.Survey(ctx, runner, list(nil, root).Tools())
	if err := ctx.Err(); err != nil {
		return tools, nil, fmt.Errorf("ask vendors' tools for their versions: %w", context.Cause(ctx))
	}
	for _, f := range found {
		switch f.Support {
		case vendortool.Tested, vendortool.Missing: // the drivers say what they miss
			log.Debug("Vendor's tool", "tool", f.Tool, "version", f.Version, "support", f.Support)
		default:
			log.Warn("Vendor's tool is not a tested version", "tool", f.Tool, "version", f.Version, "support", f.Support, "reason", f.Message)
		}
	}
	tools.Refused = vendortool.Refused(found)
	return tools, found, nil
}
