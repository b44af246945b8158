package kubectl

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

func (s *session) pauseCommand() *cobra.Command {
	everything := false
	c := &cobra.Command{
		Use:   "pause POLICY|template/NAME|settings/NAME...",
		Short: "Begin no further job of a policy, or assign nothing new by a template; what runs goes on",
		Example: "  kubectl firmware pause gpu -m 'waits for the vendor'\n" +
			"  kubectl firmware pause template/gpu-nics\n" +
			"  kubectl firmware pause --all",
		Args:              wantOrAll(&everything, "policies or templates", "kubectl firmware pause gpu", "all"),
		ValidArgsFunction: s.completeNames("RolloutPolicy"),
	}
	c.Flags().BoolVar(&everything, "all", false, "every policy")
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		api, by, err := s.begin(c.Context(), w)
		if err != nil {
			return err
		}
		if everything {
			if args, err = s.policies(c.Context(), api, isActive); err != nil || len(args) == 0 {
				return err
			}
			w.others = "Not paused"
		}
		return s.do(c.Context(), w, by, decisionsOf(args, func(ctx context.Context, name string) (*write, error) {
			o, err := lookUpPausable(ctx, api, name)
			if err != nil {
				return nil, err
			}
			return pause(o)
		}))
	}
	return c
}

// lookUpPausable finds a policy by its name, or a template by template/NAME.
func lookUpPausable(ctx context.Context, api client.Reader, name string) (client.Object, error) {
	if !strings.Contains(name, "/") {
		name = "policy/" + name
	}
	o, err := lookUp(ctx, api, name)
	if err != nil {
		return nil, err
	}
	switch o.(type) {
	case *v1alpha1.RolloutPolicy, *v1alpha1.FirmwareTemplate, *v1alpha1.ConfigurationTemplate:
		return o, nil
	}
	return nil, fmt.Errorf("%s cannot be paused: only policies and templates can. To end a job: kubectl firmware cancel JOB", named(o))
}

func isActive(p *v1alpha1.RolloutPolicy) bool { return p.Spec.State == v1alpha1.RolloutActive }

// policies are those that a person means by all, as policy/name.
func (s *session) policies(ctx context.Context, api client.Reader, is func(*v1alpha1.RolloutPolicy) bool) (out []string, err error) {
	err = reading.Each(ctx, api, &v1alpha1.RolloutPolicyList{}, nil, func(p *v1alpha1.RolloutPolicy) error {
		if is(p) {
			out = append(out, "policy/"+p.Name)
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		s.say("No policy is active: nothing new begins.")
	}
	return out, err
}

// pause decides that nothing new begins.
func pause(o client.Object) (*write, error) {
	switch o := o.(type) {
	case *v1alpha1.RolloutPolicy:
		if o.Spec.State == v1alpha1.RolloutAborted {
			return nil, fmt.Errorf("policy/%s is Aborted, and so begins nothing. To have what is due queued again: kubectl firmware resume policy/%[1]s", o.Name)
		}
		if o.Spec.State == v1alpha1.RolloutPaused {
			how := ""
			if isStopped(o) {
				how = ", by a stop, which a resume without names undoes"
			}
			return nil, fmt.Errorf("policy/%s is Paused already%s: it begins nothing", o.Name, how)
		}
		changed := copyOf(o)
		changed.Spec.State = v1alpha1.RolloutPaused
		will := fmt.Sprintf("Policy %s begins no further job%s.%s", o.Name, queued(o), running(o))
		return &write{old: o, changed: changed, will: will, did: "paused", action: "Pause", reason: v1alpha1.ReasonPaused}, nil
	case *v1alpha1.FirmwareTemplate:
		changed := copyOf(o)
		return pauseTemplate(o, changed, &changed.Spec.State)
	case *v1alpha1.ConfigurationTemplate:
		changed := copyOf(o)
		return pauseTemplate(o, changed, &changed.Spec.State)
	}
	return nil, fmt.Errorf("%s cannot be paused", named(o))
}

// pauseTemplate decides that a template of either kind assigns nothing new. State is that of the changed one.
func pauseTemplate(o, changed client.Object, state *v1alpha1.TemplateState) (*write, error) {
	if *state == v1alpha1.TemplatePaused {
		return nil, fmt.Errorf("%s is Paused already: it assigns nothing new", named(o))
	}
	*state = v1alpha1.TemplatePaused
	will := fmt.Sprintf("Template %s assigns nothing new. What it has assigned stays, and is updated: to begin no further job, pause the policy: kubectl firmware pause POLICY", o.GetName())
	return &write{old: o, changed: changed, will: will, did: "paused", action: "Pause", reason: v1alpha1.ReasonPaused}, nil
}

// queued says how many nodes wait for a policy, and keep their places in its queue.
func queued(p *v1alpha1.RolloutPolicy) string {
	switch n := p.Status.Nodes; {
	case n == nil || n.Queued == 0:
		return ""
	case n.Queued == 1:
		return "; 1 node waits and keeps its place"
	default:
		return fmt.Sprintf("; %d nodes wait and keep their places", n.Queued)
	}
}

// running says which jobs of a policy go on.
func running(p *v1alpha1.RolloutPolicy) string {
	var jobs []string
	for _, a := range p.Status.Admitted {
		jobs = append(jobs, fmt.Sprintf("%s on %s", a.Job, a.Node))
	}
	if len(jobs) == 0 {
		return ""
	}
	return " What was admitted stays admitted: " + text.Some(jobs, 5) + "."
}
