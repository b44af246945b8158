package kubectl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

// every is how often the object is read.
const every = time.Second

// progress is how far an object is.
type progress struct {
	// end says that nothing more happens by itself: well where it is as it is to be.
	end, well bool
	// done of all; all is 0 where it cannot be counted.
	done, all int
	// says is what happens now, or how it ended. Next is the command that goes on, if it ended badly.
	says, next string
	// until is when it is expected to end; nil where nobody knows.
	until *metav1.Time
}

func (s *session) waitCommand() *cobra.Command {
	timeout := time.Duration(0)
	c := &cobra.Command{
		Use:   "wait JOB|NODE|template/NAME|policy/NAME",
		Short: "Wait until a job, a node, a template or a policy is done, and show how far it is",
		Long: "Wait until a job, a node, a template or a policy is done, and show how far it is: on a terminal as a bar, elsewhere as a line for each change. " +
			"The exit code is 0 where it is done, and 1 where it needs a person, or the time is over.",
		Example: "  kubectl firmware wait gpu-017\n" +
			"  kubectl firmware wait policy/gpu --timeout 8h",
		Args:              wantOne("kubectl firmware wait gpu-017"),
		ValidArgsFunction: s.completeNames("NodeFirmware", "FirmwareJob"),
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait; 0 for as long as it takes")
	c.RunE = func(c *cobra.Command, args []string) error {
		if timeout < 0 {
			return fmt.Errorf("--timeout %s: want 0, for as long as it takes, or more", timeout)
		}
		api, err := s.connect()
		if err != nil {
			return err
		}
		o, err := lookUp(c.Context(), api, args[0])
		if err != nil {
			return err
		}
		if _, err := progressOf(o, nil); err != nil {
			return err
		}
		return s.wait(c.Context(), api, o, timeout)
	}
	return c
}

// wait shows how far an object is until it ends, or the time does.
func (s *session) wait(ctx context.Context, api client.Reader, o client.Object, timeout time.Duration) error {
	var over <-chan time.Time
	if timeout > 0 {
		over = time.After(timeout)
	}
	b := &bar{session: s, width: width(s.ErrOut)}
	defer b.clear()
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		p, err := s.look(ctx, api, o)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case p.end:
			b.clear()
			return s.ended(o, p)
		}
		b.show(named(o), p)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			return fmt.Errorf("%s is not done after %s: %s", named(o), timeout, p.says)
		case <-ticks.C:
		}
	}
}

// look reads the object again. An API server that does not answer is asked again.
func (s *session) look(ctx context.Context, api client.Reader, o client.Object) (progress, error) {
	err := api.Get(ctx, client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) && !reading.IsMissingKind(err) {
		return progress{}, fmt.Errorf("%s is gone", named(o))
	}
	var jobs []*v1alpha1.FirmwareJob
	if n, is := o.(*v1alpha1.NodeFirmware); is && err == nil {
		g := &explain.Gathering{Ctx: ctx, API: api}
		jobs = g.JobsOf(n.Name)
		err = g.Err
	}
	switch {
	case err == nil:
		return progressOf(o, jobs)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), reading.IsMissingKind(err), meta.IsNoMatchError(err): // no later answer is another one
		return progress{}, err
	}
	return progress{says: s.explain(err)}, nil
}

// ended says how it ended.
func (s *session) ended(o client.Object, p progress) error {
	if !p.well {
		next := p.next
		if next == "" {
			next = "kubectl firmware why " + named(o)
		}
		return fmt.Errorf("%s: %s To go on: %s", named(o), p.says, next)
	}
	return page{Writer: printable{s.Out}}.line("%s: %s", named(o), p.says)
}

// progressOfTemplate says how many devices of a template are as it says.
func progressOfTemplate(s *v1alpha1.TemplateStatus, generation int64, state v1alpha1.TemplateState, resume string) progress {
	p := byCondition(s.Conditions, v1alpha1.ConditionReady, s.ObservedGeneration >= generation)
	p.done, p.all = int(s.Devices.UpToDate), int(s.Devices.UpToDate+s.Devices.OutOfDate)
	if state == v1alpha1.TemplatePaused && !p.well {
		p.end, p.next = true, resume
	}
	return p
}

