package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
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

// Gathering reads the objects of a chain. The first error ends it, but a missing object, which says something too, does not.
type Gathering struct {
	Ctx context.Context
	API client.Reader
	Err error
	// Hidden says that a Node may not be read.
	Hidden bool
}

// Get reads an object, and reports whether it is there.
func (g *Gathering) Get(o client.Object, name string) bool {
	if g.Err != nil || name == "" {
		return false
	}
	err := g.API.Get(g.Ctx, client.ObjectKey{Name: name}, o)
	if err != nil && (!apierrors.IsNotFound(err) || reading.IsMissingKind(err)) {
		g.Err = err
	}
	return err == nil
}

// Explain says why an object is as it is.
func (g *Gathering) Explain(o client.Object) *Explanation {
	switch o := o.(type) {
	case *v1alpha1.NodeFirmware:
		return g.node(o)
	case *v1alpha1.NodeDevice:
		return g.device(o)
	case *v1alpha1.FirmwareJob:
		return g.job(o)
	}
	kind, conditions := Described(o)
	return explanation(kind+"/"+o.GetName(), Deciding(conditions), nil)
}

// explanation of an object whose condition c decides.
func explanation(of string, c metav1.Condition, chain []Link) *Explanation {
	e := &Explanation{Of: of, Reason: c.Reason, Chain: chain, Next: []wayout.Way{}}
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
	kind, conditions := Described(o)
	c := Deciding(conditions)
	said, ways := wayout.Ways(c.Message)
	return Link{kind + "/" + o.GetName(), c.Reason, said, ways}
}

// link is an object of the chain of another one.
func (e *Explanation) link() Link { return Link{e.Of, e.Reason, e.Sentence, e.Next} }

// node: what it does now or is held by, or else its devices that are not done.
func (g *Gathering) node(n *v1alpha1.NodeFirmware) *Explanation {
	c := Deciding(n.Status.Conditions)
	jobs := g.JobsOf(n.Name)
	at := slices.IndexFunc(jobs, func(j *v1alpha1.FirmwareJob) bool { return n.Status.HeldBy == j.Name })
	job := Unended(jobs)
	if n.Status.HeldBy != "" {
		job = nil
	}
	if at >= 0 {
		job = jobs[at]
	}
	if job != nil {
		e := g.job(job)
		if Concern(n.Status.Conditions) == nil && !job.MayBegin() { // what the job waits for is why the node is as it is
			c = Waiting(job, c)
		}
		return explanation("node/"+n.Name, c, append(e.Chain, e.link()))
	}
	var chain []Link
	g.EachDevice(n.Name, func(d *v1alpha1.NodeDevice) {
		if !meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionReady) {
			chain = append(chain, g.wanted(d)...)
			chain = append(chain, link(d))
		}
	})
	return explanation("node/"+n.Name, c, chain)
}

// device: who wants what on it, and the job that is to bring it there.
func (g *Gathering) device(d *v1alpha1.NodeDevice) *Explanation {
	chain := g.wanted(d)
	c := Deciding(d.Status.Conditions)
	for _, kind := range []string{v1alpha1.ConditionConflict, v1alpha1.ConditionBlocked} {
		if meta.IsStatusConditionTrue(d.Status.Conditions, kind) {
			return explanation("device/"+d.Name, *meta.FindStatusCondition(d.Status.Conditions, kind), chain)
		}
	}
	jobs := slices.DeleteFunc(g.JobsOf(d.Spec.NodeName), func(j *v1alpha1.FirmwareJob) bool {
		return !slices.ContainsFunc(j.Spec.Task.Devices, func(t v1alpha1.TaskDevice) bool { return t.Name == d.Name })
	})
	j := Unended(jobs)
	if at := slices.IndexFunc(jobs, func(j *v1alpha1.FirmwareJob) bool { return d.Status.Failure != nil && d.Status.Failure.Job == j.Name }); j == nil && at >= 0 {
		j = jobs[at]
	}
	if j != nil {
		e := g.job(j)
		if !j.Ended() && !j.MayBegin() {
			c = Waiting(j, c)
		}
		return explanation("device/"+d.Name, c, append(append(chain, e.Chain...), e.link()))
	}
	return explanation("device/"+d.Name, c, chain)
}

// job: the pool that it waits for, or the step at which it is.
func (g *Gathering) job(j *v1alpha1.FirmwareJob) *Explanation {
	var chain []Link
	c := Deciding(j.Status.Conditions)
	if !j.Ended() && !j.MayBegin() {
		c = Waiting(j, c)
		if p := g.PolicyOf(j.Spec.NodeName); p != nil {
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

// wanted is who desires the firmware of a device, and where it is from.
func (g *Gathering) wanted(d *v1alpha1.NodeDevice) (out []Link) {
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
	if name := d.Spec.SourceName(); g.Get(source, name) {
		if !meta.IsStatusConditionTrue(source.Status.Conditions, v1alpha1.ConditionReady) {
			out = append(out, link(source))
		}
	} else if name != "" && g.Err == nil {
		out = append(out, Link{Of: "source/" + name, Reason: v1alpha1.ReasonSourceNotFound, Says: "it does not exist"})
	}
	return out
}

// JobsOf are the jobs of a node, the newest first.
func (g *Gathering) JobsOf(node string) []*v1alpha1.FirmwareJob {
	if g.Err != nil {
		return nil
	}
	jobs, err := reading.All[*v1alpha1.FirmwareJob](g.Ctx, g.API, &v1alpha1.FirmwareJobList{}, fields.Set{"spec.nodeName": node})
	g.Err = err
	slices.SortFunc(jobs, func(a, b *v1alpha1.FirmwareJob) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	return jobs
}

// EachDevice calls do for the devices of a node.
func (g *Gathering) EachDevice(node string, do func(*v1alpha1.NodeDevice)) {
	if g.Err == nil {
		g.Err = reading.Each(g.Ctx, g.API, &v1alpha1.NodeDeviceList{}, fields.Set{"spec.nodeName": node}, func(d *v1alpha1.NodeDevice) error {
			do(d)
			return nil
		})
	}
}

// PolicyOf is the RolloutPolicy that a node belongs to, as the operator decides it; nil where the Node is gone or may not be read.
func (g *Gathering) PolicyOf(node string) *v1alpha1.RolloutPolicy {
	if g.Err != nil {
		return nil
	}
	n := &corev1.Node{}
	switch err := g.API.Get(g.Ctx, client.ObjectKey{Name: node}, n); {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		g.Hidden = apierrors.IsForbidden(err)
		return nil // a viewer need not see Nodes; the job says what it waits for
	case err != nil:
		g.Err = fmt.Errorf("read node %s: %w", node, err)
		return nil
	}
	var list v1alpha1.RolloutPolicyList
	if g.Err = g.API.List(g.Ctx, &list); g.Err != nil {
		return nil
	}
	pool := schedule.SettingsOf(list.Items, labels.Set(n.Labels)).Pool
	at := slices.IndexFunc(list.Items, func(p v1alpha1.RolloutPolicy) bool { return p.Name == pool })
	if at < 0 {
		return nil
	}
	return &list.Items[at]
}
