package nvme

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// updated is a drive that runs GDC5902Q from slot 2 since its update from GDC5602Q, which stays in slot 1.
func updated(t *testing.T) *drive {
	d := newDrive(t, "id-ctrl-2.3-samsung.json", "fw-log-2.13-pending.json")
	d.identify.Stdout = []byte(strings.ReplaceAll(string(d.identify.Stdout), "GDC5602Q", "GDC5902Q"))
	afi := regexp.MustCompile(`("Active Firmware Slot \(afi\)"\s*:\s*)\d+`)
	d.log.Stdout = afi.ReplaceAll(d.log.Stdout, []byte("${1}34"))
	return d
}

func TestRevertCommitsTheSlotThatHoldsTheVersionAndDownloadsNothing(t *testing.T) {
	for file, want := range map[string]inventory.Activation{
		"fw-commit-2.3-ok.txt": inventory.ActivateDeviceReset, "fw-commit-2.3-conventional.txt": inventory.ActivateReboot,
	} {
		d := updated(t)
		d.commit = command.Result{Stdout: []byte(golden(t, file))}
		r := d.runner(t)
		need, err := New(r).Revert(t.Context(), id, "GDC5602Q")
		require.NoError(t, err)
		assert.Equal(t, want, need)
		calls := r.Calls()
		require.Len(t, calls, 3)
		assert.Equal(t, "nvme fw-commit /dev/nvme0 --slot=1 --action=2", calls[2].String())
		assert.Equal(t, command.Write, calls[2].Kind)
		assert.Equal(t, "144d-SAMSUNG-MZQL23T8HCLS-00A07-S64HNE0T000000", calls[2].Lock)
	}
}

func TestRevertWritesNothingWhereThereIsNothingToDo(t *testing.T) {
	r := updated(t).runner(t)
	need, err := New(r).Revert(t.Context(), id, "GDC5902Q")
	require.NoError(t, err, "it runs already")
	assert.Equal(t, inventory.ActivateNone, need)
	_, err = New(r).Revert(t.Context(), id, "GDC0001Q")
	require.ErrorIs(t, err, driver.ErrNotSupported)
	_, err = New(r).Revert(t.Context(), id, "")
	require.ErrorIs(t, err, driver.ErrNotSupported, "an empty slot is no version")
	pending := newDrive(t, "id-ctrl-2.3-samsung.json", "fw-log-2.13-pending.json").runner(t)
	need, err = New(pending).Revert(t.Context(), id, "GDC5902Q")
	require.NoError(t, err, "it is staged already")
	assert.Equal(t, inventory.ActivateDeviceReset, need)
	assert.NotContains(t, strings.Join(append(r.Lines(), pending.Lines()...), "\n"), "fw-commit")
}

func TestRevertTakesBackStaged(t *testing.T) {
	r := newDrive(t, "id-ctrl-2.3-samsung.json", "fw-log-2.13-pending.json").runner(t)
	need, err := New(r).Revert(t.Context(), id, "GDC5602Q")
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateNone, need, "it runs already")
	assert.Contains(t, r.Lines(), "nvme fw-commit /dev/nvme0 --slot=1 --action=2")
}

func TestRevertSaysWhatTheDriveSays(t *testing.T) {
	d := updated(t)
	d.commit = command.Result{ExitCode: 1, Stderr: []byte(golden(t, "fw-commit-2.3-error-slot.txt"))}
	_, err := New(d.runner(t)).Revert(t.Context(), id, "GDC5602Q")
	require.ErrorAs(t, err, new(*command.Error))
	require.ErrorContains(t, err, "refuses the slot")
	d.commit = command.Result{ExitCode: 1, Stderr: fmt.Appendf(nil, "NVMe status: Some text(%#x)\n", int(admin.ActivationProhibited))}
	_, err = New(d.runner(t)).Revert(t.Context(), id, "GDC5602Q")
	require.ErrorAs(t, err, new(*driver.RejectedError))
}

