package scsi

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

var _ driver.Eraser = (*Driver)(nil)

// action is a service action of SANITIZE (SBC-4, 5.30).
type action byte

// The service actions.
const (
	actionOverwrite action = 0x01
	actionBlock     action = 0x02
	actionCrypto    action = 0x03
	// actionExit ends the state of a sanitize that failed, if that was begun with AUSE.
	actionExit action = 0x1f
)

// actions are those of the methods.
var actions = map[driver.EraseMethod]action{
	driver.EraseCrypto: actionCrypto, driver.EraseBlock: actionBlock, driver.EraseOverwrite: actionOverwrite,
}

// Erasure reads which service actions of SANITIZE the drive supports, and its sense data: a drive reports a sanitize only while it runs and where it
// failed. One that answers nothing about its commands meanwhile has no methods in that time.
func (d *Driver) Erasure(ctx context.Context, id inventory.Identity) (driver.Erasure, error) {
	s, err := d.isDrive(ctx, id)
	if err != nil {
		return driver.Erasure{}, err
	}
	e := driver.Erasure{By: "SCSI sanitize", NoLog: true}
	if e.Otherwise = translated[s.Vendor]; e.Otherwise != "" {
		return e, nil
	}
	missing := d.missing()
	if slices.Contains(missing, senseTool) {
		return driver.Erasure{}, fmt.Errorf("%s is missing on this host, so that it cannot be told whether %s erases itself", senseTool, device(id))
	}
	now, err := d.sense(ctx, device(id))
	if err != nil {
		return driver.Erasure{}, err
	}
	switch e.Report = now.String(); {
	case now.additional == senseSanitizing:
		e.State, e.Percent = driver.EraseRunning, now.Progress*100>>16
		return e, nil
	case now.additional == senseSanitizeFailed:
		e.State, e.LeaveBy = driver.EraseFailed, leave(device(id))
		return e, nil
	case now.Key != keyNoSense && now.Key != keyRecovered:
		return driver.Erasure{}, fmt.Errorf("%s is not ready, and does not say whether it erases itself (%s)", device(id), now)
	}
	if len(missing) > 0 {
		e.Otherwise = strings.Join(missing, ", ") + " is missing on this host"
		return e, nil
	}
	if e.Methods, e.Otherwise, err = d.eraseMethods(ctx, device(id)); err != nil || len(e.Methods) == 0 {
		return e, err
	}
	e.Shared, err = d.shared(ctx, device(id))
	return e, err
}

// Erase sends one SANITIZE command, which returns once the drive has begun. It is not sent again after a unit attention, which may mean that another
// drive answers by now, or that another host has registered.
func (d *Driver) Erase(ctx context.Context, id inventory.Identity, method driver.EraseMethod) error {
	e, err := d.Erasure(ctx, id)
	switch {
	case err != nil:
		return notErased("%v", err)
	case e.State == driver.EraseRunning:
		return notErased("the drive is being sanitized already, which this job did not begin")
	case len(e.Methods) == 0 && e.Otherwise != "":
		return notErased("%s", e.Otherwise)
	case !slices.Contains(e.Methods, method):
		return notErased("the drive offers no sanitize by %s", method)
	case e.Shared != "":
		return notErased("%s, and all of it would be erased", e.Shared)
	}
	exits, err := ask(ctx, d, offers(device(id), actionExit), parseOffer)
	if err != nil && !unsupported(err) {
		return notErased("ask %s for the exit of a failed sanitize: %v", device(id), err)
	}
	s, err := d.isDrive(ctx, id)
	if err != nil {
		return notErased("%v", err)
	}
	c := sanitize(device(id), unique(s, id), actions[method], exits)
	r, err := d.once(ctx, c)
	switch {
	case err != nil:
		return fmt.Errorf("sanitize %s: %w", device(id), err)
	case r.ExitCode == 0:
		return nil
	case r.ExitCode == exitUnitAttention:
		return notErased("sanitize %s: the drive was reset or changed just then (unit attention), and did not begin: find out by whom, then request the step again",
			device(id))
	case slices.Contains(refusals, r.ExitCode):
		return notErased("sanitize %s: %v", device(id), classify(c, r))
	}
	return fmt.Errorf("sanitize %s: %w", device(id), classify(c, r))
}

// missing are the tools for an erasure alone that this host lacks or must not run.
func (d *Driver) missing() []string {
	return slices.DeleteFunc(slices.Clone(erases), func(tool string) bool { return command.Installed(d.runner, tool) == nil })
}

// senseTool reads how a drive stands.
const senseTool = "sg_requests"

// leave is the command by which a person ends the state of a sanitize that failed.
func leave(device string) string { return "sg_sanitize --fail " + device }

// refusals are exit codes after which the drive has begun nothing: it ended the command with a status or a sense key that says so, or the tool sent none.
var refusals = []int{
	exitSyntax, exitNotReady, exitIllegalRequest, exitDataProtect, exitInvalidOpcode, exitFile, exitIllegalWithInfo, exitParameter,
	exitReservation, exitBusy, exitTaskSetFull, exitContradiction,
}

