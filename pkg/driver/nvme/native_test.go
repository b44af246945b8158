package nvme_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin/admintest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestEveryStatusOfACommitHasItsConsequence(t *testing.T) {
	for status, c := range map[admin.Status]struct {
		need     inventory.Activation
		rejected bool
		says     string
	}{
		admin.Success:                {need: inventory.ActivateDeviceReset},
		admin.NeedsControllerReset:   {need: inventory.ActivateDeviceReset},
		admin.NeedsConventionalReset: {need: inventory.ActivateReboot},
		admin.NeedsSubsystemReset:    {need: inventory.ActivateReboot},
		admin.InvalidSlot:            {says: "refuses the slot"},
		admin.InvalidImage:           {rejected: true, says: "does not accept the image"},
		admin.MaximumTimeViolation:   {says: "in the time it declares"},
		admin.ActivationProhibited:   {rejected: true, says: "prohibits this image"},
		admin.OverlappingRange:       {says: "holds pieces of another download"},
		0x2ff:                        {says: "failed the command"},
	} {
		t.Run(status.String(), func(t *testing.T) {
			t.Parallel()
			s := able()
			s.Answer = status
			_, d, _ := rig(t, s)
			need, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
			assert.Equal(t, c.need, need)
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
			assert.Equal(t, c.rejected, errors.As(err, new(*driver.RejectedError)))
			assert.Equal(t, !c.rejected, errors.As(err, new(*command.Error)))
		})
	}
}

func TestTheSlotIsNeverTheRunningOneAndNeverTheDrivesChoice(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*admintest.State)
		want   []string
	}{
		"an empty one":              {func(*admintest.State) {}, []string{"OLD00001", "NEW00001", ""}},
		"not the read-only one":     {func(s *admintest.State) { s.FirstSlotReadOnly, s.Active = true, 2; s.Slots[1].Revision = "OLD00001" }, []string{"OLD00001", "OLD00001", "NEW00001"}},
		"the oldest when all hold":  {func(s *admintest.State) { s.Slots = admintest.Slots("OLD00001", "A") }, []string{"OLD00001", "NEW00001"}},
		"the only one of one":       {func(s *admintest.State) { s.Slots = s.Slots[:1] }, []string{"NEW00001"}},
		"the first when it is free": {func(s *admintest.State) { s.Slots, s.Active = admintest.Slots("", "OLD00001"), 2 }, []string{"NEW00001", "OLD00001"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := able()
			c.change(&s)
			drive, d, _ := rig(t, s)
			_, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
			require.NoError(t, err)
			after := state(t, drive)
			assert.Equal(t, c.want, after.Revisions())
			assert.Equal(t, []admin.Action{admin.ReplaceAtReset}, after.Actions, "a write activates nothing")
		})
	}
}

// QEMU's drive and most cloud drives are such.
func TestADriveWithoutDownloadIsListedAndNothingElse(t *testing.T) {
	for name, noLog := range map[string]bool{"with a slot log": false, "without one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := able()
			s.NoDownload, s.NoSlotLog = true, noLog
			drive, d, _ := rig(t, s)
			id, fw, err := d.Inspect(t.Context(), identity(s))
			require.NoError(t, err)
			assert.Equal(t, []string{model, "SN 0001"}, []string{id.Model, id.SerialNumber})
			assert.Equal(t, inventory.Version("OLD00001"), fw.Running)
			assert.Contains(t, fw.ReadOnly, "OACS bit 2 is clear")
			assert.Equal(t, inventory.RollbackNone, fw.Rollback)
			img := image(t, "NEW00001")
			require.ErrorAs(t, d.Check(t.Context(), identity(s), img), new(*driver.RejectedError))
			_, err = d.Write(t.Context(), identity(s), img, nil)
			require.ErrorIs(t, err, driver.ErrNotSupported)
			assert.Zero(t, state(t, drive).Downloads)
		})
	}
	s := able()
	s.NoSlotLog = true
	_, d, _ := rig(t, s)
	_, _, err := d.Inspect(t.Context(), identity(s))
	require.ErrorAs(t, err, new(*admin.StatusError), "a drive that takes firmware has the log")
}

func TestADriveThatVanishesInAWriteIsClearlyAnError(t *testing.T) {
	s := able()
	drive, d, _ := rig(t, s)
	require.NoError(t, drive.SetFault(admintest.GoneInDownload, ""))
	need, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
	require.ErrorIs(t, err, admin.ErrGone)
	require.ErrorContains(t, err, "download firmware at byte 4096 of 16384")
	assert.Zero(t, need)
}

