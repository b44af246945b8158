package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/due"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// clocks is how far the clocks of the machines are from the right time.
type clocks struct{ operator, node, api time.Duration }

var noSkew clocks

func drawSkews(t *rapid.T) clocks {
	skew := func(who string) time.Duration {
		return time.Duration(rapid.IntRange(-72, 72).Draw(t, who)) * time.Hour
	}
	return clocks{operator: skew("operator"), node: skew("node"), api: skew("API server")}
}

// past is what happened on one node: failures, of a lasting cause or not, under requests of a person.
type past struct {
	jobs       []pastJob
	retry      int           // the request of the person; 0 for none
	unhealthy  int           // the request under which the device was marked; -1 for not marked
	lastFailed int           // the same for the mark of a failed image
	since      time.Duration // since the last job ended
}

type pastJob struct {
	// after is how long after the job before it was made, and took how long it ran.
	after, took time.Duration
	reason      string
	held        bool
	retry       int
}

func drawPast(t *rapid.T) past {
	p := past{
		retry:     rapid.IntRange(0, 2).Draw(t, "retry"),
		unhealthy: rapid.IntRange(-6, 2).Draw(t, "unhealthy"), lastFailed: rapid.IntRange(-6, 2).Draw(t, "last failed"),
		since: time.Duration(rapid.IntRange(0, 120).Draw(t, "since")) * time.Second,
	}
	for range rapid.IntRange(0, 5).Draw(t, "jobs") {
		p.jobs = append(p.jobs, pastJob{
			after: time.Duration(rapid.IntRange(1, 40).Draw(t, "after")) * time.Minute, took: time.Duration(rapid.IntRange(1, 900).Draw(t, "took")) * time.Second,
			reason: rapid.SampledFrom([]string{v1alpha1.ReasonImageUnavailable, v1alpha1.ReasonImageUnavailable, v1alpha1.ReasonWriteFailed, ""}).Draw(t, "reason"),
			held:   rapid.IntRange(0, 3).Draw(t, "held") == 0, retry: rapid.IntRange(0, 2).Draw(t, "under"),
		})
	}
	return p
}

// facts is the past as those clocks wrote it.
func (p past) facts(c clocks) due.Facts {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	request := func(n int) plan.Clearance {
		if n == 0 {
			return ""
		}
		return plan.Clearance(fmt.Sprintf("request %d", n))
	}
	d := device("nic", 2)
	switch {
	case p.unhealthy >= 0:
		d.Status.Failure = &v1alpha1.DeviceFailure{Time: metav1.NewTime(now.Add(c.node)), Job: "j", Request: string(request(p.unhealthy))}
	case p.lastFailed >= 0:
		d.Status.Failure = &v1alpha1.DeviceFailure{Digest: digest(2), Time: metav1.NewTime(now.Add(c.node)), Request: string(request(p.lastFailed))}
	}
	f := due.Facts{Name: node, NodeUID: "node", Retry: request(p.retry), Failed: map[types.UID]time.Time{}, Devices: []v1alpha1.NodeDevice{*d}}
	for i, past := range p.jobs {
		now = now.Add(past.after)
		j := v1alpha1.FirmwareJob{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("j%d", i), UID: types.UID(fmt.Sprint("j", i)), CreationTimestamp: metav1.NewTime(now.Add(c.api)),
				Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldOwnerOperator},
			},
			Spec: v1alpha1.FirmwareJobSpec{
				NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Request: request(past.retry).InForce(), Devices: []v1alpha1.TaskDevice{
					{Name: d.Name, UniqueID: d.Status.UniqueID, Version: "2", Digest: digest(2)},
				}},
			},
		}
		condition := func(kind, reason string) {
			j.Status.Conditions = append(j.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(past.took).Add(c.node)),
			})
		}
		if past.reason == "" {
			condition(v1alpha1.ConditionComplete, v1alpha1.ReasonSucceeded)
		} else {
			condition(v1alpha1.ConditionFailed, past.reason)
			if past.held {
				condition(v1alpha1.ConditionHeld, past.reason)
			}
			f.Failed[j.UID] = now.Add(past.took).Add(c.operator)
		}
		now = now.Add(past.took)
		end := metav1.NewTime(now.Add(c.node))
		j.Status.CompletionTime = &end
		f.Jobs = append(f.Jobs, j)
	}
	f.Now = now.Add(p.since).Add(c.operator)
	return f
}

