package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// first is process 1: it sets up the machine, starts the agent and then only reaps orphaned processes. When the agent
// ends it turns the machine off, which the lab notices.
func first() error {
	err := boot()
	if err == nil {
		err = reapUntilAgentEnds()
	}
	fmt.Fprintf(os.Stderr, "init: %v; turning off\n", err)
	unix.Sync()
	return errors.Join(err, unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
}

func boot() error {
	if err := mountAll(); err != nil {
		return err
	}
	config, err := LoadConfig(ConfigPath)
	if err != nil {
		return err
	}
	for _, m := range config.Modules {
		if !m.Deferred {
			if err := load(m.Path, m.Parameters); err != nil {
				return err
			}
		}
	}
	if err := mountVariables(); err != nil {
		return err
	}
	if err := Up("lo", "127.0.0.1/8"); err != nil {
		return err
	}
	if err := Up("eth0", config.Address); err != nil {
		return err
	}
	return mountState(config)
}

// mountAll mounts the kernel's own file systems.
func mountAll() error {
	for _, m := range []struct{ kind, target, data string }{
		{"devtmpfs", "/dev", ""}, {"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"debugfs", "/sys/kernel/debug", ""},
		{"tmpfs", "/run", "mode=755"}, {"tmpfs", "/run/dbus", "mode=755"}, {"tmpfs", "/tmp", ""},
	} {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
		if err := unix.Mount(m.kind, m.target, m.kind, 0, m.data); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	return nil
}

// mountVariables mounts the variables of the firmware on a machine that booted through UEFI.
func mountVariables() error {
	const target = "/sys/firmware/efi/efivars"
	if _, err := os.Stat(target); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := unix.Mount("efivarfs", target, "efivarfs", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return nil
}

// mountState mounts the disk that survives reboots and puts the persistent directories on it.
func mountState(c Config) error {
	if err := os.MkdirAll(StateDir, 0o755); err != nil {
		return fmt.Errorf("mount state: %w", err)
	}
	if err := unix.Mount(c.StateDisk, StateDir, "ext4", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", c.StateDisk, err)
	}
	for _, dir := range c.Persistent {
		kept := filepath.Join(StateDir, "persistent", dir)
		if err := errors.Join(os.MkdirAll(kept, 0o755), os.MkdirAll(dir, 0o755)); err != nil {
			return fmt.Errorf("keep %s: %w", dir, err)
		}
		if err := unix.Mount(kept, dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("keep %s: %w", dir, err)
		}
	}
	return nil
}

// Up gives a network interface its address, such as 127.0.0.1/8.
func Up(name, address string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("set up %s: %w", name, err)
	}
	parsed, err := netlink.ParseAddr(address)
	if err == nil {
		err = errors.Join(netlink.AddrReplace(link, parsed), netlink.LinkSetUp(link))
	}
	if err != nil {
		return fmt.Errorf("set up %s: %w", name, err)
	}
	return nil
}

// load puts a module into the kernel.
func load(path, parameters string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("load module: %w", err)
	}
	defer file.Close()
	if err := unix.FinitModule(int(file.Fd()), parameters, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load module %s with %q: %w", path, parameters, err)
	}
	return nil
}

// reapUntilAgentEnds starts the agent and reaps every process that ends.
func reapUntilAgentEnds() error {
	agent, err := os.StartProcess("/proc/self/exe", []string{"init", "agent"}, &os.ProcAttr{
		Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return fmt.Errorf("start agent: %w", err)
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for processes: %w", err)
		case pid == agent.Pid:
			return fmt.Errorf("the agent ended with status %d", status)
		}
	}
}
