package simhost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	newSamsung = "GDC5902Q"
	newMicron  = "E2MU300"
)

// identified is what a controller says of its firmware, and what its slot log says, as the tool prints them.
func identified(t *testing.T, m *Machine, dev string) (fr string, frmw int, log map[string]any) {
	t.Helper()
	var id struct {
		FR     string
		FRMW   int
		OACS   int
		SN, MN string
		Fwug   int
		Mtfa   int
	}
	out := run(m, "nvme", "id-ctrl", "/dev/"+dev, "-o", "json")
	require.Zero(t, out.code)
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &id))
	assert.Len(t, id.SN, 20, "padded as on the wire")
	assert.Len(t, id.MN, 40)
	assert.Len(t, id.FR, 8)
	assert.NotZero(t, id.OACS&4, "firmware download and commit are supported")
	var logs map[string]map[string]any
	out = run(m, "nvme", "fw-log", "/dev/"+dev, "--output-format=json")
	require.Zero(t, out.code)
	require.NoError(t, json.Unmarshal([]byte(out.stdout), &logs))
	return id.FR, id.FRMW, logs[dev]
}

func TestNVMeActivatesAtReset(t *testing.T) {
	m := newMachine(t)
	golden(t, "nvme-2.3-id-ctrl.golden", run(m, "nvme", "id-ctrl", "/dev/nvme0", "-o", "json").stdout)
	golden(t, "nvme-2.3-fw-log.golden", run(m, "nvme", "fw-log", "/dev/nvme0", "-o", "json").stdout)

	download := run(m, "nvme", "fw-download", "/dev/nvme0", "--fw="+image(t, "nvme0", newSamsung), "--xfer=4096")
	assert.Equal(t, output{0, "Firmware download success\n", ""}, download)
	commit := run(m, "nvme", "fw-commit", "/dev/nvme0", "--slot=2", "--action=1")
	assert.Zero(t, commit.code)
	golden(t, "nvme-2.3-fw-commit.golden", commit.stdout)

	fr, _, log := identified(t, m, "nvme0")
	assert.Equal(t, DefaultSamsungVersion, fr)
	assert.EqualValues(t, 0x21, log["Active Firmware Slot (afi)"], "slot 1 runs, slot 2 is next")
	assert.Contains(t, log["Firmware Rev Slot 2"], "("+newSamsung+")")
	golden(t, "nvme-2.3-fw-log-pending.golden", run(m, "nvme", "fw-log", "/dev/nvme0", "-o", "json").stdout)

	assert.Equal(t, output{}, run(m, "nvme", "reset", "/dev/nvme0"))
	fr, _, log = identified(t, m, "nvme0")
	assert.Equal(t, newSamsung, fr)
	assert.EqualValues(t, 0x22, log["Active Firmware Slot (afi)"])
	assert.Equal(t, DefaultSamsungVersion, read(t, m, "sys/class/nvme/nvme0/firmware_rev"), "sysfs lies until the kernel probes again")
	require.NoError(t, m.Boot())
	assert.Equal(t, newSamsung, read(t, m, "sys/class/nvme/nvme0/firmware_rev"))
	assert.Equal(t, []string{"Download Done", "Commit Done", "Reset Done"}, actions(t, m, "nvme0"))
}

func TestNVMeThatNeedsAConventionalResetSaysSoAndExitsWith1(t *testing.T) {
	m := newMachine(t)
	_, frmw, _ := identified(t, m, "nvme1")
	assert.Equal(t, 3<<1|1, frmw, "three slots, the first is read-only")
	require.Zero(t, run(m, "nvme", "fw-download", "/dev/nvme1", "-f", image(t, "nvme1", newMicron)).code)
	commit := run(m, "nvme", "fw-commit", "/dev/nvme1", "-s", "2", "-a", "1")
	assert.Equal(t, 1, commit.code)
	golden(t, "nvme-2.3-fw-commit-needs-reset.golden", commit.stdout)
	assert.Empty(t, commit.stderr)

	assert.Zero(t, run(m, "nvme", "reset", "/dev/nvme1").code)
	assert.Equal(t, DefaultMicronVersion, device(t, m, "nvme1").Running, "a controller reset is not enough")
	assert.Equal(t, newMicron, device(t, m, "nvme1").Stored)
	require.NoError(t, m.Boot())
	assert.Equal(t, newMicron, device(t, m, "nvme1").Running)
}

