package mstflint

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

var (
	card = inventory.PCIAddress{Bus: 0x3b}
	id   = inventory.Identity{
		Class: inventory.NIC, VendorID: "15b3", DeviceID: "101d", Kernel: "mlx5_core",
		PCI: []inventory.PCIAddress{card, {Bus: 0x3b, Function: 1}},
	}
)

// machine is one on which nobody uses the card: the kernel shows neither virtual functions nor drivers.
var machine = fstest.MapFS{}

// flint plays a card: each answer of a query is used once, the last one for ever.
type flint struct {
	queries    []string
	burn       command.Result
	imageQuery command.Result
	verify     command.Result
	levels     command.Result
	reset      command.Result
}

func (f *flint) runner(t *testing.T) *commandtest.Runner {
	return commandtest.NewRunner(t, map[string]commandtest.Tool{
		"mstconfig": withoutSettings,
		"mstflint": func(_ context.Context, c command.Command) (command.Result, error) {
			switch verb := c.Argv[len(c.Argv)-1]; {
			case verb == "b":
				return f.burn, nil
			case verb == "v":
				return f.verify, nil
			case c.Argv[1] == "-i":
				return f.imageQuery, nil
			}
			out := f.queries[0]
			if len(f.queries) > 1 {
				f.queries = f.queries[1:]
			}
			return command.Result{Stdout: []byte(out)}, nil
		},
		"mstfwreset": func(_ context.Context, c command.Command) (command.Result, error) {
			if c.Argv[len(c.Argv)-1] == "q" {
				return f.levels, nil
			}
			return f.reset, nil
		},
	})
}

func newFlint(t *testing.T) *flint {
	return &flint{
		queries:    []string{golden(t, "query-4.21.0-cx6.txt")},
		imageQuery: command.Result{Stdout: []byte(strings.ReplaceAll(golden(t, "query-4.21.0-image.txt"), "20.35.1012", "20.36.1010"))},
		levels:     command.Result{Stdout: []byte(golden(t, "reset-4.21.0-level3.txt"))},
	}
}

func image(t *testing.T, version inventory.Version) driver.Image {
	path := filepath.Join(t.TempDir(), "image.bin")
	content := []byte("an image")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return driver.Image{Path: path, Version: version, Digest: sha256.Sum256(content), Size: int64(len(content))}
}

func TestSupport(t *testing.T) {
	d := New(nil, machine)
	change := func(f func(*inventory.Identity)) inventory.Identity {
		other := id
		f(&other)
		return other
	}
	assert.Equal(t, driver.SupportVendor, d.Support(id))
	assert.Equal(t, driver.SupportVendor, d.Support(change(func(i *inventory.Identity) { i.Kernel = "" })))
	assert.Equal(t, driver.SupportNone, d.Support(change(func(i *inventory.Identity) { i.Kernel = "vfio-pci" })))
	assert.Equal(t, driver.SupportNone, d.Support(change(func(i *inventory.Identity) { i.VendorID = "8086" })))
	assert.Equal(t, driver.SupportNone, d.Support(change(func(i *inventory.Identity) { i.Class = inventory.Disk })))
	assert.Equal(t, driver.SupportNone, d.Support(change(func(i *inventory.Identity) { i.PCI = nil })))
}

func TestReadsBothVersionsAndBoard(t *testing.T) {
	f := newFlint(t)
	f.queries = []string{golden(t, "query-4.21.0-cx6-pending.txt")}
	got, fw, err := New(f.runner(t), machine).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, "MT_0000000228", got.BoardID)
	assert.Equal(t, "04:3f:72:f0:4c:46", got.UniqueID)
	assert.Equal(t, inventory.Firmware{
		Running: "20.34.1002", Stored: "20.35.1012", Activation: inventory.ActivateDeviceReset, Format: inventory.FormatDotted,
		Rollback:        inventory.RollbackReadBack,
		RollbackMessage: "the card runs 20.34.1002 and stores 20.35.1012, and only the stored image can be read: activate 20.35.1012 first",
	}, fw)
}

