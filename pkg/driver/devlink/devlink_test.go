package devlink

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/genetlink/genltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func card(kernel, device string) inventory.Identity {
	return inventory.Identity{
		Class: inventory.NIC, DeviceID: device, Kernel: kernel, UniqueID: "02:00:00:00:00:01", PCI: []inventory.PCIAddress{{Bus: 0x3b}},
	}
}

// What a kernel driver calls the version of the whole, and the board, is its own.
func TestKernelDriversHaveOwnNames(t *testing.T) {
	for kernel, want := range map[string]struct{ device, version, board, boardID string }{
		"mlx5_core": {"101d", "fw.version", "fw.psid", "MT_0000000359"},
		"ice":       {"1592", "fw.bundle_id", "board.id", "K65390-000"},
		"ixgbe":     {"57b0", "fw.bundle_id", "board.id", "N12345-001"},
		"bnxt_en":   {"1750", "fw", "board.id", "BCM957508-P2100G"},
		"ionic":     {"1002", "fw", "asic.id", "0x0"},
		"nfp":       {"4000", "fw.bundle_id", "board.id", "AMDA0096"},
		"netdevsim": {"", "fw.mgmt", "", ""},
	} {
		k := newFakeKernel(t, adapter{
			Handle: "pci/0000:3b:00.0", VersionName: want.version, Board: [2]string{want.board, want.boardID},
			Running: "22.41.1000", Stored: "22.42.1000",
		})
		d := New(nil, nil, k.dial)
		require.Equal(t, driver.SupportGeneric, d.Support(card(kernel, want.device)), kernel)
		id, fw, err := d.Inspect(t.Context(), card(kernel, want.device))
		require.NoError(t, err, kernel)
		assert.Equal(t, want.boardID, id.BoardID, kernel)
		assert.Equal(t, inventory.Version("22.41.1000"), fw.Running, kernel)
		assert.Equal(t, inventory.Version("22.42.1000"), fw.Stored, kernel)
	}
}

func TestOtherAdaptersAreNotClaimed(t *testing.T) {
	d := New(nil, nil, nil)
	for name, id := range map[string]inventory.Identity{
		"unknown kernel driver":            card("e1000e", "10d3"),
		"ixgbe before the E610":            card("ixgbe", "1563"),
		"given to a virtual machine":       card("vfio-pci", "101d"),
		"a drive":                          {Class: inventory.Disk, Kernel: "ice", Node: "sda"},
		"neither on PCI nor with a device": {Class: inventory.NIC, Kernel: "netdevsim"},
	} {
		assert.Equal(t, driver.SupportNone, d.Support(id), name)
	}
}

func TestASlotIsNoNameWhereTheKernelTellsSerialNumbers(t *testing.T) {
	a, id := broadcom()
	for _, test := range []struct{ unique, serial, board, want string }{
		{"02:00:00:00:00:01", "S", "B", "02:00:00:00:00:01"},
		{"dsn.00-0a-f7", "S", "B", "dsn.00-0a-f7"},
		{"pci.14e4-1750.0000:3b:00.0", "S", "B", "devlink.bnxt_en-S-B"},
		{"pci.14e4-1750.0000:3b:00.0", "", "B", "devlink.bnxt_en-B"},
		{"pci.14e4-1750.0000:3b:00.0", "", "", "pci.14e4-1750.0000:3b:00.0"},
	} {
		id.UniqueID, a.Serial, a.BoardSerial = test.unique, test.serial, test.board
		got, _, err := New(nil, nil, newFakeKernel(t, a).dial).Inspect(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, test.want, got.UniqueID)
		assert.Equal(t, test.board, got.SerialNumber)
	}
}

func TestReportsMissingDevlink(t *testing.T) {
	dial := func() (Conn, error) {
		return genltest.Dial(func(genetlink.Message, netlinkMessage) ([]genetlink.Message, error) {
			return nil, genltest.Error(int(syscall.ENOENT))
		}), nil
	}
	d := New(nil, nil, dial)
	require.ErrorContains(t, d.Usable(), "built without devlink")
	_, _, err := d.Inspect(t.Context(), card("ice", "1592"))
	require.ErrorContains(t, err, "built without devlink")
	a, _ := broadcom()
	assert.NoError(t, New(nil, nil, newFakeKernel(t, a).dial).Usable())
}

func TestGoneDeviceHasNoHandle(t *testing.T) {
	_, id := simulated()
	id.Node = "eth9"
	_, _, err := New(nil, simulatedTree(), nil).Inspect(t.Context(), id)
	assert.ErrorContains(t, err, "no such network device")
}

