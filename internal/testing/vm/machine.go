package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/qemu"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

// Addresses in the machine's private network.
const (
	guestAddress = "10.0.2.15"
	hostAddress  = "10.0.2.100"
)

// machine is a running virtual machine with the agent in it.
type machine struct {
	*qemu.Machine
	agent *guest.Client
}

// machineOptions configure a machine.
type machineOptions struct {
	base base
	// dir is the directory for the console's log and the disks.
	dir string
	// initrd are the archives that make its first file system.
	initrd string
	// forwards are the only connections out of the machine: a port of hostAddress and the address behind it.
	forwards map[int]string
	// relay is the command in front of an address that connects its standard input and output with it.
	relay []string
	// firmware is the file of its system firmware, empty for QEMU's own.
	firmware string
	// sealed gives the machine a TPM, and a second disk of which nothing is known.
	sealed bool
	// agentAddress is where the agent is reached on this machine.
	agentAddress string
}

// startMachine starts it; it has not booted when this returns. Its disks begin anew with each run of the lab.
func startMachine(o machineOptions) (*machine, error) {
	network := "user,restrict=on,hostfwd=tcp:" + o.agentAddress + "-" + guestAddress + fmt.Sprintf(":%d", guest.AgentPort)
	for port, to := range o.forwards {
		network += fmt.Sprintf(",guestfwd=tcp:%s:%d-cmd:%s", hostAddress, port, strings.Join(append(append([]string{}, o.relay...), to), " "))
	}
	options := qemu.Options{
		Dir: o.dir, Kernel: o.base.kernel(), Initrd: o.initrd, Memory: 1024, Firmware: o.firmware,
		Network: network, Disks: []qemu.Disk{{File: filepath.Join(o.dir, "state.img"), Serial: "LABSTATE"}},
	}
	if o.sealed {
		if err := addSecrets(&options); err != nil {
			return nil, err
		}
	}
	m, err := qemu.Start(options)
	if err != nil {
		return nil, err
	}
	return &machine{m, guest.NewClient(o.agentAddress)}, nil
}

// addSecrets starts a TPM for the machine, which ends with it, and adds a disk, /dev/vdb.
func addSecrets(o *qemu.Options) error {
	dir := filepath.Join(o.Dir, "tpm")
	disk := qemu.Disk{File: filepath.Join(o.Dir, "secret.img"), Serial: "LABSECRET"}
	if err := errors.Join(os.MkdirAll(dir, 0o700), qemu.MakeDisk(disk.File, 64<<20)); err != nil {
		return fmt.Errorf("make TPM: %w", err)
	}
	o.TPM, o.Disks = filepath.Join(dir, "socket"), append(o.Disks, disk)
	tpm, err := child.Start("TPM", filepath.Join(o.Dir, "tpm.log"), rootfs.Tool(swtpm),
		"socket", "--tpm2", "--tpmstate", "dir="+dir, "--ctrl", "type=unixio,path="+o.TPM, "--terminate")
	if err != nil {
		return err
	}
	for range 100 {
		if _, err := os.Stat(o.TPM); err == nil {
			return nil
		}
		select {
		case <-tpm.Done():
			return fmt.Errorf("start TPM: it ended (%w); see tpm.log", tpm.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
	tpm.Kill()
	return errors.New("start TPM: it does not listen")
}

// swtpm emulates a TPM.
const swtpm = "swtpm"

// waitBoot waits until the agent of a boot with another id than the given one answers.
func (m *machine) waitBoot(ctx context.Context, not string) (guest.State, error) {
	for {
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		state, err := m.agent.State(asked)
		cancel()
		if err == nil && state.BootID != not {
			return state, nil
		}
		select {
		case <-ctx.Done():
			return state, fmt.Errorf("wait for the machine to boot: %w", context.Cause(ctx))
		case <-m.Done():
			return state, fmt.Errorf("wait for the machine to boot: it turned off: %v", m.Err()) //nolint:errorlint // nil as well
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// makeState makes the disk that survives reboots.
func makeState(ctx context.Context, path string) error {
	if err := qemu.MakeDisk(path, 256<<20); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, rootfs.Tool("mke2fs"), "-q", "-F", "-t", "ext4", "-O", "^metadata_csum", path).CombinedOutput(); err != nil {
		return fmt.Errorf("make state disk: %w: %s", err, out)
	}
	return nil
}