func TestNVMeShowsItsProgress(t *testing.T) {
	m := newMachine(t)
	download := run(m, "nvme", "fw-download", "/dev/nvme0", "--progress", "-f", image(t, "nvme0", newSamsung))
	golden(t, "nvme-2.3-fw-download-progress.golden", download.stdout)
}

func TestNVMeReactivatesOldSlot(t *testing.T) {
	m := newMachine(t)
	require.Zero(t, run(m, "nvme", "fw-download", "/dev/nvme0", "-f", image(t, "nvme0", newSamsung)).code)
	require.Zero(t, run(m, "nvme", "fw-commit", "/dev/nvme0", "-s", "0", "-a", "1").code, "slot 0 lets the drive choose")
	require.Zero(t, run(m, "nvme", "reset", "/dev/nvme0").code)
	require.Equal(t, 2, device(t, m, "nvme0").ActiveSlot)
	assert.Zero(t, run(m, "nvme", "fw-commit", "/dev/nvme0", "--slot=1", "--action=2").code)
	assert.Zero(t, run(m, "nvme", "reset", "/dev/nvme0").code)
	assert.Equal(t, DefaultSamsungVersion, device(t, m, "nvme0").Running)
	assert.Equal(t, []string{DefaultSamsungVersion, newSamsung, ""}, device(t, m, "nvme0").Slots)
}

func TestNVMeRefuses(t *testing.T) {
	foreign, torn := imageFor("nvme1", newMicron), imageFor("nvme0", newSamsung)
	torn[len(torn)/2] ^= 1
	tests := map[string]struct {
		image  []byte
		commit []string
		stderr string
	}{
		"another model's image": {foreign, []string{"-s", "2", "-a", "1"}, "Invalid Firmware Image: "},
		"a flipped image":       {torn, []string{"-s", "2", "-a", "1"}, "Invalid Firmware Image: "},
		"a web page":            {[]byte("<html>404</html>"), []string{"-s", "2", "-a", "1"}, "Invalid Firmware Image: "},
		"a slot too many":       {imageFor("nvme0", newSamsung), []string{"-s", "4", "-a", "1"}, "Invalid Firmware Slot: "},
		"an empty slot":         {imageFor("nvme0", newSamsung), []string{"-s", "3", "-a", "2"}, "Invalid Firmware Image: "},
		"an unknown action":     {imageFor("nvme0", newSamsung), []string{"-s", "2", "-a", "5"}, "invalid action:5"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			require.Zero(t, run(m, "nvme", "fw-download", "/dev/nvme0", "-f", save(t, test.image)).code, "a drive takes any bytes")
			out := run(m, append([]string{"nvme", "fw-commit", "/dev/nvme0"}, test.commit...)...)
			assert.Equal(t, 1, out.code)
			assert.Contains(t, out.stderr, test.stderr)
			d := device(t, m, "nvme0")
			assert.Equal(t, DefaultSamsungVersion, d.Stored)
			assert.Equal(t, []string{DefaultSamsungVersion, "", ""}, d.Slots)
		})
	}
}

func TestNVMeProtectsAReadOnlySlot(t *testing.T) {
	m := newMachine(t)
	require.Zero(t, run(m, "nvme", "fw-download", "/dev/nvme1", "-f", image(t, "nvme1", newMicron)).code)
	out := run(m, "nvme", "fw-commit", "/dev/nvme1", "-s", "1", "-a", "1")
	assert.Equal(t, 1, out.code)
	assert.Contains(t, out.stderr, "Invalid Firmware Slot: ")
	golden(t, "nvme-2.3-fw-commit-slot.golden", out.stderr)
}

