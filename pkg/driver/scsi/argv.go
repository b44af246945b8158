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

// pieceSize is how much of an image one WRITE BUFFER command carries. Pieces of 4 KiB fit the limits of all controllers
// and kernels.
const pieceSize = 4 << 10

// standardInquiry reads the first 36 bytes of the standard INQUIRY data. sysfs only shows what the kernel read when it
// found the drive. The raw bytes are read because the text output of sg_inq changes between releases.
func standardInquiry(device string) command.Command {
	return command.Command{Argv: []string{"sg_inq", "--raw", "--maxlen=" + strconv.Itoa(inquiryLength), device}}
}

// serialPage reads the Unit Serial Number page.
func serialPage(device string) command.Command {
	return command.Command{Argv: []string{"sg_inq", "--raw", "--page=0x80", device}}
}

// supports asks whether the drive takes WRITE BUFFER in the mode, which REPORT SUPPORTED OPERATION CODES knows as a
// service action.
func supports(device string, m mode) command.Command {
	return command.Command{Argv: []string{"sg_opcodes", "--raw", fmt.Sprintf("--opcode=0x3b,0x%02x", byte(m)), device}}
}

// download transfers an image in pieces. Without --length the tool reads at most 8 MiB. Only with -v does it print the
// sense data of a refusal, and a line for each piece, which shows that it is making progress.
func download(device, path, lock string, size int64, m mode) command.Command {
	return command.Command{
		Argv: []string{
			"sg_write_buffer", "-v", "--mode=" + m.String(), "--bpw=" + strconv.Itoa(pieceSize),
			"--length=" + strconv.FormatInt(size, 10), "--timeout=" + strconv.Itoa(commandTimeout), "--in=" + path, device,
		},
		Kind: command.Write,
		Lock: lock,
	}
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
