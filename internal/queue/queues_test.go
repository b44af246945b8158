package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/internal/queue"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// world is a planner and a rollout with a cache that lags behind.
type world struct {
	*queue.Queues
	clock time.Time
	woken []string
	// jobs are those that wait, and seen those of them that a pass has seen.
	jobs, seen map[string]bool
}

func newWorld() *world {
	w := &world{clock: time.Unix(0, 0), jobs: map[string]bool{}, seen: map[string]bool{}}
	w.Queues = queue.New(func() time.Time { return w.clock })
	w.OnWake(func(node string) { w.woken = append(w.woken, node) })
	return w
}

// plan queues the job of a node if there is room.
func (w *world) plan(node string) bool {
	in := w.Enter("p", node, node)
	w.jobs[node] = w.jobs[node] || in
	return in
}

// pass is one over the policies that sees all jobs.
func (w *world) pass(limit int) {
	w.seen = map[string]bool{}
	for j := range w.jobs {
		if w.jobs[j] {
			w.seen[j] = true
		}
	}
	w.Publish(map[string]queue.Counts{"p": {Limit: limit, Queued: len(w.seen)}}, func(job string) bool { return w.seen[job] })
}

// R000-58: of N+1 nodes one is refused, and it is queued when another one has left the queue.
func TestQueuesRefusedNodeWhenRoom(t *testing.T) {
	w := newWorld()
	changes := 0
	w.OnChange(func() { changes++ })
	assert.False(t, w.plan("n0"), "nothing is known before the first pass")
	w.pass(2)
	assert.Equal(t, []string{"n0"}, w.woken)
	assert.True(t, w.plan("n0"))
	assert.True(t, w.plan("n0"), "its own job takes room once")
	assert.True(t, w.plan("n1"), "which no pass has seen yet")
	changes = 0
	assert.False(t, w.plan("n2"))
	assert.False(t, w.plan("n3"))
	assert.Equal(t, 2, w.Refused("p"))
	assert.Equal(t, 2, changes, "that is shown")

	w.woken = nil
	w.pass(2)
	assert.Empty(t, w.woken, "nobody is planned again without room")
	w.jobs["n0"] = false // admitted
	w.pass(2)
	assert.Equal(t, []string{"n2"}, w.woken, "the first one in the line, and no more")
	assert.False(t, w.plan("n4"), "which nobody overtakes")
	assert.True(t, w.plan("n2"))
	assert.Equal(t, 2, w.Refused("p"))
}

// R000-58: who must not be refused takes room that others then lack, whether it was refused before or called.
func TestWhoIsNeverRefusedTakesRoom(t *testing.T) {
	w := newWorld()
	changes := 0
	w.OnChange(func() { changes++ })
	w.EnterAhead("p", "c0", "c0") // also before the first pass
	w.jobs["c0"] = true
	w.pass(2)
	require.True(t, w.plan("n0"))
	w.EnterAhead("p", "c1", "c1")
	w.EnterAhead("p", "c1", "c1")
	w.jobs["c1"] = true
	require.False(t, w.plan("n1"))
	require.False(t, w.plan("n2"))
	w.pass(2)
	w.jobs["c0"] = false // admitted
	w.pass(2)
	assert.Empty(t, w.woken, "2 of 2 wait")
	w.jobs["n0"] = false
	w.pass(2)
	require.Equal(t, []string{"n1"}, w.woken)

	changes = 0
	w.EnterAhead("p", "n1", "n1") // a person has labelled it
	w.jobs["n1"] = true
	assert.Equal(t, 1, changes)
	w.pass(2)
	assert.Equal(t, []string{"n1"}, w.woken, "2 of 2 wait")
	assert.Equal(t, 1, w.Refused("p"))
	w.EnterAhead("other", "n2", "n2")
	assert.Zero(t, w.Refused("p"), "n2 has moved to another policy")
}

func TestWhoIsNeverRefusedTakesRoomBeforeAPassSeesItsJob(t *testing.T) {
	w := newWorld()
	w.pass(1)
	w.EnterAhead("p", "c0", "c0")
	assert.False(t, w.plan("n0"))
}

func TestRoomThatIsNotUsedPassesOn(t *testing.T) {
	w := newWorld()
	w.pass(1)
	require.True(t, w.plan("n0"))
	for _, n := range []string{"n1", "n2", "n3"} {
		require.False(t, w.plan(n))
	}
	w.Leave("n0", "n0") // the job could not be written
	w.jobs["n0"] = false
	assert.Equal(t, []string{"n1"}, w.woken)
	w.Leave("n1", "") // nothing is due there any more
	assert.Equal(t, []string{"n1", "n2"}, w.woken)
	assert.False(t, w.Enter("other", "n2", "n2"))
	assert.Equal(t, []string{"n1", "n2", "n3"}, w.woken, "n2 has moved to another policy")
}

