package quarantine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
)

var models = []string{"15b3:101d", "15b3:1017", "dell-inc:bios"}

// ward is a cluster in which images fail, jobs are forgotten, and people decide.
type ward struct {
	now    int
	jobs   map[string]*v1alpha1.FirmwareJob
	stored ledger
	// nodes are those that reported an image on a model since it was last lifted, and states what a person decided.
	nodes  map[failure]map[string]bool
	states map[failure]v1alpha1.QuarantineState
}

type failure struct {
	image int
	model string
}

func newWard() *ward {
	return &ward{jobs: map[string]*v1alpha1.FirmwareJob{}, nodes: map[failure]map[string]bool{}, states: map[failure]v1alpha1.QuarantineState{}}
}

func (w *ward) set() quarantine.Set {
	js, stored := slices.Collect(maps.Values(w.jobs)), slices.Clone(w.stored)
	rand.Shuffle(len(js), func(i, j int) { js[i], js[j] = js[j], js[i] })
	rand.Shuffle(len(stored), func(i, j int) { stored[i], stored[j] = stored[j], stored[i] })
	return quarantine.Compute(quarantine.Facts{Jobs: js, Quarantines: stored, Now: at(w.now).Time, Pool: pool})
}

// check compares the set with what happened: an image is blocked where a node reported it since the last lift, or a person confirmed it.
func (w *ward) check(t *rapid.T) {
	s := w.set()
	require.Equal(t, s, w.set(), "the order of objects changes nothing")
	for image := 1; image <= 3; image++ {
		for _, m := range models {
			f := failure{image, m}
			pools := map[string]bool{}
			for n := range w.nodes[f] {
				pools[n[:1]] = true
			}
			for _, pool := range []string{"p", "q", "r"} {
				want := len(w.nodes[f]) > 1 || pools[pool] || w.states[f] == v1alpha1.QuarantineConfirmed
				require.Equal(t, want, blocksOn(s, image, m, pool), "image %d on %s in pool %s", image, m, pool)
			}
		}
	}
}

// I5, I8: whatever is forgotten in between, an image that failed stays blocked for the policy of the node, for all from the
// second node on, until a person lifts it, and is blocked no longer than that.
func TestBlockedFromFailureToLift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWard()
		t.Repeat(map[string]func(*rapid.T){
			"": w.check,
			"an image fails": func(t *rapid.T) {
				w.now++
				f := failure{rapid.IntRange(1, 3).Draw(t, "image"), rapid.SampledFrom(models).Draw(t, "model")}
				node := rapid.SampledFrom([]string{"p/1", "p/2", "q/1"}).Draw(t, "node")
				j := on(node, failing(fmt.Sprintf("j%03d", w.now), f.image, f.model, w.now))
				w.jobs[j.Name] = j
				if w.nodes[f] == nil {
					w.nodes[f] = map[string]bool{}
				}
				w.nodes[f][node] = true
			},
			"the controller writes": func(t *rapid.T) { w.stored.write(w.set()) },
			"recorded jobs are forgotten": func(t *rapid.T) {
				w.stored.write(w.set())
				for _, j := range w.jobs {
					require.True(t, quarantine.Recorded(j, w.stored))
				}
				w.jobs = map[string]*v1alpha1.FirmwareJob{}
			},
			"a person decides about what is recorded": func(t *rapid.T) {
				w.stored.write(w.set())
				if len(w.stored) == 0 {
					return
				}
				i := rapid.IntRange(0, len(w.stored)-1).Draw(t, "quarantine")
				state := rapid.SampledFrom([]v1alpha1.QuarantineState{
					v1alpha1.QuarantineActive, v1alpha1.QuarantineConfirmed, v1alpha1.QuarantineLifted,
				}).Draw(t, "state")
				q := &w.stored[i]
				f := failure{int(q.Spec.Digest[len("sha256:")+15] - '0'), q.Spec.Model}
				if state == v1alpha1.QuarantineLifted && q.Spec.State != state {
					delete(w.nodes, f)
				}
				if q.Spec.State != state {
					q.Generation++
				}
				q.Spec.State, w.states[f] = state, state
			},
		})
		w.stored.write(w.set())
		before := slices.Clone(w.stored)
		w.stored.write(w.set())
		require.Equal(t, before, w.stored, "another pass writes nothing")
	})
}
