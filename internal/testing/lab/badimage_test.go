package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnImageThatReachedNoCardProvesNothing(t *testing.T) {
	_, err := (&Lab{}).judgeRollback(badTarget(), nil)
	require.ErrorContains(t, err, "no card got")
}
