package simhost

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// checkDir holds executables of the machine's administrator, which are real ones below the machine's root.
const checkDir = "/etc/node-firmware/check/"

// isCheck reports whether a command is one of the administrator's executables.
func isCheck(command string) bool {
	return strings.HasPrefix(command, checkDir) && filepath.Clean(command) == command
}

// check runs an executable of the administrator. It runs on the real machine, so it must not change anything. It may
// use /bin/sh, the tools of the simulated machine, and its own path.
func check(c *call) (int, error) {
	return c.run("", "query", func() (int, error) {
		cmd := exec.Command(filepath.Join(c.m.dir, c.argv[0]), c.argv[1:]...)
		cmd.Env = []string{"PATH=" + c.m.ToolPath() + ":/usr/bin:/bin", "LC_ALL=C", "HOME=/"}
		cmd.Stdout, cmd.Stderr = c.stdout, c.stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it ends with the machine's power
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Run()
		var exit *exec.ExitError
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return c.fail(127, "nsenter: failed to execute %s: No such file or directory\n", c.argv[0])
		case errors.Is(err, fs.ErrPermission):
			return c.fail(126, "nsenter: failed to execute %s: Permission denied\n", c.argv[0])
		case errors.As(err, &exit) && exit.Exited():
			return exit.ExitCode(), nil
		case err != nil:
			return 0, fmt.Errorf("run %s: %w", c.argv[0], err)
		}
		return 0, nil
	})
}