// What the kernel calls by the name is another drive than the one that was meant.
func TestAnotherDriveOfTheSameNameIsNotWritten(t *testing.T) {
	s := able()
	drive, _, runner := rig(t, s)
	d := nvme.NewNative(runner, func(node string) (admin.Controller, error) {
		c, err := drive.Open(node)
		return renamed{c}, err
	})
	_, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
	require.ErrorContains(t, err, "nothing was sent")
	assert.Zero(t, state(t, drive).Downloads)
}

// renamed has another serial number.
type renamed struct{ admin.Controller }

func (r renamed) Do(c *admin.Command, data []byte) (admin.Status, error) {
	status, err := r.Controller.Do(c, data)
	if c.Opcode == admin.OpcodeIdentify {
		copy(data[4:], "OTHER   ")
	}
	return status, err
}

func TestHowAStagedImageIsActivated(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*admintest.State)
		want   inventory.Activation
		now    bool
		resets int
	}{
		"by a reset":                                    {func(s *admintest.State) { s.Activation = nvmectrl.AtControllerReset }, inventory.ActivateNone, false, 1},
		"without one where the drive can":               {func(s *admintest.State) { s.IgnoresResets = true }, inventory.ActivateNone, true, 0},
		"by a reset where the pause is not known":       {func(s *admintest.State) { s.MTFA = 0 }, inventory.ActivateNone, false, 1},
		"by a reset where the kernel would not wait":    {func(s *admintest.State) { s.MTFA = time.Minute }, inventory.ActivateNone, false, 1},
		"by a reset where this image takes longer":      {func(s *admintest.State) { s.ActivationTime = time.Minute }, inventory.ActivateNone, true, 1},
		"by a reset where the drive asks for it":        {func(s *admintest.State) { s.RefusesNow = admin.NeedsControllerReset }, inventory.ActivateNone, true, 1},
		"by a reboot where the drive asks for it":       {func(s *admintest.State) { s.RefusesNow = admin.NeedsSubsystemReset }, inventory.ActivateReboot, true, 0},
		"by a reboot where a reset changed nothing":     {func(s *admintest.State) { s.Activation, s.IgnoresResets = nvmectrl.AtControllerReset, true }, inventory.ActivateReboot, false, 1},
		"by a reboot where nothing else did, after all": {func(s *admintest.State) { s.RefusesNow, s.IgnoresResets = admin.NeedsControllerReset, true }, inventory.ActivateReboot, true, 1},
	} {
		for _, hides := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hides the next slot: %t", name, hides), func(t *testing.T) {
				t.Parallel()
				s := able()
				s.Activation, s.MTFA, s.HidesNext = nvmectrl.Immediately, 5*time.Second, hides
				c.change(&s)
				drive, d, _ := rig(t, s)
				need, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
				require.NoError(t, err)
				require.Equal(t, inventory.ActivateDeviceReset, need)
				need, err = d.Activate(t.Context(), identity(s), need)
				require.NoError(t, err)
				assert.Equal(t, c.want, need)
				after := state(t, drive)
				assert.Equal(t, c.resets, after.Resets)
				assert.Equal(t, c.now, slices.Contains(after.Actions, admin.ActivateNow))
				_, fw, err := d.Inspect(t.Context(), identity(s))
				require.NoError(t, err)
				assert.Equal(t, c.want == inventory.ActivateNone, fw.Running == "NEW00001")
			})
		}
	}
}