func TestNVMeRejectsUnknown(t *testing.T) {
	m := newMachine(t)
	odd := save(t, []byte("12345"))
	tests := map[string][]string{
		"the names of version 3": {"fw", "download", "/dev/nvme0", "--fw=" + odd},
		"an unknown device":      {"id-ctrl", "/dev/nvme9", "-o", "json"},
		"no device":              {"fw-log"},
		"a size not of 4 bytes":  {"fw-download", "/dev/nvme0", "--fw=" + odd},
		"no file":                {"fw-download", "/dev/nvme0", "--fw=/nowhere"},
		"an unknown option":      {"reset", "/dev/nvme0", "--hard"},
	}
	for name, args := range tests {
		out := run(m, append([]string{"nvme"}, args...)...)
		assert.Equal(t, 1, out.code, name)
		assert.NotEmpty(t, out.stdout+out.stderr, name)
	}
	assert.Equal(t, "ERROR: Invalid sub-command 'fw'\n", run(m, "nvme", "fw", "commit", "/dev/nvme0").stdout)
	assert.Empty(t, actions(t, m, "nvme0"))
}

func TestCutDownloadFillsNoSlot(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.SetFault(Fault{ID: "slow", Kind: Hang, Operation: "download"}))
	download := start(t, m, "nvme", "fw-download", "/dev/nvme0", "-f", image(t, "nvme0", newSamsung))
	eventually(t, func() bool {
		sent, err := os.Stat(m.path("devices", "nvme0.download"))
		return err == nil && sent.Size() > 0
	}, "the download begins")
	require.NoError(t, download.Process.Kill())
	_ = download.Wait()
	require.NoError(t, m.ClearFaults())
	out := run(m, "nvme", "fw-commit", "/dev/nvme0", "-s", "2", "-a", "1")
	assert.Equal(t, 1, out.code)
	assert.Contains(t, out.stderr, "Invalid Firmware Image")
}

func TestCutCommitSpoilsSlot(t *testing.T) {
	m := newMachine(t)
	require.Zero(t, run(m, "nvme", "fw-download", "/dev/nvme0", "-f", image(t, "nvme0", "GDC5702Q")).code)
	require.Zero(t, run(m, "nvme", "fw-commit", "/dev/nvme0", "-s", "2", "-a", "1").code)
	require.Zero(t, run(m, "nvme", "fw-download", "/dev/nvme0", "-f", image(t, "nvme0", newSamsung)).code)
	require.NoError(t, m.SetFault(Fault{ID: "slow", Kind: Hang, Operation: "commit"}))
	commit := start(t, m, "nvme", "fw-commit", "/dev/nvme0", "-s", "2", "-a", "1")
	eventually(t, func() bool { return device(t, m, "nvme0").Torn }, "the commit begins")
	require.NoError(t, commit.Process.Kill())
	_ = commit.Wait()
	require.NoError(t, m.ClearFaults())
	_, _, log := identified(t, m, "nvme0")
	assert.NotContains(t, log, "Firmware Rev Slot 2")
	assert.Equal(t, DefaultSamsungVersion, device(t, m, "nvme0").Stored)
	require.NoError(t, m.Boot())
	assert.Equal(t, DefaultSamsungVersion, device(t, m, "nvme0").Running, "though slot 2 was the next")
}

func TestWhatWasDownloadedDoesNotSurviveAReset(t *testing.T) {
	for name, reset := range map[string]func(*testing.T, *Machine){
		"of the controller": func(t *testing.T, m *Machine) { require.Zero(t, run(m, "nvme", "reset", "/dev/nvme0").code) },
		"by a boot":         func(t *testing.T, m *Machine) { require.NoError(t, m.Boot()) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			require.Zero(t, run(m, "nvme", "fw-download", "/dev/nvme0", "-f", image(t, "nvme0", newSamsung)).code)
			reset(t, m)
			out := run(m, "nvme", "fw-commit", "/dev/nvme0", "-s", "2", "-a", "1")
			assert.Equal(t, 1, out.code)
			assert.Contains(t, out.stderr, "Invalid Firmware Image")
		})
	}
}

