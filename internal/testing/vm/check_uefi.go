package vm

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

// ovmf is a system firmware with UEFI for virtual machines, of the package of this name.
const ovmf = "/usr/share/ovmf/OVMF.fd"

// efivarfs is the kernel module that shows the variables of the firmware.
const efivarfs = "efivarfs.ko"

// capsuleOnDisk is the bit by which a firmware says that it takes capsules from disk (UEFI Specification 2.10, section 8.5.4).
const capsuleOnDisk = 4

// variablesRead boots a second machine through UEFI, which is no node, and lets the daemon's program read it. No firmware in Debian
// takes capsules: the daemon has to say so, with what the kernel itself shows of the variable.
func variablesRead(ctx context.Context, s *scene) (string, error) {
	m, err := startUEFI(ctx, s.base, s.options)
	if err != nil {
		return "", err
	}
	defer m.Kill()
	if _, err := m.waitBoot(ctx, ""); err != nil {
		return "", err
	}
	ran, err := m.agent.Run(ctx, "/usr/bin/firmware-daemon", "discover", "--host-root=/", "--state-dir=/var/lib/node-firmware",
		"--tool-path=/usr/sbin:/usr/bin", "--output=json")
	if err != nil {
		return "", err
	}
	var found struct {
		Devices []struct{ Class, Driver, Problem string }
	}
	if err := json.Unmarshal([]byte(ran.Stdout), &found); err != nil {
		return "", fmt.Errorf("read what the daemon found: %w: %s%s", err, ran.Stdout, ran.Stderr)
	}
	raw, err := m.agent.Read(ctx, "/sys/firmware/efi/efivars/OsIndicationsSupported-8be4df61-93ca-11d2-aa0d-00e098032b8c")
	switch {
	case err != nil:
		return "", err
	case len(raw) != 12:
		return "", fmt.Errorf("the variable has %d bytes, want 12", len(raw))
	}
	bits := binary.LittleEndian.Uint64([]byte(raw[4:]))
	if bits&capsuleOnDisk != 0 {
		return "", fmt.Errorf("this firmware takes capsules (%#x): let this check update it", bits)
	}
	want := fmt.Sprintf("NoESRT: the firmware has no ESRT, so it takes no capsules for itself (OsIndicationsSupported is %#x)", bits)
	for _, d := range found.Devices {
		if d.Class == "BIOS" && d.Driver == "fwupd" && strings.HasPrefix(d.Problem, want) {
			return d.Problem, nil
		}
	}
	return "", fmt.Errorf("no system firmware that the driver fwupd reads says %q: %s", want, ran.Stdout)
}

// startUEFI starts a machine with the kernel and the tools of the lab, the daemon's program, and nothing to run by itself.
func startUEFI(ctx context.Context, b base, o Options) (*machine, error) {
	dir := filepath.Join(o.Dir, "uefi")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("start machine: %w", err)
	}
	initrd := filepath.Join(dir, "initrd")
	if err := errors.Join(uefiInitrd(initrd, b, o.BinDir), makeState(ctx, filepath.Join(dir, "state.img"))); err != nil {
		return nil, err
	}
	address, err := controlplane.FreeAddress()
	if err != nil {
		return nil, err
	}
	return startMachine(machineOptions{base: b, dir: dir, initrd: initrd, firmware: ovmf, agentAddress: address})
}

func uefiInitrd(path string, b base, binDir string) error {
	config, err := json.Marshal(guest.Config{
		Modules: append(slices.Clone(modulesOf(b)), guest.Module{Path: "/lib/modules/" + efivarfs}),
		Address: guestAddress + "/24", StateDisk: "/dev/vda", Persistent: []string{"/var/lib/node-firmware"},
	})
	if err != nil {
		return err
	}
	return b.initrd(path, func(a *rootfs.Archive) {
		a.Copy("init", filepath.Join(binDir, "firmware-lab-guest"))
		a.Copy("usr/bin/firmware-daemon", filepath.Join(binDir, "firmware-daemon"))
		a.Copy("lib/modules/"+efivarfs, b.file(efivarfs))
		a.File(guest.ConfigPath, 0o644, config)
	})
}