func TestFailedQueryQuotesTool(t *testing.T) {
	const cause = "-E- Cannot open Device: 0000:3b:00.0. MFE_CR_ERROR"
	for name, c := range map[string]struct {
		stdout, stderr string
		want           []string
	}{
		"on standard output":                   {"\n" + cause + "\n", "", []string{cause}},
		"on standard error":                    {"", cause + "\n", []string{cause}},
		"on standard output behind a warning":  {"\n" + cause + "\n", "-W- old driver\n", []string{cause, "-W- old driver"}},
		"on standard error, with other output": {"Querying\n", cause, []string{cause}},
		"nothing at all":                       {"\n", "", []string{"printed nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := commandtest.NewRunner(t, map[string]commandtest.Tool{"mstflint": func(context.Context, command.Command) (command.Result, error) {
				return command.Result{ExitCode: 1, Stdout: []byte(c.stdout), Stderr: []byte(c.stderr)}, nil
			}})
			_, _, err := New(r, machine).Inspect(t.Context(), id)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestACardWithoutPSIDIsReadOnly(t *testing.T) {
	f := newFlint(t)
	f.queries = []string{golden(t, "query-4.21.0-not-mellanox.txt")}
	d := New(f.runner(t), machine)
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.Version("14.21.1000"), fw.Running)
	assert.NotEmpty(t, fw.ReadOnly)
	assert.ErrorAs(t, d.Check(t.Context(), id, image(t, "20.36.1010")), new(*driver.RejectedError))
}

func TestACardWhoseResetToolDoesNotWorkIsActivatedByAReboot(t *testing.T) {
	for name, levels := range map[string]command.Result{
		"Secure Boot": {ExitCode: 1, Stdout: []byte("-E- The tool supports only reset-level 4 on UEFI Secure Boot.\n")},
		"BlueField":   {ExitCode: 1, Stdout: []byte("-E- Unsupported Device: 0000:3b:00.0 (0x1017).\n")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlint(t)
			f.levels = levels
			_, fw, err := New(f.runner(t), machine).Inspect(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, inventory.ActivateReboot, fw.Activation)
		})
	}
	f := newFlint(t)
	f.levels = command.Result{ExitCode: 1, Stdout: []byte("-E- There is no supported reset-level.\n")}
	_, fw, err := New(f.runner(t), machine).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivatePowerCycle, fw.Activation)
}

func TestWriteBurnsTheFirstFunctionOnceUnderTheCardsLock(t *testing.T) {
	f := newFlint(t)
	f.burn = command.Result{Stdout: []byte(golden(t, "burn-4.21.0.txt"))}
	r := f.runner(t)
	img := image(t, "20.36.1010")
	var percents []int
	need, err := New(r, machine).Write(t.Context(), id, img, func(p int) { percents = append(percents, p) })
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateDeviceReset, need)
	var writes []command.Command
	for _, c := range r.Calls() {
		if c.Kind == command.Write {
			writes = append(writes, c)
		}
	}
	require.Len(t, writes, 1)
	assert.Equal(t, "mstflint -d 0000:3b:00.0 -i "+img.Path+" -y b", writes[0].String())
	assert.Equal(t, "04:3f:72:f0:4c:46", writes[0].Lock)
	assert.IsNonDecreasing(t, percents)
}

// R000: exit code 7 says that mstflint did not burn, not why.
func TestAnAbortedBurnIsBelievedOnlyWhenTheCardHoldsTheImage(t *testing.T) {
	before := golden(t, "query-4.21.0-cx6.txt")
	held := strings.Replace(golden(t, "query-4.21.0-cx6-pending.txt"), "20.35.1012", "20.36.1010", 1)
	aborted := command.Result{ExitCode: 7, Stdout: []byte("-E- Aborted by user\n")}

	f := newFlint(t)
	f.queries, f.burn = []string{before, held}, aborted
	need, err := New(f.runner(t), machine).Write(t.Context(), id, image(t, "20.36.1010"), nil)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateDeviceReset, need)

	f = newFlint(t)
	f.burn = aborted
	_, err = New(f.runner(t), machine).Write(t.Context(), id, image(t, "20.36.1010"), nil)
	var failed *command.Error
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, 7, failed.ExitCode)
	assert.ErrorContains(t, err, "20.35.1012")
}

