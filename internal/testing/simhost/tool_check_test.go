package simhost

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNsenterRunsMachineChecks(t *testing.T) {
	m := newMachine(t)
	dir := filepath.Join(m.Dir(), "etc/node-firmware/check/required.d")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	write := func(name, body string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body), mode))
	}
	enter := func(path string, args ...string) output {
		return run(m, append([]string{"nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--pid", "--", path}, args...)...)
	}
	t.Setenv("SECRET", "of this process")
	write("10-says", `echo "out $1 $SECRET"; echo err >&2; exit 3`, 0o755)
	write("20-off", "exit 0", 0o644)
	write("30-dies", "kill -9 $$", 0o755)
	assert.Equal(t, output{code: 3, stdout: "out x \n", stderr: "err\n"}, enter("/etc/node-firmware/check/required.d/10-says", "x"))
	assert.Equal(t, 126, enter("/etc/node-firmware/check/required.d/20-off").code)
	assert.Equal(t, exitSimhost, enter("/etc/node-firmware/check/required.d/30-dies").code)
	assert.Equal(t, 127, enter("/etc/node-firmware/check/required.d/40-none").code)
	assert.Equal(t, 127, enter("/etc/node-firmware/check/../../../bin/true").code, "only what lies there")
	assert.Equal(t, 127, enter("/bin/true").code)

	require.NoError(t, m.SetFault(Fault{Kind: Fail, Tool: "10-says", Count: 1, ExitCode: 7}))
	assert.Equal(t, 7, enter("/etc/node-firmware/check/required.d/10-says").code, "faults strike it by its name")
	require.NoError(t, m.Boot())
	assert.Equal(t, 3, enter("/etc/node-firmware/check/required.d/10-says").code, "it survives a boot")
}
