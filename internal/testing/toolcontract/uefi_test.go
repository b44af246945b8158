package toolcontract_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/toolcontract"
)

// firmware is a machine with UEFI whose system firmware runs 2.10.2, for the real fwupdtool or the simulated one.
type firmware struct {
	run toolcontract.Runner
	// env is what the tool always gets, esp and format name the partition and the format of versions.
	env    []string
	esp    string
	format []string
	// hide makes texts equal on all machines.
	hide func(string) string
	// staged reports whether a capsule waits for the firmware.
	staged func() bool
}

// situation is what may be different on a machine.
type situation struct{ full, blocked, noCapsules bool }

func realFirmware(t *testing.T, guid string, s situation) firmware {
	t.Helper()
	if _, err := toolcontract.Fwupdtool().VersionOf(t.Context(), toolcontract.Exec()); errors.Is(err, toolcontract.ErrNotInstalled) || os.Geteuid() != 0 {
		t.Skip("fwupdtool is not installed here, or this is not root")
	}
	bits := uint64(0x45)
	if s.noCapsules {
		bits = 0x41
	}
	u, err := toolcontract.NewUEFI(t.TempDir(), guid, bits)
	require.NoError(t, err)
	if s.full {
		require.NoError(t, u.Fill())
	}
	if s.blocked {
		require.NoError(t, u.Block())
	}
	format, err := u.TellFormat("triplet")
	require.NoError(t, err)
	return firmware{
		run: toolcontract.Exec(), env: u.Env(), esp: u.TellESP(), format: format,
		hide: func(s string) string { return strings.ReplaceAll(s, u.ESP(), "{esp}") },
		staged: func() bool {
			found, err := u.Capsules()
			require.NoError(t, err)
			asked, err := u.Indications()
			require.NoError(t, err)
			assert.Equal(t, len(found) > 0, asked != 0, "a capsule and that the firmware is asked for it go together")
			return len(found) > 0
		},
	}
}

func simulatedFirmware(t *testing.T, s situation) firmware {
	t.Helper()
	spec := simhost.DefaultSpec("contract", 0)
	spec.WriteTime = 0
	spec.ESPs[0].Full, spec.ESPs[0].ReadOnly, spec.BIOS.NoCapsules = s.full, s.blocked, s.noCapsules
	m := machine(t, spec)
	quirks := t.TempDir()
	text := []byte("[" + spec.BIOS.GUID + "]\nVersionFormat = triplet\n")
	require.NoError(t, os.WriteFile(filepath.Join(quirks, "version.quirk"), text, 0o600))
	return firmware{
		run: runOn(m), esp: "FWUPD_UEFI_ESP_PATH=/boot/efi", format: []string{"FWUPD_LOCALSTATEDIR_QUIRKS=" + quirks},
		hide: func(s string) string { return strings.ReplaceAll(s, "/boot/efi", "{esp}") },
		staged: func() bool {
			d, err := m.Device(simhost.BIOSKey)
			require.NoError(t, err)
			return d.Stored != d.Running
		},
	}
}

// described is the part of get-devices that says whether, how and from which version the firmware can be updated.
type described struct {
	DeviceID      string `json:"DeviceId"`
	Summary       string
	Flags         []string
	UpdateError   string
	Version       string
	VersionFormat string
	VersionLowest string
}

// tell are the variables of a call, without those that are left out.
func (f firmware) tell(without ...string) []string {
	env := append([]string(nil), f.env...)
	for name, v := range map[string][]string{"esp": {f.esp}, "format": f.format} {
		if len(without) == 0 || without[0] != name {
			env = append(env, v...)
		}
	}
	return env
}

func (f firmware) describe(ctx context.Context, t *testing.T, without ...string) described {
	t.Helper()
	a, err := f.run(ctx, []string{"fwupdtool", "get-devices", "--json", "--plugins", "uefi_capsule"}, f.tell(without...))
	require.NoError(t, err)
	var out struct{ Devices []described }
	require.NoError(t, json.Unmarshal([]byte(a.Stdout[strings.Index(a.Stdout, "{\n"):]), &out), a.Stdout)
	require.Len(t, out.Devices, 1, a.Stdout)
	return out.Devices[0]
}