func notErased(format string, args ...any) error {
	return &driver.RejectedError{Of: "erasure", Reason: fmt.Sprintf(format, args...)}
}

// isDrive reads who the drive is, and fails where that is not the drive which is meant. What is to be erased has a serial number.
func (d *Driver) isDrive(ctx context.Context, id inventory.Identity) (s state, err error) {
	if id.Node == "" {
		return s, fmt.Errorf("find drive %s: the kernel has no device for it", id.UniqueID)
	}
	if s.inquiry, err = ask(ctx, d, standardInquiry(device(id)), parseInquiry); err != nil {
		return s, fmt.Errorf("inquire %s: %w", device(id), err)
	}
	s.Serial, err = ask(ctx, d, serialPage(device(id)), parseSerial)
	switch {
	case err != nil:
		return s, fmt.Errorf("read serial number of %s: %w", device(id), err)
	case s.Serial == "" || s.Serial != id.SerialNumber || s.Model != id.Model:
		return s, fmt.Errorf("%s is another drive now, %s with the serial number %q", device(id), s.Model, s.Serial)
	}
	return s, nil
}

// translated says why a drive is not erased that takes no SCSI commands itself, by the vendor of the INQUIRY data that its controller makes up (SAT-4,
// 8.1; NVM Express: SCSI Translation Reference).
var translated = map[string]string{
	"ATA":  "it is a SATA drive behind a controller that translates commands, which may not carry out SANITIZE as the standard has it",
	"NVMe": "it is an NVMe drive behind a controller that translates commands, which may not carry out SANITIZE as the standard has it",
}

// mostAttentions bounds how many unit attentions, which hide everything else, a drive may report one after the other.
const mostAttentions = 8

// sense reads what the drive says of its state when nobody asks for anything.
func (d *Driver) sense(ctx context.Context, device string) (sense, error) {
	var now sense
	for range mostAttentions {
		var err error
		if now, err = ask(ctx, d, requestSense(device), parseSense); err != nil {
			return sense{}, fmt.Errorf("read sense data of %s: %w", device, err)
		}
		if now.Key != keyUnitAttention {
			return now, nil
		}
	}
	return sense{}, fmt.Errorf("%s reports one unit attention after another (%s): find out who resets it and try again", device, now)
}

// eraseMethods lists the methods that purge the drive and after which its samples can be read, or says why there are none.
func (d *Driver) eraseMethods(ctx context.Context, device string) (methods []driver.EraseMethod, otherwise string, err error) {
	is, err := optional(ctx, d, characteristicsPage(device), parseCharacteristics)
	if err != nil {
		return nil, "", fmt.Errorf("read block device characteristics of %s: %w", device, err)
	}
	silent := 0
	for _, method := range driver.EraseMethods() {
		takes, err := ask(ctx, d, offers(device, actions[method]), parseOffer)
		switch {
		case unsupported(err):
			silent++
		case err != nil:
			return nil, "", fmt.Errorf("ask %s for SANITIZE: %w", device, err)
		case takes && is.Solid && method == driver.EraseOverwrite:
			otherwise = "it has no medium that rotates, and overwriting others is no purge by NIST SP 800-88"
		case takes && is.unreadable(method):
			otherwise = "after its own erasure it gives no data before all of it is written (WABEREQ, WACEREQ), so that nothing would show what became of them"
		case takes:
			methods = append(methods, method)
		}
	}
	if silent == len(driver.EraseMethods()) {
		otherwise = "it does not answer which commands it knows (REPORT SUPPORTED OPERATION CODES), so that it cannot be told whether it knows SANITIZE"
	}
	if len(methods) > 0 {
		otherwise = ""
	}
	return methods, otherwise, nil
}

// shared says why something else than this host may use the drive. A second port alone says nothing: most SAS drives have one that is not connected.
// Registered keys do, whoever registered them. An erasure of one of several logical units, such as of a drive with two actuators, may reach the others.
func (d *Driver) shared(ctx context.Context, device string) (string, error) {
	units, err := ask(ctx, d, reportLUNs(device), parseLUNs)
	if err != nil {
		return "", fmt.Errorf("read the logical units of %s: %w", device, err)
	}
	if units != 1 {
		return fmt.Sprintf("the drive has %d logical units (REPORT LUNS), and an erasure of one may reach the others", units), nil
	}
	keys, err := optional(ctx, d, readKeys(device), parseKeys)
	if err != nil {
		return "", fmt.Errorf("read the reservation keys of %s: %w", device, err)
	}
	if keys != 0 {
		return fmt.Sprintf("the drive has %d keys for persistent reservations, so other hosts may use it; let whoever registered them clear them", keys), nil
	}
	return "", nil
}

// parseOffer parses the answer of REPORT SUPPORTED OPERATION CODES for a service action of SANITIZE. What is not as the standard has it counts as
// not supported, and so does what reaches other logical units.
func parseOffer(out []byte) (bool, error) {
	const length = 10
	if len(out) < 4 || out[0] != 0 {
		return false, errors.New("parse supported operation codes: this is not the answer for one command")
	}
	switch out[1] & 7 {
	case supportUnsupported, supportVendor:
		return false, nil
	case supportStandard:
	default:
		return false, fmt.Errorf("parse supported operation codes: the drive cannot report it now (%d)", out[1]&7)
	}
	if n := int(binary.BigEndian.Uint16(out[2:])); n != length || len(out) < 4+length || out[4] != sanitizeCode {
		return false, errors.New("parse supported operation codes: this is not SANITIZE")
	}
	return out[1]>>5&3 <= affectsOne, nil
}

const (
	// sanitizeCode is the operation code.
	sanitizeCode = 0x48
	// affectsOne is the MLU of a command that reaches the addressed logical unit alone; 0 is that of a drive which does not say (SPC-6, 6.29.3).
	affectsOne = 1
)

// characteristics are those of the page of that name which an erasure goes by (SBC-4, 6.6.2). The zero value is that of a drive without the page.
type characteristics struct {
	// Solid says that the medium does not rotate (MEDIUM ROTATION RATE).
	Solid bool
	// Block and Crypto are how the drive reads what it erased and nobody wrote since (WABEREQ, WACEREQ); 0 where it does not say.
	Block, Crypto byte
}

// failsReads is the lowest value with which reads end in an error; those below give data.
const failsReads = 2

func (c characteristics) unreadable(m driver.EraseMethod) bool {
	return m == driver.EraseBlock && c.Block >= failsReads || m == driver.EraseCrypto && c.Crypto >= failsReads
}

func parseCharacteristics(out []byte) (characteristics, error) {
	if len(out) < 8 || out[1] != 0xb1 {
		return characteristics{}, errors.New("parse block device characteristics: this is not the page 0xb1")
	}
	return characteristics{Solid: binary.BigEndian.Uint16(out[4:]) == 1, Block: out[7] >> 6, Crypto: out[7] >> 4 & 3}, nil
}

// parseLUNs counts the logical units of REPORT LUNS (SPC-5, 6.33).
func parseLUNs(out []byte) (int, error) {
	const header, unit = 8, 8
	if len(out) < header+unit {
		return 0, fmt.Errorf("parse logical units: %d bytes instead of %d", len(out), header+unit)
	}
	length := int64(binary.BigEndian.Uint32(out))
	if length%unit != 0 || length < unit || int64(len(out)) < header+min(length, 1<<12) {
		return 0, fmt.Errorf("parse logical units: a list of %d bytes", length)
	}
	return int(length / unit), nil
}

// parseKeys counts the keys of READ KEYS (SPC-5, 6.16.2), which the tool prints as hexadecimal bytes.
func parseKeys(out []byte) (int, error) {
	const header, key = 8, 8
	data, err := hex.DecodeString(string(bytes.Join(bytes.Fields(out), nil)))
	if err != nil || len(data) < header {
		return 0, errors.New("parse reservation keys: these are none")
	}
	length := int64(binary.BigEndian.Uint32(data[4:]))
	if length%key != 0 {
		return 0, fmt.Errorf("parse reservation keys: a list of %d bytes", length)
	}
	return int(length / key), nil
}

// requestSense reads the sense data that a drive has for whoever asks.
func requestSense(device string) command.Command {
	return command.Command{Argv: []string{"sg_requests", "--raw", device}}
}

// characteristicsPage reads the Block Device Characteristics page.
func characteristicsPage(device string) command.Command {
	return command.Command{Argv: []string{"sg_inq", "--raw", "--page=0xb1", device}}
}

// offers asks whether the drive takes a service action of SANITIZE.
func offers(device string, a action) command.Command {
	return command.Command{Argv: []string{"sg_opcodes", "--raw", fmt.Sprintf("--opcode=0x%02x,0x%02x", sanitizeCode, byte(a)), device}}
}

// reportLUNs lists the logical units of the drive.
func reportLUNs(device string) command.Command {
	return command.Command{Argv: []string{"sg_luns", "--raw", device}}
}

// readKeys lists the keys for persistent reservations.
func readKeys(device string) command.Command {
	return command.Command{Argv: []string{"sg_persist", "--no-inquiry", "--in", "--read-keys", "-HHH", device}}
}

// sanitize begins a sanitize: --early sends IMMED, with which the drive answers once it has begun, and --quick does without the tool's 15 seconds in
// which a person may think again. An overwrite writes zeros, once.
func sanitize(device, lock string, a action, exits bool) command.Command {
	argv := []string{"sg_sanitize", "-v", "--quick", "--early", "--timeout=" + strconv.Itoa(commandTimeout)}
	argv = append(argv, strings.Fields(map[action]string{
		actionCrypto: "--crypto", actionBlock: "--block", actionOverwrite: "--overwrite --zero",
	}[a])...)
	if exits {
		argv = append(argv, "--ause")
	}
	return command.Command{Argv: append(argv, device), Kind: command.Write, Lock: lock}
}
