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

var models = []string{"15b3:101d", "15b3:1017", "Dell Inc.:BIOS", v1alpha1.AnyModel}

// ward is a cluster in which images fail, jobs are forgotten, and people lift.
type ward struct {
	now     int
	jobs    map[string]*v1alpha1.FirmwareJob
	sources map[string]v1alpha1.FirmwareSource
	// failed is when an image last failed on a model, and lifted when somebody last lifted an image.
	failed map[failure]int
	lifted map[int]int
}

type failure struct {
	image int
	model string
}

func newWard() *ward {
	return &ward{
		jobs: map[string]*v1alpha1.FirmwareJob{}, failed: map[failure]int{}, lifted: map[int]int{},
		sources: map[string]v1alpha1.FirmwareSource{"a": source("a", -1, 1, 2), "b": source("b", -1, 2, 3)},
	}
}

func (w *ward) set() quarantine.Set {
	js, ss := slices.Collect(maps.Values(w.jobs)), slices.Collect(maps.Values(w.sources))
	rand.Shuffle(len(js), func(i, j int) { js[i], js[j] = js[j], js[i] })
	return quarantine.Compute(js, ss)
}

// record writes what the sources should list, in any order and possibly not at all.
func (w *ward) record(t *rapid.T, all bool) {
	for name, src := range w.sources {
		if all || rapid.Bool().Draw(t, "source "+name+" is written") {
			src.Status.Quarantine, _ = w.set().Listed(&src)
			w.sources[name] = src
		}
	}
}

// check compares the set with what happened: an image is blocked exactly when it failed and nobody lifted it since.
func (w *ward) check(t *rapid.T) {
	s := w.set()
	require.Equal(t, s, w.set(), "the order of objects changes nothing")
	for image := 1; image <= 3; image++ {
		any := false
		for _, m := range models {
			at, did := w.failed[failure{image, m}]
			wanted := did && at > w.lifted[image]
			any = any || wanted
			if m == v1alpha1.AnyModel {
				continue
			}
			star, didStar := w.failed[failure{image, v1alpha1.AnyModel}]
			require.Equal(t, wanted || didStar && star > w.lifted[image], blocks(s, image, m), "image %d on %s", image, m)
		}
		require.Equal(t, any, blocks(s, image, ""), "image %d on an unknown model", image)
		require.Equal(t, any, s.Holds(digest(image)))
	}
}

// I5, I8: whatever is forgotten in between, an image that failed stays blocked until a person lifts it, and is blocked
// no longer than that.
func TestAnImageIsBlockedFromItsFailureUntilALift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWard()
		t.Repeat(map[string]func(*rapid.T){
			"": w.check,
			"an image fails": func(t *rapid.T) {
				w.now++
				f := failure{rapid.IntRange(1, 3).Draw(t, "image"), rapid.SampledFrom(models).Draw(t, "model")}
				j := failing(fmt.Sprintf("j%d", w.now), f.image, f.model, w.now)
				w.jobs[j.Name], w.failed[f] = j, w.now
			},
			"some sources are written": func(t *rapid.T) { w.record(t, false) },
			"recorded jobs are forgotten": func(t *rapid.T) {
				w.record(t, true)
				w.jobs = map[string]*v1alpha1.FirmwareJob{}
			},
			"a person lifts": func(t *rapid.T) {
				w.now++
				name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "source")
				src := w.sources[name]
				for _, i := range src.Status.Images {
					w.lifted[slices.Index([]v1alpha1.Digest{"", digest(1), digest(2), digest(3)}, i.Digest)] = w.now
				}
				src.Spec.LiftQuarantineRequestedAt = new(at(w.now))
				w.sources[name] = src
			},
		})
		w.record(t, true)
		before := maps.Clone(w.sources)
		w.record(t, true)
		require.Equal(t, before, w.sources, "a second pass writes nothing")
	})
}
