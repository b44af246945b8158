package kubectl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

func (s *session) retryCommand() *cobra.Command {
	allHeld := false
	c := &cobra.Command{
		Use:   "retry NODE|JOB...",
		Short: "Have what failed on a node tried again",
		Long: "Have what failed on a node tried again: failed updates, and the job that holds the node, which a new one takes over. It lifts no quarantine, " +
			"and does not go on with a rollout that is halted.",
		Example: "  kubectl firmware retry gpu-017 -m 'cable replaced'\n" +
			"  kubectl firmware retry --all-held",
		Args:              wantOrAll(&allHeld, "nodes or jobs", "kubectl firmware retry gpu-017", "all-held"),
		ValidArgsFunction: s.completeNames("NodeFirmware", "FirmwareJob"),
	}
	c.Flags().BoolVar(&allHeld, "all-held", false, "every node that a failed job keeps out of service")
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		api, by, err := s.begin(c.Context(), w)
		if err != nil {
			return err
		}
		if allHeld {
			if args, err = s.heldNames(c.Context(), api); err != nil || len(args) == 0 {
				return err
			}
			w.others = "Not tried again"
		}
		return s.do(c.Context(), w, by, decisionsOf(args, func(ctx context.Context, name string) (*write, error) {
			node, err := failedNode(ctx, api, name)
			if err != nil {
				return nil, err
			}
			f, err := gatherNode(ctx, api, node)
			if err != nil {
				return nil, err
			}
			return f.retry(by)
		}))
	}
	return c
}

// heldNames are the nodes that are held, in order.
func (s *session) heldNames(ctx context.Context, api client.Reader) ([]string, error) {
	held, err := heldNodes(ctx, api)
	if err != nil {
		return nil, err
	}
	if len(held) == 0 {
		s.say("No node is held.")
	}
	var out []string
	for name := range held {
		out = append(out, "node/"+name)
	}
	slices.Sort(out)
	return out, nil
}

// failedNode is the node that a person means by its name, or by that of a job that failed there.
func failedNode(ctx context.Context, api client.Reader, name string) (string, error) {
	found, err := lookUp(ctx, api, name)
	if err != nil {
		return "", err
	}
	switch o := found.(type) {
	case *v1alpha1.NodeFirmware:
		return "node/" + o.Name, nil
	case *v1alpha1.FirmwareJob:
		switch {
		case !o.Ended():
			return "", fmt.Errorf("job/%s has not ended, so there is nothing to try again. To see what it does: kubectl firmware why %[1]s", o.Name)
		case !o.Failed():
			return "", fmt.Errorf("job/%s did not fail, so there is nothing to try again", o.Name)
		}
		return "node/" + o.Spec.NodeName, nil
	}
	return "", fmt.Errorf("%s is neither a node nor a job. A retry is for a node: kubectl firmware retry NODE", named(found))
}

// retry decides a retry, by the rules by which the operator plans one.
func (f *nodeFacts) retry(by person) (*write, error) {
	n, held := f.node, f.held()
	now := desired.Retry(n)
	failed := f.failed(now)
	waits := n.Status.HeldBy != "" && !now.Clears(&n.Status.Requests.Retry)
	if held != nil {
		waits = !now.Clears(held.RetryInForce())
	}
	switch {
	case !waits && len(failed) == 0 && n.Status.HeldBy != "":
		return nil, fmt.Errorf("node/%s is to be tried again already (%s). %s", n.Name, now, f.waitsFor())
	case !waits && len(failed) == 0:
		return nil, fmt.Errorf("nothing failed on node/%s that a retry would clear. %s", n.Name, f.waitsFor())
	}
	if err := f.mayRetry(held, failed); err != nil {
		return nil, err
	}
	will := fmt.Sprintf("What failed on node %s is tried again", n.Name)
	if len(failed) > 0 {
		will += ": " + text.Some(namesOfDevices(failed), 5)
	}
	will += "."
	if n.Status.HeldBy != "" {
		will += fmt.Sprintf(" A new job takes the node over from job %s, and returns it to service if it succeeds.", n.Status.HeldBy)
	}
	for _, d := range failed {
		if d.Spec.Firmware == nil {
			continue
		}
		if q := f.quarantined(d, d.Spec.Firmware.Digest); q != nil && f.surelyQuarantined(d, d.Spec.Firmware.Digest) == nil {
			will += fmt.Sprintf(" On %s nothing is flashed if the node is of a policy for which its image is quarantined (%s): kubectl firmware quarantine lift %s.", d.Name,
				text.Some(quarantine.Policies(q), 3), q.Name)
		}
		if d.Status.Failure != nil && d.Status.Failure.Reason == v1alpha1.ReasonRestored {
			will += fmt.Sprintf(" Other firmware was restored on %s: what is desired there is flashed over it.", d.Name)
		}
	}
	will += f.limits() + silent(n)
	changed := copyOf(n)
	changed.Spec.Requests.Retry = by.request()
	return &write{old: n, changed: changed, will: will, did: "retry requested", action: "Retry", reason: v1alpha1.ReasonPending}, nil
}

