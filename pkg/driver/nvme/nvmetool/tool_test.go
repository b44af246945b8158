package nvmetool_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin/admintest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/nvmetool"
)

const (
	model  = "SIM NVMe"
	serial = "SN1"
)

// played is a drive and the tool that was run on it.
type played struct {
	drive          *admintest.Drive
	stdout, stderr string
	code           int
}

func newDrive(t *testing.T, change func(*admintest.State)) *admintest.Drive {
	t.Helper()
	s := admintest.State{Node: "nvme0", Controller: nvmectrl.Controller{
		Profile:  nvmectrl.Profile{Model: model, Serial: serial, RestartsAtZero: true},
		Firmware: nvmectrl.NewFirmware(admintest.Slots("OLD1", "", "OLD0")...),
	}}
	change(&s)
	d, err := admintest.New(t.TempDir(), s)
	require.NoError(t, err)
	return d
}

func play(t *testing.T, d *admintest.Drive, args ...string) played {
	t.Helper()
	var stdout, stderr bytes.Buffer
	tool := nvmetool.Tool{Open: d.Open, Return: time.Second, Pause: time.Millisecond}
	code := tool.Run(args, &stdout, &stderr)
	return played{d, stdout.String(), stderr.String(), code}
}

func (p played) state(t *testing.T) admintest.State {
	t.Helper()
	s, err := p.drive.State()
	require.NoError(t, err)
	return s
}

// on adds the arguments that name the drive.
func on(verb string, args ...string) []string {
	return append([]string{verb, "--device=nvme0", "--model=" + model, "--serial=" + serial}, args...)
}

func saved(t *testing.T, content []byte) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return []string{"--image=" + path, fmt.Sprintf("--digest=sha256:%x", sha256.Sum256(content)), "--piece=4096"}
}

func unchanged(*admintest.State) {}

func TestAnImageIsSentInPiecesAndStoredForTheNextReset(t *testing.T) {
	d := newDrive(t, func(s *admintest.State) { s.FWUG, s.MDTS = 1, 1 })
	got := play(t, d, on(nvmetool.DownloadCommit, append(saved(t, admintest.ImageBytes(model, "NEW1")), "--slot=2")...)...)
	assert.Equal(t, nvmetool.ExitDone, got.code, got.stderr)
	assert.Equal(t, "download 0%\ndownload 25%\ndownload 50%\ndownload 75%\ndownload status 0x0\ncommit status 0x0\n", got.stdout)
	s := got.state(t)
	assert.Equal(t, []string{"OLD1", "NEW1", "OLD0"}, s.Revisions())
	assert.Equal(t, "OLD1", s.Running.Revision, "nothing is activated by a write")
	assert.Equal(t, []admin.Action{admin.ReplaceAtReset}, s.Actions)
	assert.Equal(t, 4, s.Downloads)
}

func TestLastPieceIsRemainder(t *testing.T) {
	d := newDrive(t, unchanged)
	image := saved(t, admintest.ImageBytes(model, "NEW1"))
	image[2] = "--piece=12288"
	got := play(t, d, on(nvmetool.DownloadCommit, append(image, "--slot=2")...)...)
	assert.Equal(t, nvmetool.ExitDone, got.code, got.stderr)
	assert.Equal(t, 2, got.state(t).Downloads)
	assert.Equal(t, "NEW1", got.state(t).Slots[1].Revision)
}

func TestPrintsDrivesAnswer(t *testing.T) {
	for _, status := range []admin.Status{
		admin.InvalidSlot, admin.InvalidImage, admin.NeedsConventionalReset, admin.NeedsSubsystemReset, admin.NeedsControllerReset,
		admin.MaximumTimeViolation, admin.ActivationProhibited, admin.OverlappingRange, 0x2ff,
	} {
		d := newDrive(t, func(s *admintest.State) { s.Answer = status })
		got := play(t, d, on(nvmetool.Commit, "--slot=3", "--action=2")...)
		assert.Equal(t, nvmetool.ExitRefused, got.code)
		assert.Equal(t, fmt.Sprintf("commit status %#x\n", uint16(status)), got.stdout)
		assert.Contains(t, got.stderr, "nvme0 answered "+status.String())
	}
}

func TestNoCommitOfRefusedDownload(t *testing.T) {
	d := newDrive(t, func(s *admintest.State) { s.FWUG = 4 })
	got := play(t, d, on(nvmetool.DownloadCommit, append(saved(t, admintest.ImageBytes(model, "NEW1")), "--slot=2")...)...)
	assert.Equal(t, nvmetool.ExitRefused, got.code)
	assert.True(t, strings.HasSuffix(got.stdout, "download status 0x2\n"), got.stdout)
	assert.Empty(t, got.state(t).Actions)
}

