package simulation

import (
	"errors"
	"fmt"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Options say what is simulated.
type Options struct {
	// Seed decides everything that is left to chance. What happens to a node does not depend on when it is admitted, so that two
	// policies can be compared by the same seed.
	Seed uint64
	// Start is when the firmware is declared and all jobs are queued; Horizon is how far the simulation looks at the most.
	Start   time.Time
	Horizon time.Duration
	// Policies are those of the cluster. The policy named default is added where it is missing, as the operator does.
	Policies []v1alpha1.RolloutPolicy
	Fleet    []Node
	// NotDue counts the devices of the fleet that no rollout updates though they do not run what is desired.
	NotDue NotDue
	Work   Work
	// OwnNode is the node the operator runs on; its job goes last. Empty when unknown.
	OwnNode string
}

// Node is one machine of the fleet.
type Node struct {
	Name   string
	Labels map[string]string
	// Devices are those that the rollout updates, in one job. A node without any is done from the start.
	Devices []Device
	// Ready and Cordoned are the node's state at the start. A node that starts not Ready or cordoned stays so.
	Ready, Cordoned bool
	// Taken says who else has the node, so that it is not updated; empty for nobody.
	Taken string
}

// Work says how long jobs take and what goes wrong. Rates are shares of the jobs, from 0 to 1.
type Work struct {
	// Version is the one that every device is updated to.
	Version string
	// Duration is how long the job of a node takes, Spread by which share of that it varies at the most.
	Duration ByModel[time.Duration]
	Spread   float64
	// Expected is how long the operator expects a job to take while it knows too little; 0 for its default.
	Expected time.Duration
	// SlowBoot is the rate of nodes that take SlowBootFor longer to boot.
	SlowBoot    float64
	SlowBootFor time.Duration
	// Failure is the rate of jobs that end early for a reason that passes by itself, such as a lost connection. They are tried
	// again with the pauses of the operator.
	Failure ByModel[float64]
	// Held is the rate of jobs that fail and keep their node until a person requests a retry.
	Held ByModel[float64]
	// BadImage is the rate of jobs that make their node unhealthy. They are rolled back, and the image is quarantined.
	BadImage ByModel[float64]
	// Person is how long it takes on average until a person retries a held node or lifts a quarantine; 0 means never.
	Person time.Duration
	// Outages is how often a node becomes not Ready for another reason, in 30 days; OutageFor is for how long on average.
	Outages   float64
	OutageFor time.Duration
	// Reaction is the time from the end of a job to the next decision.
	Reaction time.Duration
}

// ByModel is a value with exceptions for some models.
type ByModel[T any] struct {
	Default T
	Models  map[string]T
}

// Of is the value for a model.
func (b ByModel[T]) Of(model string) T {
	if v, ok := b.Models[model]; ok {
		return v
	}
	return b.Default
}

// MaxNodes bounds the fleet.
const MaxNodes = 100_000

// validate refuses what cannot be simulated.
func (o Options) validate() error {
	var errs []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	w := o.Work
	refuse(len(o.Fleet) == 0, "there are no nodes to simulate")
	refuse(len(o.Fleet) > MaxNodes, "%d nodes: at most %d can be simulated", len(o.Fleet), MaxNodes)
	refuse(o.Horizon <= 0 || o.Horizon > 10*365*24*time.Hour, "horizon %s: choose more than 0 and at most 10 years", o.Horizon)
	refuse(w.Spread < 0 || w.Spread >= 1, "spread %g: choose 0 or more and less than 1", w.Spread)
	refuse(w.SlowBoot < 0 || w.SlowBoot > 1, "slow-boot rate %g: choose 0 to 1", w.SlowBoot)
	refuse(w.Outages < 0 || w.Outages > 1000, "outages %g: choose 0 to 1000 for each node in 30 days", w.Outages)
	refuse(w.Outages > 0 && w.OutageFor < time.Second, "outage %s: choose at least 1s", w.OutageFor)
	refuse(w.SlowBootFor < 0 || w.Person < 0 || w.Reaction < 0, "a duration is negative")
	for _, d := range w.Duration.all() {
		refuse(d < time.Second, "duration %s: a job takes at least 1s", d)
	}
	for name, rate := range map[string]ByModel[float64]{"failure": w.Failure, "held": w.Held, "bad-image": w.BadImage} {
		for _, r := range rate.all() {
			refuse(r < 0 || r > 1, "%s rate %g: choose 0 to 1", name, r)
		}
	}
	seen := make(map[string]bool, len(o.Fleet))
	for _, n := range o.Fleet {
		refuse(n.Name == "", "a node has no name")
		refuse(seen[n.Name], "node %s is given twice", n.Name)
		seen[n.Name] = true
	}
	return errors.Join(errs...)
}

func (b ByModel[T]) all() []T {
	out := []T{b.Default}
	for _, v := range b.Models {
		out = append(out, v)
	}
	return out
}
