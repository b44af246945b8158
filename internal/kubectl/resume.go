package kubectl

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

func (s *session) resumeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "resume [POLICY|template/NAME|settings/NAME...]",
		Short: "Go on: undo a stop, activate a policy or template, and go on with halted updates",
		Long: "Go on. With names: activate what is paused or aborted, and go on with the updates that a policy has halted. Without: undo kubectl firmware stop: " +
			"activate the policies that it paused, and no others, and have the updates tried again whose jobs it cancelled.",
		Example: "  kubectl firmware resume\n" +
			"  kubectl firmware resume gpu -m 'the cable was at fault'",
		ValidArgsFunction: s.completeNames("RolloutPolicy"),
	}
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		api, by, err := s.begin(c.Context(), w)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			return s.do(c.Context(), w, by, decisionsOf(args, func(ctx context.Context, name string) (*write, error) {
				o, err := lookUpPausable(ctx, api, name)
				if err != nil {
					return nil, err
				}
				return resume(o, by)
			}))
		}
		w.others = "Not tried again"
		decisions := s.undoStop(c.Context(), api, w, by)
		if len(decisions) == 0 && w.unread == 0 {
			return nil
		}
		return s.do(c.Context(), w, by, decisions)
	}
	return c
}

// undoStop activates the policies that a stop paused, and has the updates tried again whose jobs it cancelled. What somebody changed since stays.
func (s *session) undoStop(ctx context.Context, api client.Client, w *writing, by person) []decision {
	stopped, err := s.stoppedPolicies(ctx, api)
	s.unlisted(w, "policies", err)
	out := decisionsOf(stopped, func(ctx context.Context, name string) (*write, error) {
		p := &v1alpha1.RolloutPolicy{}
		err := api.Get(ctx, client.ObjectKey{Name: name}, p)
		if err != nil || p.Spec.State != v1alpha1.RolloutPaused || !isStopped(p) {
			return nil, client.IgnoreNotFound(err)
		}
		return activate(p)
	})
	var nodes []string
	err = reading.Each(ctx, api, &v1alpha1.FirmwareJobList{}, nil, func(j *v1alpha1.FirmwareJob) error {
		switch {
		case !wasStopped(j):
		case !j.Ended():
			s.say("Job %s on %s, which the stop cancelled, has not ended yet. To have its update tried again when it has: kubectl firmware retry %[2]s", j.Name, j.Spec.NodeName)
		case j.FailureReason() == v1alpha1.ReasonCancelled && !slices.Contains(nodes, j.Spec.NodeName):
			nodes = append(nodes, j.Spec.NodeName)
		}
		return nil
	})
	s.unlisted(w, "jobs", err)
	slices.Sort(nodes)
	return append(out, decisionsOf(nodes, func(ctx context.Context, node string) (*write, error) {
		f, err := gatherNode(ctx, api, node)
		if err != nil {
			return nil, err
		}
		f.activated(stopped)
		return f.retryStopped(by)
	})...)
}

// activated has the policies be active that are by the time at which the retry counts.
func (f *nodeFacts) activated(names []string) {
	for _, p := range append(slices.Clone(f.unclear), f.policy) {
		if p != nil && slices.Contains(names, p.Name) {
			p.Spec.State = v1alpha1.RolloutActive
		}
	}
}

// retryStopped decides a retry of what a stop cancelled on the node; nil where somebody has had it tried again since. A retry is for all that
// failed on a node, so there is none where something else waits for one.
func (f *nodeFacts) retryStopped(by person) (*write, error) {
	now := desired.Retry(f.node)
	stopped, other := false, ""
	note := func(job string) {
		if j := f.job(job); j != nil && wasStopped(j) {
			stopped = true
		} else {
			other = job
		}
	}
	for _, d := range f.failed(now) {
		if d.Status.Failure != nil && !now.Clears(&d.Status.Failure.Request) {
			note(d.Status.Failure.Job)
		}
		for _, image := range d.Spec.Firmware.Images() {
			for _, j := range desired.Failures(f.jobs, now, d, image) {
				if !step.Reason(j.FailureReason()).Passing() { // others are tried again without a person
					note(j.Name)
				}
			}
		}
	}
	if by := f.node.Status.HeldBy; by != "" {
		if j := f.job(by); j == nil || !now.Clears(j.RetryInForce()) {
			note(by)
		}
	}
	switch {
	case !stopped:
		return nil, nil //nolint:nilnil // nothing is to be done
	case other != "":
		return nil, fmt.Errorf("node/%s has more to be tried again than what the stop cancelled: job %s. To have all of it tried again: kubectl firmware retry %[1]s", f.node.Name, other)
	}
	return f.retry(by)
}

