package simhost

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// systemctl understands "reboot", which is refused while a shutdown is inhibited, as systemd 257 and later do for root too,
// and "show" for how far the boot was when, and for its version.
func systemctl(c *call) (int, error) {
	if slices.Equal(c.argv[1:], []string{"show", "--property=ActiveEnterTimestampMonotonic", "sysinit.target"}) {
		return c.run("", "query", func() (int, error) {
			_, err := fmt.Fprint(c.stdout, "ActiveEnterTimestampMonotonic=8870955\n")
			return 0, err
		})
	}
	if slices.Equal(c.argv[1:], []string{"show", "--property=Version"}) {
		return c.run("", "query", func() (int, error) {
			_, err := fmt.Fprint(c.stdout, "Version=257.9-1~deb13u1\n")
			return 0, err
		})
	}
	args := slices.DeleteFunc(slices.Clone(c.argv[1:]), func(a string) bool { return strings.HasPrefix(a, "-") })
	if len(args) != 1 || args[0] != "reboot" {
		return c.fail(1, "Unknown command verb %s.\n", strings.Join(args, " "))
	}
	return c.run("", "reboot", func() (int, error) {
		inhibited, err := c.m.shutdownInhibited()
		if err != nil {
			return 0, err
		}
		if inhibited {
			return c.fail(1, "Call to Reboot failed: Operation denied due to active block inhibitor\n")
		}
		return 0, c.requestReboot("")
	})
}

// requestReboot records that the machine asks for a reboot.
func (c *call) requestReboot(device string) error {
	if err := c.do(job{op: Operation{Device: device, Action: "Reboot"}}); err != nil {
		return err
	}
	if c.fault != nil && c.fault.Kind == Lie {
		return nil
	}
	return c.m.replace(c.m.path("reboot-requested"), nil, 0o644)
}

// nsenter runs a command of the same machine: all its namespaces are those of process 1.
func nsenter(c *call) (int, error) {
	at := slices.Index(c.argv, "--")
	if at < 0 || at+1 == len(c.argv) {
		return c.fail(1, "nsenter: no command given\n")
	}
	command := c.argv[at+1:]
	name := filepath.Base(command[0])
	if isCheck(command[0]) {
		inner := *c
		inner.tool, inner.argv = name, command
		return check(&inner)
	}
	if !IsTool(name) {
		return c.fail(127, "nsenter: failed to execute %s: No such file or directory\n", command[0])
	}
	inner := *c
	inner.tool, inner.argv = name, command
	return toolFuncs()[name](&inner)
}
