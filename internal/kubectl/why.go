package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

// Explanation is why an object is as it is.
type Explanation struct {
	metav1.TypeMeta `json:",inline"`
	// Of is the object, as kind/name.
	Of     string `json:"of"`
	Reason string `json:"reason"`
	// Sentence is what the object that decides says, without commands.
	Sentence string `json:"sentence"`
	// Chain is what led there, the cause first.
	Chain []Link `json:"chain"`
	// Next are the commands that change it, by purpose: its own, or else those of what led there; none where it goes on by itself.
	Next []wayout.Way `json:"next"`
}

// Link is one object of a chain.
type Link struct {
	Of     string `json:"of"`
	Reason string `json:"reason,omitempty"`
	Says   string `json:"says"`
	// ways are the commands that it names.
	ways []wayout.Way
}

// DeepCopyObject makes a result printable; nothing changes it.
func (e *Explanation) DeepCopyObject() runtime.Object { out := *e; return &out }

func (e *Explanation) text(p page) error {
	if err := p.line("%s: %s (%s)", e.Of, e.Sentence, cmp.Or(e.Reason, "Unknown")); err != nil {
		return err
	}
	var rows [][]string
	for _, l := range e.Chain {
		rows = append(rows, []string{l.Of, l.Reason, l.Says})
	}
	if err := section(p, []string{"WHAT LED THERE", "REASON", "SAYS"}, rows, 0, 2); err != nil {
		return err
	}
	if len(e.Next) == 0 {
		return p.line("\nNothing has to be typed.")
	}
	for _, w := range e.Next {
		if err := p.line("\n%s:\n  %s", cmp.Or(w.Purpose, "To change it"), w.Typed()); err != nil {
			return err
		}
	}
	return nil
}

// kinds that may be asked about, by the words before a slash. Those with a bare name are looked for in this order.
var askable = []struct {
	words []string
	kind  string
	empty func() client.Object
	bare  bool
}{
	{[]string{"node", "nodefirmware", "nfw"}, "NodeFirmware", func() client.Object { return &v1alpha1.NodeFirmware{} }, true},
	{[]string{"device", "nodedevice", "ndev"}, "NodeDevice", func() client.Object { return &v1alpha1.NodeDevice{} }, true},
	{[]string{"job", "firmwarejob", "fwj"}, "FirmwareJob", func() client.Object { return &v1alpha1.FirmwareJob{} }, true},
	{[]string{"policy", "rolloutpolicy", "rp"}, "RolloutPolicy", func() client.Object { return &v1alpha1.RolloutPolicy{} }, false},
	{[]string{"template", "firmwaretemplate", "fwt"}, "FirmwareTemplate", func() client.Object { return &v1alpha1.FirmwareTemplate{} }, false},
	{[]string{"settings", "configurationtemplate", "fct"}, "ConfigurationTemplate", func() client.Object { return &v1alpha1.ConfigurationTemplate{} }, false},
	{[]string{"source", "firmwaresource", "fws"}, "FirmwareSource", func() client.Object { return &v1alpha1.FirmwareSource{} }, false},
	{[]string{"quarantine", "firmwarequarantine", "fwq"}, "FirmwareQuarantine", func() client.Object { return &v1alpha1.FirmwareQuarantine{} }, false},
	{[]string{"catalog", "firmwarecatalog", "fwc"}, "FirmwareCatalog", func() client.Object { return &v1alpha1.FirmwareCatalog{} }, false},
}

func (s *session) whyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "why NODE|DEVICE|JOB|KIND/NAME",
		Short: "Say why a node, a device or a job is as it is, what led there, and what to type next",
		Example: "  kubectl firmware why gpu-017\n" +
			"  kubectl firmware why policy/gpu",
		Args:              wantOne("kubectl firmware why gpu-017"),
		ValidArgsFunction: s.completeNames("NodeFirmware", "FirmwareJob", "NodeDevice"),
	}
	out := outputOf(c, false)
	c.RunE = func(c *cobra.Command, args []string) error {
		api, err := s.connect()
		if err != nil {
			return err
		}
		o, err := lookUp(c.Context(), api, args[0])
		if err != nil {
			return err
		}
		g := &gathering{ctx: c.Context(), api: api}
		e := g.explain(o)
		if g.err != nil {
			return g.err
		}
		return out.print(s.Out, e)
	}
	return c
}