// progressOf says how far an object is. Jobs are those of a node.
func progressOf(o client.Object, jobs []*v1alpha1.FirmwareJob) (progress, error) {
	switch o := o.(type) {
	case *v1alpha1.FirmwareJob:
		return progressOfJob(o), nil
	case *v1alpha1.NodeFirmware:
		return progressOfNode(o, jobs), nil
	case *v1alpha1.ConfigurationTemplate:
		return progressOfTemplate(&o.Status, o.Generation, o.Spec.State, wayout.State("fct", o.Name, v1alpha1.TemplateActive)), nil
	case *v1alpha1.FirmwareTemplate:
		return progressOfTemplate(&o.Status, o.Generation, o.Spec.State, "kubectl firmware resume template/"+o.Name), nil
	case *v1alpha1.RolloutPolicy:
		p := byCondition(o.Status.Conditions, v1alpha1.ConditionComplete, o.Status.ObservedGeneration >= o.Generation)
		p.until = o.Status.EstimatedCompletionTime
		if !isActive(o) && !p.well {
			p.end, p.next = true, "kubectl firmware resume policy/"+o.Name
		}
		if n := o.Status.Nodes; n != nil && !p.end {
			p.says = fmt.Sprintf("%d admitted, %d wait. %s", len(o.Status.Admitted), n.Queued+n.Refused, p.says)
		}
		return p, nil
	}
	return progress{}, fmt.Errorf("%s is nothing to wait for: name a job, a node, a template or a policy", named(o))
}

// byCondition is how far an object is that says so in its conditions. Current says that they are about its spec as it is.
func byCondition(conditions []metav1.Condition, kind string, current bool) progress {
	if !current {
		return progress{says: "Nothing has looked at its spec yet."}
	}
	c := explain.Deciding(conditions)
	said, ways := wayout.Ways(c.Message)
	p := progress{says: said, well: is(conditions, kind)}
	p.end = p.well || is(conditions, v1alpha1.ConditionStalled)
	if len(ways) > 0 {
		p.next = ways[0].Typed()
	}
	return p
}

func progressOfJob(j *v1alpha1.FirmwareJob) progress {
	p := progress{end: j.Ended(), well: j.Ended() && !j.Failed()}
	said, ways := wayout.Ways(explain.DecidingOf(j).Message)
	p.says = said
	if len(ways) > 0 {
		p.next = ways[0].Typed()
	}
	running := false
	for _, step := range j.Status.Steps {
		p.all++
		switch step.State {
		case v1alpha1.StepSucceeded, v1alpha1.StepSkipped, v1alpha1.StepFailed:
			p.done++
		case v1alpha1.StepRunning:
			if !p.end && !running { // of several drives that erase themselves, the first one
				running = true
				p.says = atStep(j)
				if step.ProgressPercent != nil {
					p.says = fmt.Sprintf("%s, %d %% of it done.", strings.TrimSuffix(p.says, "."), *step.ProgressPercent)
				}
			}
		case v1alpha1.StepPending:
		}
	}
	return p
}

// progressOfNode is that of its job, or of what is to be done. A node that is held is done for, unless a person asked for a retry or a release.
func progressOfNode(n *v1alpha1.NodeFirmware, jobs []*v1alpha1.FirmwareJob) progress {
	if j := explain.Unended(jobs); j != nil {
		p := progressOfJob(j)
		if !j.MayBegin() {
			p.says = "Job " + j.Name + " waits: " + p.says
		}
		return p
	}
	p := byCondition(n.Status.Conditions, v1alpha1.ConditionReady, n.Status.ObservedGeneration >= n.Generation)
	if n.Status.HeldBy == "" {
		return p
	}
	asked := desired.Retry(n).Clears(&n.Status.Requests.Retry) || desired.Release(n).Clears(&n.Status.Requests.Release)
	for _, j := range jobs {
		if under := j.RetryInForce(); j.Failed() && under != nil && *under == n.Spec.Requests.Retry { // that one failed too
			asked = desired.Release(n).Clears(&n.Status.Requests.Release)
		}
	}
	if p.end, p.well = !asked, false; asked {
		p.says, p.next = "What was requested has not begun yet.", ""
	}
	return p
}

// bar shows progress on the error stream: on a terminal in one line, elsewhere in a line for each change.
type bar struct {
	*session
	width int
	last  string
}

const (
	barWidth  = 20
	clearLine = "\r\x1b[K"
)

func (b *bar) show(name string, p progress) {
	text := name + ": " + p.says
	if p.next != "" {
		text += " To go on: " + p.next
	}
	if p.until != nil {
		text += " Done by " + stamp(p.until) + ", as it looks now."
	}
	if b.width == 0 {
		if p.all > 0 {
			text = fmt.Sprintf("%s (%d of %d)", text, p.done, p.all)
		}
		if text != b.last {
			b.say("%s", text)
		}
		b.last = text
		return
	}
	if p.all > 0 {
		full := barWidth * p.done / p.all
		text = fmt.Sprintf("[%s%s] %d/%d %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), p.done, p.all, text)
	}
	if runes := []rune(text); len(runes) >= b.width { // a line that wraps could not be cleared
		text = string(runes[:max(b.width-2, 0)]) + "…"
	}
	if text != b.last {
		fmt.Fprint(b.ErrOut, clearLine)
		fmt.Fprint(printable{b.ErrOut}, text)
	}
	b.last = text
}

// clear removes the line of a terminal.
func (b *bar) clear() {
	if b.width > 0 && b.last != "" {
		fmt.Fprint(b.ErrOut, clearLine)
		b.last = ""
	}
}
