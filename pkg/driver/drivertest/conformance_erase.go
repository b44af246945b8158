package drivertest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// eraseCases are those of a device that can be erased, if the driver says so.
func eraseCases(t *testing.T, h Harness) []conformanceCase {
	eraser, ok := h.Driver.(driver.Eraser)
	if !ok {
		return nil
	}
	id, _ := h.inspect(t)
	e, err := eraser.Erasure(t.Context(), id)
	require.NoError(t, err)
	if len(e.Methods) == 0 {
		return []conformanceCase{{"a device that does not erase refuses to", testNoErasure}}
	}
	return []conformanceCase{
		{"an erasure goes on in the device and is reported to its end", testErase},
		{"a device that erases is still known, and takes neither firmware nor another erasure", testErasing},
		{"a method that the device does not offer begins nothing", testOtherMethod},
		{"a device that took the place of another is not erased", testOtherDevice},
		{"nothing is erased while firmware waits for its activation", testErasePending},
		{"a failed erasure is reported, with the way out of it", testFailErase},
		{"a device that does not answer reports no erasure", testErasureUnreadable},
	}
}

func (h Harness) erasure(t *testing.T) driver.Erasure {
	t.Helper()
	id, _ := h.inspect(t)
	e, err := h.Driver.(driver.Eraser).Erasure(t.Context(), id)
	require.NoError(t, err)
	return e
}

func (h Harness) erase(t *testing.T, method driver.EraseMethod) error {
	t.Helper()
	id, _ := h.inspect(t)
	return h.Driver.(driver.Eraser).Erase(t.Context(), id, method)
}

// mostReadings bounds how often an erasure of a harness is read before it ends.
const mostReadings = 50

// erased reads the erasure until it has ended.
func (h Harness) erased(t *testing.T) (driver.Erasure, []int) {
	t.Helper()
	var percents []int
	for range mostReadings {
		e := h.erasure(t)
		if e.State != driver.EraseRunning {
			return e, percents
		}
		percents = append(percents, e.Percent)
	}
	require.Fail(t, "the erasure does not end")
	return driver.Erasure{}, nil
}

func testErase(t *testing.T, h Harness) {
	before := h.erasure(t)
	assert.Equal(t, driver.EraseNever, before.State)
	assert.Empty(t, before.Method)
	order := driver.EraseMethods()
	assert.True(t, slices.IsSortedFunc(before.Methods, func(a, b driver.EraseMethod) int {
		return slices.Index(order, a) - slices.Index(order, b)
	}), "in their order")
	for _, method := range before.Methods {
		require.NoError(t, h.erase(t, method))
		h.Reboot(t)
		after, percents := h.erased(t)
		assert.IsIncreasing(t, append([]int{-1}, percents...))
		assert.NotEmpty(t, after.Report)
		assert.Equal(t, before.NoLog, after.NoLog)
		if after.NoLog {
			assert.Equal(t, before, after, "nothing is kept of it")
			continue
		}
		assert.Equal(t, driver.EraseCompleted, after.State)
		assert.Equal(t, method, after.Method)
		assert.True(t, after.Untouched)
		assert.NotEqual(t, before.Mark, after.Mark)
		before = after
	}
}

func testErasing(t *testing.T, h Harness) {
	id, fw := h.inspect(t)
	method := h.erasure(t).Methods[0]
	require.NoError(t, h.erase(t, method))
	again, during := h.inspect(t)
	assert.Equal(t, id, again)
	assert.Equal(t, fw.Running, during.Running)
	assert.False(t, during.Pending())
	assertRejected(t, h.erase(t, method))
	after, _ := h.erased(t)
	assert.Equal(t, after.NoLog, after.State == driver.EraseNever)
	assert.Equal(t, !after.NoLog, after.State == driver.EraseCompleted)
	_, now := h.inspect(t)
	assert.Equal(t, fw, now)
}

func testOtherMethod(t *testing.T, h Harness) {
	before := h.erasure(t)
	for _, method := range append(driver.EraseMethods(), "Shredder") {
		if !slices.Contains(before.Methods, method) {
			assertRejected(t, h.erase(t, method))
		}
	}
	assert.Equal(t, before, h.erasure(t))
}

func testErasePending(t *testing.T, h Harness) {
	before := h.erasure(t)
	if h.write(t, h.Image) == inventory.ActivateNone {
		t.Skip("the device runs what is written at once")
	}
	if _, fw := h.inspect(t); !fw.Pending() {
		t.Skip("the device does not report firmware that waits")
	}
	assertRejected(t, h.erase(t, before.Methods[0]))
	assert.Equal(t, before.State, h.erasure(t).State)
}

func testFailErase(t *testing.T, h Harness) {
	h.FailErase(t)
	require.NoError(t, h.erase(t, h.erasure(t).Methods[0]))
	after, _ := h.erased(t)
	assert.Equal(t, driver.EraseFailed, after.State)
	assert.False(t, after.Untouched)
	assert.NotEmpty(t, after.LeaveBy)
	h.inspect(t)
}

func testErasureUnreadable(t *testing.T, h Harness) {
	method, eraser := h.erasure(t).Methods[0], h.Driver.(driver.Eraser)
	id, _ := h.inspect(t)
	h.Unreadable(t)
	_, err := eraser.Erasure(t.Context(), id)
	require.Error(t, err)
	require.Error(t, eraser.Erase(t.Context(), id, method))
}

func testOtherDevice(t *testing.T, h Harness) {
	before, eraser := h.erasure(t), h.Driver.(driver.Eraser)
	id, _ := h.inspect(t)
	id.SerialNumber += "X"
	_, err := eraser.Erasure(t.Context(), id)
	require.Error(t, err)
	assertRejected(t, eraser.Erase(t.Context(), id, before.Methods[0]))
	assert.Equal(t, before, h.erasure(t))
}

func testNoErasure(t *testing.T, h Harness) {
	for _, method := range driver.EraseMethods() {
		assertRejected(t, h.erase(t, method))
	}
	assert.Equal(t, driver.EraseNever, h.erasure(t).State)
}
