package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
)

func simulateCommand() *cobra.Command {
	var f simulateFlags
	c := &cobra.Command{
		Use:   "simulate",
		Short: "Show how a rollout will go under your policies, in virtual time",
		Long: "Run the operator's own decision over a fleet in virtual time, with failures by chance, and draw the rollout as one HTML file.\n" +
			"Nothing is contacted and nothing is changed. The same flags with the same seed give the same result.",
		Example: "  kubectl get nodes -o json > nodes.json\n" +
			"  firmware-lab simulate --nodes-from nodes.json --policy policy.yaml --out rollout.html --report rollout.json",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := f.options(c)
			if err != nil {
				return err
			}
			debug.SetGCPercent(400) // each decision leaves megabytes behind, and a fleet takes few
			began := time.Now()
			result, err := simulation.Run(c.Context(), o)
			if err != nil {
				return err
			}
			if err := f.write(result); err != nil {
				return err
			}
			result.Summarize(c.OutOrStdout())
			if f.waves {
				result.Waves(c.OutOrStdout())
			}
			fmt.Fprintf(c.ErrOrStderr(), "%d decisions in %s.\n", result.Report.Passes, time.Since(began).Round(time.Millisecond))
			return nil
		},
	}
	f.register(c)
	return c
}

// simulateFlags are the flags of simulate.
type simulateFlags struct {
	made                              simulation.Made
	work                              simulation.Work
	policies                          []string
	nodesFrom, modelLabel, ownNode    string
	devicesFrom                       string
	start                             string
	horizon                           time.Duration
	labels                            []string
	models, versions                  string
	duration, failure, held, badImage string
	out, report                       string
	waves                             bool
}

