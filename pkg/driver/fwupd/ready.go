package fwupd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Reason says in one word why the system firmware of a machine can be read and not updated. It is stable; the text behind it is not.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	// NoUEFI: the machine did not boot through UEFI.
	NoUEFI Reason = "NoUEFI"
	// NoTable: the machine has no ESRT, or not one entry for its system firmware.
	NoTable Reason = "NoESRT"
	// NoVariables: the variables of the firmware cannot be read.
	NoVariables Reason = "NoVariables"
	// NoCapsules: the firmware does not look for capsules on disk.
	NoCapsules Reason = "NoCapsules"
	// VariablesReadOnly: the firmware cannot be asked to look for a capsule.
	VariablesReadOnly Reason = "VariablesReadOnly"
	// NoPartition: no EFI system partition is mounted.
	NoPartition Reason = "NoPartition"
	// OtherPartition: another EFI system partition is mounted than the one the machine booted from.
	OtherPartition Reason = "OtherPartition"
	// SeveralPartitions: it is not known which of several partitions the firmware looks at.
	SeveralPartitions Reason = "SeveralPartitions"
	// PartitionReadOnly: nothing can be written to the EFI system partition.
	PartitionReadOnly Reason = "PartitionReadOnly"
	// PartitionFull: there is no room on it for a capsule.
	PartitionFull Reason = "PartitionFull"
	// NoTool: fwupdtool is not installed.
	NoTool Reason = "NoTool"
	// NoLock: fwupdtool cannot make its lock file.
	NoLock Reason = "NoLock"
)

// lasting reasons do not go away on a machine as it is: a retry does not help.
func (r Reason) lasting() bool { return r == NoUEFI || r == NoTable || r == NoCapsules }

// notReady is why nothing is written to the system firmware of this machine. Nothing was.
type notReady struct {
	reason Reason
	text   string
}

func notReadyf(r Reason, format string, args ...any) error {
	return &notReady{r, fmt.Sprintf(format, args...)}
}

// Error is the reason and what to do, at most 256 bytes as long as paths are short.
func (e *notReady) Error() string { return string(e.reason) + ": " + e.text }

// refusal is the error of a check or a write that stands for err: a *driver.RejectedError when the reason lasts.
func refusal(err error) error {
	if e, ok := errors.AsType[*notReady](err); ok && e.reason.lasting() {
		return driver.Rejectf("%v", err)
	}
	return fmt.Errorf("%w; nothing was written", err)
}

// platform is what decides how the system firmware can be updated. Nothing of it takes a tool.
type platform struct {
	// hasVariables says that variables of the firmware can be read, and indications what it supports.
	hasVariables, hasIndications bool
	indications                  uint64
	mounts                       mounts
	// booted is the id of the partition that the machine booted from; bootErr says why it is not known.
	booted  string
	bootErr error
}

func readPlatform(host fs.FS) (platform, error) {
	var p platform
	var errs [3]error
	p.hasVariables, errs[0] = sysfs.HasEFIVariables(host)
	p.indications, p.hasIndications, errs[1] = indications(host)
	p.mounts, errs[2] = readMounts(host)
	p.booted, p.bootErr = bootPartition(host)
	return p, errors.Join(errs[:]...)
}

