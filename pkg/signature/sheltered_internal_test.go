package signature

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLibraryPanicIsAnError(t *testing.T) {
	require.ErrorContains(t, sheltered(func() error { panic("index out of range") }), "index out of range")
	require.NoError(t, sheltered(func() error { return nil }))
}
