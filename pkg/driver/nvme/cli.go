package nvme

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// cli is the transport through nvme-cli 2.x.
type cli struct{ runner command.Runner }

func (t cli) usable() error { return command.Installed(t.runner, tool) }

func (t cli) read(ctx context.Context, node string) (controller, slotLog, error) {
	device := "/dev/" + node
	c, err := ask(ctx, t.runner, cliIdentify(device), parseController)
	if err != nil {
		return controller{}, slotLog{}, fmt.Errorf("identify %s: %w", device, err)
	}
	l, err := ask(ctx, t.runner, cliSlotLog(device), parseSlotLog)
	if err = c.doesWithout(err); err != nil {
		return controller{}, slotLog{}, fmt.Errorf("read firmware slots of %s: %w", device, err)
	}
	return c, l, nil
}

func (t cli) powerOnHours(ctx context.Context, node string) (int64, error) {
	device := "/dev/" + node
	hours, err := ask(ctx, t.runner, cliHealthLog(device), parsePowerOnHours)
	if err != nil {
		return 0, fmt.Errorf("read health log of %s: %w", device, err)
	}
	return hours, nil
}

func ask[T any](ctx context.Context, runner command.Runner, c command.Command, parse func([]byte) (T, error)) (T, error) {
	var none T
	r, err := runner.Run(ctx, c)
	if err != nil {
		return none, err
	}
	if r.ExitCode != 0 {
		err := errors.New("query failed")
		if status, found := parseStatus(string(r.Stderr)); found {
			err = &admin.StatusError{Operation: "query", Status: status}
		}
		return none, command.Failed(c, r, err)
	}
	v, err := parse(r.Stdout)
	if err != nil {
		return none, command.Failed(c, r, err)
	}
	return v, nil
}

func (t cli) download(ctx context.Context, to target, img driver.Image, slot int, progress driver.Progress) (answer, error) {
	c := img.HeldFor(cliDownload(to.path(), img.Path, to.lock, to.controller.UpdateGranularityKB<<10, progress))
	if err := t.transfer(ctx, c); err != nil {
		return answer{}, fmt.Errorf("download firmware to %s: %w", to.path(), err)
	}
	return t.commit(ctx, to, slot, admin.ReplaceAtReset)
}

func (t cli) transfer(ctx context.Context, c command.Command) error {
	r, err := t.runner.Run(ctx, c)
	if err != nil || r.ExitCode == 0 {
		return err
	}
	if status, found := parseStatus(string(r.Stderr)); found {
		return answer{status, c, r}.refusal()
	}
	return command.Failed(c, r, errors.New("the drive did not take the image"))
}

func (t cli) commit(ctx context.Context, to target, slot int, action admin.Action) (answer, error) {
	c := cliCommit(to.path(), to.lock, slot, action)
	r, err := t.runner.Run(ctx, c)
	if err != nil {
		return answer{}, err
	}
	status, err := parseCommit(c, r)
	return answer{status, c, r}, err
}

func (t cli) sanitizeLog(ctx context.Context, node string) (admin.SanitizeLog, error) {
	device := "/dev/" + node
	log, err := ask(ctx, t.runner, cliSanitizeLog(device), parseSanitizeLog)
	if err != nil {
		return admin.SanitizeLog{}, fmt.Errorf("read sanitize log of %s: %w", device, err)
	}
	return log, nil
}

func (t cli) sanitize(ctx context.Context, to target, action admin.SanitizeAction) (answer, error) {
	c := cliSanitize(to.path(), to.lock, action)
	r, err := t.runner.Run(ctx, c)
	if err != nil {
		return answer{}, err
	}
	if status, found := parseStatus(string(r.Stderr)); found {
		return answer{status, c, r}, nil
	}
	if r.ExitCode != 0 {
		return answer{}, command.Failed(c, r, errors.New("the drive did not answer"))
	}
	return answer{admin.Success, c, r}, nil
}

func (t cli) reset(ctx context.Context, to target) error {
	c := cliReset(to.path(), to.lock)
	r, err := t.runner.Run(ctx, c)
	if err == nil && r.ExitCode != 0 {
		err = command.Failed(c, r, errors.New("controller reset failed"))
	}
	return err
}

const tool = "nvme"

// cliIdentify reads the controller itself. sysfs and "nvme list" show what the kernel read when it first saw the drive.
func cliIdentify(device string) command.Command {
	return command.Command{Argv: []string{tool, "id-ctrl", device, "-o", "json"}}
}

// cliSlotLog reads the Firmware Slot Information log.
func cliSlotLog(device string) command.Command {
	return command.Command{Argv: []string{tool, "fw-log", device, "-o", "json"}}
}