// What the real tool refuses on a machine with UEFI, the simulated one refuses, with the same code and the same words, and leaves nothing
// for the firmware.
func TestFwupdtoolsRefuseTheSameOnAMachineWithUEFI(t *testing.T) {
	guid := simhost.DefaultSpec("", 0).BIOS.GUID
	archives := t.TempDir()
	archive := func(version string) string {
		path := filepath.Join(archives, version+".cab")
		image := simhost.BuildImage(simhost.BIOSImage, simhost.ImageOptions{Version: version, GUID: guid})
		require.NoError(t, os.WriteFile(path, image, 0o600))
		return path
	}
	for name, c := range map[string]struct {
		situation
		without string
		version string
		args    []string
		// updatable, way and format are what the tool says of the firmware.
		updatable   bool
		way, format string
		// exit and code are those of an install, says a part of its message; staged says that it left a capsule.
		exit, code int
		says       string
		staged     bool
	}{
		"all is told":                        {version: "2.10.3", updatable: true, way: "via capsule-on-disk", format: "triplet", staged: true},
		"the partition is not":               {version: "2.10.3", without: "esp", way: "via capsule-on-disk", format: "triplet", exit: 1, code: 10, says: "does not currently allow updates: Not updatable as UEFI ESP partition not detected"},
		"the format is not":                  {version: "2.10.3", without: "format", updatable: true, way: "via capsule-on-disk", format: "number", exit: 1, code: 10, says: "Firmware version formats were different, device was 'number' and release is 'triplet'"},
		"an older version":                   {version: "2.9.0", updatable: true, way: "via capsule-on-disk", format: "triplet", exit: 2, code: 9, says: "All updatable devices already have newer versions"},
		"an older one, allowed":              {version: "2.9.0", args: []string{"--allow-older"}, updatable: true, way: "via capsule-on-disk", format: "triplet", staged: true},
		"below the lowest":                   {version: "1.9.0", args: []string{"--allow-older"}, updatable: true, way: "via capsule-on-disk", format: "triplet", exit: 1, code: 10, says: "Specified firmware is older than the minimum required version '1.9.0 < 2.0.0'"},
		"the same version":                   {version: "2.10.2", updatable: true, way: "via capsule-on-disk", format: "triplet", exit: 2, code: 9, says: "All updatable firmware is already installed"},
		"a full partition":                   {situation: situation{full: true}, version: "2.10.3", updatable: true, way: "via capsule-on-disk", format: "triplet", exit: 1, code: 10, says: "{esp} does not have sufficient space, required "},
		"a partition that cannot be written": {situation: situation{blocked: true}, version: "2.10.3", updatable: true, way: "via capsule-on-disk", format: "triplet", exit: 1, code: 0, says: "{esp}/EFI/UpdateCapsule"},
		"a firmware without capsules":        {situation: situation{noCapsules: true}, version: "2.10.3", updatable: true, way: "via NVRAM", format: "triplet", exit: 3, code: 8, says: "fwupdx64.efi"},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, f := range map[string]func(*testing.T) firmware{
				"real":      func(t *testing.T) firmware { return realFirmware(t, guid, c.situation) },
				"simulated": func(t *testing.T) firmware { return simulatedFirmware(t, c.situation) },
			} {
				t.Run(kind, func(t *testing.T) {
					m := f(t)
					var without []string
					if c.without != "" {
						without = []string{c.without}
					}
					d := m.describe(t.Context(), t, without...)
					assert.Contains(t, d.Summary, c.way)
					assert.Equal(t, c.format, d.VersionFormat)
					if c.updatable {
						assert.Contains(t, d.Flags, "updatable")
					} else {
						assert.NotContains(t, d.Flags, "updatable")
						assert.NotEmpty(t, d.UpdateError)
					}
					argv := []string{"fwupdtool", "install", archive(c.version), d.DeviceID, "--json", "--no-reboot-check", "--plugins", "uefi_capsule"}
					a, err := m.run(t.Context(), append(argv, c.args...), m.tell(without...))
					require.NoError(t, err)
					assert.Equal(t, c.staged, m.staged())
					if !c.staged || !strings.Contains(a.Stdout, "does not currently allow updates") { // of 2.1, which installs twice
						assert.Equal(t, c.exit, a.Exit, a.Stdout+a.Stderr)
					}
					if c.staged {
						return
					}
					var reply struct {
						Error struct {
							Domain  string
							Code    int
							Message string
						}
					}
					require.NoError(t, json.Unmarshal([]byte(a.Stdout[strings.Index(a.Stdout, "{\n"):]), &reply), a.Stdout)
					if reply.Error.Domain != "g-file-error-quark" { // 2.1's of a file that cannot be made
						assert.Equal(t, "FwupdError", reply.Error.Domain)
						assert.Equal(t, c.code, reply.Error.Code, reply.Error.Message)
					}
					assert.Contains(t, m.hide(reply.Error.Message), c.says)
				})
			}
		})
	}
}
