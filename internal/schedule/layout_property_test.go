package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// layout is a random cluster whose jobs are admitted, run, fail and end, while its nodes come and go.
type layout struct {
	*rand.Rand
	schedule.Facts
}

// roles are the labels by which distributions name the nodes of the control plane and of etcd, and none for a worker.
var roles = []string{"", "", "", "control-plane", "control-plane", "etcd", "master"}

func newLayout(seed uint64) *layout {
	l := &layout{Rand: rand.New(rand.NewPCG(seed, 0x666c656574)), Facts: schedule.Facts{Now: epoch, OwnNode: "n0"}}
	amounts := []intstr.IntOrString{intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromInt32(9), intstr.FromString("30%"), intstr.FromString("100%")}
	var domains []schedule.TopologyBudget // of all policies: one without a budget for a rack leaves none to the others
	for _, key := range []string{"rack", "zone"} {
		if l.IntN(3) > 0 {
			domains = append(domains, schedule.TopologyBudget{Key: key, MaxUnavailable: amounts[l.IntN(len(amounts))]})
		}
	}
	for _, name := range []string{"default", "a", "b"} {
		p := policy(name, "pool in ("+name+")", amounts[l.IntN(len(amounts))])
		p.Topology = domains
		l.Policies = append(l.Policies, p)
	}
	size := 1 + l.IntN(9)
	for i := range size {
		n := schedule.Node{Name: fmt.Sprintf("n%d", i), Ready: true, Labels: map[string]string{"pool": []string{"a", "b", ""}[l.IntN(3)]}}
		for key, values := range map[string]int{"rack": 4, "zone": 3} {
			if value := (i + int(seed)) % values; value > 0 {
				n.Labels[key] = fmt.Sprint(key, value)
			}
		}
		if role := roles[l.IntN(len(roles))]; role != "" {
			n.Labels["node-role.kubernetes.io/"+role] = ""
		}
		l.Nodes = append(l.Nodes, n)
	}
	return l
}

// happens changes the cluster as nobody asked for.
func (l *layout) happens() {
	for i := range l.Nodes {
		n := &l.Nodes[i]
		n.Ready, n.Cordoned = l.IntN(6) > 0, l.IntN(8) == 0
		if l.IntN(3) == 0 {
			j := job(n.Name, len(l.Jobs), schedule.Queued)
			j.Priority, j.Steps, n.Scanned = l.IntN(3), l.IntN(9) == 0, true
			l.Jobs = append(l.Jobs, j)
		}
	}
	for i := range l.Jobs {
		switch j := &l.Jobs[i]; {
		case j.State == schedule.Admitted && l.IntN(3) == 0:
			j.State = []schedule.JobState{schedule.Finished, schedule.Finished, schedule.Held}[l.IntN(3)]
		case j.State == schedule.Held && l.IntN(6) == 0:
			j.State = schedule.Finished
		}
	}
}

// running are the nodes with a job that runs or is about to.
func (l *layout) running() map[string]bool {
	out := map[string]bool{}
	for _, j := range l.Jobs {
		if j.State == schedule.Admitted {
			out[j.Node] = true
		}
	}
	return out
}

func (l *layout) held(node string) bool {
	return slices.ContainsFunc(l.Jobs, func(j schedule.Job) bool { return j.Node == node && j.State == schedule.Held })
}

func hasQuorum(n schedule.Node) bool {
	return slices.ContainsFunc(roles[3:], func(role string) bool { _, is := n.Labels["node-role.kubernetes.io/"+role]; return is })
}

// pass decides, and writes what was decided. It returns the nodes on which a job begins.
func (l *layout) pass() (begun []schedule.Node) {
	d := schedule.Decide(l.Facts)
	for i, o := range d.Policies {
		l.Policies[slices.IndexFunc(l.Policies, func(p schedule.Policy) bool { return p.Name == o.Name })].Ledger = d.Policies[i].Ledger
		for _, r := range o.Replace { // the job that was taken over is done
			l.Jobs[slices.IndexFunc(l.Jobs, func(j schedule.Job) bool { return j.UID == r.Old.UID })].State = schedule.Finished
		}
	}
	for _, a := range d.Admit {
		l.Jobs[slices.IndexFunc(l.Jobs, func(j schedule.Job) bool { return j.UID == a.Entry.UID })].State = schedule.Admitted
		begun = append(begun, l.Nodes[slices.IndexFunc(l.Nodes, func(n schedule.Node) bool { return n.Name == a.Entry.Node })])
	}
	return begun
}

// disturbed are the nodes that use up a domain already.
func (l *layout) disturbed() map[string]bool {
	out := l.running()
	for _, n := range l.Nodes {
		out[n.Name] = out[n.Name] || !n.Ready || n.Cordoned || l.held(n.Name)
	}
	return out
}

// Whatever pools, domains and roles the nodes of a cluster have, and whatever happens to them: no job begins that takes one node more out of
// a failure domain than a policy of the job's node allows, two of the control plane or etcd at once, or one while another is not Ready.
func TestAnyLayoutKeepsItsDomainsAndItsQuorum(t *testing.T) {
	begun, alone := 0, 0
	for seed := range uint64(10_000) {
		l := newLayout(seed)
		for round := range 6 {
			l.happens()
			was := l.disturbed()
			nodes, running := l.pass(), l.running()
			for _, n := range nodes {
				where := []any{"seed %d, round %d: %s %v of %v", seed, round, n.Name, n.Labels, l.Nodes}
				l.requireQuorum(t, n, running, where)
				if !was[n.Name] {
					l.requireDomains(t, n, was, running, where)
				}
				if begun++; len(l.Nodes) == 1 {
					alone++
				}
			}
		}
	}
	require.Greater(t, begun, 30_000)
	require.Greater(t, alone, 1_000, "a cluster of one node is not kept for itself")
}

func (l *layout) requireQuorum(t *testing.T, n schedule.Node, running map[string]bool, where []any) {
	t.Helper()
	for _, other := range l.Nodes {
		if hasQuorum(n) && hasQuorum(other) && other.Name != n.Name {
			require.False(t, running[other.Name], where...)
			require.True(t, other.Ready || !n.Ready, where...) // a held node that is away as well takes nothing from the quorum
		}
	}
}

func (l *layout) requireDomains(t *testing.T, n schedule.Node, was, running map[string]bool, where []any) {
	t.Helper()
	name := n.Labels["pool"]
	if name == "" {
		name = "default"
	}
	for _, b := range l.Policies[slices.IndexFunc(l.Policies, func(p schedule.Policy) bool { return p.Name == name })].Topology {
		size, out := 0, 0
		for _, other := range l.Nodes {
			shares := other.Labels[b.Key] == n.Labels[b.Key]
			if n.Labels[b.Key] == "" { // those of a pool without the label are a domain of their own
				shares = shares && other.Labels["pool"] == n.Labels["pool"]
			}
			if shares {
				size++
				if was[other.Name] || running[other.Name] {
					out++
				}
			}
		}
		require.LessOrEqual(t, out, amount(b.MaxUnavailable, size), where...)
	}
}