// The kernel answers nobody as long as it writes: it is not asked then.
func TestNoReadDuringWrite(t *testing.T) {
	a, id := broadcom()
	k := newFakeKernel(t, a)
	runner := runnerOf(t, k)
	k.fault("hang", "")(t)
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() {
		_, err := New(runner, nil, k.dial).Write(ctx, id, drivertest.NewImage(t, a.ForImages, "1.1.0"), nil)
		written <- err
	}()
	require.Eventually(t, func() bool { _, hangs := k.faulty("hangs"); return hangs }, patience, tick)
	asked := func() (Conn, error) {
		assert.Fail(t, "the kernel was asked")
		return nil, errors.New("asked")
	}
	_, fw, err := New(runner, nil, asked).Inspect(t.Context(), id)
	require.ErrorIs(t, err, command.ErrBusy)
	assert.Zero(t, fw)
	require.NoError(t, os.Remove(filepath.Join(k.dir, "hang")))
	require.NoError(t, <-written)
	cancel()
	_, fw, err = New(runner, nil, k.dial).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.Version("1.1.0"), fw.Stored)
}

// Somebody else's flash is not known beforehand. Whoever waits for its end gives up in time, and no second query joins
// the one that hangs.
func TestAQuestionTheKernelDoesNotAnswerIsAskedOnce(t *testing.T) {
	a, id := broadcom()
	k := newFakeKernel(t, a)
	dials, release := make(chan struct{}, 10), make(chan struct{})
	d := New(nil, nil, func() (Conn, error) {
		dials <- struct{}{}
		<-release
		return k.dial()
	})
	for _, want := range []string{"does not answer while it writes", "has not answered an earlier query"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, _, err := d.Inspect(ctx, id)
			failed <- err
		}()
		require.Eventually(t, func() bool { return len(dials) == 1 }, patience, tick)
		cancel(errors.New("no answer within 30s"))
		err := <-failed
		require.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, "ask for info of pci/0000:3b:00.0: no answer within 30s")
	}
	close(release)
	_, fw, err := d.Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.Version("1.0.0"), fw.Running)
	assert.Len(t, dials, 2)
}

func TestAnImageInAFormatTheKernelDriverDoesNotTakeIsRejected(t *testing.T) {
	k := newFakeKernel(t, adapter{Handle: "pci/0000:3b:00.0", VersionName: "fw.version", Running: "22.41.1000"})
	d := New(nil, nil, k.dial)
	image := func(content string) driver.Image {
		path := filepath.Join(t.TempDir(), "image")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return driver.Image{Path: path, Version: "22.42.1000", Digest: sha256.Sum256([]byte(content)), Size: int64(len(content))}
	}
	id := card("mlx5_core", "101d")
	require.NoError(t, d.Check(t.Context(), id, image("MLNX.MFA2.XZ.00!and more")))
	for _, content := range []string{"MTFW\x8c\xdf raw image", "MLNX", ""} {
		err := d.Check(t.Context(), id, image(content))
		assert.ErrorAs(t, err, new(*driver.RejectedError), "%q", content)
		_, err = d.Write(t.Context(), id, image(content), nil)
		assert.ErrorAs(t, err, new(*driver.RejectedError), "%q", content)
	}
}

// An adapter that must not be reset now, or that comes back as it was, gets a reboot.
func TestAnActivationThatDoesNotHappenBecomesAReboot(t *testing.T) {
	for fault, text := range map[string]string{
		"no-reset": "fake: EMP reset is not available. To activate firmware, a reboot or power cycle is needed",
		"lie":      "",
		"refuse":   fmt.Sprintf("%d One of the hosts disabled reset", syscall.EIO),
	} {
		a, id := broadcom()
		a.Stored = "1.1.0"
		k := newFakeKernel(t, a)
		k.fault(fault, text)(t)
		need, _, err := driver.StillNeeded(New(runnerOf(t, k), nil, k.dial).Activate(t.Context(), id, inventory.ActivateDriverReload))
		require.NoError(t, err, fault)
		assert.Equal(t, inventory.ActivateReboot, need, fault)
	}
}

// The driver, or another host of the card, refuses for as long as something uses the card.
func TestRefusedActivationReboots(t *testing.T) {
	for _, answer := range []struct {
		errno   syscall.Errno
		message string
	}{
		{syscall.ECANCELED, "fake: Unload the driver's virtual functions first"},
		{syscall.EPERM, "fake: reload is not allowed in switchdev mode"},
		{syscall.EBUSY, ""},
		{syscall.EOPNOTSUPP, ""},
	} {
		a, id := broadcom()
		a.Stored = "1.1.0"
		k := newFakeKernel(t, a)
		k.fault("refuse", fmt.Sprintf("%d %s", answer.errno, answer.message))(t)
		need, why, err := driver.StillNeeded(New(runnerOf(t, k), nil, k.dial).Activate(t.Context(), id, inventory.ActivateDriverReload))
		require.NoError(t, err, answer)
		assert.Equal(t, inventory.ActivateReboot, need, answer)
		assert.Contains(t, why, answer.message)
	}
}

