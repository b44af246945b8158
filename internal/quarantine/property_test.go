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

// ward is a cluster in which images fail, jobs are forgotten, and people lift.
type ward struct {
	now     int
	jobs    map[string]*v1alpha1.FirmwareJob
	sources map[string]v1alpha1.FirmwareSource
	// nodes are those that reported an image on a model since it was last lifted.
	nodes map[failure]map[string]bool
}

type failure struct {
	image int
	model string
}

func newWard() *ward {
	return &ward{
		jobs: map[string]*v1alpha1.FirmwareJob{}, nodes: map[failure]map[string]bool{},
		sources: map[string]v1alpha1.FirmwareSource{"a": source("a", 1, 2), "b": source("b", 2, 3)},
	}
}

func (w *ward) set() quarantine.Set {
	js, ss := slices.Collect(maps.Values(w.jobs)), slices.Collect(maps.Values(w.sources))
	rand.Shuffle(len(js), func(i, j int) { js[i], js[j] = js[j], js[i] })
	rand.Shuffle(len(ss), func(i, j int) { ss[i], ss[j] = ss[j], ss[i] })
	return compute(js, ss...)
}

// record writes what the sources should list, in one pass.
func (w *ward) record() {
	set := w.set()
	for name, src := range w.sources {
		src.Status.Quarantine, _ = set.Listed(&src)
		w.sources[name] = src
	}
}

// check compares the set with what happened: an image is blocked where a node reported it since the last lift.
func (w *ward) check(t *rapid.T) {
	s := w.set()
	require.Equal(t, s, w.set(), "the order of objects changes nothing")
	for image := 1; image <= 3; image++ {
		for _, m := range models {
			pools := map[string]bool{}
			nodes := w.nodes[failure{image, m}]
			for n := range nodes {
				pools[n[:1]] = true
			}
			for _, pool := range []string{"p", "q", "r"} {
				want := len(nodes) > 1 || pools[pool]
				require.Equal(t, want, blocksOn(s, image, m, pool), "image %d on %s in pool %s", image, m, pool)
			}
		}
	}
}

// I5, I8: whatever is forgotten in between, an image that failed stays blocked for the policy of the node, for all from the
// second node on, until a person lifts it, and is blocked no longer than that.
func TestAnImageIsBlockedFromItsFailureUntilALift(t *testing.T) {
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
			"the sources are written": func(t *rapid.T) { w.record() },
			"recorded jobs are forgotten": func(t *rapid.T) {
				w.record()
				w.jobs = map[string]*v1alpha1.FirmwareJob{}
			},
			"a person lifts what is recorded": func(t *rapid.T) {
				w.record()
				w.now++
				name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "source")
				src := w.sources[name]
				src.Spec.LiftQuarantine = fmt.Sprint("request ", w.now)
				w.sources[name] = src
				for f := range w.nodes {
					if slices.ContainsFunc(src.Status.Images, func(i v1alpha1.StoredImage) bool { return i.Digest == digest(f.image) }) {
						delete(w.nodes, f)
					}
				}
			},
		})
		w.record() // every source takes a lift over
		w.record() // and may forget it
		before := maps.Clone(w.sources)
		w.record()
		require.Equal(t, before, w.sources, "another pass writes nothing")
	})
}