func TestADriveThatVanishesLeavesNothingClaimed(t *testing.T) {
	d := newDrive(t, unchanged)
	require.NoError(t, d.SetFault(admintest.GoneInDownload, ""))
	got := play(t, d, on(nvmetool.DownloadCommit, append(saved(t, admintest.ImageBytes(model, "NEW1")), "--slot=2")...)...)
	assert.Equal(t, nvmetool.ExitGone, got.code)
	assert.NotContains(t, got.stdout, "status")
	assert.Contains(t, got.stderr, "download firmware at byte 4096 of 16384: the drive is gone")
	assert.Equal(t, nvmetool.ExitGone, play(t, d, on(nvmetool.Reset)...).code)
}

func TestNothingIsSentToAnotherDriveOrOfAnotherImage(t *testing.T) {
	good := saved(t, admintest.ImageBytes(model, "NEW1"))
	changed := saved(t, admintest.ImageBytes(model, "NEW1"))
	require.NoError(t, os.WriteFile(strings.TrimPrefix(changed[0], "--image="), admintest.ImageBytes(model, "NEW2"), 0o600))
	write := func(image []string, more ...string) []string {
		return on(nvmetool.DownloadCommit, append(append([]string{}, image...), more...)...)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"nothing":                  {nil, "name a command"},
		"something else":           {on("format"), `"format" is none of`},
		"no device":                {[]string{nvmetool.Reset}, "--device is required"},
		"an unknown option":        {on(nvmetool.Reset, "--slot=1"), "slot"},
		"another argument":         {on(nvmetool.Reset, "now"), "unexpected arguments"},
		"another drive's serial":   {[]string{nvmetool.Reset, "--device=nvme0", "--model=" + model, "--serial=SN2"}, `is drive "SIM NVMe" "SN1", not "SIM NVMe" "SN2"`},
		"another drive's model":    {[]string{nvmetool.Reset, "--device=nvme0", "--model=X", "--serial=" + serial}, "nothing was sent"},
		"the drive's own choice":   {write(good, "--slot=0"), "never left to choose"},
		"a slot there never is":    {write(good, "--slot=8"), "--slot 8"},
		"a write with activation":  {on(nvmetool.Commit, "--slot=2", "--action=1"), "--action 1"},
		"no digest":                {on(nvmetool.DownloadCommit, good[0], good[2], "--slot=2"), "digest"},
		"another image":            {write(changed, "--slot=2"), "is not sha256:"},
		"no image":                 {write([]string{"--image=/nowhere", good[1], good[2]}, "--slot=2"), "open image"},
		"an image of odd length":   {write(saved(t, []byte("12345")), "--slot=2"), "has 5 bytes"},
		"an empty image":           {write(saved(t, nil), "--slot=2"), "has 0 bytes"},
		"pieces of odd length":     {write([]string{good[0], good[1], "--piece=6"}, "--slot=2"), "--piece 6"},
		"a piece for a whole disk": {write([]string{good[0], good[1], "--piece=1048576"}, "--slot=2"), "--piece 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			got := play(t, newDrive(t, unchanged), c.args...)
			assert.Equal(t, nvmetool.ExitUsage, got.code)
			assert.Contains(t, got.stderr, c.says)
			assert.Empty(t, got.stdout)
			s := got.state(t)
			assert.Zero(t, s.Downloads+s.Resets+len(s.Actions))
		})
	}
}

// A controller on a network is connected again only after the kernel's reset has returned.
func TestResetLastsUntilAnswer(t *testing.T) {
	d := newDrive(t, unchanged)
	require.Equal(t, nvmetool.ExitDone, play(t, d, on(nvmetool.Commit, "--slot=3", "--action=2")...).code)
	slow := nvmetool.Tool{Open: slowAfterReset(d, 3), Return: time.Minute, Pause: time.Millisecond}
	var stdout, stderr bytes.Buffer
	assert.Equal(t, nvmetool.ExitDone, slow.Run(on(nvmetool.Reset), &stdout, &stderr), stderr.String())
	assert.Equal(t, "reset status 0x0\n", stdout.String())
	s, err := d.State()
	require.NoError(t, err)
	assert.Equal(t, "OLD0", s.Running.Revision)
	assert.Equal(t, 1, s.Resets)
}

func TestADriveThatDoesNotComeBackFromItsResetIsAFailure(t *testing.T) {
	d := newDrive(t, unchanged)
	never := nvmetool.Tool{Open: slowAfterReset(d, 1<<30), Return: 10 * time.Millisecond, Pause: time.Millisecond}
	var stdout, stderr bytes.Buffer
	assert.Equal(t, nvmetool.ExitFailed, never.Run(on(nvmetool.Reset), &stdout, &stderr))
	assert.Empty(t, stdout.String())
	assert.Contains(t, stderr.String(), "does not answer 10ms after its reset")
}

// slowAfterReset makes a drive that does not answer so many questions after its reset.
func slowAfterReset(d *admintest.Drive, questions int) admin.Opener {
	return func(node string) (admin.Controller, error) {
		c, err := d.Open(node)
		return slow{c, d, questions}, err
	}
}

type slow struct {
	admin.Controller
	drive     *admintest.Drive
	questions int
}

func (s slow) Reset() error {
	if err := s.drive.SetFault(admintest.NotReady, fmt.Sprint(s.questions)); err != nil {
		return err
	}
	return s.Controller.Reset()
}
