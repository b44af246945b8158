package nvme

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Command specific status values of Firmware Commit and Firmware Image Download (NVMe Base Specification 2.0, figures
// 179 and 183), with the status code type in bits 10:8.
const (
	statusInvalidSlot       = 0x106
	statusInvalidImage      = 0x107
	statusConventionalReset = 0x10b
	statusSubsystemReset    = 0x110
	statusControllerReset   = 0x111
	statusMaximumTime       = 0x112
	statusProhibited        = 0x113
	statusOverlapping       = 0x114
)

var (
	statusValue = regexp.MustCompile(`(?i)NVMe status: .*\((?:0x)?([0-9a-f]+)\)`)
	needsReset  = regexp.MustCompile(`but firmware requires (.+) reset`)
	percentage  = regexp.MustCompile(`(\d{1,3})%`)
)

// parseStatus finds the status the drive answered with in what nvme-cli printed, without the More and Do Not Retry bits.
func parseStatus(text string) (status int, found bool) {
	m := statusValue.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseUint(m[1], 16, 16)
	return int(n) & 0x7ff, err == nil
}

// parseCommit reads what nvme fw-commit says. Its exit code alone lies: a commit that needs a reset other than a
// controller's is a success and exits with 1.
func parseCommit(c command.Command, r command.Result) (inventory.Activation, error) {
	text := string(r.Stdout) + "\n" + string(r.Stderr)
	if m := needsReset.FindStringSubmatch(text); m != nil {
		switch m[1] {
		case "any controller":
			return inventory.ActivateDeviceReset, nil
		case "conventional", "subsystem":
			return inventory.ActivateReboot, nil
		}
		return 0, command.Failed(c, r, errors.New("the drive asks for a kind of reset nvme-cli does not know"))
	}
	if status, found := parseStatus(text); found {
		return classify(status, c, r)
	}
	if r.ExitCode == 0 && strings.Contains(text, "Success committing firmware") {
		return inventory.ActivateDeviceReset, nil
	}
	return 0, command.Failed(c, r, errors.New("commit firmware failed"))
}

func classify(status int, c command.Command, r command.Result) (inventory.Activation, error) {
	fail := func(text string) error { return command.Failed(c, r, errors.New(text)) }
	switch status {
	case statusControllerReset:
		return inventory.ActivateDeviceReset, nil
	case statusConventionalReset, statusSubsystemReset:
		return inventory.ActivateReboot, nil
	case statusInvalidImage:
		return 0, driver.Rejectf("the drive does not accept the image: it is damaged or for another model")
	case statusProhibited:
		return 0, driver.Rejectf("the drive prohibits this image, as a downgrade or by its security policy")
	case statusInvalidSlot:
		return 0, fail("the drive refuses the slot")
	case statusMaximumTime:
		return 0, fail("the drive cannot activate this image in the time it declares: power-cycle the node and try again")
	case statusOverlapping:
		return 0, fail("another program is updating the drive: end it and try again")
	}
	return 0, fail("the drive failed the command")
}

// downloadProgress turns nvme-cli's progress, which redraws one line, into percentages. The commit is the last percent.
func downloadProgress(progress driver.Progress) func(line string) {
	if progress == nil {
		return nil
	}
	highest := -1
	return func(line string) {
		m := percentage.FindStringSubmatch(line)
		if m == nil {
			return
		}
		if n, err := strconv.Atoi(m[1]); err == nil && n > highest && n < 100 {
			highest = n
			progress(n)
		}
	}
}
