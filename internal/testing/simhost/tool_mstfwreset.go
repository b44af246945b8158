package simhost

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
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
		{1, `Only ARM side will not remain up ("Immediate reset").`, false},
		{levelPCIReset, "Driver restart and PCI reset", n.Activation == DeviceReset},
		{levelWarmReboot, "Warm Reboot", n.Activation != PowerCycle},
	}
}

func resetTypes() []resetOption {
	return []resetOption{
		{0, "Full chip reset", true},
		{1, "Phy-less reset (keep network port active during reset)", false},
		{2, "NIC only reset (for SoC devices)", false},
		{3, "ARM only reset", false},
		{4, "ARM OS shut down", false},
	}
}

const (
	levelLivePatch  = 0
	levelPCIReset   = 3
	levelWarmReboot = 4
)

var mstfwresetOptions = optionTable{
	"d": "device=", "device": "device=", "l": "level=", "level": "level=", "t": "type=", "type": "type=",
	"y": "yes", "yes": "yes", "sync": "sync=", "s": "sync=", "v": "version", "version": "version",
}

// mstfwreset 4.21.0.
func mstfwreset(c *call) (int, error) {
	o, err := mstfwresetOptions.parse(c.argv[1:])
	if err != nil {
		return c.fail(2, "usage: mstfwreset -d DEVICE [OPTIONS] COMMAND\nmstfwreset: error: %v\n", err)
	}
	if o.has("version") {
		c.printf("mstfwreset, mstflint 4.21.0, Git SHA Hash: N/A\n")
		return 0, nil
	}
	if len(o.args) == 0 || !o.has("device") {
		return c.fail(2, "usage: mstfwreset -d DEVICE [OPTIONS] COMMAND\nmstfwreset: error: the following arguments are required: command\n")
	}
	nic, ok, err := c.findNIC(o.values["device"])
	if err != nil {
		return 0, err
	}
	if !ok {
		c.printf("-E- Failed to open device: %s. Device doesn't exist.\n", o.values["device"])
		return 1, nil
	}
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	if s.NICs[nic.Key].Running.Recovery {
		c.printf("-E- Unsupported Device: %s (0x%s).\n", o.values["device"], recoveryID(nic))
		return 1, nil
	}
	switch o.args[0] {
	case "q", "query":
		return c.run(nic.Key, "query", func() (int, error) { return c.resetQuery(nic) })
	case "r", "reset":
		return c.reset(nic, o)
	}
	return c.fail(2, "usage: mstfwreset -d DEVICE [OPTIONS] COMMAND\nmstfwreset: error: invalid command: %s\n", o.args[0])
}

func (c *call) resetQuery(n NIC) (int, error) {
	c.printf("Reset-levels:\n")
	c.resetOptions(resetLevels(n))
	c.printf("\nReset-types (relevant only for reset-levels 1,3,4):\n")
	c.resetOptions(resetTypes())
	c.printf("\n\nReset-sync (relevant only for reset-level 3):\n")
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
	if o.has("level") {
		asked, err := strconv.Atoi(o.values["level"])
		if err != nil {
			return c.fail(2, "mstfwreset: error: argument --level/-l: invalid choice: %s\n", o.values["level"])
		}
		level = asked
	}
	if t := o.values["type"]; t != "" && t != "0" {
		c.printf("-E- Reset-type '%s' is not supported in the current state of this device.\n", t)
		return 1, nil
	}
	description := ""
	for _, l := range resetLevels(n) {
		if l.number == level && l.supported {
			description = l.description
		}
	}
	if description == "" {
		c.printf("-E- Reset-level '%d' is not supported in the current state of this device.\n", level)
		return 1, nil
	}
	c.printf("The reset level for device, %s is:\n\n%d: %s\nContinue with reset?[y/N] ", o.values["device"], level, description)
	if !o.has("yes") {
		c.printf("-I- Operation aborted.\n")
		return 0, nil
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

// resetCard resets the card: its driver goes away, its links go down and come back up.
func (c *call) resetCard(n NIC) (int, error) {
	down, err := c.m.strike(c.tool, n.Key, "reset", LinkDown)
	gone, err2 := c.m.strike(c.tool, n.Key, "reset", NoReturn)
	s, err3 := c.m.view()
	if err := errors.Join(err, err2, err3); err != nil {
		return 0, err
	}
	c.printf("-I- %-40s-Done\n-I- %-40s-Done\n", "Sending Reset Command To Fw", "Stopping Driver")
	err = c.do(job{
		op:    Operation{Device: n.Key, Action: "Reset"},
		takes: s.Spec.ResetTime,
		begin: func(s *state) { s.NICs[n.Key].LinkDown = true },
		finish: func(s *state) {
			s.NICs[n.Key].activate(down != nil)
			if gone != nil {
				s.Lost[n.Key] = Reboot
			}
		},
	})
	if errors.Is(err, errBusy) {
		c.printf("-E- Device is busy, a firmware update is in progress.\n")
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	if gone != nil {
		c.printf("-I- %-40s-", "Resetting PCI")
		c.printf("\n-E- The PCI link of device %s.0 is down, the device was not restored. Reboot the machine.\n", n.Slot)
		return 1, nil
	}
	for _, step := range []string{"Resetting PCI", "Starting Driver", "Restarting MST"} {
		c.printf("-I- %-40s-Done\n", step)
	}
	c.printf("-I- FW was loaded successfully.\n")
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
