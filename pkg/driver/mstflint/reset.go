package mstflint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// The levels of mstfwreset the driver knows, from the least to the most disruptive. Another level restarts the
// processors of a card but not the adapter's firmware.
const (
	levelLivePatch = "0"
	levelPCIReset  = "3"
	levelReboot    = "4"
)

// levels are the resets the card offers in its current state.
type levels struct {
	// livePatch, pciReset and reboot say whether that level would load a stored image.
	livePatch, pciReset, reboot bool
	// reason says why the card is not reset though others of its kind are; empty where it is, or no reason is known.
	reason string
}

// owners are those of mstfwreset's owners of a reset that are used: the tool and the network driver. What only the firmware synchronises
// (from 4.31 on) is a reset of the bus above the card.
var owners = []string{"0", "1"}

// parseResetLevels reads the output of mstfwreset's query. Level 3 needs an owner that synchronises the reset; tools that list
// none have the first.
func parseResetLevels(out string) (levels, error) {
	sections := map[string]map[string]bool{}
	var section map[string]bool
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "Reset") && strings.HasSuffix(line, ":") { // "Reset-sync (relevant only for ...):"; from 4.31 on "Reset sync (..."
			title, _, _ := strings.Cut(strings.TrimSuffix(line, ":"), " (")
			section = map[string]bool{}
			sections[strings.TrimLeft(strings.TrimPrefix(title, "Reset"), "- ")] = section
			continue
		}
		number, rest, ok := strings.Cut(line, ":")
		if !ok || section == nil || strings.Trim(number, "0123456789") != "" {
			continue
		}
		if supported, err := parseSupported(rest); err == nil {
			section[number] = supported
		}
	}
	pciReset, listed3 := sections["levels"][levelPCIReset]
	reboot, listed4 := sections["levels"][levelReboot]
	if !listed3 || !listed4 {
		return levels{}, errors.New("parse mstfwreset query: reset levels 3 and 4 are not listed: this version of the tool is not supported")
	}
	l := levels{livePatch: sections["levels"][levelLivePatch], pciReset: pciReset, reboot: reboot}
	sync, listed := sections["sync"]
	if pciReset && listed && !slices.ContainsFunc(owners, func(o string) bool { return sync[o] }) {
		l.pciReset, l.reason = false, "neither its driver nor "+resetTool+" can synchronise its reset"
	}
	return l, nil
}

// parseSupported reads what follows the last "-" of a line: "Supported", "Not Supported" or "Not supported", and
// "(default)".
func parseSupported(rest string) (bool, error) {
	i := strings.LastIndex(rest, "-")
	word := strings.ToLower(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest[i+1:]), "(default)")))
	switch {
	case i >= 0 && word == "supported":
		return true, nil
	case i >= 0 && word == "not supported":
		return false, nil
	}
	return false, errors.New("neither supported nor not supported")
}

// expects is the activation a newly burned image will need. A live patch is not assumed: whether one is possible
// depends on the image.
func (l levels) expects() inventory.Activation {
	if l.pciReset {
		return inventory.ActivateDeviceReset
	}
	return l.restart()
}

// needs is the activation the currently stored image needs.
func (l levels) needs() inventory.Activation {
	if l.livePatch || l.pciReset {
		return inventory.ActivateDeviceReset
	}
	return l.restart()
}

// restart is the activation when no reset of the card loads the image.
func (l levels) restart() inventory.Activation {
	if l.reboot {
		return inventory.ActivateReboot
	}
	return inventory.ActivatePowerCycle
}

// resets lists the levels that reset only the card, the least disruptive first.
func (l levels) resets() []string {
	var out []string
	if l.livePatch {
		out = append(out, levelLivePatch)
	}
	if l.pciReset {
		out = append(out, levelPCIReset)
	}
	return out
}

// levels queries mstfwreset. If it is not installed or not used, or reports that it does not work on this machine (Secure Boot denies it PCI
// access), the vendor recommends a reboot. A level that this machine or what uses the card stands in the way of is not offered.
func (d *Driver) levels(ctx context.Context, id inventory.Identity, card inventory.PCIAddress) (levels, error) {
	c := queryReset(card)
	r, err := d.runner.Run(ctx, c)
	switch {
	case errors.Is(err, command.ErrNotFound):
		return levels{reboot: true, reason: resetTool + " is not installed"}, nil
	case command.Unusable(err):
		return levels{reboot: true, reason: fmt.Sprintf("%s does not work here: %v", resetTool, cause(err))}, nil
	case err != nil:
		return levels{}, fmt.Errorf("query reset levels: %w", err)
	case strings.Contains(output(r), "no supported reset-level"):
		return levels{}, nil
	case r.ExitCode != 0:
		return levels{reboot: true, reason: resetTool + " does not work here: " + firstLine(r)}, nil
	}
	l, err := parseResetLevels(string(r.Stdout))
	if err != nil || !l.pciReset && !l.livePatch {
		return l, err
	}
	if reason := d.obstacle(id, card); reason != "" {
		l.pciReset, l.reason = false, reason
		l.livePatch = l.livePatch && !isBlueField(id) // it leaves links, drivers and virtual functions alone
	}
	return l, nil
}

// cause is an error of the runner without its command line.
func cause(err error) error {
	if e, ok := errors.AsType[*command.Error](err); ok {
		return e.Err
	}
	return err
}

// load resets the card so that what it stores is loaded, by the least disruptive level it offers, and returns the card's
// state afterwards. mstfwreset also exits with 0 after a mere warning, so the card is queried whether that is so.
// If it is not, a more disruptive level is tried; the image may still be pending at the end, and why says what the last reset
// said. It is an error if a reset is still running, or the card does not answer afterwards.
func (d *Driver) load(
	ctx context.Context, card inventory.PCIAddress, lock string, q query, l levels, loaded func(query) bool,
) (after query, why string, err error) {
	for _, level := range l.resets() {
		c := reset(card, level, lock)
		r, err := d.runner.Run(ctx, c)
		if err != nil {
			return q, why, fmt.Errorf("reset card %s: %w", card, err)
		}
		why = resetMessage(level, r)
		if q, err = d.query(ctx, card); err != nil {
			return q, why, fmt.Errorf("inspect card %s after %s: %w", card, why, err)
		}
		if loaded(q) {
			break
		}
	}
	return q, why, nil
}

// resetMessage says how a reset ended: with the last error or warning of the tool, if it printed one.
func resetMessage(level string, r command.Result) string {
	last := ""
	for line := range strings.Lines(output(r)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "-E- ") || strings.HasPrefix(line, "-W- ") {
			last = ": " + strings.TrimSuffix(line[len("-E- "):], ".")
		}
	}
	outcome := "made no difference"
	if r.ExitCode != 0 {
		outcome = fmt.Sprintf("was refused or failed (exit code %d)", r.ExitCode)
	}
	return fmt.Sprintf("the reset at level %s %s%s", level, outcome, last)
}