// choose decides the way: the EFI system partition on which a capsule is left, or why there is none. The kernel's lockdown under
// Secure Boot decides nothing here: it restricts neither variables nor file systems. The error is a *notReady.
func (p platform) choose() (partition, error) {
	switch {
	case !p.hasVariables:
		return partition{}, notReadyf(NoVariables,
			"the kernel shows no EFI variables in /%s: mount efivarfs there; a kernel with efi=noruntime, as real-time kernels are, has none", sysfs.EFIVariables)
	case !p.hasIndications:
		return partition{}, notReadyf(NoCapsules,
			"the firmware does not say that it takes capsules from disk: enable that in its setup, or use the vendor's own tool")
	case p.indications&capsuleOnDisk == 0:
		return partition{}, notReadyf(NoCapsules,
			"the firmware takes no capsules from disk (OsIndicationsSupported is %#x, without 0x4): enable that in its setup, or use the vendor's own tool", p.indications)
	case p.mounts.variablesReadOnly:
		return partition{}, notReadyf(VariablesReadOnly,
			"/%s is mounted read-only, so the firmware cannot be told of a capsule: mount it writable on the host", sysfs.EFIVariables)
	}
	esp, err := chooseESP(p.mounts.partitions, p.booted)
	switch {
	case err != nil && len(p.mounts.partitions) == 0 && len(p.mounts.asleep) > 0:
		return partition{}, notReadyf(NoPartition, "the automount at %s mounts no EFI system partition when the daemon looks there: see systemctl status of its unit on the host",
			p.mounts.asleep[0])
	case err != nil && p.bootErr != nil:
		return partition{}, fmt.Errorf("%w (%w)", err, p.bootErr)
	case err != nil:
		return partition{}, err
	case esp.ReadOnly:
		return partition{}, notReadyf(PartitionReadOnly, "the EFI system partition at %s is mounted read-only: mount it writable on the host", esp.Path)
	}
	return esp, nil
}

// overhead is what fwupd wants on the partition beside the capsule, in bytes: 1 MiB, for its program and logs. It wants the size of
// the capsule twice on most machines and once on others, and decides that itself when it stages.
const overhead = 1 << 20

// ready is the partition on which a capsule can be left now. Size is the one of the archive in bytes, 0 where it is not known yet. The
// error is a *notReady, or says what could not be read.
func (d *Driver) ready(size int64) (partition, error) {
	p, err := readPlatform(d.host)
	if err == nil && d.wake(p.mounts.asleep) {
		p, err = readPlatform(d.host)
	}
	if err != nil {
		return partition{}, fmt.Errorf("read how the firmware can be updated: %w", err)
	}
	esp, err := p.choose()
	if err != nil || d.room == nil {
		return esp, err
	}
	room, err := d.room(esp.Path)
	if err != nil {
		return partition{}, fmt.Errorf("read the room on the EFI system partition at %s: %w", esp.Path, err)
	}
	if need := uint64(size) + overhead; room < need {
		return partition{}, notReadyf(PartitionFull,
			"the EFI system partition at %s has %d KiB left, and fwupd needs at least %d KiB: remove old files from it", esp.Path, room>>10, need>>10)
	}
	return esp, nil
}

// wake looks at the automounts, so that systemd mounts what belongs there, and reports whether the mounts have to be read again.
// Otherwise the answer would depend on whether somebody has looked there within the last minutes. It may last until systemd gives a
// mount up, a minute and a half by default: after the driver's patience the partition counts as one that is not mounted, and what is known
// of the firmware is reported all the same. Until that look has come back, no other one is begun.
func (d *Driver) wake(automounts []string) bool {
	if d.room == nil || len(automounts) == 0 {
		return false
	}
	late := time.After(d.patience)
	select {
	case d.looking <- struct{}{}:
	case <-late:
		return true
	}
	done, look := make(chan struct{}), d.room
	go func() {
		defer close(done)
		defer func() { <-d.looking }()
		for _, path := range automounts {
			_, _ = look(path) // statfs(2) follows an automount (Linux, fs/statfs.c); what it cannot mount is missing in the mounts
		}
	}()
	select {
	case <-done:
	case <-late:
	}
	return true
}

// roomBelow returns how many bytes are left in the file system at a path of the host. Only files of this machine have that: nil for
// any other file system. Where the tree is not the running machine but files that look like one, the path is below it.
func roomBelow(host fs.FS) func(path string) (uint64, error) {
	tree, ok := host.(sysfs.Tree)
	if !ok {
		return nil
	}
	return func(path string) (uint64, error) {
		if real, err := tree.Mounted(); err != nil || !real {
			path = filepath.Join(tree.Dir(), path)
		}
		var stat unix.Statfs_t
		if err := unix.Statfs(path, &stat); err != nil {
			return 0, fmt.Errorf("statfs %s: %w", path, err)
		}
		return stat.Bavail * uint64(stat.Bsize), nil
	}
}