// lookUp finds the object that a person means by a name, or by kind/name.
func lookUp(ctx context.Context, api client.Reader, named string) (client.Object, error) {
	word, name, slash := strings.Cut(named, "/")
	word, _, _ = strings.Cut(strings.ToLower(word), ".") // -o name prints nodedevice.nodefirmware.io/NAME
	if !slash {
		name = named
	}
	var tried, kinds, short []string
	var unread error
	for _, k := range askable {
		if slash && !slices.Contains(k.words, word) || !slash && !k.bare {
			continue
		}
		o := k.empty()
		err := api.Get(ctx, client.ObjectKey{Name: name}, o)
		if err == nil {
			return o, nil
		}
		switch {
		case apierrors.IsForbidden(err) && !slash: // it may be of another kind, which may be read
			unread = cmp.Or(unread, err)
		case !apierrors.IsNotFound(err) || isMissingKind(err):
			return nil, err
		}
		tried, kinds, short = append(tried, k.words[0]), append(kinds, k.kind), append(short, k.words[2])
	}
	if tried == nil {
		return nil, fmt.Errorf("%q: there is no kind %q; name a node, device, job, policy, template, source, quarantine or catalog", named, word)
	}
	if unread != nil {
		return nil, unread
	}
	var known []string
	for _, kind := range kinds {
		names, err := namesOf(ctx, api, kind)
		if err != nil && !apierrors.IsForbidden(err) { // who may not list them is told without the nearest name
			return nil, err
		}
		known = append(known, names...)
	}
	return nil, noSuch(strings.Join(tried, " or "), strings.Join(short, ","), name, known)
}

// gathering reads the objects of a chain. The first error ends it, but a missing object, which says something too, does not.
type gathering struct {
	ctx context.Context
	api client.Reader
	err error
	// hidden says that a Node may not be read.
	hidden bool
}

func (g *gathering) get(o client.Object, name string) bool {
	if g.err != nil || name == "" {
		return false
	}
	err := g.api.Get(g.ctx, client.ObjectKey{Name: name}, o)
	if err != nil && (!apierrors.IsNotFound(err) || isMissingKind(err)) {
		g.err = err
	}
	return err == nil
}

// explain says why an object is as it is.
func (g *gathering) explain(o client.Object) *Explanation {
	switch o := o.(type) {
	case *v1alpha1.NodeFirmware:
		return g.node(o)
	case *v1alpha1.NodeDevice:
		return g.device(o)
	case *v1alpha1.FirmwareJob:
		return g.job(o)
	}
	kind, conditions := described(o)
	return explanation(kind+"/"+o.GetName(), deciding(conditions), nil)
}

// described is the kind of an object in a word, and its conditions.
func described(o client.Object) (string, []metav1.Condition) {
	switch o := o.(type) {
	case *v1alpha1.RolloutPolicy:
		return "policy", o.Status.Conditions
	case *v1alpha1.FirmwareTemplate:
		return "template", o.Status.Conditions
	case *v1alpha1.ConfigurationTemplate:
		return "settings", o.Status.Conditions
	case *v1alpha1.FirmwareSource:
		return "source", o.Status.Conditions
	case *v1alpha1.FirmwareQuarantine:
		return "quarantine", o.Status.Conditions
	case *v1alpha1.FirmwareCatalog:
		return "catalog", o.Status.Conditions
	case *v1alpha1.NodeFirmware:
		return "node", o.Status.Conditions
	case *v1alpha1.NodeDevice:
		return "device", o.Status.Conditions
	case *v1alpha1.FirmwareJob:
		return "job", o.Status.Conditions
	}
	return "object", nil
}

