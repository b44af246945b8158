package survey_test

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool/survey"
)

// foreign is the beginning of a program for the processors of a mainframe, which no supported machine has.
func foreign() string {
	header := append([]byte("\x7fELF\x02\x02\x01"), make([]byte, 57)...)
	binary.BigEndian.PutUint16(header[16:], 2)  // a program
	binary.BigEndian.PutUint16(header[18:], 22) // EM_S390
	return string(header)
}

// script prints a text as a tool does, on its standard error output, and ends with the code.
func script(text string, code string) string {
	return "#!/bin/sh\nprintf '%s\\n' '" + text + "' >&2\nexit " + code + "\n"
}

func runner(t *testing.T, dir string, refused map[string]error) *command.ExecRunner {
	t.Helper()
	r, err := command.NewExecRunner(command.Config{Path: []string{dir}, Refused: refused})
	require.NoError(t, err)
	return r
}

func TestWhatIsKnownOfATool(t *testing.T) {
	for name, tc := range map[string]struct {
		tool, content string
		support       vendortool.Support
		version       inventory.Version
		says          []string
		used          bool
	}{
		"in the range":        {tool: "mstflint", content: script("mstflint, mstflint 4.21.0, Git SHA Hash: N/A", "0"), support: vendortool.Tested, version: "4.21.0", used: true},
		"the newest":          {tool: "mstflint", content: script("mstflint, mstflint 4.33.0-1", "0"), support: vendortool.Tested, version: "4.33.0", used: true},
		"any version will do": {tool: "lspci", content: script("", "1"), support: vendortool.Tested, used: true},
		"not in the table":    {tool: "acmeflash", content: script("", "1"), support: vendortool.Tested, used: true},
		"too old": {
			tool: "mstflint", content: script("mstflint, mstflint 4.9.0, Git SHA Hash: N/A", "0"), support: vendortool.TooOld, version: "4.9.0",
			says: []string{"version 4.9.0 is older than 4.21.0", "install version 4.21.0 to 4.33.0 of it (package mstflint)"},
		},
		"newer than tested": {
			tool: "sg_inq", content: script("Version string: 2.60 20270704", "0"), support: vendortool.Newer, version: "2.60", used: true,
			says: []string{"version 2.60 is newer than 2.48", "it is used"},
		},
		"no version in its answer": {
			tool: "nvme", content: script("what?", "1"), support: vendortool.Unknown, used: true, says: []string{`"nvme version" says none (exit code 1): what?`},
		},
		"missing": {
			tool: "fwupdtool", support: vendortool.Missing, says: []string{"not installed where the daemon looks", "package fwupd"},
		},
		"missing, and of a profile": {tool: "storcli64", support: vendortool.Missing, says: []string{"install its vendor's program"}},
		"another architecture": {
			tool: "sg_inq", content: foreign(), support: vendortool.CannotRun, says: []string{"another architecture", "install the one for this machine"},
		},
		"no interpreter": {
			tool: "mstfwreset", content: "#!/nowhere/python3\n", support: vendortool.CannotRun, says: []string{"the interpreter of a script", "is missing"},
		},
		"a library is missing": {
			tool: "fwupdtool", content: script("fwupdtool: error while loading shared libraries: libfwupd.so.3", "127"),
			support: vendortool.CannotRun, says: []string{"libfwupd.so.3", "package fwupd"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tc.content != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, tc.tool), []byte(tc.content), 0o755))
			}
			found := survey.Run(t.Context(), runner(t, dir, nil), []string{tc.tool})
			require.Len(t, found, 1)
			assert.Equal(t, tc.support, found[0].Support, found[0].Message)
			assert.Equal(t, tc.version, found[0].Version)
			assert.Equal(t, tc.used, found[0].IsUsed())
			assert.Equal(t, len(tc.says) > 0, found[0].Message != "", found[0].Message)
			for _, part := range tc.says {
				assert.Contains(t, found[0].Message, part)
			}
			assert.LessOrEqual(t, len(found[0].Message), 300)
			// What is not used is as good as missing to drivers, with the reason.
			err := command.Installed(runner(t, dir, vendortool.Refused(found)), tc.tool)
			assert.Equal(t, tc.used, err == nil, err)
			if !tc.used {
				assert.True(t, command.Unusable(err), err)
			}
		})
	}
}

// A daemon that is to end does not wait for tools, and what could not be asked is no reason to leave devices alone.
func TestSurveyEndsWithContext(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mstflint"), []byte("#!/bin/sh\nexec /bin/sleep 600\n"), 0o755))
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	found := survey.Run(ctx, runner(t, dir, nil), []string{"mstflint"})
	assert.Equal(t, vendortool.Unknown, found[0].Support)
	assert.Contains(t, found[0].Message, "killed at its deadline")
	assert.True(t, found[0].IsUsed())
}
