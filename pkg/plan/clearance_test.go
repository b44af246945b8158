package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAClearanceClearsWhatFailedUpToItsSecond(t *testing.T) {
	failed := time.Date(2026, 11, 21, 8, 0, 0, 700, time.UTC)
	assert.True(t, ClearedAt(failed.Add(time.Hour)).Clears(failed))
	assert.True(t, ClearedAt(failed.Truncate(time.Second)).Clears(failed), "the API tells whole seconds")
	assert.False(t, ClearedAt(failed.Add(-time.Second)).Clears(failed))
	assert.False(t, Clearance{}.Clears(failed), "nobody asked")
	assert.False(t, ClearedAt(failed).Clears(time.Time{}), "nothing failed")
}