func TestAPSIDMismatchThatOnlyTheCardSeesIsARejection(t *testing.T) {
	f := newFlint(t)
	f.burn = command.Result{ExitCode: 1, Stdout: []byte("\n-E- PSID mismatch. The PSID on flash (A) differs from the PSID in the given image (B).\n")}
	_, err := New(f.runner(t), machine).Write(t.Context(), id, image(t, "20.36.1010"), nil)
	assert.ErrorAs(t, err, new(*driver.RejectedError))
}

func TestCheckSaysWhyImageMisfits(t *testing.T) {
	for name, c := range map[string]struct {
		image command.Result
		want  string
	}{
		"another PSID": {command.Result{Stdout: []byte(strings.ReplaceAll(golden(t, "query-4.21.0-image.txt"), "MT_0000000228", "MT_0000000359"))}, "MT_0000000359"},
		"version":      {command.Result{Stdout: []byte(golden(t, "query-4.21.0-image.txt"))}, "20.35.1012"},
		"no image":     {command.Result{ExitCode: 1, Stdout: []byte(golden(t, "query-error-4.21.0-image.txt"))}, "No valid image found"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlint(t)
			f.imageQuery = c.image
			err := New(f.runner(t), machine).Check(t.Context(), id, image(t, "20.36.1010"))
			require.ErrorAs(t, err, new(*driver.RejectedError))
			assert.ErrorContains(t, err, c.want)
		})
	}
	f := newFlint(t)
	assert.NoError(t, New(f.runner(t), machine).Check(t.Context(), id, image(t, "20.36.1010")))

	f.verify = command.Result{ExitCode: 1, Stdout: []byte(golden(t, "verify-error-4.21.0-image.txt"))}
	err := New(f.runner(t), machine).Check(t.Context(), id, image(t, "20.36.1010"))
	require.ErrorAs(t, err, new(*driver.RejectedError), "an image whose header is fine and whose body is not")
	assert.ErrorContains(t, err, "verification failed")

	f.verify = command.Result{ExitCode: 137}
	err = New(f.runner(t), machine).Check(t.Context(), id, image(t, "20.36.1010"))
	require.Error(t, err)
	assert.NotErrorAs(t, err, new(*driver.RejectedError), "a tool that died says nothing about the image")
}