// patient runs fwupdtool, of which one runs at a time on a machine: a second one refuses at once, with the same error code that
// it has for an archive it does not take. A scan beside a job, or a person with a shell, is no reason to give up a job or an
// image, so patient waits for the other one to end.
type patient struct {
	command.Runner
	pause Pause
}

// Pause waits for the duration. It returns an error when the context ends before.
type Pause func(ctx context.Context, d time.Duration) error

// How often and how long patient waits: two minutes in all. Longer than that takes only a drive that is being written, and a
// scan is repeated.
const (
	pauseTime = 2 * time.Second
	maxPauses = 60
)

func newPatient(r command.Runner) patient { return patient{r, sleep} }

// sleep is the Pause of the machine's clock.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Run returns an error that wraps command.ErrBusy when the other one did not end in time: nothing was changed then, and the
// call can be repeated. It returns errNoLock when no fwupdtool can run.
func (p patient) Run(ctx context.Context, c command.Command) (command.Result, error) {
	for pauses := 0; ; pauses++ {
		r, err := p.Runner.Run(ctx, c)
		if err != nil || c.Argv[0] != tool {
			return r, err //nolint:wrapcheck // it names the command
		}
		switch e := reported(r); {
		case e == nil || !strings.Contains(e.Message, "Failed to lock"):
			return r, nil
		case !strings.Contains(e.Message, "another instance has locked"):
			return r, command.Failed(c, r, fmt.Errorf("%w (%s)", errNoLock, e.Message))
		case pauses == maxPauses:
			return r, command.Failed(c, r, fmt.Errorf("%w: another fwupdtool has run on this machine for %s; wait for it to end",
				command.ErrBusy, maxPauses*pauseTime))
		}
		if err := p.pause(ctx, pauseTime); err != nil {
			return r, command.Failed(c, r, errors.Join(command.ErrBusy, err))
		}
	}
}

// Installed looks for a tool where the runner does.
func (p patient) Installed(name string) error { return command.Installed(p.Runner, name) }

// errNoLock says that fwupdtool cannot make the file by which it knows of others.
var errNoLock = errors.New("fwupdtool cannot make its lock file: mount the host's /run/lock writable into the daemon's pod, as deploy/kustomize does")

// rollback says whether the firmware would accept the running version again after an update. A capsule cannot be read
// from a machine, so it has to come from a source. The two ESRT versions have the same format, whatever it is, and can
// be compared.
func (r resource) rollback(running inventory.Version) (inventory.Rollback, string) {
	switch {
	case r.Version == nil || r.LowestSupportedVersion == nil:
		return inventory.RollbackNone, "the ESRT does not say which versions the firmware accepts"
	case *r.Version < *r.LowestSupportedVersion:
		return inventory.RollbackNone, fmt.Sprintf("the firmware accepts no version below %#x, and the running version %s is %#x: an update cannot be undone",
			*r.LowestSupportedVersion, running, *r.Version)
	}
	return inventory.RollbackImage, fmt.Sprintf("an archive of %s is needed, and the new firmware may raise the lowest version it accepts", running)
}

// takesForOlder reports whether fwupd may consider the version older than the running one. Whether a downgrade is
// allowed was decided before, from versions of one format. fwupd decides it again from the archive's version and the
// ESRT's number, and without online metadata it does not know the format of that number: it considers 0.1.54 older than
// 65589, which is 0.1.53. Versions of some formats it compares as text.
func (d fwupdDevice) takesForOlder(v inventory.Version) bool {
	return slices.Contains([]string{"", "unknown", "plain", "hex"}, d.VersionFormat) || !isNewer(v, inventory.Version(d.Version))
}

// isNewer reports whether v is newer. Versions of different formats are not comparable.
func isNewer(v, than inventory.Version) bool {
	return strings.Count(string(v), ".") == strings.Count(string(than), ".") &&
		v.Compare(than, inventory.FormatDotted) == inventory.Newer
}
