package forecast

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// maxLooks bounds the nodes that all decisions of one forecast look at together, so that a fleet that goes one node at a time costs seconds. What
// is left then is extrapolated.
const maxLooks = 2_000_000

// campaign is the rollout of the jobs in virtual time, by the operator's own decision.
type campaign struct {
	*play
	facts schedule.Facts
	nodes map[string]*line
	// waiting counts the jobs that are not admitted yet.
	waiting int
	last    schedule.Decision
}

// line is a node with its jobs.
type line struct {
	node *Node
	at   int // in the facts
	next int // of its jobs
	runs *Job
	ends time.Time
	jobs []schedule.Job
}

// rollout finds when each job goes, and in which wave.
func (p *play) rollout() {
	c := &campaign{play: p, nodes: map[string]*line{}}
	c.facts = schedule.Facts{Now: p.Now, Nodes: slices.Clone(p.Nodes)}
	hasDefault := slices.ContainsFunc(p.Policies, func(r v1alpha1.RolloutPolicy) bool { return r.Name == v1alpha1.DefaultRolloutPolicy })
	if !hasDefault {
		one := intstr.FromInt32(1)
		p.Policies = append(p.Policies, v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultRolloutPolicy},
			Spec: v1alpha1.RolloutPolicySpec{State: v1alpha1.RolloutActive, MaxUnavailable: &one}})
	}
	for i := range p.Policies {
		c.facts.Policies = append(c.facts.Policies, schedule.PolicyOf(&p.Policies[i], schedule.DefaultExpected))
	}
	for i, n := range p.out.Nodes {
		l := &line{node: n, at: i}
		c.nodes[n.Name] = l
		c.begin(l)
	}
	for looks := 0; c.waiting > 0; looks += len(c.facts.Nodes) {
		if looks > maxLooks {
			c.extrapolate()
			break
		}
		c.pass()
		at, more := c.after()
		if !more {
			break
		}
		c.facts.Now = at
		c.finish()
	}
	c.settle()
}

// begin puts the jobs of a node that are there, and its first new one, into the queue.
func (c *campaign) begin(l *line) {
	n := &c.facts.Nodes[l.at]
	n.Unhealthy = c.unhealthy(n.Name)
	if f := c.firmware[n.Name]; f != nil {
		n.HeldBy, n.Scanned = f.Status.HeldBy, f.Status.LastScanTime != nil
		if f.Status.CurrentStep != nil {
			n.Runs = f.Status.CurrentStep.Job
		}
	}
	for _, j := range c.jobs[n.Name] {
		if j.Held() {
			l.jobs = append(l.jobs, c.jobOf(j))
		}
	}
	c.queue(l)
}

// queue puts the next job of a node into the queue, or lets it run where it is admitted.
func (c *campaign) queue(l *line) {
	if l.next == len(l.node.Jobs) {
		return
	}
	j := l.node.Jobs[l.next]
	l.next++
	out := c.jobOf(j.task)
	if out.Created = j.made; out.Created.IsZero() {
		out.Created = c.facts.Now.Truncate(time.Second)
	}
	l.jobs = append(l.jobs, out)
	c.waiting++
	if j.Running {
		c.start(l, j)
	}
}

func (c *campaign) jobOf(j *v1alpha1.FirmwareJob) schedule.Job {
	out := schedule.Job{
		Name: j.Name, UID: string(j.UID), Node: j.Spec.NodeName, Created: j.CreationTimestamp.Time, State: schedule.StateOf(j),
		Steps: j.Spec.Task.Type != v1alpha1.JobTypeUpdate, Planned: j.Labels[v1alpha1.ManagedByLabel] == v1alpha1.FieldOwnerOperator,
		Follows: j.Spec.Task.Follows, Expected: c.took.Expect(&j.Spec), Priority: c.priority(j),
	}
	for _, u := range j.Spec.Task.Devices {
		out.Devices = append(out.Devices, u.Name)
	}
	if n := c.firmware[j.Spec.NodeName]; n != nil {
		out.Fails, _ = c.limits.First(j, n.Status.Machine, func(name string) (*v1alpha1.NodeDevice, error) { return c.device(j.Spec.NodeName, name), nil })
	}
	out.Edges, _ = schedule.EdgesOf(j, func(device string) (string, error) { return c.model(j.Spec.NodeName, device), nil })
	return out
}