// mstfwreset exits with 0 after a mere warning, and with 1 after it has failed anywhere: the card says whether the image runs.
func TestActivateRereadsCard(t *testing.T) {
	pending := golden(t, "query-4.21.0-cx6-pending.txt")
	for name, c := range map[string]struct {
		after string
		reset command.Result
		// why is the reason for a reboot, empty when the image runs.
		why string
	}{
		"it runs": {golden(t, "query-4.21.0-cx6.txt"), command.Result{}, ""},
		"it runs, though the tool failed at something else": {
			golden(t, "query-4.21.0-cx6.txt"), command.Result{ExitCode: 1, Stdout: []byte("-E- Failed to start driver! please start driver manually.\n")}, "",
		},
		"it still waits":     {pending, command.Result{Stdout: []byte("-W- Nothing was done.\n")}, "made no difference: Nothing was done"},
		"it is unsupported":  {pending, command.Result{ExitCode: 1, Stdout: []byte("-E- Reset-level '3' is not supported in the current state of this device.\n")}, "Reset-level '3' is not supported"},
		"the reset gave up":  {pending, command.Result{ExitCode: 1, Stdout: []byte("-E- Firmware reset failed, retry operation or reboot machine.\n")}, "Firmware reset failed"},
		"Secure Boot forbid": {pending, command.Result{ExitCode: 1, Stdout: []byte("-E- The tool supports only reset-level 4 on UEFI Secure Boot.\n")}, "only reset-level 4"},
		"a tool is missing":  {pending, command.Result{ExitCode: 1, Stdout: []byte("Failed\n-E- failed to run 'setpci -s 0000:3a:02.0 0x0.w'.\n")}, "setpci -s 0000:3a:02.0"},
		"another host":       {pending, command.Result{ExitCode: 1, Stdout: []byte("Failed\n-E- fsm sync timed out.\n")}, "fsm sync timed out"},
		"the tool died":      {pending, command.Result{ExitCode: 137}, "exit code 137"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlint(t)
			f.queries, f.reset = []string{pending, c.after}, c.reset
			r := f.runner(t)
			need, why, err := driver.StillNeeded(New(r, machine).Activate(t.Context(), id, inventory.ActivateDeviceReset))
			require.NoError(t, err)
			assert.Contains(t, why, c.why)
			if c.why == "" {
				assert.Equal(t, inventory.ActivateNone, need)
			} else {
				assert.Equal(t, inventory.ActivateReboot, need)
			}
			assert.Contains(t, r.Lines("mstfwreset"), "mstfwreset -d 0000:3b:00.0 -l 3 -y r")
		})
	}
}

func TestActivateDoesNotResetACardThatNeedsAReboot(t *testing.T) {
	f := newFlint(t)
	f.queries = []string{golden(t, "query-4.21.0-cx6-pending.txt")}
	f.levels = command.Result{Stdout: []byte(golden(t, "reset-4.21.0-level4.txt"))}
	r := f.runner(t)
	need, _, err := driver.StillNeeded(New(r, machine).Activate(t.Context(), id, inventory.ActivateDeviceReset))
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, need)
	assert.Equal(t, []string{"mstfwreset -d 0000:3b:00.0 q"}, r.Lines("mstfwreset"))
}

// Flags that can brick a card, change what it is, or skip the checks that make a burn safe.
var forbidden = []string{
	"allow_psid_change", "nofs", "clear_semaphore", "blank_guids", "no_flash_verify", "no_fw_ctrl", "guid", "mac", "uid", "vsd",
	"use_image_ps", "use_image_guids", "ignore_dev_data", "allow_rom_change", "override_cache_replacement", "ocr", "no_devid_check",
	"skip_ci_req", "dual_image", "banks", "skip_fsm_sync", "skip_driver", "force", "yy", "yyes", "with_default",
}

func TestForbiddenFlagsAreNeverSent(t *testing.T) {
	commands := []command.Command{
		queryDevice(card), queryImage("/i"), verifyImage("/i"), readImage(card, "/i"), burn(card, "/i", "l", nil), queryReset(card), reset(card, "3", "l"), reactivate(card, "l"),
		queryConfig(card), queryConfig(card, sriovEnabled), tryConfig(card, []inventory.Setting{{Name: sriovEnabled, Value: "1"}}),
		setConfig(card, []inventory.Setting{{Name: sriovEnabled, Value: "1"}}, "l"),
	}
	allowed := map[string]bool{"-d": true, "-i": true, "-qq": true, "-y": true, "-l": true, "-e": true}
	for _, c := range commands {
		for _, arg := range c.Argv {
			if strings.HasPrefix(arg, "-") {
				assert.True(t, allowed[arg], "%s sends %s", c, arg)
			}
			for _, flag := range forbidden {
				assert.NotEqual(t, flag, strings.TrimLeft(arg, "-"), fmt.Sprint(c))
			}
		}
	}
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range sources {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, flag := range forbidden {
			assert.NotContains(t, string(text), `"-`+flag, file)
			assert.NotContains(t, string(text), `"--`+flag, file)
		}
	}
}
