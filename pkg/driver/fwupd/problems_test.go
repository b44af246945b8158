package fwupd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
)

// hindering is get-devices of a machine whose system firmware has the problems.
func hindering(t *testing.T, updateError string, names ...string) command.Result {
	out := strings.Replace(golden(t, "get-devices-2.0.20.json"), `"updatable",`, `"updatable-hidden",`, 1)
	member := `"Problems" : ["` + strings.Join(names, `", "`) + `"], "UpdateError" : "` + updateError + `", "Flags" :`
	if len(names) == 0 {
		member = `"UpdateError" : "` + updateError + `", "Flags" :`
	}
	i := strings.Index(out, "uefi_capsule")
	require.Positive(t, i)
	return command.Result{Stdout: []byte(out[:i] + strings.Replace(out[i:], `"Flags" :`, member, 1))}
}

// What keeps fwupd from updating the firmware is said before anything is written, and whether waiting helps.
func TestDeviceProblemsAreReasons(t *testing.T) {
	for name, c := range map[string]struct {
		problems []string
		message  string
		lasting  bool
		says     string
	}{
		"an update waits":            {[]string{"update-pending"}, "", false, "reboot the node"},
		"all updates are forbidden":  {[]string{"system-inhibit"}, "", false, "another program inhibits"},
		"fwupd says more":            {[]string{"system-inhibit"}, "Do not interrupt the backup", false, "Do not interrupt the backup"},
		"no power supply":            {[]string{"require-ac-power"}, "", false, "power supply"},
		"in use":                     {[]string{"in-use"}, "", false, "in use"},
		"no license":                 {[]string{"missing-license"}, "", true, "license"},
		"locked in the setup":        {[]string{"firmware-locked"}, "", true, "unlock"},
		"one passes, one does not":   {[]string{"in-use", "missing-license"}, "", true, "in use; the vendor's license"},
		"a problem of a later fwupd": {[]string{"moon-phase"}, "", false, "moon-phase"},
		"only a message":             {nil, "The EFI system partition is full", false, "partition is full"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTool(t)
			f["get-devices"] = hindering(t, c.message, c.problems...)
			d, r := f.driver(t, host("2.10.2"))
			_, written := d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
			for _, err := range []error{d.Check(t.Context(), id, archive(t, "2.19.1")), written} {
				require.ErrorContains(t, err, c.says)
				require.ErrorContains(t, err, "nothing was written")
				if c.lasting {
					assert.ErrorAs(t, err, new(*driver.RejectedError))
				} else {
					assert.NotErrorAs(t, err, new(*driver.RejectedError))
				}
			}
			for _, call := range r.Calls() {
				assert.Equal(t, command.Query, call.Kind)
			}
		})
	}
}

func TestEveryProblemIsExplained(t *testing.T) {
	for name, p := range problems {
		d := fwupdDevice{ID: "0123", Problems: []string{name}, Flags: []string{"updatable"}}
		assert.ErrorContains(t, d.hindered(), p.text)
	}
	assert.NoError(t, fwupdDevice{Flags: []string{"updatable"}}.hindered())
}

// fwupdtool reports some failures only by its exit code.
func TestExitCodesAreClassified(t *testing.T) {
	for name, c := range map[string]struct {
		result   command.Result
		says     string
		rejected bool
	}{
		"failed":                           {command.Result{ExitCode: 1, Stderr: []byte("failed: no space left")}, "no space left", false},
		"nothing to do":                    {command.Result{ExitCode: 2}, "nothing to do", false},
		"not found":                        {command.Result{ExitCode: 3}, "does not find the device", false},
		"not reachable":                    {command.Result{ExitCode: 101}, "cannot reach", false},
		"not updatable since it was asked": {reply(1, "10", "System Firmware is not updatable"), "not updatable", false},
		"the archive is not supported":     {reply(1, "10", "no update for this machine"), "no update", true},
		"what is printed says more":        {reply(3, "8", "device ID 0123 was not found"), "0123", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTool(t)
			f["install"] = c.result
			d, _ := f.driver(t, host("2.10.2"))
			_, err := d.Write(t.Context(), id, archive(t, "2.19.1"), nil)
			require.ErrorContains(t, err, c.says)
			if c.rejected {
				assert.ErrorAs(t, err, new(*driver.RejectedError))
				return
			}
			var failed *command.Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, c.result.ExitCode, failed.ExitCode)
		})
	}
	f := newTool(t)
	f["get-history"] = command.Result{ExitCode: 2, Stderr: []byte("No history\n")}
	d, _ := f.driver(t, host("2.10.2"))
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err, "no history is no error")
	assert.False(t, fw.Pending())
	f["get-history"] = command.Result{ExitCode: 101}
	_, _, err = d.Inspect(t.Context(), id)
	require.ErrorContains(t, err, "cannot reach")
}

func reply(exit int, code, message string) command.Result {
	return command.Result{ExitCode: exit, Stdout: []byte(`{"Error":{"Domain":"FwupdError","Code":` + code + `,"Message":"` + message + `"}}`)}
}