func TestADriveThatTakesNoFirmwareIsNotReverted(t *testing.T) {
	r := newDrive(t, "id-ctrl-2.3-qemu.json", "fw-log-2.3-qemu.json").runner(t)
	_, fw, err := New(r).Inspect(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, inventory.RollbackNone, fw.Rollback)
	assert.Equal(t, fw.ReadOnly, fw.RollbackMessage)
	_, err = New(r).Revert(t.Context(), id, "0.9")
	require.ErrorIs(t, err, driver.ErrNotSupported)
	assert.NotContains(t, strings.Join(r.Lines(), "\n"), "fw-commit")
}

// TestWhatADriveCanBringBack proves R002-2.
func TestWhatADriveCanBringBack(t *testing.T) {
	held := func(revisions ...inventory.Version) map[int]inventory.Version {
		m := map[int]inventory.Version{}
		for i, r := range revisions {
			m[i+1] = r
		}
		return m
	}
	able := controller{Downloadable: true, Revision: "A"}
	for name, c := range map[string]struct {
		slots    int
		readOnly bool
		log      slotLog
		want     inventory.Rollback
		says     string
	}{
		"its slot is kept":                   {3, false, slotLog{Active: 1, Revisions: held("A", "B")}, inventory.RollbackSlot, ""},
		"it runs from the read-only slot":    {2, true, slotLog{Active: 1, Revisions: held("A")}, inventory.RollbackSlot, ""},
		"another image is staged":            {2, false, slotLog{Active: 1, Next: 2, Revisions: held("A", "B")}, inventory.RollbackSlot, ""},
		"a copy of it is kept":               {2, false, slotLog{Revisions: held("A", "A")}, inventory.RollbackSlot, ""},
		"its only slot is overwritten":       {1, false, slotLog{Active: 1, Revisions: held("A")}, inventory.RollbackImage, "an update overwrites"},
		"its only slot is overwritten again": {1, false, slotLog{Active: 1, Revisions: held("B")}, inventory.RollbackImage, "image of A is needed"},
		"its slot shows no revision":         {3, false, slotLog{Active: 1, Revisions: held("", "B")}, inventory.RollbackImage, "does not list"},
		"only its slot can be written":       {2, true, slotLog{Active: 2, Revisions: held("B", "A")}, inventory.RollbackNone, "without overwriting"},
		"no slot is known to run":            {3, false, slotLog{Revisions: held("B")}, inventory.RollbackNone, "does not say which"},
	} {
		t.Run(name, func(t *testing.T) {
			ctrl := able
			ctrl.Slots, ctrl.FirstSlotReadOnly = c.slots, c.readOnly
			kind, message := rollback(ctrl, c.log)
			assert.Equal(t, c.want, kind)
			assert.Contains(t, message, c.says)
			assert.Equal(t, c.says == "", message == "")
		})
	}
}

// Whatever a drive with several slots reports: a write goes to a slot that can be written and leaves what runs where a
// revert finds it (I5).
func TestAWriteLeavesTheLastKnownGoodSlotAlone_I5(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := controller{
			Downloadable: true, Revision: "A",
			Slots: rapid.IntRange(1, 7).Draw(t, "slots"), FirstSlotReadOnly: rapid.Bool().Draw(t, "read-only"),
		}
		l := slotLog{
			Active: rapid.IntRange(0, c.Slots).Draw(t, "active"), Next: rapid.IntRange(0, c.Slots).Draw(t, "next"),
			Revisions: map[int]inventory.Version{},
		}
		for slot := 1; slot <= c.Slots; slot++ {
			l.Revisions[slot] = inventory.Version(rapid.SampledFrom([]string{"", "A", "B"}).Draw(t, "revision"))
		}
		kind, message := rollback(c, l)
		slot, err := slotFor(c, l)
		if err != nil || c.readOnly() != "" {
			if kind != inventory.RollbackNone || message == "" {
				t.Fatalf("%s of a drive that cannot be written", kind)
			}
			return
		}
		if slot == 1 && c.FirstSlotReadOnly || c.Slots > 1 && slot == l.Active {
			t.Fatalf("writes slot %d of %+v", slot, l)
		}
		l.Revisions[slot], l.Active, c.Revision = "NEW", slot, "NEW"
		if found := l.holder("A"); (kind == inventory.RollbackSlot) != (found != 0) {
			t.Fatalf("%s, and slot %d holds what ran, in %+v", kind, found, l)
		}
	})
}
