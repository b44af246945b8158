package drivertest

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Run proves that a driver follows the contract of package driver. Every case gets a device of its own.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	cases := []conformanceCase{
		{"knows its device and no other class", testSupport},
		{"identity is stable and what the kernel said of it stays", testIdentity},
		{"inspect distinguishes running from stored", testStage},
		{"writing twice writes once", testIdempotent}, // R002-47
		{"a staged image can be superseded", testSupersede},
		{"activation makes the stored image run", testActivate},
		{"activation with nothing staged changes nothing", testActivateNothing},
		{"activation kinds of the caller are not supported", testCallersActivation},
		{"an image for another board is rejected and nothing is written", testWrongBoard}, // R002-21
		{"an image that changed after it was hashed is not at fault, and nothing is written", testTruncated},
		{"an image that is damaged is never stored", testDamaged},
		{"an image of another version than declared is rejected", testVersion},
		{"a missing image is an error of this machine, not of the image", testMissing},
		{"nonsense from the tools is an error", testGarbage},
		{"a device that does not answer is an error", testUnreadable},
		{"a failed write names its command and what it printed", testFailWrite},
		{"a write that lies is seen by reading back", testLieWrite},
		{"a cancelled write goes on and is not started twice", testHangWrite}, // R002-47
		{"progress rises from 0 to 100", testProgress},
		{"a step needs a name that is declared and a device that answers (R003-41)", testSteps},
	}
	h := newHarness(t)
	_, fw := h.inspect(t)
	cases = append(cases, rollbackCases(fw.Rollback)...)
	cases = append(cases, eraseCases(t, h)...)
	if h.Settings != nil {
		cases = append(cases, settingsCases()...)
	} else {
		cases = append(cases, conformanceCase{"settings that cannot be read are said to be so", testNoSettings})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.test(t, newHarness(t)) })
	}
}

type conformanceCase struct {
	name string
	test func(t *testing.T, h Harness)
}

func testSupport(t *testing.T, h Harness) {
	assert.NotEmpty(t, h.Driver.Name())
	assert.NotEmpty(t, h.Driver.Version())
	assert.Greater(t, h.Driver.Support(h.ID), driver.SupportNone)
	assert.Equal(t, driver.SupportNone, h.Driver.Support(inventory.Identity{Class: "Toaster", UniqueID: "other"}))
}

func testIdentity(t *testing.T, h Harness) {
	before := h.ID
	first, _ := h.inspect(t)
	second, _ := h.inspect(t)
	assert.Equal(t, first, second)
	assert.Equal(t, before, h.ID)
	assert.NotEmpty(t, first.UniqueID)
	assert.Equal(t, h.ID.Class, first.Class)
	assert.Equal(t, h.ID.PCI, first.PCI)
	assert.Equal(t, h.ID.Node, first.Node)
	again, _, err := h.Driver.Inspect(t.Context(), first)
	require.NoError(t, err)
	assert.Equal(t, first, again, "inspecting a completed identity changes it")
}

func testStage(t *testing.T, h Harness) {
	_, before := h.inspect(t)
	require.NotEmpty(t, before.Running)
	require.False(t, before.Pending())
	require.Empty(t, before.ReadOnly)
	require.NoError(t, h.check(t, h.Image))
	need := h.write(t, h.Image)
	_, after := h.inspect(t)
	h.assertHolds(t, after, h.Image.Version)
	if need == inventory.ActivateNone {
		assert.Equal(t, h.Image.Version, after.Running)
		return
	}
	assert.Equal(t, before.Running, after.Running)
	assert.Equal(t, !blind(before), after.Pending())
}

// blind reports whether the device does not report what it stores. Such a device is written again even if it runs the
// version, because another image may wait in it.
func blind(fw inventory.Firmware) bool { return fw.Stored == "" }

// assertHolds compares what the device reports or, if it does not report it, what the harness reads from it.
func (h Harness) assertHolds(t *testing.T, fw inventory.Firmware, want inventory.Version) {
	t.Helper()
	assert.Equal(t, want, h.Stored(t))
	if !blind(fw) {
		assert.Equal(t, want, fw.Stored)
	}
}

func testIdempotent(t *testing.T, h Harness) {
	need := h.write(t, h.Image)
	if _, fw := h.inspect(t); blind(fw) {
		assert.Equal(t, need, h.write(t, h.Image), "a repeated write is harmless")
		h.assertHolds(t, fw, h.Image.Version)
		return
	}
	h.FailWrite(t, "a second write")
	again, err := h.Driver.Write(t.Context(), h.ID, h.Image, nil)
	require.NoError(t, err, "the device holds the image already")
	assert.LessOrEqual(t, again, need)
	_, fw := h.inspect(t)
	assert.Equal(t, fw.Pending(), again != inventory.ActivateNone)
	assert.Equal(t, h.Image.Version, fw.Stored)
}