func (c *campaign) model(node, device string) string {
	if d := c.device(node, device); d != nil {
		return d.Status.ModelKey()
	}
	return ""
}

// device of a node by its name; nil for none.
func (c *campaign) device(node, name string) *v1alpha1.NodeDevice {
	for _, d := range c.devices[node] {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// priority is that of the job, or the highest of the templates that want what it does.
func (c *campaign) priority(j *v1alpha1.FirmwareJob) int {
	if j.Spec.Priority != nil {
		return int(*j.Spec.Priority)
	}
	highest, found := -1000, false
	for _, u := range j.Spec.Task.Devices {
		for _, d := range c.devices[j.Spec.NodeName] {
			if d.Name != u.Name {
				continue
			}
			decision, _ := c.ix.Decision(d.Name)
			for _, o := range decision.Origin() {
				if o.Kind != v1alpha1.OriginSource {
					highest, found = max(highest, c.refs[match.Ref{Kind: o.Kind, Name: o.Name}]), true
				}
			}
		}
	}
	if !found {
		return 0
	}
	return highest
}

// pass decides once, as the operator does, and starts what is admitted.
func (c *campaign) pass() {
	c.facts.Jobs = c.facts.Jobs[:0]
	for i := range c.facts.Nodes {
		l := c.nodes[c.facts.Nodes[i].Name]
		c.facts.Jobs = append(c.facts.Jobs, l.jobs...)
		l.jobs = slices.DeleteFunc(l.jobs, func(j schedule.Job) bool { return j.State == schedule.Finished })
	}
	c.last = schedule.Decide(c.facts)
	for _, o := range c.last.Policies {
		at := slices.IndexFunc(c.facts.Policies, func(p schedule.Policy) bool { return p.Name == o.Name })
		p := &c.facts.Policies[at]
		p.Ledger = o.Ledger
		p.Plan.Rollouts, p.Plan.Resumed, p.Plan.Judged, p.Plan.Edited = nil, o.Resumed, o.Judged, false
		for _, state := range o.Rollouts {
			p.Plan.Rollouts = append(p.Plan.Rollouts, state.Rollout)
		}
	}
	for _, a := range c.last.Admit {
		l := c.nodes[a.Entry.Node]
		at := slices.IndexFunc(l.jobs, func(j schedule.Job) bool { return j.UID == a.Entry.UID })
		if l.runs != nil || at < 0 {
			continue
		}
		j := l.node.Jobs[l.next-1]
		j.Policy, j.Wave = a.Policy, c.waveOf(a.Policy, l.jobs[at].Edges)
		c.start(l, j)
	}
}

// waveOf is the open wave of the updates of a job; empty where the policy has none, or none counts it.
func (c *campaign) waveOf(policy string, edges []schedule.JobEdge) string {
	at := slices.IndexFunc(c.facts.Policies, func(p schedule.Policy) bool { return p.Name == policy })
	p := &c.facts.Policies[at]
	if len(p.Plan.Waves) == 0 {
		return ""
	}
	for _, e := range edges {
		for _, r := range p.Plan.Rollouts {
			if r.Target == e.Target && !e.Pinned {
				return r.Wave
			}
		}
	}
	return ""
}

// start lets a job run from now on. One that it follows is over.
func (c *campaign) start(l *line, j *Job) {
	uid := string(j.task.UID)
	l.jobs = slices.DeleteFunc(l.jobs, func(o schedule.Job) bool { return o.UID != uid })
	l.jobs[0].State = schedule.Admitted
	l.runs, j.Starts = j, c.facts.Now
	n := &c.facts.Nodes[l.at]
	n.HeldBy, n.Unhealthy = "", nil
	took := cmp.Or(j.Took, l.jobs[0].Expected, schedule.DefaultExpected)
	if began := j.task.Status.StartTime; began != nil && c.facts.Now.Sub(began.Time) > 0 {
		took = max(took-c.facts.Now.Sub(began.Time), time.Minute)
	}
	l.ends = c.facts.Now.Add(took)
	c.waiting--
	if l.ends.After(c.out.Ends) {
		c.out.Ends = l.ends
	}
}

// after is the next time at which something happens; false where nothing does.
func (c *campaign) after() (at time.Time, more bool) {
	if !c.last.Next.IsZero() && c.last.Next.After(c.facts.Now) {
		at = c.last.Next
	}
	for _, l := range c.nodes {
		if l.runs != nil && (at.IsZero() || l.ends.Before(at)) {
			at = l.ends
		}
	}
	const horizon = 5 * 365 * 24 * time.Hour
	return at, !at.IsZero() && at.Sub(c.Now) < horizon
}

// finish ends the jobs that are done, with success.
func (c *campaign) finish() {
	for i := range c.facts.Nodes {
		l := c.nodes[c.facts.Nodes[i].Name]
		if l.runs == nil || l.ends.After(c.facts.Now) {
			continue
		}
		j := &l.jobs[0]
		j.State = schedule.Finished
		for e := range j.Edges {
			j.Edges[e].Verdict = schedule.Succeeded
		}
		n := &c.facts.Nodes[i]
		n.Runs, l.runs = "", nil
		n.Ready, n.Cordoned = true, n.Cordoned && n.Taken != "" // it was so because of the job, which ends well only on a node that is Ready
		c.queue(l)
	}
}

// settle says of the jobs that never go why that is, and what the pools wait for.
func (c *campaign) settle() {
	why := map[string]schedule.Waiting{}
	for _, w := range c.last.Wait {
		if _, is := why[w.Node]; !is {
			why[w.Node] = w
		}
	}
	pools := map[string]*Pool{}
	for _, l := range c.nodes {
		for _, j := range l.node.Jobs {
			if !j.Goes() {
				w := why[l.node.Name]
				j.Policy, j.Waits, j.Message = cmp.Or(j.Policy, w.Policy), cmp.Or(w.Reason, schedule.NodeBusy), cmp.Or(w.Message, "It follows a job that waits.")
				continue
			}
			if j.Policy == "" {
				continue
			}
			if pools[j.Policy] == nil {
				pools[j.Policy] = &Pool{Name: j.Policy}
			}
			if p := pools[j.Policy]; j.Wave != "" && !slices.Contains(p.Waves, j.Wave) {
				p.Waves = append(p.Waves, j.Wave)
			}
		}
	}
	for _, p := range c.facts.Policies {
		if out := pools[p.Name]; out != nil {
			order := func(wave string) int {
				at := slices.IndexFunc(p.Plan.Waves, func(w schedule.Wave) bool { return w.Name == wave })
				if at < 0 {
					return len(p.Plan.Waves)
				}
				return at
			}
			slices.SortFunc(out.Waves, func(a, b string) int { return cmp.Or(cmp.Compare(order(a), order(b)), strings.Compare(a, b)) })
			if s := p.Calendar.At(c.Now); !s.Open {
				out.Opens = s.Opens
			}
			c.out.Pools = append(c.out.Pools, *out)
		}
	}
}

// extrapolate gives the jobs that are left the times that follow from how fast the others went.
func (c *campaign) extrapolate() {
	c.out.Cut = true
	done := 0
	for _, l := range c.nodes {
		for _, j := range l.node.Jobs {
			if j.Goes() {
				done++
			}
		}
	}
	each := c.facts.Now.Sub(c.Now) / time.Duration(max(done, 1))
	at := c.facts.Now
	for _, w := range c.last.Wait {
		l := c.nodes[w.Node]
		if l == nil || !w.Reason.GoesOn() || w.Reason == schedule.Paused || w.Reason == schedule.Aborted {
			continue
		}
		for _, j := range l.node.Jobs {
			if !j.Goes() {
				at = at.Add(each)
				j.Policy, j.Starts = cmp.Or(j.Policy, w.Policy), at
			}
		}
	}
	if at.After(c.out.Ends) {
		c.out.Ends = at
	}
}