func (f *simulateFlags) register(c *cobra.Command) {
	s := c.Flags()
	s.StringArrayVar(&f.policies, "policy", nil, "file of RolloutPolicies, one or more documents; may be repeated (default: the operator's own policy, one node at a time)")
	s.StringVar(&f.out, "out", "", "file for the picture, as HTML")
	s.StringVar(&f.report, "report", "", "file for the report, as JSON")
	s.BoolVar(&f.waves, "waves", false, "print which nodes went in which wave and when, by the version that they ran")
	s.Uint64Var(&f.made.Seed, "seed", 1, "decides what is left to chance")
	s.StringVar(&f.start, "start", "2026-01-05T09:00:00Z", "when the firmware is declared, as RFC 3339")
	s.DurationVar(&f.horizon, "horizon", 365*24*time.Hour, "how far to look at the most")

	s.StringVar(&f.nodesFrom, "nodes-from", "", "file with the output of kubectl get nodes -o json, instead of a made fleet")
	s.StringVar(&f.devicesFrom, "devices-from", "", "with --nodes-from: file with the output of kubectl get nodedevices -o json; what is to be updated on each node now, instead of one device")
	s.StringVar(&f.modelLabel, "model-label", "node.kubernetes.io/instance-type", "label of the nodes that says which model they are")
	s.StringVar(&f.ownNode, "own-node", "", "node that the operator runs on; its job goes last")
	s.IntVar(&f.made.Nodes, "nodes", 1000, "number of nodes of a made fleet")
	s.StringVar(&f.models, "models", "model-a", "models of a made fleet with their weights: A:3,B:1; A+B stands for a node with two devices")
	s.StringVar(&f.versions, "versions", "1.0", "versions that a made fleet runs before, with their weights")
	s.StringArrayVar(&f.labels, "label", nil, "label of a made fleet, its values with their weights: pool=gpu:3,storage:1; may be repeated")
	s.IntVar(&f.made.Racks, "racks", 0, "number of racks among which a made fleet is divided")
	s.StringVar(&f.made.RackLabel, "rack-label", "topology.kubernetes.io/rack", "label of the nodes of a made fleet that names the rack")

	s.StringVar(&f.work.Version, "to-version", "2.0", "version that is rolled out")
	s.StringVar(&f.duration, "duration", "25m", "how long a node is in maintenance, with exceptions for models: 25m,B=40m")
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

func (f *simulateFlags) options(c *cobra.Command) (o simulation.Options, err error) {
	o = simulation.Options{Seed: f.made.Seed, Horizon: f.horizon, OwnNode: f.ownNode, Work: f.work}
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	o.Start, err = time.Parse(time.RFC3339, f.start)
	keep(flagError("start", err))
	o.Work.Duration, err = simulation.ParseByModel(f.duration, time.ParseDuration)
	keep(flagError("duration", err))
	for _, rate := range []struct {
		flag, value string
		into        *simulation.ByModel[float64]
	}{
		{"failure-rate", f.failure, &o.Work.Failure}, {"held-rate", f.held, &o.Work.Held}, {"bad-image-rate", f.badImage, &o.Work.BadImage},
	} {
		*rate.into, err = simulation.ParseByModel(rate.value, simulation.ParseRate)
		keep(flagError(rate.flag, err))
	}
	if len(f.policies) > 0 {
		o.Policies, err = simulation.LoadPolicies(f.policies)
		keep(err)
	}
	o.Fleet, o.NotDue, err = f.fleet(c)
	keep(err)
	return o, errors.Join(errs...)
}

func (f *simulateFlags) fleet(c *cobra.Command) ([]simulation.Node, simulation.NotDue, error) {
	if f.nodesFrom != "" {
		for _, made := range []string{"nodes", "models", "versions", "label", "racks", "rack-label"} {
			if c.Flags().Changed(made) {
				return nil, nil, fmt.Errorf("--%s makes a fleet and --nodes-from gives one; leave one of them out", made)
			}
		}
		return f.cluster(c)
	}
	if f.devicesFrom != "" {
		return nil, nil, errors.New("--devices-from needs the nodes of the same cluster; add --nodes-from")
	}
	if f.made.Nodes < 1 || f.made.Nodes > simulation.MaxNodes {
		return nil, nil, fmt.Errorf("--nodes %d: choose 1 to %d", f.made.Nodes, simulation.MaxNodes)
	}
	if f.made.Racks < 0 || f.made.Racks > f.made.Nodes {
		return nil, nil, fmt.Errorf("--racks %d: choose 0 to the number of nodes", f.made.Racks)
	}
	var errs []error
	var err error
	f.made.Models, err = simulation.ParseWeighted(f.models)
	errs = append(errs, flagError("models", err))
	f.made.Versions, err = simulation.ParseWeighted(f.versions)
	errs = append(errs, flagError("versions", err))
	f.made.Labels, err = simulation.ParseLabels(f.labels)
	errs = append(errs, flagError("label", err))
	return f.made.Fleet(), nil, errors.Join(errs...)
}

// cluster is a fleet from files, with how many of its devices are not updated.
func (f *simulateFlags) cluster(c *cobra.Command) ([]simulation.Node, simulation.NotDue, error) {
	fleet, err := simulation.LoadNodes(f.nodesFrom, f.modelLabel)
	if err != nil || f.devicesFrom == "" {
		return fleet, nil, err
	}
	for _, given := range []string{"model-label", "to-version"} {
		if c.Flags().Changed(given) {
			return nil, nil, fmt.Errorf("--devices-from says which models there are and what they are updated to; leave --%s out", given)
		}
	}
	left, err := simulation.LoadDevices(f.devicesFrom, fleet)
	return fleet, left, err
}

func flagError(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--%s: %w", flag, err)
}

func (f *simulateFlags) write(r *simulation.Result) error {
	return errors.Join(toFile(f.out, r.WritePicture), writeReport(f.report, r.Report))
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

// writeReport writes a report as JSON, if a file is named.
func writeReport(name string, report any) error {
	return toFile(name, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(report)
	})
}