// deciding is the condition that says most about an object: what needs a person, or else Ready.
func deciding(conditions []metav1.Condition) metav1.Condition {
	if c := concern(conditions); c != nil {
		return *c
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{Reason: v1alpha1.ReasonPending, Message: "Nothing has looked at it yet. Is the operator running?"}
}

// explanation of an object whose condition c decides.
func explanation(of string, c metav1.Condition, chain []Link) *Explanation {
	e := &Explanation{TypeMeta: metav1.TypeMeta{APIVersion: resultVersion, Kind: "Explanation"}, Of: of, Reason: c.Reason, Chain: chain, Next: []wayout.Way{}}
	if e.Chain == nil {
		e.Chain = []Link{}
	}
	said, ways := wayout.Ways(c.Message)
	e.Sentence, e.Next = said, append(e.Next, ways...)
	if len(ways) > 0 {
		return e
	}
	for _, l := range e.Chain {
		for _, w := range l.ways {
			if !slices.Contains(e.Next, w) {
				e.Next = append(e.Next, w)
			}
		}
	}
	return e
}

// link is an object of a chain, with what its deciding condition says.
func link(o client.Object) Link {
	kind, conditions := described(o)
	c := deciding(conditions)
	said, ways := wayout.Ways(c.Message)
	return Link{kind + "/" + o.GetName(), c.Reason, said, ways}
}

// link is an object of the chain of another one.
func (e *Explanation) link() Link { return Link{e.Of, e.Reason, e.Sentence, e.Next} }

// node: what it does now or is held by, or else its devices that are not done.
func (g *gathering) node(n *v1alpha1.NodeFirmware) *Explanation {
	c := deciding(n.Status.Conditions)
	jobs := g.jobsOf(n.Name)
	at := slices.IndexFunc(jobs, func(j *v1alpha1.FirmwareJob) bool { return n.Status.HeldBy == j.Name })
	job := unended(jobs)
	if n.Status.HeldBy != "" {
		job = nil
	}
	if at >= 0 {
		job = jobs[at]
	}
	if job != nil {
		e := g.job(job)
		if n.Status.HeldBy == "" && !job.MayBegin() { // what the job waits for is why the node is as it is
			c = waiting(job, c)
		}
		return explanation("node/"+n.Name, c, append(e.Chain, e.link()))
	}
	var chain []Link
	g.eachDevice(n.Name, func(d *v1alpha1.NodeDevice) {
		if !is(d.Status.Conditions, v1alpha1.ConditionReady) {
			chain = append(chain, g.wanted(d)...)
			chain = append(chain, link(d))
		}
	})
	return explanation("node/"+n.Name, c, chain)
}

// device: who wants what on it, and the job that is to bring it there.
func (g *gathering) device(d *v1alpha1.NodeDevice) *Explanation {
	chain := g.wanted(d)
	c := deciding(d.Status.Conditions)
	for _, kind := range []string{v1alpha1.ConditionConflict, v1alpha1.ConditionBlocked} {
		if is(d.Status.Conditions, kind) {
			return explanation("device/"+d.Name, *meta.FindStatusCondition(d.Status.Conditions, kind), chain)
		}
	}
	for _, j := range g.jobsOf(d.Spec.NodeName) {
		concerns := slices.ContainsFunc(j.Spec.Task.Devices, func(t v1alpha1.TaskDevice) bool { return t.Name == d.Name })
		failed := d.Status.Failure != nil && d.Status.Failure.Job == j.Name
		if !concerns || j.Ended() && !failed {
			continue
		}
		e := g.job(j)
		if !j.Ended() && !j.MayBegin() {
			c = waiting(j, c)
		}
		return explanation("device/"+d.Name, c, append(append(chain, e.Chain...), e.link()))
	}
	return explanation("device/"+d.Name, c, chain)
}

// job: the pool that it waits for, or the step at which it is.
func (g *gathering) job(j *v1alpha1.FirmwareJob) *Explanation {
	var chain []Link
	c := deciding(j.Status.Conditions)
	if !j.Ended() && !j.MayBegin() {
		c = waiting(j, c)
		if p := g.policyOf(j.Spec.NodeName); p != nil {
			chain = append(chain, link(p))
			for _, r := range p.Status.Rollouts {
				if slices.ContainsFunc(j.Spec.Task.Devices, func(t v1alpha1.TaskDevice) bool { return t.Digest == r.Digest && t.Model == r.Model }) {
					said, ways := wayout.Ways(r.Message)
					chain = append(chain, Link{"policy/" + p.Name, "wave " + r.Wave, said, ways})
				}
			}
		}
	}
	for _, step := range j.Status.Steps {
		if step.State != v1alpha1.StepFailed && step.State != v1alpha1.StepRunning {
			continue
		}
		at := "step " + step.Name
		if step.Device != "" {
			at += " of " + step.Device
		}
		chain = append(chain, Link{Of: at, Reason: string(step.State), Says: step.Message})
	}
	return explanation("job/"+j.Name, c, chain)
}

// decidingOf is the condition that says most about a job: how it failed, or else what it waits for, or else what it does.
func decidingOf(j *v1alpha1.FirmwareJob) metav1.Condition {
	c := deciding(j.Status.Conditions)
	if failed := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionFailed); j.Failed() {
		return *failed
	}
	if !j.Ended() && !j.MayBegin() {
		return waiting(j, c)
	}
	return c
}