func testSupersede(t *testing.T, h Harness) {
	h.write(t, h.Image)
	need := h.write(t, h.Other)
	_, fw := h.inspect(t)
	h.assertHolds(t, fw, h.Other.Version)
	h.activate(t, need)
	_, fw = h.inspect(t)
	assert.Equal(t, h.Other.Version, fw.Running)
	assert.False(t, fw.Pending())
}

func testActivate(t *testing.T, h Harness) {
	h.activate(t, h.write(t, h.Image))
	_, fw := h.inspect(t)
	assert.Equal(t, h.Image.Version, fw.Running)
	assert.False(t, fw.Pending())
	assert.Empty(t, fw.LastAttempt)
	if !blind(fw) {
		assert.Equal(t, inventory.ActivateNone, h.write(t, h.Image), "the image runs already")
	}
}

func testActivateNothing(t *testing.T, h Harness) {
	_, before := h.inspect(t)
	need, _, err := driver.StillNeeded(h.Driver.Activate(t.Context(), h.ID, inventory.ActivateDeviceReset))
	if err != nil {
		require.ErrorIs(t, err, driver.ErrNotSupported)
	}
	assert.Equal(t, inventory.ActivateNone, need)
	_, after := h.inspect(t)
	assert.Equal(t, before, after)
}

func testCallersActivation(t *testing.T, h Harness) {
	for _, kind := range []inventory.Activation{inventory.ActivateNone, inventory.ActivateReboot, inventory.ActivatePowerCycle} {
		_, err := h.Driver.Activate(t.Context(), h.ID, kind)
		assert.ErrorIs(t, err, driver.ErrNotSupported, kind)
	}
}

func testWrongBoard(t *testing.T, h Harness) {
	before := h.Stored(t)
	err := h.check(t, h.WrongBoard)
	if err == nil && !h.SelfDescribing {
		_, err = h.Driver.Write(t.Context(), h.ID, h.WrongBoard, nil)
	}
	assertRejected(t, err)
	_, err = h.Driver.Write(t.Context(), h.ID, h.WrongBoard, nil)
	require.Error(t, err, "Write after a Check that was ignored")
	assert.Equal(t, before, h.Stored(t))
}

func testTruncated(t *testing.T, h Harness) {
	before := h.Stored(t)
	require.NoError(t, os.Truncate(h.Image.Path, h.Image.Size-4))
	err := h.check(t, h.Image)
	require.ErrorIs(t, err, command.ErrImage)
	assert.NotErrorAs(t, err, new(*driver.RejectedError))
	assert.Equal(t, before, h.Stored(t))
}

func testDamaged(t *testing.T, h Harness) {
	before := h.Stored(t)
	err := h.check(t, h.Damaged)
	if err == nil && !h.SelfDescribing {
		_, err = h.Driver.Write(t.Context(), h.ID, h.Damaged, nil)
	}
	assertRejected(t, err)
	assert.Equal(t, before, h.Stored(t))
}

func testVersion(t *testing.T, h Harness) {
	if !h.SelfDescribing {
		t.Skip("images of this kind do not say which version they hold")
	}
	img := h.Image
	img.Version = h.Other.Version
	assertRejected(t, h.check(t, img))
}

func testMissing(t *testing.T, h Harness) {
	require.NoError(t, os.Remove(h.Image.Path))
	err := h.check(t, h.Image)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.NotErrorAs(t, err, new(*driver.RejectedError))
}

func testGarbage(t *testing.T, h Harness) {
	h.Garbage(t)
	_, fw, err := h.Driver.Inspect(t.Context(), h.ID)
	require.Error(t, err)
	assert.Zero(t, fw)
	assert.Error(t, h.check(t, h.Image))
	_, err = h.Driver.Write(t.Context(), h.ID, h.Image, nil)
	assert.Error(t, err)
}

func testUnreadable(t *testing.T, h Harness) {
	h.Unreadable(t)
	id, fw, err := h.Driver.Inspect(t.Context(), h.ID)
	require.Error(t, err)
	assert.Equal(t, h.ID, id)
	assert.Zero(t, fw)
}

func testFailWrite(t *testing.T, h Harness) {
	const text = "flash controller is locked"
	before := h.Stored(t)
	h.FailWrite(t, text)
	_, err := h.Driver.Write(t.Context(), h.ID, h.Image, nil)
	var failed *command.Error
	require.ErrorAs(t, err, &failed)
	assert.NotEmpty(t, failed.Argv)
	assert.NotZero(t, failed.ExitCode)
	assert.ErrorContains(t, err, text)
	assert.Equal(t, before, h.Stored(t))
}

