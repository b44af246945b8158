package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/chaos"
)

func chaosCommand() *cobra.Command {
	var o chaos.Options
	var reportFile, replay string
	var scenarios []string
	c := &cobra.Command{
		Use:   "chaos",
		Short: "Interrupt the update transaction at every boundary and check the state of the hardware",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if replay != "" {
				return replayKept(c.OutOrStdout(), replay)
			}
			if o.Scenarios, err = chaos.Named(scenarios); err != nil {
				return err
			}
			if o.Seeds < 0 {
				return errors.New("--seeds must not be negative; 0 runs none")
			}
			if term.IsTerminal(int(os.Stderr.Fd())) {
				o.Progress = progressLine(c.ErrOrStderr())
			}
			report, err := chaos.Campaign(c.Context(), o)
			if report == nil {
				return err
			}
			return conclude(c.OutOrStdout(), report, err, reportFile)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Seeds, "seeds", 1000, "number of seeded random sequences of faults")
	f.Uint64Var(&o.Seed, "seed", 1, "first seed")
	f.StringSliceVar(&scenarios, "scenarios", []string{"all"}, "scenarios to interrupt at every boundary: all, none, or names")
	f.IntVar(&o.Workers, "workers", 0, "how many hosts are simulated at once (default: one per processor)")
	f.StringVar(&o.Dir, "dir", "", "directory for the simulated hosts (default: one in memory where there is one)")
	f.StringVar(&reportFile, "report", "", "file for the report, as JSON")
	f.StringVar(&replay, "replay", "", "file of a kept run to run once and print")
	return c
}

// conclude prints the findings and returns an error if there are any.
func conclude(out io.Writer, report *chaos.Report, err error, file string) error {
	report.Interrupted = err != nil
	report.Summary(out)
	if failed := simulation.WriteReport(file, report); failed != nil {
		return errors.Join(err, failed)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return exitError{code: 130, message: "interrupted; the report holds the runs so far"}
	case err != nil:
		return err
	case len(report.Violations) > 0:
		return errors.New("invariants were violated; the traces are above")
	}
	return nil
}

// replayKept runs a kept run once and prints what happens.
func replayKept(out io.Writer, path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read kept run: %w", err)
	}
	kept, err := chaos.ParseKept(raw)
	if err != nil {
		return err
	}
	run, err := kept.Run()
	if err != nil {
		return err
	}
	outcome, err := run.Do()
	if err != nil {
		return err
	}
	fmt.Fprintln(out, strings.Join(outcome.Trace, "\n"))
	if len(outcome.Violations) > 0 {
		return fmt.Errorf("%s: %s", outcome.Violations[0].Invariant, outcome.Violations[0].Message)
	}
	fmt.Fprintf(out, "No invariant was violated; %d of %d faults were injected; the job ended %s.\n",
		outcome.Struck, len(kept.Faults), outcome.End)
	return nil
}

// progressLine keeps one line of a terminal up to date.
func progressLine(w io.Writer) func(campaign string, done, all int) {
	const interval = 200 * time.Millisecond
	var last time.Time
	return func(campaign string, done, all int) {
		if done < all && time.Since(last) < interval {
			return
		}
		last = time.Now()
		fmt.Fprintf(w, "\r\033[K%s: %d of %d", campaign, done, all)
		if done == all {
			fmt.Fprint(w, "\r\033[K")
		}
	}
}

// exitError is an error with an exit code of its own.
type exitError struct {
	code    int
	message string
}

// Error returns the message.
func (e exitError) Error() string { return e.message }