// cliHealthLog reads the SMART / Health Information log.
func cliHealthLog(device string) command.Command {
	return command.Command{Argv: []string{tool, "smart-log", device, "-o", "json"}}
}

// cliSanitizeLog reads the Sanitize Status log.
func cliSanitizeLog(device string) command.Command {
	return command.Command{Argv: []string{tool, "sanitize-log", device, "-o", "json"}}
}

// cliSanitize begins a sanitize operation that may be left without another one if it fails.
func cliSanitize(device, lock string, action admin.SanitizeAction) command.Command {
	argv := []string{tool, "sanitize", device, "--sanact=" + strconv.Itoa(int(action)), "--ause"}
	if action == admin.Overwrite {
		argv = append(argv, "--owpass=1")
	}
	return command.Command{Argv: argv, Kind: command.Write, Lock: lock}
}

// cliDownload transfers an image to the drive's buffer, in pieces of the size the drive asks for.
func cliDownload(device, path, lock string, granularity int, progress driver.Progress) command.Command {
	argv := []string{tool, "fw-download", device, "--fw=" + path, "--progress"}
	if granularity > 0 {
		argv = append(argv, "--xfer="+strconv.Itoa(granularity))
	}
	return command.Command{Argv: argv, Kind: command.Write, Lock: lock, Progress: progress.Lines(driver.Percentage)}
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

var (
	statusValue = regexp.MustCompile(`(?i)NVMe status: .*\((?:0x)?([0-9a-f]+)\)`)
	needsReset  = regexp.MustCompile(`but firmware requires (.+) reset`)
)

func parseController(out []byte) (controller, error) {
	var raw struct {
		VID  *uint16 `json:"vid"`
		SN   *string `json:"sn"`
		MN   *string `json:"mn"`
		FR   *string `json:"fr"`
		OACS *uint16 `json:"oacs"`
		FRMW *uint8  `json:"frmw"`
		CMIC uint8   `json:"cmic"`
		MDTS uint8   `json:"mdts"`
		FWUG uint8   `json:"fwug"`
		MTFA uint16  `json:"mtfa"`

		SANICAP uint32 `json:"sanicap"`
		FNA     uint8  `json:"fna"`
	}
	if err := json.Unmarshal(out, &raw); err != nil {
		return controller{}, fmt.Errorf("parse id-ctrl: %w", err)
	}
	if raw.VID == nil || raw.SN == nil || raw.MN == nil || raw.FR == nil || raw.OACS == nil || raw.FRMW == nil {
		return controller{}, errors.New("parse id-ctrl: vid, sn, mn, fr, oacs or frmw is missing: nvme-cli 2.x is needed")
	}
	return newController(admin.Identification{
		VendorID: *raw.VID, Serial: strings.TrimSpace(*raw.SN), Model: strings.TrimSpace(*raw.MN), Revision: *raw.FR,
		OACS: *raw.OACS, FRMW: *raw.FRMW, CMIC: raw.CMIC, MDTS: raw.MDTS, FWUG: raw.FWUG, MTFA: time.Duration(raw.MTFA) * admin.MTFAUnit,
		SANICAP: raw.SANICAP, FNA: raw.FNA,
	})
}

// parsePowerOnHours reads the count of hours in the output of nvme smart-log: a number of 16 bytes, which early releases of nvme-cli 2
// print with a fraction of 0.
func parsePowerOnHours(out []byte) (int64, error) {
	var raw struct {
		Hours *json.Number `json:"power_on_hours"`
	}
	if err := json.Unmarshal(out, &raw); err != nil {
		return 0, fmt.Errorf("parse smart-log: %w", err)
	}
	if raw.Hours == nil {
		return 0, errors.New("parse smart-log: power_on_hours is missing")
	}
	hours, err := strconv.ParseInt(strings.TrimSuffix(raw.Hours.String(), ".0"), 10, 64)
	if err != nil || hours < 0 || hours > inventory.MostPowerOnHours {
		return 0, fmt.Errorf("parse smart-log: power_on_hours is no such count: %.64s", raw.Hours)
	}
	return hours, nil
}

// parseSanitizeLog reads the output of nvme sanitize-log, an object under the name of the device. The status is a number in parentheses and
// its text; global_erased is the bit of SSTAT, in its place or as 1.
func parseSanitizeLog(out []byte) (admin.SanitizeLog, error) {
	var devices map[string]struct {
		Progress *uint16 `json:"sprog"`
		Command  *uint32 `json:"cdw10_info"`
		Status   *struct {
			Global *uint16 `json:"global_erased"`
			Text   string  `json:"status"`
		} `json:"sstat"`
	}
	if err := json.Unmarshal(out, &devices); err != nil {
		return admin.SanitizeLog{}, fmt.Errorf("parse sanitize-log: %w", err)
	}
	if len(devices) != 1 {
		return admin.SanitizeLog{}, fmt.Errorf("parse sanitize-log: %d devices instead of one", len(devices))
	}
	for _, d := range devices {
		if d.Progress == nil || d.Command == nil || d.Status == nil || d.Status.Global == nil {
			break
		}
		number := sanitizeStatus.FindStringSubmatch(d.Status.Text)
		if number == nil || *d.Status.Global&^0x101 != 0 {
			return admin.SanitizeLog{}, fmt.Errorf("parse sanitize-log: no such status: %.64q, global_erased %d", d.Status.Text, *d.Status.Global)
		}
		status, err := strconv.ParseUint(number[1], 10, 3)
		if err != nil {
			return admin.SanitizeLog{}, fmt.Errorf("parse sanitize-log: status: %w", err)
		}
		if *d.Status.Global != 0 {
			status |= 1 << 8
		}
		return admin.NewSanitizeLog(*d.Progress, uint16(status), *d.Command)
	}
	return admin.SanitizeLog{}, errors.New("parse sanitize-log: sprog, cdw10_info or sstat is missing: nvme-cli 2.x is needed")
}

var sanitizeStatus = regexp.MustCompile(`^\((\d+)\)`)

// parseSlotLog reads the output of nvme fw-log. It is one object under the name of the device. A revision is printed as
// the number its eight bytes make in little-endian order, and as text in which nvme-cli replaced blanks by dots. Only the
// number is exact.
func parseSlotLog(out []byte) (slotLog, error) {
	var devices map[string]map[string]json.RawMessage
	if err := json.Unmarshal(out, &devices); err != nil {
		return slotLog{}, fmt.Errorf("parse fw-log: %w", err)
	}
	if len(devices) != 1 {
		return slotLog{}, fmt.Errorf("parse fw-log: %d devices instead of one", len(devices))
	}
	log, found := slotLog{Revisions: map[int]inventory.Version{}}, false
	for _, fields := range devices {
		for key, value := range fields {
			if key == "Active Firmware Slot (afi)" {
				var afi uint8
				if err := json.Unmarshal(value, &afi); err != nil {
					return slotLog{}, fmt.Errorf("parse fw-log: active slot: %w", err)
				}
				log.setActive(afi)
				found = true
				continue
			}
			digits, ok := strings.CutPrefix(key, "Firmware Rev Slot ")
			if !ok {
				continue
			}
			slot, err := strconv.Atoi(digits)
			if err != nil || slot < 1 || slot > admin.MaxSlots {
				return slotLog{}, fmt.Errorf("parse fw-log: unknown slot %q", key)
			}
			revision, err := parseRevision(value)
			if err != nil {
				return slotLog{}, fmt.Errorf("parse fw-log: %s: %w", key, err)
			}
			log.Revisions[slot] = revision
		}
	}
	if !found {
		return slotLog{}, errors.New("parse fw-log: the active slot is missing")
	}
	return log, nil
}

func parseRevision(value json.RawMessage) (inventory.Version, error) {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return "", err
	}
	number, _, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return "", fmt.Errorf("want a number and the text in parentheses: %q", text)
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	revision := inventory.NormalizeVersion(string(b[:]))
	for _, c := range []byte(revision) {
		if c < ' ' || c > '~' {
			return "", nil // it is unknown in this slot alone
		}
	}
	return revision, nil
}

// parseStatus finds the status the drive answered with in what nvme-cli printed.
func parseStatus(text string) (status admin.Status, found bool) {
	m := statusValue.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseUint(m[1], 16, 16)
	return admin.CleanStatus(n), err == nil
}

// parseCommit reads the output of nvme fw-commit. The exit code alone is misleading: a commit that succeeded and needs more
// than a controller reset exits with 1.
func parseCommit(c command.Command, r command.Result) (admin.Status, error) {
	text := string(r.Stdout) + "\n" + string(r.Stderr)
	if m := needsReset.FindStringSubmatch(text); m != nil {
		switch m[1] {
		case "any controller":
			return admin.NeedsControllerReset, nil
		case "conventional":
			return admin.NeedsConventionalReset, nil
		case "subsystem":
			return admin.NeedsSubsystemReset, nil
		}
		return 0, command.Failed(c, r, errors.New("the drive asks for a kind of reset that nvme-cli does not name"))
	}
	if status, found := parseStatus(text); found {
		return status, nil
	}
	if r.ExitCode == 0 && strings.Contains(text, "Success committing firmware") {
		return admin.Success, nil
	}
	return 0, command.Failed(c, r, errors.New("commit firmware failed"))
}
