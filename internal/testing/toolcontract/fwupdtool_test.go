package toolcontract_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/toolcontract"
)

// One fwupdtool runs at a time. The second one has the error code of an archive that is not supported.
func TestASecondFwupdtoolIsRefused(t *testing.T) {
	tool := toolcontract.Fwupdtool()
	for name, run := range map[string]toolcontract.Runner{
		"real": toolcontract.Exec(), "simulated": simulated(t, func(*simhost.Spec) {}),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := tool.VersionOf(t.Context(), run); errors.Is(err, toolcontract.ErrNotInstalled) || name == "real" && os.Geteuid() != 0 {
				t.Skip("fwupdtool is not installed here, or locks elsewhere for who is not root")
			}
			dir := t.TempDir()
			file, err := os.Create(filepath.Join(dir, "fwupdtool"))
			require.NoError(t, err)
			defer file.Close()
			require.NoError(t, unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
			env := []string{"FWUPD_LOCKDIR=" + dir, "FWUPD_SYSFSFWDIR=/nowhere"}
			for _, c := range tool.Cases {
				if tool.Classify(toolcontract.Answer{Stdout: c.Want.Text}) == toolcontract.Usage {
					continue // it is refused before the lock is asked for
				}
				if c.Args[0] == "activate" {
					continue // so is an activation without anything to activate
				}
				a, err := run(t.Context(), append([]string{"fwupdtool"}, c.Args...), env)
				require.NoError(t, err)
				assert.Equal(t, 1, a.Exit, c.Name)
				assert.Equal(t, toolcontract.Locked, tool.Classify(a), c.Name)
				assert.Contains(t, a.Stdout, `"Code" : 10`, c.Name)
				assert.Contains(t, a.Stdout, "Failed to lock: another instance has locked "+dir+"/fwupdtool", c.Name)
			}
		})
	}
}
