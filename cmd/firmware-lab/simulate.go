package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/internal/policyfile"
	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
)

func simulateCommand() *cobra.Command {
	f := simulateFlags{Flags: simulation.Flags{Start: "2026-01-05T09:00:00Z", Duration: "25m"}}
	c := &cobra.Command{
		Use:   "simulate",
		Short: "Show how a rollout will go under your policies, in virtual time",
		Long: "Run the operator's own decision over a fleet in virtual time, with failures by chance, and draw the rollout as one HTML file.\n" +
			"Nothing is contacted and nothing is changed. The same flags with the same seed give the same result.\n" +
			"With access to the cluster, kubectl firmware simulate takes nodes, devices and policies from there.",
		Example: "  kubectl get nodes -o json > nodes.json\n" +
			"  firmware-lab simulate --nodes-from nodes.json --policy policy.yaml --out rollout.html --report rollout.json",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := f.options(c)
			if err != nil {
				return err
			}
			return f.Run(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f.register(c)
	return c
}

// simulateFlags are the flags of simulate.
type simulateFlags struct {
	simulation.Flags
	made                  simulation.Made
	policies              []string
	nodesFrom, modelLabel string
	devicesFrom           string
	labels                []string
	models, versions, to  string
}

func (f *simulateFlags) register(c *cobra.Command) {
	s := c.Flags()
	f.Register(s)
	s.StringArrayVar(&f.policies, "policy", nil, "file of RolloutPolicies, one or more documents; may be repeated (default: the operator's own policy, one node at a time)")
	s.StringVar(&f.nodesFrom, "nodes-from", "", "file with the output of kubectl get nodes -o json, instead of a made fleet")
	s.StringVar(&f.devicesFrom, "devices-from", "", "with --nodes-from: file with the output of kubectl get nodedevices -o json; what is to be updated on each node now, instead of one device")
	s.StringVar(&f.modelLabel, "model-label", "node.kubernetes.io/instance-type", "label of the nodes that says which model they are")
	s.IntVar(&f.made.Nodes, "nodes", 1000, "number of nodes of a made fleet")
	s.StringVar(&f.models, "models", "model-a", "models of a made fleet with their weights: A:3,B:1; A+B stands for a node with two devices")
	s.StringVar(&f.versions, "versions", "1.0", "versions that a made fleet runs before, with their weights")
	s.StringArrayVar(&f.labels, "label", nil, "label of a made fleet, its values with their weights: pool=gpu:3,storage:1; may be repeated")
	s.IntVar(&f.made.Racks, "racks", 0, "number of racks among which a made fleet is divided")
	s.StringVar(&f.made.RackLabel, "rack-label", "topology.kubernetes.io/rack", "label of the nodes of a made fleet that names the rack")
	s.StringVar(&f.to, "to-version", "2.0", "version that is rolled out")
}

func (f *simulateFlags) options(c *cobra.Command) (simulation.Options, error) {
	o, err := f.Options()
	errs := []error{err}
	o.Work.Version, f.made.Seed = f.to, f.Seed
	if len(f.policies) > 0 {
		o.Policies, err = policyfile.Load(f.policies)
		errs = append(errs, err)
	}
	o.Fleet, o.NotDue, err = f.fleet(c)
	return o, errors.Join(append(errs, err)...)
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