// stoppedPolicies are those that a stop paused. What somebody paused in another way stays, and is named.
func (s *session) stoppedPolicies(ctx context.Context, api client.Reader) (stopped []string, err error) {
	var others []string
	err = reading.Each(ctx, api, &v1alpha1.RolloutPolicyList{}, nil, func(p *v1alpha1.RolloutPolicy) error {
		switch {
		case isActive(p):
		case p.Spec.State == v1alpha1.RolloutPaused && isStopped(p):
			stopped = append(stopped, p.Name)
		default:
			others = append(others, fmt.Sprintf("policy/%s (%s)", p.Name, p.Spec.State))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(stopped) == 0 {
		s.say("No policy is paused by a stop.")
	}
	if len(others) > 0 {
		s.say("Paused or aborted in another way, and left so: %s. To go on there too: kubectl firmware resume POLICY", text.Some(others, 5))
	}
	return stopped, nil
}

// resume decides that a policy or template goes on.
func resume(o client.Object, by person) (*write, error) {
	switch o := o.(type) {
	case *v1alpha1.RolloutPolicy:
		return resumePolicy(o, by)
	case *v1alpha1.FirmwareTemplate:
		changed := copyOf(o)
		return resumeTemplate(o, changed, &changed.Spec.State, "firmware")
	case *v1alpha1.ConfigurationTemplate:
		changed := copyOf(o)
		return resumeTemplate(o, changed, &changed.Spec.State, "settings")
	}
	return nil, fmt.Errorf("%s cannot be resumed", named(o))
}

// resumeTemplate decides that a template of either kind goes on to assign what. State is that of the changed one.
func resumeTemplate(o, changed client.Object, state *v1alpha1.TemplateState, what string) (*write, error) {
	if *state == v1alpha1.TemplateActive {
		return nil, fmt.Errorf("%s is Active already. To see what it waits for: kubectl firmware why %[1]s", named(o))
	}
	*state = v1alpha1.TemplateActive
	return &write{old: o, changed: changed, will: fmt.Sprintf("Template %s assigns %s to what it matches, which is then updated.", o.GetName(), what),
		did: "resumed", action: "Resume", reason: v1alpha1.ReasonProgressing}, nil
}

func resumePolicy(p *v1alpha1.RolloutPolicy, by person) (*write, error) {
	halted := haltsOf(p)
	asked, answered := "", ""
	if p.Spec.Requests != nil {
		asked = p.Spec.Requests.Resume
	}
	if p.Status.Requests != nil {
		answered = p.Status.Requests.Resume
	}
	isAsked := isPending(asked, answered)
	switch {
	case len(halted) > 0 && !isAsked:
	case !isActive(p):
		return activate(p)
	case len(halted) > 0:
		return nil, fmt.Errorf("policy/%s is to be resumed already (%s), and the operator has not answered yet. Is it running?", p.Name, asked)
	default:
		return nil, fmt.Errorf("policy/%s is Active and has halted no update. To see what it waits for: kubectl firmware why policy/%[1]s", p.Name)
	}
	one := &write{old: p, changed: p.DeepCopy(), did: "resumed", action: "Resume", reason: v1alpha1.ReasonProgressing}
	if !isActive(p) {
		var err error
		if one, err = activate(p); err != nil {
			return nil, err
		}
		one.will += " "
	}
	one.changed.(*v1alpha1.RolloutPolicy).Spec.Requests = &v1alpha1.RolloutRequests{Resume: by.request()}
	one.will += fmt.Sprintf("Policy %s goes on with the update to %s, which it has halted, and counts its failures from 0 again. Nodes that are held stay so: kubectl firmware retry NODE.",
		p.Name, text.Some(halted, 3))
	return one, nil
}

// activate decides that a policy that is paused or aborted goes on.
func activate(p *v1alpha1.RolloutPolicy) (*write, error) {
	if isActive(p) {
		return nil, fmt.Errorf("policy/%s is Active already", p.Name)
	}
	changed := copyOf(p)
	changed.Spec.State = v1alpha1.RolloutActive
	what := "begins jobs again as its budget allows"
	if p.Spec.State == v1alpha1.RolloutAborted {
		what = "queues again what is due, and begins it as its budget allows"
	}
	return &write{old: p, changed: changed, will: fmt.Sprintf("Policy %s %s.", p.Name, what),
		did: "resumed", action: "Resume", reason: v1alpha1.ReasonProgressing}, nil
}