// waiting is why a job is not admitted.
func waiting(j *v1alpha1.FirmwareJob, otherwise metav1.Condition) metav1.Condition {
	if c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted); c != nil {
		return *c
	}
	return otherwise
}

// wanted is who desires the firmware of a device, and where it is from.
func (g *gathering) wanted(d *v1alpha1.NodeDevice) (out []Link) {
	if d.Spec.Firmware == nil {
		return nil
	}
	if by := v1alpha1.AssignedBy(d.Spec.Origin); by != nil {
		kind := "template/"
		if by.Kind == v1alpha1.OriginPin {
			kind = "pin of node/"
		}
		out = append(out, Link{Of: kind + by.Name, Says: fmt.Sprintf("rule %s wants %s on %s", by.Rule, d.Spec.Firmware.Version, d.Name)})
	}
	source := &v1alpha1.FirmwareSource{}
	if name := d.Spec.SourceName(); g.get(source, name) {
		if !is(source.Status.Conditions, v1alpha1.ConditionReady) {
			out = append(out, link(source))
		}
	} else if name != "" && g.err == nil {
		out = append(out, Link{Of: "source/" + name, Reason: v1alpha1.ReasonSourceNotFound, Says: "it does not exist"})
	}
	return out
}

// jobsOf are the jobs of a node, the newest first.
func (g *gathering) jobsOf(node string) []*v1alpha1.FirmwareJob {
	if g.err != nil {
		return nil
	}
	jobs, err := all[*v1alpha1.FirmwareJob](g.ctx, g.api, &v1alpha1.FirmwareJobList{}, fields.Set{"spec.nodeName": node})
	g.err = err
	slices.SortFunc(jobs, func(a, b *v1alpha1.FirmwareJob) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	return jobs
}

func (g *gathering) eachDevice(node string, do func(*v1alpha1.NodeDevice)) {
	if g.err == nil {
		g.err = each(g.ctx, g.api, &v1alpha1.NodeDeviceList{}, fields.Set{"spec.nodeName": node}, func(d *v1alpha1.NodeDevice) error {
			do(d)
			return nil
		})
	}
}

// policyOf is the RolloutPolicy that a node belongs to, as the operator decides it; nil where the Node is gone or may not be read.
func (g *gathering) policyOf(node string) *v1alpha1.RolloutPolicy {
	if g.err != nil {
		return nil
	}
	n := &corev1.Node{}
	switch err := g.api.Get(g.ctx, client.ObjectKey{Name: node}, n); {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		g.hidden = apierrors.IsForbidden(err)
		return nil // a viewer need not see Nodes; the job says what it waits for
	case err != nil:
		g.err = fmt.Errorf("read node %s: %w", node, err)
		return nil
	}
	var list v1alpha1.RolloutPolicyList
	if g.err = g.api.List(g.ctx, &list); g.err != nil {
		return nil
	}
	pool := schedule.SettingsOf(list.Items, labels.Set(n.Labels)).Pool
	at := slices.IndexFunc(list.Items, func(p v1alpha1.RolloutPolicy) bool { return p.Name == pool })
	if at < 0 {
		return nil
	}
	return &list.Items[at]
}