func TestNVMeDownloadHonoursOffset(t *testing.T) {
	m := newMachine(t)
	whole := imageFor("nvme0", newSamsung)
	half := len(whole) / 2
	require.Zero(t, run(m, "nvme", "fw-download", "/dev/nvme0", "-f", save(t, whole[:half])).code)
	again := run(m, "nvme", "fw-download", "/dev/nvme0", "-f", save(t, whole[half:]), "--offset=1024")
	assert.Equal(t, output{1, "", "fw-download: error on offset 0x00000000/0x00008000\n" +
		"NVMe status: Overlapping Range: The downloaded firmware image has overlapping ranges(0x114)\n"}, again)
	require.Zero(t, run(m, "nvme", "fw-download", "/dev/nvme0", "-f", save(t, whole[half:]), fmt.Sprintf("--offset=%d", half/4)).code)
	assert.Zero(t, run(m, "nvme", "fw-commit", "/dev/nvme0", "-s", "2", "-a", "1").code)
	assert.Equal(t, newSamsung, device(t, m, "nvme0").Stored)
	assert.Equal(t, []string{"Download Done", "Download Failed", "Download Done", "Commit Done"}, actions(t, m, "nvme0"))
}

func TestNVMeRefusesActionsForBootPartitionsItDoesNotHave(t *testing.T) {
	m := newMachine(t)
	out := run(m, "nvme", "fw-commit", "/dev/nvme0", "-s", "2", "-a", "6")
	assert.Equal(t, 1, out.code)
	assert.Contains(t, out.stderr, "NVMe status: Invalid Field in Command: ")
}

// A sanitize goes on over a power cut, hides firmware meanwhile, and leaves nothing.
func TestNVMeSanitize(t *testing.T) {
	m := newMachine(t, func(s *Spec) { s.NVMe[0].Sectors = 2048 })
	require.NoError(t, os.WriteFile(m.Disk("nvme0"), bytes.Repeat([]byte("secret "), 1000), 0o600))
	log := func() string { return run(m, "nvme", "sanitize-log", "/dev/nvme0", "-o", "json").stdout }
	assert.Contains(t, log(), "(0) The NVM subsystem has never been sanitized.")
	assert.NotZero(t, run(m, "nvme", "sanitize", "/dev/nvme0", "--sanact=3", "--ause", "--owpass=1").code, "it offers no overwrite")
	assert.NotZero(t, run(m, "nvme", "sanitize", "/dev/nvme0", "--sanact=4", "--owpass=1").code)
	assert.Equal(t, output{}, run(m, "nvme", "sanitize", "/dev/nvme0", "--sanact=4", "--ause"))
	assert.Contains(t, run(m, "nvme", "sanitize", "/dev/nvme0", "--sanact=2").stderr, "Sanitize In Progress")
	assert.Contains(t, run(m, "nvme", "fw-log", "/dev/nvme0", "-o", "json").stderr, "(0x1d)")
	assert.Contains(t, log(), "(2) Sanitize in Progress.")
	require.NoError(t, m.CutPower())
	require.NoError(t, m.Boot())
	for range 3 {
		assert.Contains(t, log(), "(2) Sanitize in Progress.")
	}
	done := log()
	assert.Contains(t, done, "(1) Most Recent Sanitize Command Completed Successfully.")
	assert.Contains(t, done, `"cdw10_info":12`)
	data, err := os.ReadFile(m.Disk("nvme0"))
	require.NoError(t, err)
	assert.Equal(t, make([]byte, 1<<20), data)
	assert.Zero(t, run(m, "nvme", "fw-log", "/dev/nvme0", "-o", "json").code)
	assert.Equal(t, []string{"Sanitize Failed", "Sanitize Done", "Sanitize Failed"}, slices.DeleteFunc(actions(t, m, "nvme0"), func(a string) bool { return a == "Sanitize Started" }))
}