// Bits 6:4 of AFI are 0 where the drive does not indicate the slot that runs next, which does not mean that none waits.
func TestADriveThatDoesNotSayWhatIsStagedIsNotBelievedToHoldWhatRuns(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*admintest.State)
		want   inventory.Activation
	}{
		"a reset activates":        {func(*admintest.State) {}, inventory.ActivateNone},
		"a reset changes nothing":  {func(s *admintest.State) { s.IgnoresResets = true }, inventory.ActivateReboot},
		"it could do without one":  {func(s *admintest.State) { s.Activation, s.MTFA = nvmectrl.Immediately, time.Second }, inventory.ActivateNone},
		"an older image is stored": {func(s *admintest.State) { s.Slots[2].Revision = "OLDER" }, inventory.ActivateNone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := able()
			s.HidesNext = true
			c.change(&s)
			drive, d, runner := rig(t, s)
			_, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
			require.NoError(t, err)
			_, fw, err := d.Inspect(t.Context(), identity(s))
			require.NoError(t, err)
			assert.Empty(t, fw.Stored, "the drive does not report it")
			for _, slot := range fw.Slots {
				assert.NotEqual(t, inventory.SlotPending, slot.State)
			}

			restarted := nvme.NewNative(runner, drive.Open)
			need, err := restarted.Activate(t.Context(), identity(s), inventory.ActivateDeviceReset)
			require.NoError(t, err)
			assert.Equal(t, c.want, need)
			after := state(t, drive)
			assert.Equal(t, 1, after.Resets, "a process that did not write resets")
			assert.NotContains(t, after.Actions, admin.ActivateNow)
			assert.Equal(t, c.want == inventory.ActivateNone, after.Running.Revision == "NEW00001")
		})
	}
}

func TestRevertsHiddenActivation(t *testing.T) {
	s := able()
	s.HidesNext = true
	drive, d, _ := rig(t, s)
	_, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
	require.NoError(t, err)
	need, err := d.Revert(t.Context(), identity(s), "OLD00001")
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateNone, need, "it runs already")
	after := state(t, drive)
	assert.Equal(t, admin.ActivateAtReset, after.Actions[len(after.Actions)-1])
	require.NoError(t, drive.PowerCycle())
	assert.Equal(t, "OLD00001", state(t, drive).Running.Revision)
}

// A reset would activate what may be staged.
func TestADriveThatMayHideAStagedImageIsNotResetForADownload(t *testing.T) {
	s := able()
	s.HidesNext, s.RestartsAtZero, s.Buffer = true, false, nvmectrl.Downloaded(make([]byte, 4096))
	s.Slots, s.Next = admintest.Slots("OLD00001", "WAITS"), 2
	drive, d, _ := rig(t, s)
	_, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
	require.ErrorContains(t, err, "holds pieces of another download")
	assert.Zero(t, state(t, drive).Resets)
}

func TestSaysActivationProhibited(t *testing.T) {
	s := able()
	s.Activation, s.MTFA, s.RefusesNow = nvmectrl.Immediately, time.Second, admin.ActivationProhibited
	drive, d, _ := rig(t, s)
	need, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
	require.NoError(t, err)
	_, err = d.Activate(t.Context(), identity(s), need)
	require.ErrorContains(t, err, "prohibits this image")
	assert.Zero(t, state(t, drive).Resets)
}

// What was downloaded and not committed would be stored over the slot that is to be activated. A reset drops it.
func TestWhatIsLeftInTheBufferNeverReachesASlot_I5(t *testing.T) {
	s := able()
	s.Activation, s.MTFA = nvmectrl.Immediately, time.Second
	s.Slots, s.Active = admintest.Slots("OLD00001", "NEW00001", ""), 2
	s.Running = s.Slots[1]
	s.Buffer = nvmectrl.Downloaded(admintest.ImageBytes(model, "BAD00001"))
	drive, d, _ := rig(t, s)
	need, err := d.Revert(t.Context(), identity(s), "OLD00001")
	require.NoError(t, err)
	need, err = d.Activate(t.Context(), identity(s), need)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateNone, need)
	after := state(t, drive)
	assert.Equal(t, []string{"OLD00001", "NEW00001", ""}, after.Revisions())
	assert.Equal(t, "OLD00001", after.Running.Revision)
	assert.Equal(t, 1, after.Resets)

	// The same after a write of this process that stored nothing.
	require.NoError(t, drive.Change(func(s *admintest.State) { s.Refuses = admin.ActivationProhibited }))
	_, err = d.Write(t.Context(), identity(s), image(t, "NEW2"), nil)
	require.Error(t, err)
	require.NoError(t, drive.Change(func(s *admintest.State) { s.Refuses, s.Next = admin.Success, 2 }))
	_, err = d.Activate(t.Context(), identity(s), inventory.ActivateDeviceReset)
	require.NoError(t, err)
	after = state(t, drive)
	assert.Equal(t, []string{"OLD00001", "NEW00001", ""}, after.Revisions())
	assert.NotContains(t, after.Actions, admin.ActivateNow)
}

func TestADriveThatDoesNotComeBackFromItsResetIsAnError(t *testing.T) {
	s := able()
	drive, d, _ := rig(t, s)
	need, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
	require.NoError(t, err)
	require.NoError(t, drive.SetFault(admintest.GoneInReset, ""))
	_, err = d.Activate(t.Context(), identity(s), need)
	require.ErrorIs(t, err, admin.ErrGone)
}

