package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fault is what happens at one write of the operator.
type fault int

const (
	none fault = iota
	// dieBefore and dieAfter: the process dies, and another one takes over.
	dieBefore
	dieAfter
	// loseAnswer: the write is made, and the process gets an error.
	loseAnswer
	// arriveLate: the process is held up, another one takes over and lets a round of jobs run, and then the write arrives.
	arriveLate
)

var faults = map[string]fault{"dies before": dieBefore, "dies after": dieAfter, "loses the answer": loseAnswer, "arrives late": arriveLate}

var errAnswer = errors.New("the connection broke")

// faulty is a client at one write of which something happens.
type faulty struct {
	client.Client
	mu sync.Mutex
	// at names the write: what is written, and the how manieth time.
	at    string
	fault fault
	// late is what happens meanwhile.
	late func()
	// writes are the writes so far.
	writes []string
	dead   bool
}

func (f *faulty) write(what string, do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return errCrash
	}
	nr := 1
	for _, w := range f.writes {
		if strings.HasPrefix(w, what+" #") {
			nr++
		}
	}
	id := fmt.Sprintf("%s #%d", what, nr)
	f.writes = append(f.writes, id)
	if id != f.at {
		return do()
	}
	switch f.fault {
	case dieBefore:
		f.dead = true
		return errCrash
	case dieAfter:
		f.dead = true
		return errors.Join(do(), errCrash)
	case loseAnswer:
		return errors.Join(do(), errAnswer)
	case arriveLate:
		f.late()
	case none:
	}
	return do()
}

func (f *faulty) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return f.write("create "+o.GetName(), func() error { return f.Client.Create(ctx, o, opts...) })
}

func (f *faulty) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	_, name := appliedTo(o)
	return f.write("create "+name, func() error { return f.Client.Apply(ctx, o, opts...) })
}

func (f *faulty) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return f.write("finalizer of "+o.GetName(), func() error { return f.Client.Patch(ctx, o, p, opts...) })
}

func (f *faulty) Status() client.SubResourceWriter { return faultyStatus{f.Client.Status(), f} }

type faultyStatus struct {
	client.SubResourceWriter
	f *faulty
}

func (s faultyStatus) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	kind, name := appliedTo(o)
	what := map[string]string{"RolloutPolicy": "ledger of ", "FirmwareJob": "condition of "}[kind]
	return s.f.write(what+name, func() error { return s.SubResourceWriter.Apply(ctx, o, opts...) })
}

const faultBudget = 2

// campaign is a rollout over a few nodes in which one write goes wrong.
type campaign struct {
	*world
	f *faulty
	// rounds are the jobs that ran in each round.
	rounds [][]string
	ran    map[string]bool
}

func newCampaign(t *testing.T, at string, what fault) *campaign {
	w := newWorld(t)
	c := &campaign{world: w, ran: map[string]bool{}, f: &faulty{Client: w.Client, at: at, fault: what}}
	c.f.late = func() { c.round(w.operator()) }
	w.create(newPolicy("gpu", intstr.FromInt32(faultBudget), map[string]string{"pool": "gpu"}))
	for i := range 5 {
		n := fmt.Sprintf("n%d", i)
		w.create(newNode(n, map[string]string{"pool": "gpu"}))
		w.queue("job-"+n, n)
	}
	return c
}

// process is an operator all of whose writes pass through the faulty client.
func (c *campaign) process() *operator {
	o := c.operator()
	o.view.Client, c.f.dead = c.f, false
	return o
}

// settle lets an operator work until it comes to rest, with a cache that is as old as each pass. One that dies is followed by
// another.
func (c *campaign) settle(o *operator) *operator {
	c.Helper()
	for range 50 {
		require.NoError(c, o.view.freeze(c.Context()))
		result, err := o.Reconcile(c.Context(), ctrl.Request{})
		switch c.check(); {
		case errors.Is(err, errCrash):
			o = c.process()
		case err == nil && result.RequeueAfter == 0:
			return o
		case err != nil:
			require.ErrorIs(c, err, errAnswer)
		}
	}
	require.Fail(c, "the operator does not come to rest")
	return nil
}

// check requires what must be so at every moment.
func (c *campaign) check() {
	c.Helper()
	running, places := c.admitted(), c.ledger("gpu")
	require.Subset(c, places, running, "what runs has a place")
	require.LessOrEqual(c, len(places), faultBudget, "no place is doubled")
	require.Len(c, slices.Compact(slices.Sorted(slices.Values(places))), len(places), "no node has two")
}

// round lets the operator work and the jobs that run come to their end.
func (c *campaign) round(o *operator) *operator {
	c.Helper()
	o = c.settle(o)
	running := c.admitted()
	require.Equal(c, slices.Sorted(slices.Values(c.ledger("gpu"))), running, "no place is leaked")
	for _, j := range running {
		require.False(c, c.ran[j], "%s ran twice", j)
		c.ran[j] = true
		c.complete(j)
	}
	c.rounds = append(c.rounds, running)
	return o
}

func (c *campaign) run() {
	c.Helper()
	o := c.process()
	for range 10 {
		o = c.round(o)
		if len(c.rounds[len(c.rounds)-1]) == 0 {
			break
		}
	}
	assert.Len(c, c.ran, 5, "each job ran")
	assert.Empty(c, c.ledger("gpu"))
	before := c.versions()
	c.operator().pass()
	assert.Equal(c, before, c.versions(), "a pass at rest writes")
}

// R000-6, R000-54: whatever happens at any write of the operator, no place in the budget is leaked or given twice, each job runs
// once, and the order in which the jobs run is that of an operator that nothing happened to.
func TestNoWriteThatGoesWrongLeaksOrDoublesAPlace(t *testing.T) {
	var writes []string
	var undisturbed [][]string
	t.Run("undisturbed", func(t *testing.T) {
		c := newCampaign(t, "", none)
		c.run()
		writes, undisturbed = slices.Sorted(slices.Values(c.f.writes)), c.rounds
	})
	require.Equal(t, [][]string{{"job-n0", "job-n1"}, {"job-n2", "job-n3"}, {"job-n4"}, nil}, undisturbed, "oldest first")
	for _, kind := range []string{"create default", "ledger of gpu", "finalizer of job-n0", "condition of job-n4"} {
		require.Contains(t, writes, kind+" #1")
	}
	for _, at := range writes {
		if strings.Contains(at, "job-n1") || strings.Contains(at, "job-n2") || strings.Contains(at, "job-n3") {
			continue // the same as for the first job or the last
		}
		for name, what := range faults {
			t.Run(strings.ReplaceAll(at, " ", "_")+"/"+name, func(t *testing.T) {
				c := newCampaign(t, at, what)
				c.run()
				require.Contains(t, c.f.writes, at, "the fault struck")
				if what != arriveLate { // there the jobs of a round end before the operator looks
					assert.Equal(t, undisturbed, c.rounds)
				}
			})
		}
	}
}