func testLieWrite(t *testing.T, h Harness) {
	_, before := h.inspect(t)
	h.LieWrite(t)
	// The driver need not notice the lie, but it must not report the requested version as stored.
	_, _ = h.Driver.Write(t.Context(), h.ID, h.Image, nil)
	_, after := h.inspect(t)
	assert.Equal(t, before.Stored, after.Stored)
	assert.Equal(t, before.Running, after.Running)
}

// patience bounds how long a real tool may take to start or end on a busy machine.
const patience = 30 * time.Second

func testHangWrite(t *testing.T, h Harness) {
	id, _ := h.inspect(t)
	started, release := h.HangWrite(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := h.Driver.Write(ctx, h.ID, h.Image, nil)
		failed <- err
	}()
	require.Eventually(t, started, patience, 10*time.Millisecond, "the write did not start")
	cancel()
	require.ErrorIs(t, <-failed, command.ErrStillRunning)
	assert.True(t, h.WriteRunning(t, id.UniqueID), "who comes later finds the write by the device's unique id")

	_, err := h.Driver.Write(t.Context(), h.ID, h.Image, nil)
	require.ErrorIs(t, err, command.ErrBusy)
	release()
	require.Eventually(t, func() bool {
		_, err := h.Driver.Write(t.Context(), h.ID, h.Image, nil)
		return err == nil
	}, patience, 10*time.Millisecond, "the device never became free")
	require.Eventually(t, func() bool { return !h.WriteRunning(t, id.UniqueID) }, patience, 10*time.Millisecond,
		"the write never ended, though the device holds the image")
	_, fw := h.inspect(t)
	h.assertHolds(t, fw, h.Image.Version)
}

func testProgress(t *testing.T, h Harness) {
	var mu sync.Mutex
	seen := []int{}
	_, err := h.Driver.Write(t.Context(), h.ID, h.Image, func(percent int) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, percent)
	})
	require.NoError(t, err)
	mu.Lock()
	defer mu.Unlock()
	require.NotEmpty(t, seen)
	assert.IsNonDecreasing(t, seen)
	assert.GreaterOrEqual(t, seen[0], 0)
	assert.Equal(t, 100, seen[len(seen)-1])
}

func (h Harness) inspect(t *testing.T) (inventory.Identity, inventory.Firmware) {
	t.Helper()
	id, fw, err := h.Driver.Inspect(t.Context(), h.ID)
	require.NoError(t, err)
	return id, fw
}

func (h Harness) check(t *testing.T, img driver.Image) error {
	t.Helper()
	return h.Driver.Check(t.Context(), h.ID, img)
}

func (h Harness) write(t *testing.T, img driver.Image) inventory.Activation {
	t.Helper()
	need, err := h.Driver.Write(t.Context(), h.ID, img, nil)
	require.NoError(t, err)
	return need
}

// activate does what a job does with the activation that a write returned.
func (h Harness) activate(t *testing.T, need inventory.Activation) {
	t.Helper()
	if need == inventory.ActivateDeviceReset || need == inventory.ActivateDriverReload {
		stronger, _, err := driver.StillNeeded(h.Driver.Activate(t.Context(), h.ID, need))
		require.NoError(t, err)
		require.True(t, stronger == inventory.ActivateNone || stronger > need, "%s instead of %s", stronger, need)
		need = stronger
	}
	if need != inventory.ActivateNone {
		require.Equal(t, inventory.ActivateReboot, need)
		h.Reboot(t)
	}
}

func assertRejected(t *testing.T, err error) {
	t.Helper()
	var rejected *driver.RejectedError
	if assert.ErrorAs(t, err, &rejected) {
		assert.NotEmpty(t, rejected.Reason)
	}
}

func testSteps(t *testing.T, h Harness) {
	stepper, ok := h.Driver.(driver.Stepper)
	if !ok {
		return
	}
	_, err := stepper.RunStep(t.Context(), driver.StepCall{Identity: h.ID, Name: "no-such-step"})
	require.ErrorIs(t, err, driver.ErrNotSupported)
	h.Unreadable(t)
	names := map[string]bool{}
	for _, s := range stepper.Steps() {
		assert.False(t, names[s.Name], "%s is declared twice", s.Name)
		names[s.Name] = true
		_, err := stepper.RunStep(t.Context(), driver.StepCall{Identity: h.ID, Name: s.Name})
		assert.Error(t, err, s.Name)
	}
}