// stuck is a drive whose reads do not return until they are let go.
type stuck struct {
	admin.Controller
	mu      sync.Mutex
	started int
	release chan struct{}
}

func (s *stuck) Do(c *admin.Command, data []byte) (admin.Status, error) {
	s.mu.Lock()
	s.started++
	s.mu.Unlock()
	<-s.release
	return s.Controller.Do(c, data)
}

func (s *stuck) reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}

func TestAReadThatHangsIsLeftAloneAndNotJoinedByAnother(t *testing.T) {
	s := able()
	drive, _, runner := rig(t, s)
	hangs := &stuck{release: make(chan struct{})}
	d := nvme.NewNative(runner, func(node string) (admin.Controller, error) {
		c, err := drive.Open(node)
		hangs.Controller = c
		return hangs, err
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		assert.Eventually(t, func() bool { return hangs.reads() > 0 }, time.Minute, time.Millisecond)
		cancel()
	}()
	_, _, err := d.Inspect(ctx, identity(s))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "/dev/nvme7: the drive does not answer")
	for range 3 {
		_, _, err = d.Inspect(t.Context(), identity(s))
		require.ErrorContains(t, err, "an earlier read of it has not returned")
	}
	assert.Equal(t, 1, hangs.reads())

	close(hangs.release)
	require.Eventually(t, func() bool {
		_, _, err = d.Inspect(t.Context(), identity(s))
		return err == nil
	}, time.Minute, time.Millisecond, "it answers again")
}

// That its power-on hours do not come says nothing of the drive: who reads its firmware next waits for them, and is told no fault.
func TestHoursThatHangBlameNoDrive(t *testing.T) {
	s := able()
	drive, _, runner := rig(t, s)
	hangs := &stuck{release: make(chan struct{})}
	d := nvme.NewNative(runner, func(node string) (admin.Controller, error) {
		c, err := drive.Open(node)
		hangs.Controller = c
		return hangs, err
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		assert.Eventually(t, func() bool { return hangs.reads() > 0 }, time.Minute, time.Millisecond)
		cancel()
	}()
	_, err := d.PowerOnHours(ctx, identity(s))
	require.ErrorIs(t, err, context.Canceled)
	_, err = d.PowerOnHours(t.Context(), identity(s))
	require.ErrorContains(t, err, "an earlier read of it has not returned")
	assert.Equal(t, 1, hangs.reads(), "they are not asked for again")

	_, _, err = d.Inspect(ctx, identity(s))
	require.ErrorContains(t, err, "another read of the drive has not returned: context canceled", "it waited as long as it might")
	inspected := make(chan error)
	go func() {
		_, _, err := d.Inspect(t.Context(), identity(s))
		inspected <- err
	}()
	close(hangs.release)
	require.NoError(t, <-inspected)
}

func TestReadsOfOneDriveTakeTurns(t *testing.T) {
	s := able()
	drive, _, runner := rig(t, s)
	var mu sync.Mutex
	open, most := 0, 0
	d := nvme.NewNative(runner, func(node string) (admin.Controller, error) {
		mu.Lock()
		defer mu.Unlock()
		open++
		most = max(most, open)
		c, err := drive.Open(node)
		return closing{c, func() { mu.Lock(); open--; mu.Unlock() }}, err
	})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			_, _, err := d.Inspect(t.Context(), identity(s))
			assert.NoError(t, err)
		})
	}
	group.Wait()
	assert.Equal(t, 1, most)
	assert.Zero(t, open, "every controller is closed")
}

type closing struct {
	admin.Controller
	closed func()
}

func (c closing) Close() error {
	c.closed()
	return c.Controller.Close()
}

// A tool that was killed in the middle leaves pieces in the drive, which some drives keep until a reset.
func TestADownloadThatWasCutOffDoesNotKeepTheNextOneOut(t *testing.T) {
	s := able()
	s.RestartsAtZero, s.Buffer = false, nvmectrl.Downloaded(make([]byte, 4096))
	drive, d, _ := rig(t, s)
	_, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
	require.NoError(t, err)
	after := state(t, drive)
	assert.Equal(t, 1, after.Resets)
	assert.Equal(t, s.Running, after.Running)
	assert.Contains(t, after.Revisions(), "NEW00001")

	t.Run("but nothing that waits is activated for it", func(t *testing.T) {
		s := able()
		s.RestartsAtZero, s.Buffer = false, nvmectrl.Downloaded(make([]byte, 4096))
		s.Slots, s.Next = admintest.Slots("OLD00001", "WAITS"), 2
		drive, d, _ := rig(t, s)
		_, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
		require.ErrorContains(t, err, "holds pieces of another download")
		assert.Zero(t, state(t, drive).Resets)
	})
}

