package simhost

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// resetCard resets the card: its driver goes away, its links go down and come back up. The order is that of the real tool, which
// removes all virtual functions first, and notices only then what keeps it from going on.
func (c *call) resetCard(n NIC) (int, error) {
	down, err := c.m.strike(c.tool, n.Key, "reset", LinkDown)
	err2 := c.m.update(func(s *state) error { s.NICs[n.Key].VFs = 0; return nil })
	s, err3 := c.m.view()
	if err := errors.Join(err, err2, err3); err != nil {
		return 0, err
	}
	if n.Foreign != "" {
		c.printf("-E- mlxfwreset doesn't support 3rd party driver (%s)!\nPlease, stop the driver manually and resume operation with --skip_driver.\n",
			n.Foreign)
		return 1, nil
	}
	if !c.installed("setpci") {
		c.printf("Failed\n-E- failed to run 'setpci -s %s 0x0.w'.\n", rootPort(n.Slot))
		return 1, nil
	}
	c.printf("-I- %-40s-Done\n", "Sending Reset Command To Fw")
	switch {
	case !c.installed("lspci"):
		c.printf("Failed\n-E- failed to execute: lspci -s %s: -D.\n", strings.TrimSuffix(n.Slot, ":00"))
		return 1, nil
	case n.MultiHost:
		c.printf("Waiting for mstfwreset to run on all other hosts, press 'ctrl+c' to abort\nFailed\n-E- fsm sync timed out.\n")
		return 1, nil
	}
	c.printf("-I- %-40s-Done\n", "Stopping Driver")
	err = c.do(job{
		op:    Operation{Device: n.Key, Action: "Reset"},
		takes: s.Spec.ResetTime,
		begin: func(s *state) { s.NICs[n.Key].LinkDown = true },
		finish: func(s *state) {
			fw := s.NICs[n.Key]
			switch {
			case fw.Mode == DPUMode, n.Second != nil:
				// What else drives the card was not stopped: it goes on with the old firmware, without links.
			default:
				fw.activate(down != nil)
				if !n.ColdSettings {
					fw.loadNV()
				}
			}
			fw.settle(n, 0)
		},
	})
	if errors.Is(err, errBusy) {
		c.printf("-E- Device is busy, a firmware update is in progress.\n")
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	for _, step := range []string{"Resetting PCI", "Starting Driver"} {
		c.printf("-I- %-40s-Done\n", step)
	}
	if s.NICs[n.Key].Mode == DPUMode || n.Second != nil {
		c.printf("-E- Firmware reset failed, retry operation or reboot machine.\n")
		return 1, nil
	}
	c.printf("-I- FW was loaded successfully.\n")
	return 0, nil
}

// installed reports whether the machine has a tool.
func (c *call) installed(tool string) bool {
	_, err := os.Stat(filepath.Join(c.m.ToolPath(), tool))
	return err == nil
}
