package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAClearanceClearsWhatFailedUnderAnotherRequest(t *testing.T) {
	none, reseated := "", "after reseating"
	assert.True(t, Clearance("after reseating").Clears(&none))
	assert.True(t, Clearance("again").Clears(&reseated))
	assert.False(t, Clearance("after reseating").Clears(&reseated), "it was acted on")
	assert.True(t, Clearance("after reseating").Clears(nil), "nothing was in force")
	assert.False(t, Clearance("").Clears(&none), "nobody asked")
	assert.False(t, Clearance("").Clears(&reseated), "removing a request is none")
	assert.Equal(t, &reseated, Clearance("after reseating").InForce())
}
