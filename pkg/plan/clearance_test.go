package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAClearanceClearsWhatFailedUnderAnotherRequest(t *testing.T) {
	none, reseated := "", "after reseating"
	assert.True(t, Clearance("after reseating").Clears(&none))
	assert.True(t, Clearance("again").Clears(&reseated))
	assert.False(t, Clearance("after reseating").Clears(&reseated), "it was acted on")
	assert.False(t, Clearance("").Clears(&none), "nobody asked")
	assert.False(t, Clearance("").Clears(&reseated), "removing a request is none")
	assert.Equal(t, &reseated, Clearance("after reseating").InForce())
}

// Whoever asked by a time has a clock of their own: their time is a text like any other.
func TestATimeIsComparedWithNoClock(t *testing.T) {
	asked := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	none := ""
	for _, at := range []time.Time{asked, asked.Add(-24 * time.Hour), asked.Add(24 * time.Hour)} {
		assert.True(t, ClearedAt(at).Clears(&none))
		assert.False(t, ClearedAt(at).Clears(ClearedAt(at.In(time.FixedZone("east", 7200))).InForce()), "the zone says nothing")
		assert.True(t, ClearedAt(at).Clears(ClearedAt(at.Add(time.Second)).InForce()))
	}
	assert.Empty(t, ClearedAt(time.Time{}))
}

// What an earlier version recorded names no request, and the time of a request may be older than it.
func TestOnlyATextClearsWhatAnEarlierVersionRecorded(t *testing.T) {
	assert.True(t, Clearance("after reseating").Clears(nil))
	assert.False(t, ClearedAt(time.Now()).Clears(nil))
	assert.False(t, Clearance("").Clears(nil))
}
