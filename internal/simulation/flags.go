package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/pflag"
)

// Flags are what a command that simulates is told: how long jobs take, what goes wrong, and what is written.
type Flags struct {
	// Seed decides what is left to chance.
	Seed uint64
	// Start is when the firmware is declared, as RFC 3339, and Duration how long a node is in maintenance, with exceptions for models. A command
	// that knows better leaves their defaults empty.
	Start, Duration string

	work                    Work
	horizon                 time.Duration
	ownNode                 string
	failure, held, badImage string
	picture, report         string
	waves                   bool
}

// Register adds the flags.
func (f *Flags) Register(s *pflag.FlagSet) {
	s.StringVar(&f.picture, "out", "", "file for the picture, as HTML")
	s.StringVar(&f.report, "report", "", "file for the report, as JSON")
	s.BoolVar(&f.waves, "waves", false, "print which nodes went in which wave and when, by the version that they ran")
	s.Uint64Var(&f.Seed, "seed", 1, "decides what is left to chance")
	s.StringVar(&f.Start, "start", f.Start, "when the firmware is declared, as RFC 3339")
	s.DurationVar(&f.horizon, "horizon", 365*24*time.Hour, "how far to look at the most")
	s.StringVar(&f.ownNode, "own-node", "", "node that the operator runs on; its job goes last")
	s.StringVar(&f.Duration, "duration", f.Duration, "how long a node is in maintenance, with exceptions for models: 25m,B=40m")
	s.Float64Var(&f.work.Spread, "spread", 0.2, "by which share of the duration jobs vary")
	s.Float64Var(&f.work.SlowBoot, "slow-boot-rate", 0.01, "share of the jobs whose node takes long to boot")
	s.DurationVar(&f.work.SlowBootFor, "slow-boot", 20*time.Minute, "how much longer it takes then")
	s.StringVar(&f.failure, "failure-rate", "0.01", "share of the jobs that fail for a reason that passes, with exceptions for models: 0.01,B=0.05")
	s.StringVar(&f.held, "held-rate", "0", "share of the jobs that fail and hold their node until a person requests a retry, likewise")
	s.StringVar(&f.badImage, "bad-image-rate", "0", "share of the jobs whose image makes the node unhealthy: it is rolled back and quarantined, likewise")
	s.DurationVar(&f.work.Person, "person", 8*time.Hour, "average time until a person retries a held node, lifts a quarantine or resumes a halt; 0 for never")
	s.Float64Var(&f.work.Outages, "outages", 0.1, "how often a node becomes not Ready for another reason, in 30 days")
	s.DurationVar(&f.work.OutageFor, "outage", 2*time.Hour, "average duration of such an outage")
	s.DurationVar(&f.work.Expected, "expected-job-duration", 30*time.Minute, "how long the operator expects a job to take while it knows too little")
	s.DurationVar(&f.work.Reaction, "reaction", 20*time.Second, "longest time from the end of a job to the next decision")
}

// Options are what the flags say. Start and the durations are left zero where their flags are empty.
func (f *Flags) Options() (o Options, err error) {
	o = Options{Seed: f.Seed, Horizon: f.horizon, OwnNode: f.ownNode, Work: f.work}
	var errs []error
	keep := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	if f.Start != "" {
		o.Start, err = time.Parse(time.RFC3339, f.Start)
		keep("start", err)
	}
	if f.Duration != "" {
		o.Work.Duration, err = ParseByModel(f.Duration, time.ParseDuration)
		keep("duration", err)
	}
	for _, rate := range []struct {
		flag, value string
		into        *ByModel[float64]
	}{
		{"failure-rate", f.failure, &o.Work.Failure}, {"held-rate", f.held, &o.Work.Held}, {"bad-image-rate", f.badImage, &o.Work.BadImage},
	} {
		*rate.into, err = ParseByModel(rate.value, ParseRate)
		keep(rate.flag, err)
	}
	return o, errors.Join(errs...)
}

// Run simulates, writes the files that the flags name, and prints the answer to out and what it took to words.
func (f *Flags) Run(ctx context.Context, o Options, out, words io.Writer) error {
	debug.SetGCPercent(400) // each decision leaves megabytes behind, and a fleet takes few
	began := time.Now()
	result, err := Run(ctx, o)
	if err != nil {
		return err
	}
	if err := errors.Join(toFile(f.picture, result.WritePicture), WriteReport(f.report, result.Report)); err != nil {
		return err
	}
	result.Summarize(out)
	if f.waves {
		result.Waves(out)
	}
	_, err = fmt.Fprintf(words, "%d decisions in %s.\n", result.Report.Passes, time.Since(began).Round(time.Millisecond))
	return err
}

// toFile writes a file, if one is named.
func toFile(name string, write func(io.Writer) error) (err error) {
	if name == "" {
		return nil
	}
	out, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return errors.Join(write(out), out.Close())
}

// WriteReport writes a report as JSON, if a file is named.
func WriteReport(name string, report any) error {
	return toFile(name, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(report)
	})
}
