package scsi

import (
	"fmt"
	"strconv"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// commandTimeout bounds one WRITE BUFFER command, in seconds. The kernel aborts a command at its timeout, and a drive
// must not be disturbed while it writes its flash: the tool's own five minutes may be too short. It stays below the
// half hour after which a write without output counts as overdue.
const commandTimeout = 1200

// standardInquiry reads the first 36 bytes of the standard INQUIRY data. sysfs only shows what the kernel read when it
// found the drive. The raw bytes are read because the text output of sg_inq changes between releases.
func standardInquiry(device string) command.Command {
	return command.Command{Argv: []string{"sg_inq", "--raw", "--maxlen=" + strconv.Itoa(inquiryLength), device}}
}

// serialPage reads the Unit Serial Number page.
func serialPage(device string) command.Command {
	return command.Command{Argv: []string{"sg_inq", "--raw", "--page=0x80", device}}
}

// extendedPage reads the Extended INQUIRY Data page.
func extendedPage(device string) command.Command {
	return command.Command{Argv: []string{"sg_inq", "--raw", "--page=0x86", device}}
}

// descriptor reads the READ BUFFER descriptor of the buffer that microcode is written to.
func descriptor(device string) command.Command {
	return command.Command{Argv: []string{"sg_read_buffer", "--mode=desc", "--length=" + strconv.Itoa(descriptorLength), "--raw", device}}
}

// supportsAny asks whether the drive takes WRITE BUFFER at all. A drive that knows no service actions of the command answers
// this alone.
func supportsAny(device string) command.Command {
	return command.Command{Argv: []string{"sg_opcodes", "--raw", "--opcode=0x3b", device}}
}

// supports asks whether the drive takes WRITE BUFFER in the mode, which REPORT SUPPORTED OPERATION CODES knows as a
// service action.
func supports(device string, m mode) command.Command {
	return command.Command{Argv: []string{"sg_opcodes", "--raw", fmt.Sprintf("--opcode=0x3b,0x%02x", byte(m)), device}}
}

// transfer is how an image is sent: the mode, its mode-specific field (0 to 7), and how many bytes one command carries.
type transfer struct {
	mode            mode
	specific, piece int
}

// download transfers an image in pieces. Without --length the tool reads at most 8 MiB. Only with -v does it print the
// sense data of a refusal, and a line for each piece, which shows that it is making progress.
func download(device, path, lock string, size int64, t transfer) command.Command {
	argv := []string{"sg_write_buffer", "-v", "--mode=" + t.mode.String()}
	if t.specific != 0 {
		argv = append(argv, "--specific="+strconv.Itoa(t.specific))
	}
	argv = append(argv, "--bpw="+strconv.Itoa(t.piece), "--length="+strconv.FormatInt(size, 10),
		"--timeout="+strconv.Itoa(commandTimeout), "--in="+path, device)
	return command.Command{Argv: argv, Kind: command.Write, Lock: lock}
}

func activate(device, lock string) command.Command {
	return command.Command{
		Argv: []string{
			"sg_write_buffer", "-v", "--mode=" + modeActivate.String(), "--timeout=" + strconv.Itoa(commandTimeout), device,
		},
		Kind: command.Write,
		Lock: lock,
	}
}

func device(id inventory.Identity) string { return "/dev/" + id.Node }