// mayRetry refuses a retry that would do nothing: of what the node is held for, or else of what failed, no image may be flashed.
func (f *nodeFacts) mayRetry(held *v1alpha1.FirmwareJob, failed []*v1alpha1.NodeDevice) error {
	if held == nil {
		for _, d := range failed {
			if d.Spec.Firmware == nil || d.Status.IsUnhealthy() || f.surelyQuarantined(d, d.Spec.Firmware.Digest) == nil {
				return nil
			}
		}
		if len(failed) == 0 {
			return nil
		}
		return f.keptBy(f.surelyQuarantined(failed[0], failed[0].Spec.Firmware.Digest))
	}
	wanted := false
	for _, u := range held.Spec.Task.Devices {
		d := f.device(u.Name)
		if d == nil || !desired.Wants(d, &u) {
			continue
		}
		wanted = true
		if q := f.surelyQuarantined(d, u.Digest); q != nil && held.FailedOn(u.Name) {
			return fmt.Errorf("%w. To return the node to service as it is: kubectl firmware release %s", f.keptBy(q), f.node.Name)
		}
	}
	due := slices.ContainsFunc(f.devices, func(d *v1alpha1.NodeDevice) bool {
		return d.Spec.Firmware != nil && d.Spec.Firmware.Policy == v1alpha1.PolicyApply && !is(d.Status.Conditions, v1alpha1.ConditionReady)
	})
	if !wanted && !due {
		return fmt.Errorf("a retry does nothing on node/%s: what job %s did is not desired any more, and no update is due, so that no job would take the node over. "+
			"To return it to service as it is: kubectl firmware release %[1]s", f.node.Name, held.Name)
	}
	return nil
}

func (f *nodeFacts) keptBy(q *v1alpha1.FirmwareQuarantine) error {
	return fmt.Errorf("a retry does nothing on node/%s while its image is quarantined: %s. Where the image is not at fault, lift that first: "+
		"kubectl firmware quarantine lift %s", f.node.Name, quarantine.Why(q), q.Name)
}

// waitsFor says what happens on the node, or why nothing does.
func (f *nodeFacts) waitsFor() string {
	if j := f.next(); j != nil {
		c := explain.Deciding(j.Status.Conditions)
		if !j.MayBegin() {
			c = explain.Waiting(j, c)
		}
		said, _ := wayout.Ways(c.Message)
		return strings.TrimSpace(fmt.Sprintf("Job %s: %s", j.Name, said)) + " To see more: kubectl firmware why " + f.node.Name
	}
	return "To see how it is: kubectl firmware why " + f.node.Name
}

// limits says what keeps the node's next job waiting although a person asked for it.
func (f *nodeFacts) limits() string {
	if f.policy == nil {
		return f.maybeLimits()
	}
	switch f.policy.Spec.State {
	case v1alpha1.RolloutPaused, v1alpha1.RolloutAborted:
		return fmt.Sprintf(" It waits while policy %s is %s; to go on there: kubectl firmware resume policy/%[1]s.", f.policy.Name, f.policy.Spec.State)
	case v1alpha1.RolloutActive:
	}
	if halted := haltsOf(f.policy); len(halted) > 0 && f.node.Status.HeldBy == "" {
		return fmt.Sprintf(" Policy %s has halted the update to %s; to go on with it: kubectl firmware resume policy/%[1]s.", f.policy.Name, text.Some(halted, 3))
	}
	return ""
}

// maybeLimits says which policies would keep the job waiting, where it was not read which one is that of the node.
func (f *nodeFacts) maybeLimits() string {
	var keep []string
	for _, p := range f.unclear {
		switch halted := haltsOf(p); {
		case !isActive(p):
			keep = append(keep, fmt.Sprintf("%s is %s", p.Name, p.Spec.State))
		case len(halted) > 0 && f.node.Status.HeldBy == "":
			keep = append(keep, fmt.Sprintf("%s has halted the update to %s", p.Name, text.Some(halted, 3)))
		}
	}
	if len(keep) == 0 {
		return ""
	}
	return fmt.Sprintf(" You may not read Nodes, so it is not known whether this waits for its policy: %s.", text.Some(keep, 5))
}

// haltsOf are the versions to which a policy updates no further node.
func haltsOf(p *v1alpha1.RolloutPolicy) (out []string) {
	for _, r := range p.Status.Rollouts {
		if r.HaltedTime != nil && !slices.Contains(out, r.Version) {
			out = append(out, r.Version)
		}
	}
	return out
}

func namesOfDevices(devices []*v1alpha1.NodeDevice) (out []string) {
	for _, d := range devices {
		out = append(out, d.Name)
	}
	return out
}