func TestUnseenJobGivesRoomBack(t *testing.T) {
	w := newWorld()
	w.pass(1)
	require.True(t, w.plan("n0"))
	w.jobs["n0"] = false // deleted at once
	w.pass(1)
	assert.False(t, w.plan("n1"), "the cache may lag behind")
	w.clock = w.clock.Add(2 * time.Minute)
	w.pass(1)
	assert.Equal(t, []string{"n1"}, w.woken)
}

func TestNoLimitReplansEverybody(t *testing.T) {
	w := newWorld()
	w.pass(1)
	require.True(t, w.plan("n0"))
	require.False(t, w.plan("n1"))
	require.False(t, w.plan("n2"))
	w.Publish(nil, func(string) bool { return true })
	assert.Equal(t, []string{"n1", "n2"}, w.woken)
	assert.Zero(t, w.Refused("p"))
}

// R000-58: whatever happens, no more wait than may, and all are queued in the end.
func TestWaitersStayWithinLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		var todo, done []string
		for i := range rapid.IntRange(1, 20).Draw(t, "nodes") {
			todo = append(todo, fmt.Sprint("n", i))
		}
		nodes := len(todo)
		plan := func(node string) {
			if w.jobs[node] || slices.Contains(done, node) {
				w.Leave(node, "")
			} else {
				w.plan(node)
			}
		}
		for round := 0; len(done) < nodes; round++ {
			require.Less(t, round, 1000, "nodes are left over: %v of %d", done, nodes)
			if len(todo) > 0 {
				plan(todo[0])
				todo = todo[1:]
			}
			if rapid.Bool().Draw(t, "a woken node is planned") && len(w.woken) > 0 {
				plan(w.woken[0])
				w.woken = w.woken[1:]
			}
			if rapid.Bool().Draw(t, "a pass") || len(todo) == 0 {
				w.pass(limit)
			}
			waiting := 0
			for _, node := range slices.Sorted(slices.Values(keys(w.jobs))) {
				if !w.jobs[node] {
					continue
				}
				if waiting++; w.seen[node] && rapid.Bool().Draw(t, "admitted") {
					w.jobs[node], done = false, append(done, node)
					waiting--
				}
			}
			require.LessOrEqual(t, waiting, limit)
		}
	})
}

func keys(m map[string]bool) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

// R000-58: what cannot go takes no room, and no more of it is queued; nodes that could go pass it in the line.
func TestWhatIsStuckTakesNoRoom(t *testing.T) {
	w := newWorld()
	halted, other := schedule.Edge{Target: schedule.Target{Model: "a"}}, schedule.Edge{Target: schedule.Target{Model: "b"}}
	publish := func(queued int, halts ...schedule.Target) {
		stuck := map[schedule.Target]schedule.Reason{}
		for _, t := range halts {
			stuck[t] = schedule.RolloutHalted
		}
		w.Publish(map[string]queue.Counts{"p": {Limit: 2, Queued: queued, Stuck: stuck}}, func(string) bool { return true })
	}
	publish(2)
	for node, due := range map[string]schedule.Edge{"n0": halted, "n1": other} {
		w.Note(node, []schedule.Edge{due})
	}
	require.False(t, w.plan("n0"))
	require.False(t, w.plan("n1"))
	publish(1, halted.Target)
	assert.Equal(t, []string{"n1"}, w.woken, "n0 came first, and has an update that is halted")
	assert.True(t, w.plan("n1"))
	assert.False(t, w.plan("n0"))
	assert.Equal(t, 1, w.Refused("p"))
	publish(1)
	assert.Equal(t, []string{"n1", "n0"}, w.woken, "the halt is lifted")
	assert.True(t, w.plan("n0"))
}

// An empty wave keeps no pin out of the queue; a halt of its image does.
func TestAnEmptyWaveIsNoPinsConcern(t *testing.T) {
	of := schedule.Target{Model: "a"}
	for reason, stays := range map[schedule.Reason]bool{schedule.WaveEmpty: false, schedule.RolloutHalted: true} {
		w := newWorld()
		w.Publish(map[string]queue.Counts{"p": {Limit: 2, Stuck: map[schedule.Target]schedule.Reason{of: reason}}}, func(string) bool { return true })
		w.Note("n0", []schedule.Edge{{Target: of, Pinned: true}})
		w.Note("n1", []schedule.Edge{{Target: of}})
		assert.Equal(t, !stays, w.plan("n0"), reason)
		assert.False(t, w.plan("n1"), reason)
	}
}

// What a node is to get is known once it was planned, also where that is nothing.
func TestDue(t *testing.T) {
	w := newWorld()
	changes := 0
	w.OnChange(func() { changes++ })
	e := schedule.Edge{From: "1"}
	w.Note("n0", []schedule.Edge{e})
	w.Note("n1", nil)
	assert.Equal(t, map[string][]schedule.Edge{"n0": {e}, "n1": nil}, w.Due())
	assert.Equal(t, 2, changes, "a wave may have waited to know")
	w.Note("n0", []schedule.Edge{e})
	assert.Equal(t, 2, changes)
	w.Note("n0", nil)
	assert.Equal(t, 3, changes, "a wave may be over")
	w.Forget("n0")
	assert.NotContains(t, w.Due(), "n0")
}