// The kernel holds commands off for a while when a drive tells it of its new firmware.
func TestADriveThatSettlesAfterItsActivationIsWaitedFor(t *testing.T) {
	s := able()
	s.Activation, s.MTFA, s.IgnoresResets, s.Settles = nvmectrl.Immediately, time.Second, true, 3
	drive, d, _ := rig(t, s)
	_, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
	require.NoError(t, err)
	need, err := d.Activate(t.Context(), identity(s), inventory.ActivateDeviceReset)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateNone, need)
	after := state(t, drive)
	assert.Equal(t, "NEW00001", after.Running.Revision)
	assert.Zero(t, after.Resets)
}

// settling answers the first reads after an activation with the status the kernel itself gives to commands that it holds off.
type settling struct {
	admin.Controller
	drive *admintest.Drive
	mu    *sync.Mutex
	left  *int
}

func (s settling) Do(c *admin.Command, data []byte) (admin.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, err := s.drive.State(); err == nil && now.Running.Revision == "NEW00001" && *s.left > 0 {
		*s.left--
		return 0x370 + admin.Status(*s.left%2), nil
	}
	return s.Controller.Do(c, data)
}

func TestWhatTheKernelAbortsAfterAnActivationIsAskedAgain(t *testing.T) {
	s := able()
	s.Activation, s.MTFA, s.IgnoresResets = nvmectrl.Immediately, time.Second, true
	drive, _, runner := rig(t, s)
	var mu sync.Mutex
	left := 3
	d := nvme.NewNative(runner, func(node string) (admin.Controller, error) {
		c, err := drive.Open(node)
		return settling{c, drive, &mu, &left}, err
	})
	_, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
	require.NoError(t, err)
	need, err := d.Activate(t.Context(), identity(s), inventory.ActivateDeviceReset)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateNone, need)
	assert.Zero(t, left)
	assert.Zero(t, state(t, drive).Resets)
}

func TestAnActivationThatTheKernelAbortsIsMadeByAReset(t *testing.T) {
	for _, status := range []admin.Status{0x370, 0x371} {
		s := able()
		s.Activation, s.MTFA, s.RefusesNow = nvmectrl.Immediately, time.Second, status
		drive, d, _ := rig(t, s)
		_, err := d.Write(t.Context(), identity(s), image(t, "NEW00001"), nil)
		require.NoError(t, err)
		need, err := d.Activate(t.Context(), identity(s), inventory.ActivateDeviceReset)
		require.NoError(t, err)
		assert.Equal(t, inventory.ActivateNone, need)
		after := state(t, drive)
		assert.Equal(t, "NEW00001", after.Running.Revision)
		assert.Equal(t, 1, after.Resets)
	}
}

// The namespaces of a drive with two ports may be private to a port, and go with it. The drive is the same one through both ports.
func TestADriveWithTwoPortsKeepsItsIDWhenAPortDies(t *testing.T) {
	for name, c := range map[string]struct {
		ports  bool
		kernel string
		want   [2]string
	}{
		"two ports":                              {true, "nvme", [2]string{"0000-" + model + "-SN-0001", "0000-" + model + "-SN-0001"}},
		"one port":                               {false, "nvme", [2]string{"eui.0001", "eui.0002"}},
		"behind a network, with two ports there": {true, "nvme_tcp", [2]string{"eui.0001", "eui.0002"}},
	} {
		s := able()
		s.TwoPorts = c.ports
		_, d, _ := rig(t, s)
		for i, namespace := range []string{"eui.0001", "eui.0002"} { // what sysfs shows first, before and after
			id := identity(s)
			id.UniqueID, id.Kernel = namespace, c.kernel
			got, _, err := d.Inspect(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, strings.ReplaceAll(c.want[i], " ", "-"), got.UniqueID, name)
			again, _, err := d.Inspect(t.Context(), got)
			require.NoError(t, err)
			assert.Equal(t, got.UniqueID, again.UniqueID, name)
		}
	}
}
