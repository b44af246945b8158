package drivertest

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// rollbackCases prove that a driver supports the rollback it declares, and no other.
func rollbackCases(kind inventory.Rollback) []conformanceCase {
	return append([]conformanceCase{
		{"the kind of rollback is declared", testDeclared},                           // R002-2
		{"an undeclared rollback is not supported and does nothing", testUndeclared}, // R002-2
	}, map[inventory.Rollback][]conformanceCase{
		inventory.RollbackReadBack: readBackCases(),
		inventory.RollbackSlot:     slotCases(),
		inventory.RollbackImage:    {{"an image of what ran can be written again", testImageBack}},
	}[kind]...)
}

func readBackCases() []conformanceCase {
	return []conformanceCase{
		{"what was read back can be written back", testReadBack},
		{"only what runs is archived", testArchiveStaged},
		{"an archive never replaces a file", testArchiveOnce},
		{"an archive that failed leaves no file", testArchiveFails},
		{"a device that does not answer is not archived", testArchiveUnreadable}, // R002-43
		{"nonsense from the tools is not archived", testArchiveGarbage},
	}
}

func slotCases() []conformanceCase {
	return []conformanceCase{
		{"a slot keeps what ran and runs it again", testSlot}, // I5
		{"a staged image can be taken back", testRevertStaged},
		{"a version no slot holds is not supported and writes nothing", testRevertUnknown},
		{"a device that does not answer is not reverted", testRevertUnreadable}, // R002-43
	}
}

func testDeclared(t *testing.T, h Harness) {
	_, before := h.inspect(t)
	_, archives := h.Driver.(driver.Archiver)
	_, reverts := h.Driver.(driver.Reverter)
	switch before.Rollback {
	case inventory.RollbackReadBack:
		assert.True(t, archives)
	case inventory.RollbackSlot:
		assert.True(t, reverts)
		assert.NotEmpty(t, before.Slots)
	case inventory.RollbackNone:
		assert.NotEmpty(t, before.RollbackMessage, "the message must say why")
	case inventory.RollbackImage:
	default:
		assert.Fail(t, "unknown kind", before.Rollback)
	}
	h.activate(t, h.write(t, h.Image))
	_, after := h.inspect(t)
	if before.Rollback == inventory.RollbackReadBack || before.Rollback == inventory.RollbackSlot {
		assert.Equal(t, before.Rollback, after.Rollback, "it needs nothing but the device")
	}
}

func testUndeclared(t *testing.T, h Harness) {
	_, before := h.inspect(t)
	if a, ok := h.Driver.(driver.Archiver); ok && before.Rollback != inventory.RollbackReadBack {
		path := filepath.Join(t.TempDir(), "image")
		require.ErrorIs(t, a.Archive(t.Context(), h.ID, path), driver.ErrNotSupported)
		assert.NoFileExists(t, path)
	}
	if r, ok := h.Driver.(driver.Reverter); ok && before.Rollback != inventory.RollbackSlot {
		_, err := r.Revert(t.Context(), h.ID, h.Image.Version)
		require.ErrorIs(t, err, driver.ErrNotSupported)
	}
	_, after := h.inspect(t)
	assert.Equal(t, before, after)
}

func testReadBack(t *testing.T, h Harness) {
	_, before := h.inspect(t)
	img := h.archive(t)
	_, after := h.inspect(t)
	assert.Equal(t, before, after, "reading changes nothing")
	h.activate(t, h.write(t, h.Image))
	_, after = h.inspect(t)
	require.Equal(t, h.Image.Version, after.Running)
	h.bringBack(t, before, img)
}

// bringBack writes an image of the previous version and makes it run.
func (h Harness) bringBack(t *testing.T, before inventory.Firmware, img driver.Image) {
	t.Helper()
	require.NoError(t, h.check(t, img))
	h.activate(t, h.write(t, img))
	_, after := h.inspect(t)
	assert.Equal(t, before.Running, after.Running)
	assert.False(t, after.Pending())
	assert.Empty(t, after.LastAttempt)
}

// archive reads the running image into a file and describes it as a job would.
func (h Harness) archive(t *testing.T) driver.Image {
	t.Helper()
	_, fw := h.inspect(t)
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, h.Driver.(driver.Archiver).Archive(t.Context(), h.ID, path))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	img := driver.Image{Path: path, Version: fw.Running, Digest: sha256.Sum256(content), Size: int64(len(content))}
	require.NoError(t, h.check(t, img))
	return img
}