// A machine whose clock is wrong by days neither ignores a request nor delays a retry, and brings none forward: no decision
// compares times of different machines.
func TestNoDecisionDependsOnWhatTheClocksOfOthersSay(t *testing.T) {
	compare := func(t require.TestingT, p past, c clocks) due.Decision {
		right, skewed := due.Decide(p.facts(noSkew)), due.Decide(p.facts(c))
		require.Equal(t, right.Next, skewed.Next)
		require.Equal(t, devices(right.Job), devices(skewed.Job))
		require.Len(t, skewed.Superseded, len(right.Superseded))
		return right
	}
	rapid.Check(t, func(t *rapid.T) { compare(t, drawPast(t), drawSkews(t)) })

	failed := past{unhealthy: -1, lastFailed: -1, jobs: []pastJob{{after: time.Hour, took: time.Minute, reason: v1alpha1.ReasonImageUnavailable}}}
	long := failed
	long.since = 12 * time.Hour
	for _, c := range []clocks{{node: 72 * time.Hour}, {node: -72 * time.Hour}, {operator: 72 * time.Hour}, {api: 72 * time.Hour}} {
		require.Positive(t, compare(t, failed, c).Next, "what has just failed is tried again after a pause")
		require.NotNil(t, compare(t, long, c).Job, "and then it is")
	}
}

// The clock of the API server is put back between two failures: the second one still comes after the first, so that it is not forgotten, and
// a job that takes the node over names the one that holds it.
func TestTurnsOrderJobs(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	fail := func() string {
		w.settle()
		j := w.queued()
		require.NotNil(t, j)
		w.set(j, []v1alpha1.JobStep{{Name: "flash", Device: node + "-nic", State: v1alpha1.StepFailed}},
			v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
		return j.Name
	}
	first := fail()
	w.retry()
	w.skew = -72 * time.Hour
	w.settle()
	second := w.queued()
	require.NotNil(t, second)
	require.Equal(t, first, second.Spec.Task.Follows)
	require.Equal(t, int64(2), second.Spec.Task.Turn)
	require.Equal(t, second.Name, fail())
	w.settle()
	require.Nil(t, w.queued(), "the second failure is known")
	w.retry()
	w.settle()
	require.NotNil(t, w.queued())
	require.Equal(t, second.Name, w.queued().Spec.Task.Follows)
	require.Equal(t, int64(3), w.queued().Spec.Task.Turn)
	w.requireQuiet()
}

// A queued job that was made before another one failed is replaced by one that may take the node over.
func TestWhatHoldsTheNodeIsFollowed(t *testing.T) {
	w := newWorld(t, device("nic", 2))
	w.settle()
	before := w.queued()
	require.Empty(t, before.Spec.Task.Follows)
	byPerson := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: v1alpha1.FirmwareJobSpec{NodeName: node, Task: v1alpha1.JobTask{
		Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{Name: node + "-nic", UniqueID: "nic", Version: "9", Digest: digest(9)}},
	}}}
	require.NoError(t, w.Create(t.Context(), byPerson))
	w.set(byPerson, []v1alpha1.JobStep{{Name: "flash", Device: node + "-nic", State: v1alpha1.StepFailed}},
		v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	w.settle()
	w.settle()
	require.NotNil(t, w.queued())
	require.NotEqual(t, before.UID, w.queued().UID)
	require.Equal(t, "mine", w.queued().Spec.Task.Follows)
	w.requireQuiet()
}

// A request that was acted on is no request any more, though jobs under another one came before.
func TestARetryGoesOverTheJobsOnce(t *testing.T) {
	failed := pastJob{after: time.Hour, took: time.Minute, reason: v1alpha1.ReasonWriteFailed}
	under := func(retry int) pastJob { j := failed; j.retry = retry; return j }
	for name, c := range map[string]struct {
		past past
		want string
	}{
		"nobody asked":                     {past{jobs: []pastJob{under(0)}}, "none"},
		"asked":                            {past{jobs: []pastJob{under(0)}, retry: 1}, "nic=2"},
		"asked, and it failed again":       {past{jobs: []pastJob{under(0), under(1)}, retry: 1}, "none"},
		"asked anew":                       {past{jobs: []pastJob{under(0), under(1)}, retry: 2}, "nic=2"},
		"the request was removed":          {past{jobs: []pastJob{under(0), under(1)}}, "none"},
		"asked as once before":             {past{jobs: []pastJob{under(1), under(2)}, retry: 1}, "nic=2"},
		"asked as once before, and failed": {past{jobs: []pastJob{under(1), under(2), under(1)}, retry: 1}, "none"},
	} {
		c.past.unhealthy, c.past.lastFailed = -1, -1
		require.Equal(t, c.want, devices(due.Decide(c.past.facts(noSkew)).Job), name)
	}
}
