package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Nodes that come and go while the queue is full must not make the line longer each time, and keep their order.
func TestLineHoldsOnlyWhoWaits(t *testing.T) {
	r := New(func() time.Time { return time.Unix(0, 0) })
	var woken []string
	r.OnWake(func(node string) { woken = append(woken, node) })
	r.Publish(map[string]Counts{"p": {Limit: 1, Queued: 1}}, func(string) bool { return false })
	for _, node := range []string{"a", "b", "c"} {
		assert.False(t, r.Enter("p", node, "job-"+node))
	}
	for i := range 10_000 {
		r.Enter("p", fmt.Sprint("comes and goes", i%7), "")
		r.Leave(fmt.Sprint("comes and goes", i%7), "")
	}
	assert.LessOrEqual(t, len(r.policies["p"].line), 20)
	assert.Equal(t, 3, r.Refused("p"))
	r.Publish(map[string]Counts{"p": {Limit: 10}}, func(string) bool { return false })
	assert.Equal(t, []string{"a", "b", "c"}, woken)
}
