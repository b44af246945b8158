package host_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// tuned is a reader whose devices have parameters.
type tuned struct {
	reader
	driver.Configurer
	parameters func() ([]inventory.Parameter, error)
}

func (r *tuned) Parameters(context.Context, inventory.Identity, ...string) ([]inventory.Parameter, error) {
	return r.parameters()
}

func unguarded(inventory.Identity) error { return nil }

func TestParametersOfADevice(t *testing.T) {
	asked := 0
	r := &tuned{parameters: func() ([]inventory.Parameter, error) {
		asked++
		return []inventory.Parameter{{Name: "A", Current: inventory.Read("1")}}, nil
	}}
	h := newHost(t, server(), r)
	card := scan(t, h).Devices[3]
	all, err := h.Parameters(t.Context(), card, unguarded)
	require.NoError(t, err)
	assert.Equal(t, []inventory.Parameter{{Name: "A", Current: inventory.Read("1")}}, all)

	_, err = h.Parameters(t.Context(), card, func(id inventory.Identity) error {
		assert.Equal(t, card.Identity, id)
		return errors.New("it is being written to")
	})
	require.ErrorContains(t, err, "it is being written to")
	unread := card
	unread.Err = errors.New("it was not read")
	_, err = h.Parameters(t.Context(), unread, unguarded)
	require.ErrorContains(t, err, "it was not read")
	gone := card
	gone.UniqueID = "gone"
	_, err = h.Parameters(t.Context(), gone, unguarded)
	require.ErrorContains(t, err, "did not find it")
	assert.Equal(t, 1, asked)

	h = newHost(t, server(), &reader{})
	_, err = h.Parameters(t.Context(), scan(t, h).Devices[3], unguarded)
	require.ErrorIs(t, err, driver.ErrNotSupported)
}

// Who journals a write and then reads the device knows that nobody asks it for its parameters until the write has ended.
func TestParametersAreReadInTheTurnOfTheDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		reading := make(chan struct{})
		h := newHost(t, server(), &tuned{parameters: func() ([]inventory.Parameter, error) {
			close(reading)
			time.Sleep(time.Second)
			ended.Store(true)
			return nil, nil
		}})
		card := scan(t, h).Devices[3]
		go func() { _, _ = h.Parameters(t.Context(), card, unguarded) }()
		<-reading
		_, found, err := h.Find(t.Context(), inventory.NIC, card.UniqueID)
		require.NoError(t, err)
		assert.True(t, found)
		assert.True(t, ended.Load())
	})
}
