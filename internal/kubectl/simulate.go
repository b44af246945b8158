package kubectl

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/forecast"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

func (s *session) simulateCommand() *cobra.Command {
	var files []string
	var f simulation.Flags
	c := &cobra.Command{
		Use:   "simulate [-f FILE...]",
		Short: "Play a rollout on the nodes of the cluster in virtual time, with failures by chance",
		Long: "Play in virtual time, with failures by chance, what the operator would do if the objects of files were applied; they are those of plan, which says what happens where all goes " +
			"well. Nodes, devices and policies are those of the cluster, and jobs take as long as those before. Nothing is written to the cluster. What is left of a rollout is played as a rollout of its own, " +
			"from its first wave on. The same cluster with the same flags gives the same result, but for the time of day that it starts at.",
		Example: "  kubectl firmware simulate -f policy.yaml --failure-rate 2% --held-rate 0.5% --out rollout.html\n" +
			"  kubectl firmware simulate -f template.yaml --waves",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("name files with -f, such as: kubectl firmware simulate -f %s", args[0])
			}
			return nil
		},
	}
	c.Flags().StringSliceVarP(&files, "filename", "f", nil, "files or directories with the objects, or - for the input")
	f.Register(c.Flags())
	c.Flags().Lookup("start").Usage += " (default: now)"
	c.Flags().Lookup("duration").Usage += " (default: as long as jobs took before)"
	c.RunE = func(c *cobra.Command, _ []string) error {
		o, err := f.Options()
		if err != nil {
			return err
		}
		facts, _, err := s.proposed(c.Context(), files)
		if err != nil {
			return err
		}
		if o.Start.IsZero() {
			o.Start = facts.Now.Truncate(time.Second)
		}
		plan := forecast.Make(facts)
		o.Policies = facts.Policies
		o.Fleet, o.NotDue = fleetOf(plan, facts.Nodes)
		if f.Duration == "" {
			var assumed []string
			o.Work.Duration, assumed = durationsOf(plan, o.Work.Expected)
			if len(assumed) > 0 {
				s.say("Nobody knows yet how long jobs take with %s: %s are assumed, see --duration.", text.Some(assumed, 5), o.Work.Expected)
			}
		}
		return f.Run(c.Context(), o, printable{s.Out}, s.ErrOut)
	}
	return c
}

// settings stands for the version that a device gets that keeps its firmware and gets other settings.
const settings = "settings"

// fleetOf are the nodes with the devices that change, and how many do not though they are not as desired.
func fleetOf(plan *forecast.Forecast, nodes []schedule.Node) ([]simulation.Node, simulation.NotDue) {
	out, at, left := make([]simulation.Node, len(nodes)), make(map[string]*simulation.Node, len(nodes)), simulation.NotDue{}
	for i, n := range nodes {
		out[i] = simulation.Node{Name: n.Name, Labels: n.Labels, Ready: n.Ready, Cordoned: n.Cordoned, Taken: n.Taken}
		at[n.Name] = &out[i]
	}
	for _, d := range plan.Devices {
		n := at[d.Node]
		switch {
		case n == nil:
		case d.Changes():
			one := simulation.Device{Name: d.Name, Model: d.Model, Version: d.Path[0], To: settings}
			for i, version := range d.Path[1:] {
				if i == 0 {
					one.To = version
				} else {
					one.Then = append(one.Then, simulation.Image{Version: version})
				}
			}
			n.Devices = append(n.Devices, one)
		case d.Reason == v1alpha1.ReasonOutOfDate:
			left[simulation.OnlyValidated]++
		case d.Reason == v1alpha1.ReasonConflict:
			left[simulation.InConflict]++
		case d.Reason != v1alpha1.ReasonUpToDate && d.Reason != v1alpha1.ReasonNotAssigned && d.Reason != v1alpha1.ReasonPending:
			left[d.Reason]++
		}
	}
	return out, left
}

// durationsOf are how long jobs took, by model: the shortest of the jobs with a device of it, since a job takes as long as the device that takes
// longest. Models of which nobody knows are assumed to take as long as the operator expects.
func durationsOf(plan *forecast.Forecast, expected time.Duration) (out simulation.ByModel[time.Duration], assumed []string) {
	out = simulation.ByModel[time.Duration]{Default: expected, Models: map[string]time.Duration{}}
	unknown := map[string]bool{}
	for _, n := range plan.Nodes {
		for _, j := range n.Jobs {
			for _, at := range j.Devices {
				model := plan.Devices[at].Model
				known, has := out.Models[model]
				switch {
				case j.Took <= 0:
					unknown[model] = true
				case !has || j.Took < known:
					out.Models[model] = max(j.Took, time.Second)
				}
			}
		}
	}
	for model := range unknown {
		if _, has := out.Models[model]; !has {
			assumed = append(assumed, model)
		}
	}
	slices.Sort(assumed)
	return out, assumed
}
