package simulation

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"
)

// ending is how a job ends.
type ending int

const (
	succeeds ending = iota
	// passes: it failed for a reason that passes by itself.
	passes
	// holds: it failed and keeps its node.
	holds
	// spoils: the image made the node unhealthy, and was rolled back.
	spoils
)

// chance is the dice for one thing that happens to a node for the nth time. It depends on nothing else, so that the order of
// admissions changes no throw.
func (r *run) chance(node, thing string, nth int) *rand.Rand {
	h := fnv.New64a()
	for _, s := range []string{node, thing, strconv.Itoa(nth)} {
		_, _ = h.Write([]byte(s))
		_, _ = h.Write([]byte{0})
	}
	return rand.New(rand.NewPCG(r.Seed, h.Sum64()))
}

// attempt decides how long the nth job of a node takes, how it ends, and because of which device if it fails. It takes as long as the
// device does that takes longest, because a job updates its devices in one maintenance. Each device may fail.
func (r *run) attempt(n *node) (took time.Duration, how ending, blamed int) {
	dice, w := r.chance(n.Name, "attempt", n.attempts), r.Work
	for _, i := range n.updates {
		took = max(took, w.Duration.Of(n.devices[i].Model))
	}
	took = scaled(took, 1+w.Spread*(2*dice.Float64()-1))
	if dice.Float64() < w.SlowBoot {
		took += w.SlowBootFor
	}
	for _, i := range n.updates {
		if how, took := w.fate(n.devices[i].Model, took, dice); how != succeeds {
			return max(took.Round(time.Second), time.Second), how, i
		}
	}
	return max(took.Round(time.Second), time.Second), succeeds, -1
}

// fate decides what becomes of a device of a model in a job that would take so long, and how long the job takes then.
func (w Work) fate(model string, took time.Duration, dice *rand.Rand) (ending, time.Duration) {
	fate, share := dice.Float64(), dice.Float64()
	for _, f := range []struct {
		rate   float64
		ending ending
	}{{w.Failure.Of(model), passes}, {w.Held.Of(model), holds}, {w.BadImage.Of(model), spoils}} {
		if fate -= f.rate; fate >= 0 {
			continue
		}
		switch f.ending {
		case passes:
			took = scaled(took, share)
		case spoils:
			took = scaled(took, 1.5) // the old firmware is restored in the same maintenance
		}
		return f.ending, took
	}
	return succeeds, took
}

// exponential is a waiting time with that average, of at least a second.
func exponential(dice *rand.Rand, average time.Duration) time.Duration {
	return max(scaled(average, dice.ExpFloat64()).Round(time.Second), time.Second)
}

func scaled(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }
