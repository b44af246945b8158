package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
)

// Addresses in the machine's private network.
const (
	guestAddress = "10.0.2.15"
	hostAddress  = "10.0.2.100"
)

// machine is a running virtual machine.
type machine struct {
	agent   *agent
	console string
	cmd     *exec.Cmd
	done    chan struct{}
	err     error
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
	// agentAddress is where the agent is reached on this machine.
	agentAddress string
}

// startMachine starts it; it has not booted when this returns.
func startMachine(o machineOptions) (*machine, error) {
	m := &machine{agent: newAgent(o.agentAddress), console: filepath.Join(o.dir, "console.log"), done: make(chan struct{})}
	if err := makeDisk(filepath.Join(o.dir, "nvme.img"), 64<<20); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(o.dir, "qemu.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start machine: %w", err)
	}
	m.cmd = exec.Command(tool("qemu-system-x86_64"), o.arguments(m.console)...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	// A Ctrl-C must reach only the lab, which ends the machine; the kernel ends it when the lab dies.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the death signal is that of the thread
		defer runtime.UnlockOSThread()
		err := m.cmd.Start()
		started <- err
		if err == nil {
			m.err = m.cmd.Wait()
			_ = log.Close()
			close(m.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start machine: %w", err)
	}
	return m, nil
}

// arguments of QEMU: two processors emulated in software, so that it runs wherever its program does.
func (o machineOptions) arguments(console string) []string {
	network := "user,id=net0,restrict=on,hostfwd=tcp:" + o.agentAddress + "-" + guestAddress + fmt.Sprintf(":%d", guest.AgentPort)
	for port, to := range o.forwards {
		network += fmt.Sprintf(",guestfwd=tcp:%s:%d-cmd:%s", hostAddress, port, strings.Join(append(append([]string{}, o.relay...), to), " "))
	}
	return []string{
		"-nodefaults", "-no-user-config", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1024",
		"-display", "none", "-chardev", "file,id=console,path=" + quoted(console), "-serial", "chardev:console", "-kernel", o.base.kernel(), "-initrd", o.initrd,
		"-append", "console=ttyS0 panic=-1 quiet",
		"-smbios", "type=0,vendor=LabFirmware,version=1.0", "-smbios", "type=1,manufacturer=NodeFirmware,product=LabMachine,serial=LAB0001",
		"-netdev", network, "-device", "virtio-net-pci,netdev=net0,mac=52:54:00:00:00:01,romfile=",
		"-drive", "if=none,id=state,format=raw,cache=unsafe,file=" + quoted(filepath.Join(o.dir, "state.img")),
		"-device", "virtio-blk-pci,drive=state,serial=LABSTATE",
		"-drive", "if=none,id=nvme,format=raw,cache=unsafe,file=" + quoted(filepath.Join(o.dir, "nvme.img")),
		"-device", "nvme,drive=nvme,serial=LABNVME1",
	}
}

// quoted is a path as a value of one of QEMU's lists of options.
func quoted(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// stop ends the machine like a power cut.
func (m *machine) stop() {
	if err := m.cmd.Process.Kill(); err == nil || !errors.Is(err, os.ErrProcessDone) {
		<-m.done
	}
}

// waitBoot waits until the agent of a boot with another id than the given one answers.
func (m *machine) waitBoot(ctx context.Context, not string) (guest.State, error) {
	for {
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		state, err := m.agent.state(asked)
		cancel()
		if err == nil && state.BootID != not {
			return state, nil
		}
		select {
		case <-ctx.Done():
			return state, fmt.Errorf("wait for the machine to boot: %w", context.Cause(ctx))
		case <-m.done:
			return state, fmt.Errorf("wait for the machine to boot: it turned off: %v", m.err) //nolint:errorlint // nil as well
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func makeDisk(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	return errors.Join(file.Truncate(size), file.Close())
}

// makeState makes the disk that survives reboots.
func makeState(ctx context.Context, path string) error {
	if err := makeDisk(path, 256<<20); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, tool("mke2fs"), "-q", "-F", "-t", "ext4", "-O", "^metadata_csum", path).CombinedOutput(); err != nil {
		return fmt.Errorf("make state disk: %w: %s", err, out)
	}
	return nil
}