func TestAFailedActivationIsAnError(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.EPERM, syscall.ENODEV} {
		a, id := broadcom()
		a.Stored = "1.1.0"
		k := newFakeKernel(t, a)
		k.fault("refuse", fmt.Sprintf("%d ", errno))(t)
		_, err := New(runnerOf(t, k), nil, k.dial).Activate(t.Context(), id, inventory.ActivateDriverReload)
		require.ErrorAs(t, err, new(*command.Error), errno)
		require.ErrorContains(t, err, errno.Error())
	}
}

// mlx5 reports these instead of an error when the card did not answer its query.
func TestAVersionThatMeansAFailedQueryIsUnreadable(t *testing.T) {
	for _, a := range []adapter{
		{Running: "0.0.0000", Stored: "0.0.0000"}, {Running: "255.255.65535", Stored: "22.42.1000"},
		{Running: "22.41.1000", Stored: "255.255.65535"}, {Running: "22.41.1000", Stored: "0.0.0000"},
	} {
		a.Handle, a.VersionName = "pci/0000:3b:00.0", "fw.version"
		_, fw, err := New(nil, nil, newFakeKernel(t, a).dial).Inspect(t.Context(), card("mlx5_core", "101d"))
		require.ErrorContains(t, err, "the card did not answer", a)
		assert.Zero(t, fw, a)
	}
}

// Of all kernel drivers only bnxt_en can flash every adapter it has and says this of an image.
func TestOnlyBroadcomCallsAnotherBoardsImageUnsupported(t *testing.T) {
	a, id := broadcom()
	k := newFakeKernel(t, a)
	k.fault("refuse", fmt.Sprintf("%d PKG install error : Invalid device", syscall.EOPNOTSUPP))(t)
	_, err := New(runnerOf(t, k), nil, k.dial).Write(t.Context(), id, drivertest.NewImage(t, a.ForImages, "1.1.0"), nil)
	require.ErrorAs(t, err, new(*driver.RejectedError))
	require.ErrorContains(t, err, "Invalid device")
}

func TestExitCodesOfTheTool(t *testing.T) {
	a, id := simulated()
	k := newFakeKernel(t, a)
	for code, want := range map[int]string{
		exitFailed: "the flash failed", exitUsage: "the flash failed", exitNotFound: "did not find the image",
		exitRejected: "does not accept the image: why", exitUnsupported: "not supported by the device", exitBusy: "busy: try again",
	} {
		runner := commandtest.NewRunner(t, map[string]commandtest.Tool{
			Tool: func(context.Context, command.Command) (command.Result, error) {
				return command.Result{ExitCode: code, Stderr: []byte("why\nmore\n")}, nil
			},
		})
		_, err := New(runner, simulatedTree(), k.dial).Write(t.Context(), id, drivertest.NewImage(t, a.ForImages, "1.1.0"), nil)
		require.ErrorContains(t, err, want)
		assert.Equal(t, code == exitRejected, errors.As(err, new(*driver.RejectedError)))
		assert.Equal(t, code == exitUnsupported, errors.Is(err, driver.ErrNotSupported))
	}
}

func TestProgressOfPartsNeverFalls(t *testing.T) {
	var seen []int
	line := driver.Progress(func(n int) { seen = append(seen, n) }).Lines(percentage)
	for _, s := range []string{"Preparing", "0% Flashing", "50% Flashing", "10% Flashing fw.undi", "1000% nonsense", "70% Flashing", "80%"} {
		line(s)
	}
	assert.Equal(t, []int{0, 50, 70}, seen)
	assert.Nil(t, driver.Progress(nil).Lines(percentage))
}

// A reload gives the driver's parameters force; where it would take virtual functions away it is not made, and that is said.
func TestReloadsTheDriverForItsParameters(t *testing.T) {
	a, id := broadcom()
	a.Params = parameters()
	for name, test := range map[string]struct {
		refuse, want string
	}{
		"reloaded": {},
		"refused":  {"95 Reload of the driver is not possible", "the driver was not reloaded, so its parameters are not in force"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newFakeKernel(t, a)
			d := New(runnerOf(t, k), simulatedTree(), k.dial)
			if test.refuse != "" {
				k.fault("refuse", test.refuse)(t)
			}
			need, err := d.Activate(t.Context(), id, inventory.ActivateDriverReload)
			assert.Equal(t, inventory.ActivateNone, need)
			_, reloaded := k.faulty("reloaded")
			assert.Equal(t, test.want == "", reloaded)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func TestTheKernelDriverMayRefuseAValue(t *testing.T) {
	a, id := broadcom()
	a.Params = parameters()
	k := newFakeKernel(t, a)
	k.fault("refuse", "22 total_vfs must be a multiple of 4")(t)
	d := New(runnerOf(t, k), simulatedTree(), k.dial)
	_, err := d.Configure(t.Context(), id, driver.Configuration{Set: []inventory.Setting{{Name: "port_limit/runtime", Value: "3"}}})
	var rejected *driver.RejectedError
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, "settings", rejected.Of)
	assert.Contains(t, err.Error(), "the kernel driver does not take 3 for port_limit/runtime: set port_limit/runtime of pci/0000:3b:00.0: total_vfs must be")
}