// A device may only allow its stored image to be read. It must then fail while another image is staged.
func testArchiveStaged(t *testing.T, h Harness) {
	h.write(t, h.Image)
	path := filepath.Join(t.TempDir(), "image")
	if err := h.Driver.(driver.Archiver).Archive(t.Context(), h.ID, path); err != nil {
		require.ErrorIs(t, err, driver.ErrNotSupported)
		assert.NoFileExists(t, path)
		return
	}
	_, fw := h.inspect(t)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	img := driver.Image{Path: path, Version: fw.Running, Digest: sha256.Sum256(content), Size: int64(len(content))}
	require.NoError(t, h.check(t, img))
}

func testArchiveOnce(t *testing.T, h Harness) {
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, []byte("archived before"), 0o600))
	require.ErrorIs(t, h.Driver.(driver.Archiver).Archive(t.Context(), h.ID, path), os.ErrExist)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "archived before", string(content))
}

func testArchiveFails(t *testing.T, h Harness) {
	_, before := h.inspect(t)
	h.FailRead(t)
	h.archiveFails(t)
	_, after := h.inspect(t)
	assert.Equal(t, before, after)
}

func testArchiveUnreadable(t *testing.T, h Harness) {
	h.Unreadable(t)
	h.archiveFails(t)
}

func testArchiveGarbage(t *testing.T, h Harness) {
	h.Garbage(t)
	h.archiveFails(t)
}

func (h Harness) archiveFails(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	err := h.Driver.(driver.Archiver).Archive(t.Context(), h.ID, path)
	require.Error(t, err)
	require.NotErrorIs(t, err, driver.ErrNotSupported, "another try may help")
	assert.NoFileExists(t, path)
}

func testSlot(t *testing.T, h Harness) {
	_, before := h.inspect(t)
	h.activate(t, h.write(t, h.Image))
	_, updated := h.inspect(t)
	require.Equal(t, h.Image.Version, updated.Running)
	assert.Equal(t, slotOf(t, before, before.Running), slotOf(t, updated, before.Running), "what ran stays in its slot")

	need := h.revert(t, before.Running)
	_, staged := h.inspect(t)
	h.assertHolds(t, staged, before.Running)
	assert.Equal(t, staged.Pending() || blind(staged), need != inventory.ActivateNone)
	again := h.revert(t, before.Running)
	assert.LessOrEqual(t, again, need)
	assert.Equal(t, need != inventory.ActivateNone, again != inventory.ActivateNone, "reverting twice is reverting once")
	h.activate(t, need)
	_, after := h.inspect(t)
	assert.Equal(t, before.Running, after.Running)
	assert.False(t, after.Pending())
	for _, version := range []inventory.Version{before.Running, h.Image.Version} {
		assert.Equal(t, slotOf(t, updated, version), slotOf(t, after, version), "no slot was written")
	}
}

func slotOf(t *testing.T, fw inventory.Firmware, v inventory.Version) int {
	t.Helper()
	i := slices.IndexFunc(fw.Slots, func(s inventory.Slot) bool { return s.Version == v })
	require.GreaterOrEqual(t, i, 0, "no slot holds %s: %v", v, fw.Slots)
	return fw.Slots[i].Number
}

func (h Harness) revert(t *testing.T, v inventory.Version) inventory.Activation {
	t.Helper()
	need, err := h.Driver.(driver.Reverter).Revert(t.Context(), h.ID, v)
	require.NoError(t, err)
	return need
}

func testRevertStaged(t *testing.T, h Harness) {
	_, before := h.inspect(t)
	h.write(t, h.Image)
	h.activate(t, h.revert(t, before.Running))
	h.Reboot(t)
	_, after := h.inspect(t)
	assert.Equal(t, before.Running, after.Running)
	assert.False(t, after.Pending())
}

func testRevertUnknown(t *testing.T, h Harness) {
	_, before := h.inspect(t)
	h.FailWrite(t, "nothing is to be written")
	for _, v := range []inventory.Version{h.Other.Version, ""} {
		_, err := h.Driver.(driver.Reverter).Revert(t.Context(), h.ID, v)
		require.ErrorIs(t, err, driver.ErrNotSupported)
	}
	_, after := h.inspect(t)
	assert.Equal(t, before, after)
}

func testRevertUnreadable(t *testing.T, h Harness) {
	_, before := h.inspect(t)
	h.activate(t, h.write(t, h.Image))
	h.Unreadable(t)
	_, err := h.Driver.(driver.Reverter).Revert(t.Context(), h.ID, before.Running)
	require.Error(t, err)
	require.NotErrorIs(t, err, driver.ErrNotSupported, "another try may help")
	assert.Equal(t, h.Image.Version, h.Stored(t))
}

func testImageBack(t *testing.T, h Harness) {
	_, before := h.inspect(t)
	require.Equal(t, before.Running, h.Previous.Version)
	h.activate(t, h.write(t, h.Image))
	_, updated := h.inspect(t)
	require.Equal(t, h.Image.Version, updated.Running)
	h.bringBack(t, before, h.Previous)
}
