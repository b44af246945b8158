package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// The campaigns.
const (
	CampaignBoundaries = "boundaries"
	CampaignRandom     = "random"
)

// Options are what is broken and how often.
type Options struct {
	// Seed is the first seed, and Seeds how many random sequences of faults are run.
	Seed  uint64
	Seeds int
	// Scenarios whose every boundary is broken in every way; nil for all, empty for none.
	Scenarios []Scenario
	// Workers run at once; zero for one a processor.
	Workers int
	// Dir is where the hosts are made; empty for a temporary directory in memory where there is one.
	Dir string
	// Progress is called now and then, from one goroutine at a time; nil for none.
	Progress func(campaign string, done, all int)
}

// maxFindings bounds the violations that are shrunk and reported: after that many there is enough to repair.
const maxFindings = 20

// Campaign runs the campaigns that the options select. When the context ends it returns the report so far with the cause.
func Campaign(ctx context.Context, o Options) (*Report, error) {
	dir, err := os.MkdirTemp(cmp.Or(o.Dir, inMemory()), "firmware-chaos-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	c := &campaign{Options: o, dir: dir, report: newReport(o), began: time.Now()}
	for _, run := range []func(context.Context) error{c.boundaries, c.random} {
		if err := run(ctx); err != nil {
			return c.finish(), err
		}
	}
	return c.finish(), nil
}

// inMemory is a directory in memory, if this machine has one: power cuts are simulated, so waiting for a real disk would
// prove nothing.
func inMemory() string {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err == nil && info.IsDir() {
		return memory
	}
	return ""
}

type campaign struct {
	Options
	dir   string
	began time.Time

	mu     sync.Mutex
	report *Report
}

// trial is one run and what it is called.
type trial struct {
	campaign string
	seed     uint64
	boundary string
	run      Run
}

func (c *campaign) finish() *Report {
	c.report.finish(time.Since(c.began))
	return c.report
}

// boundaries injects every possible fault at every boundary of the scenarios.
func (c *campaign) boundaries(ctx context.Context) error {
	scenarios := c.Scenarios
	if scenarios == nil {
		scenarios = Scenarios()
	}
	var trials []trial
	for _, s := range scenarios {
		golden, err := Run{Scenario: s, dir: c.dir}.Do()
		if err != nil {
			return err
		}
		c.count(trial{campaign: CampaignBoundaries, run: Run{Scenario: s}}, golden)
		points := distinct(golden.boundaries)
		c.report.Boundaries += len(points)
		for _, b := range points {
			for _, f := range possible(b.Op, b.number) {
				trials = append(trials, trial{
					campaign: CampaignBoundaries, boundary: fmt.Sprintf("%s %d", b.Op, b.number),
					run: Run{Scenario: s, Faults: []Fault{f}, Aftermath: Again},
				})
			}
		}
	}
	return c.all(ctx, CampaignBoundaries, len(trials), func(i int) error { return c.try(trials[i]) })
}

// random runs the seeded sequences of faults.
func (c *campaign) random(ctx context.Context) error {
	return c.all(ctx, CampaignRandom, c.Seeds, func(i int) error {
		seed := c.Seed + uint64(i) //nolint:gosec // not negative
		run, err := RandomRun(seed, c.dir)
		if err != nil {
			return err
		}
		return c.try(trial{campaign: CampaignRandom, seed: seed, run: run})
	})
}

// RandomRun is the run of a seed: a scenario, one to eight faults and an aftermath.
func RandomRun(seed uint64, dir string) (Run, error) {
	random := rand.New(rand.NewPCG(seed, 0x6661756c74))
	run := Run{Scenario: randomScenario(seed, newest), dir: dir}
	golden, err := run.Do()
	if err != nil {
		return run, err
	}
	run.Aftermath = Aftermath(random.IntN(int(aftermaths)))
	kinds := Kinds()
	for range 1 + random.IntN(8) {
		run.Faults = append(run.Faults, Fault{
			At: 1 + random.IntN(golden.Points*3/2), Kind: kinds[random.IntN(len(kinds))], Arg: random.IntN(6),
		})
	}
	return run, nil
}

// all runs the work for the numbers below n, several at a time.
func (c *campaign) all(ctx context.Context, name string, n int, work func(int) error) error {
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(c.Workers)
	for i := 0; i < n && running.Err() == nil; i++ {
		group.Go(func() error { return work(i) })
		if c.Progress != nil {
			c.Progress(name, i, n)
		}
	}
	err := group.Wait()
	if c.Progress != nil {
		c.Progress(name, n, n)
	}
	return errors.Join(err, ctx.Err())
}

// try runs one trial, and shrinks it if it violates an invariant.
func (c *campaign) try(t trial) error {
	t.run.dir = c.dir
	out, err := t.run.Do()
	if err != nil {
		return err
	}
	c.count(t, out)
	if len(out.Violations) == 0 || c.full() {
		return nil
	}
	t.run, out, err = shrink(t.run, out)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.add(finding(t, out))
	return nil
}

func (c *campaign) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.report.Violations) >= maxFindings
}

func (c *campaign) count(t trial, out Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Runs++
	c.report.Campaigns[t.campaign]++
	c.report.Points += out.Points
	c.report.Ends[out.End]++
	for _, f := range t.run.Faults {
		c.report.Faults[f.Kind]++
	}
	if len(out.Violations) > 0 {
		c.report.Failed++
	}
}

// shrink removes faults as long as the rest still violates the same invariant.
func shrink(run Run, out Outcome) (Run, Outcome, error) {
	for i := 0; i < len(run.Faults); {
		less := run
		less.Faults = append(append([]Fault{}, run.Faults[:i]...), run.Faults[i+1:]...)
		again, err := less.Do()
		if err != nil {
			return run, out, err
		}
		if len(again.Violations) > 0 && again.Violations[0].Invariant == out.Violations[0].Invariant {
			run, out = less, again
			continue
		}
		i++
	}
	return run, out, nil
}

// repeats is the number of boundaries in the same situation at which faults are injected: from the third round of a wait
// on, a boundary is like that of the second round.
const repeats = 2

// distinct selects the boundaries of a run that differ in their situation.
func distinct(all []boundary) []boundary {
	seen := map[string]int{}
	var out []boundary
	for _, b := range all {
		if seen[b.situation]++; seen[b.situation] <= repeats {
			out = append(out, b)
		}
	}
	return out
}
