package simhost

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// resetLevel and resetType are what the firmware of a card can do, as mstfwreset names it.
type resetOption struct {
	number      int
	description string
	supported   bool
}

func resetLevels(n NIC) []resetOption {
	return []resetOption{
		{levelLivePatch, `Driver, PCI link, network link will remain up ("live-Patch")`, n.LivePatch},
		{levelPCIReset, "Driver restart and PCI reset", n.Activation == DeviceReset},
		{levelWarmReboot, "Warm Reboot", n.Activation != PowerCycle},
	}
}

func resetTypes() []resetOption {
	return []resetOption{
		{0, "Full chip reset", true},
		{1, "Phy-less reset (keep network port active during reset)", false},
		{2, "NIC only reset (for SoC devices)", false},
	}
}

const (
	levelLivePatch  = 0
	levelPCIReset   = 3
	levelWarmReboot = 4
)

var mstfwresetOptions = optionTable{
	"d": "device=", "device": "device=", "l": "level=", "level": "level=", "t": "type=", "type": "type=",
	"y": "yes", "yes": "yes", "sync": "sync=", "s": "skip_driver", "skip_driver": "skip_driver", "v": "version", "version": "version",
}

var mstfwresetCommands = map[string]string{
	"q": "query", "query": "query", "r": "reset", "reset": "reset", "reset_fsm_register": "reset_fsm_register",
}

// mstfwreset 4.21.0.
func mstfwreset(c *call) (int, error) {
	o, err := mstfwresetOptions.parse(c.argv[1:])
	if err == nil && o.has("version") {
		c.printf("mstfwreset 1.0.0, mstflint 4.21.0, built on Aug 17 2022, 09:12:52. Git SHA Hash: N/A\n")
		return 0, nil
	}
	if err != nil {
		err = fmt.Errorf("unrecognized arguments: %s", strings.Trim(strings.TrimPrefix(err.Error(), "unrecognized option "), "'"))
	} else {
		err = checkResetArguments(o)
	}
	if err != nil {
		return c.fail(2, "usage: mstfwreset --device DEVICE [--level {0,3,4}] [--type {0,1,2}]\n"+
			"                  [--sync {0,1}] [--yes] [--skip_driver] [--version] [--help]\n"+
			"                  {q,query,r,reset,reset_fsm_register}\nmstfwreset: error: %v\n", err)
	}
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	command := mstfwresetCommands[o.args[0]]
	if why := refusesResets(s.Spec, o); why != "" && command == "reset" {
		c.printf("-E- %s.\n", why)
		return 1, nil
	}
	device := o.values["device"]
	nic, why, err := c.openNIC(device)
	if err != nil {
		return 0, err
	}
	if why != "" {
		c.printf("-E- Failed to Identify Device: %s, mopen: %s\n.\n", device, why)
		return 1, nil
	}
	if s.NICs[nic.Key].Running.Recovery {
		c.printf("-E- mstfwreset is not supported for device in Flash Recovery mode.\n")
		return 1, nil
	}
	switch command {
	case "query":
		return c.run(nic.Key, "query", func() (int, error) { return c.resetQuery(nic) })
	case "reset":
		return c.reset(nic, o)
	}
	c.printf("\n-I- FSM register was reset successfully.\n")
	return 0, nil
}

// checkResetArguments checks them in the order of the real parser.
func checkResetArguments(o options) error {
	for _, a := range []struct{ name, spelled, choices string }{
		{"level", "--level/-l", "0, 3, 4"}, {"type", "--type/-t", "0, 1, 2"}, {"sync", "--sync", "0, 1"},
	} {
		if v := o.values[a.name]; o.has(a.name) && !slices.Contains(strings.Split(a.choices, ", "), v) {
			return fmt.Errorf("argument %s: invalid choice: %s (choose from %s)", a.spelled, v, a.choices)
		}
	}
	switch {
	case len(o.args) == 0 && !o.has("device"):
		return errors.New("the following arguments are required: --device/-d, command")
	case len(o.args) == 0:
		return errors.New("the following arguments are required: command")
	case mstfwresetCommands[o.args[0]] == "":
		return fmt.Errorf("argument command: invalid choice: '%s' (choose from 'q', 'query', 'r', 'reset', 'reset_fsm_register')", o.args[0])
	case !o.has("device"):
		return errors.New("the following arguments are required: --device/-d")
	}
	return nil
}

// refusesResets says why the tool resets nothing on a machine, whatever the device.
func refusesResets(s Spec, o options) string {
	switch {
	case s.SecureBoot && o.values["sync"] != "1" && o.values["level"] != strconv.Itoa(levelWarmReboot):
		return "The tool supports only reset-level 4 on UEFI Secure Boot"
	case s.Virtual:
		return "The tool is not supported on virtual machines"
	}
	return ""
}

func (c *call) resetQuery(n NIC) (int, error) {
	c.printf("\nReset-levels:\n")
	c.resetOptions(resetLevels(n))
	c.printf("\nReset-types (relevant only for reset-levels 3,4):\n")
	c.resetOptions(resetTypes())
	c.printf("\nReset-sync (relevant only for reset-level 3):\n")
	c.printf("%d: %-62s-%-14s%s\n", 0, "Tool is the owner", "Supported", "(default)")
	c.printf("%d: %-62s-%-14s%s\n\n", 1, "Driver is the owner", "Supported", "")
	return 0, nil
}

// resetOptions prints the options; the first supported one is the default.
func (c *call) resetOptions(list []resetOption) {
	chosen := false
	for _, r := range list {
		text, mark := "Not Supported", ""
		if r.supported {
			text = "Supported"
			if !chosen {
				chosen, mark = true, "(default)"
			}
		}
		c.printf("%d: %-62s-%-14s%s\n", r.number, r.description, text, mark)
	}
}

func (c *call) reset(n NIC, o options) (int, error) {
	level := levelWarmReboot
	for _, l := range slices.Backward(resetLevels(n)) {
		if l.supported {
			level = l.number
		}
	}
	minimal := "Minimal"
	if o.has("level") {
		level, _ = strconv.Atoi(o.values["level"])
		minimal = "Requested"
	}
	description := ""
	for _, l := range resetLevels(n) {
		if l.number == level && l.supported {
			description = l.description
		}
	}
	if description == "" {
		c.printf("\n-E- Reset-level '%d' is not supported in the current state of this device.\n", level)
		return 1, nil
	}
	if t := o.values["type"]; t != "" && t != "0" {
		c.printf("\n-E- Reset-type '%s' is not supported in the current state of this device.\n", t)
		return 1, nil
	}
	c.printf("\n%s reset level for device, %s:\n\n%d: %s\nContinue with reset?[y/N] ", minimal, o.values["device"], level, description)
	if !o.has("yes") {
		c.printf("-E- EOF when reading a line.\n") // standard input is closed
		return 1, nil
	}
	c.printf("y\n")
	return c.run(n.Key, "reset", func() (int, error) {
		switch level {
		case levelWarmReboot:
			return c.resetByReboot(n)
		case levelLivePatch:
			return c.patch(n)
		}
		return c.resetCard(n)
	})
}

// patch loads the stored image while the card keeps working.
func (c *call) patch(n NIC) (int, error) {
	c.printf("-I- %-40s-", "Sending Reset Command To Fw")
	err := c.do(job{
		op:     Operation{Device: n.Key, Action: "Patch"},
		finish: func(s *state) { s.NICs[n.Key].activate(s.NICs[n.Key].LinkDown) },
	})
	if errors.Is(err, errBusy) {
		c.printf("\n-E- Device is busy, a firmware update is in progress.\n")
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	c.printf("Done\n-I- FW was loaded successfully.\n")
	return 0, nil
}

func (c *call) resetByReboot(n NIC) (int, error) {
	c.printf("-I- %-40s-", "Sending reboot command to machine")
	if err := c.requestReboot(n.Key); err != nil {
		return 0, fmt.Errorf("request reboot: %w", err)
	}
	c.printf("Done\n")
	return 0, nil
}
