package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/queue"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

func minutes(n int) v1alpha1.Duration { return v1alpha1.Duration(fmt.Sprintf("%dm", n)) }

// nights is a policy for all nodes with a window from 22:00 to 02:00 in Paris. The clock of a world starts at 13:00 there.
func nights() *v1alpha1.RolloutPolicy {
	p := newPolicy("default", intstr.FromInt32(5), nil)
	p.Spec.Windows = []v1alpha1.RolloutWindow{{Name: "nights", Schedule: "0 22 * * *", Duration: minutes(240), TimeZone: "Europe/Paris"}}
	return p
}

func (w *world) ready(policy string) *metav1.Condition {
	w.Helper()
	c := meta.FindStatusCondition(w.policy(policy).Status.Conditions, v1alpha1.ConditionReady)
	require.NotNil(w, c)
	return c
}

func TestAdmitsWhenWindowOpens(t *testing.T) {
	w := newWorld(t)
	w.create(nights())
	w.nodes("n1", "n2")
	w.queue("j1", "n1")
	o := w.operator()

	o.pass()
	assert.Empty(t, w.admitted())
	assert.Equal(t, v1alpha1.ReasonOutsideWindow, w.reason("j1"))
	assert.Equal(t, "Rollout policy default: opens Sat 2026-11-21 22:00 Europe/Paris.", w.message("j1"))
	assert.Equal(t, 9*time.Hour, o.next, "the next pass is when it opens")
	assert.Equal(t, "2026-11-21T21:00:00Z", w.policy("default").Status.NextWindowTime.UTC().Format(time.RFC3339))
	assert.Equal(t, v1alpha1.ReasonOutsideWindow, w.ready("default").Reason)
	w.requireStatus(o, "default", status.InProgressStatus)

	w.clock = w.clock.Add(o.next)
	o.pass()
	assert.Equal(t, []string{"j1"}, w.admitted())
	assert.Equal(t, 4*time.Hour, o.next)
	assert.Nil(t, w.policy("default").Status.NextWindowTime)

	w.queue("j2", "n2")
	w.clock = w.clock.Add(3*time.Hour + 31*time.Minute)
	o.pass()
	assert.Equal(t, []string{"j1"}, w.admitted(), "29 minutes are left, and 30 are expected")
	assert.Contains(t, w.message("j2"), "closes Sun 2026-11-22 02:00 Europe/Paris and the job is expected to take 30m0s")

	w.clock = w.clock.Add(24 * time.Hour)
	o.pass()
	assert.Equal(t, []string{"j1"}, w.ledger("default"), "what was admitted keeps its place outside the window")

	w.change("default", func(p *v1alpha1.RolloutPolicy) {
		p.Spec.Windows = append(p.Spec.Windows, v1alpha1.RolloutWindow{Name: "audit", Effect: v1alpha1.WindowDeny,
			StartTime: &metav1.Time{Time: w.clock.Add(-time.Hour)}, EndTime: &metav1.Time{Time: w.clock.Add(24 * time.Hour)}})
	})
	o.pass()
	assert.Equal(t, v1alpha1.ReasonOutsideWindow, w.reason("j2"))
	assert.Contains(t, w.ready("default").Message, "window audit admits no node")
}

// history makes a job that succeeded after the given time.
func (w *world) history(name, node string, took time.Duration) {
	w.Helper()
	w.historyBy(name, node, w.clock, took)
}

// historyBy makes a job that succeeded after the given time, by a clock of its node that shows now.
func (w *world) historyBy(name, node string, now time.Time, took time.Duration) {
	w.Helper()
	w.queue(name, node)
	started, ended := metav1.NewTime(now.Add(-took)), metav1.NewTime(now)
	apitest.ApplyStatus(w, w, v1alpha1.FieldOwnerDaemon, &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.FirmwareJobStatus{
		StartTime: &started, CompletionTime: &ended,
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: ended}},
	}})
}

// What is expected of a job is learned from those that did the same, and a new process knows it from the API.
func TestLearnsDurationsFromJobs(t *testing.T) {
	w := newWorld(t)
	p := nights()
	w.create(p)
	w.nodes("n1", "n2", "n3")
	w.clock = time.Date(2026, 11, 22, 0, 15, 0, 0, time.UTC) // 45 minutes are left
	w.history("slowest", "n3", time.Hour)
	w.history("old1", "n1", 20*time.Minute)
	w.history("old2", "n1", 50*time.Minute)
	w.queue("j1", "n1")
	w.expecting(time.Minute).pass()
	assert.Equal(t, []string{"j1"}, w.admitted(), "two jobs beside those of the slowest node are too few to learn from")

	w.history("old3", "n2", 30*time.Minute)
	w.queue("j2", "n2")
	w.operator().pass()
	assert.Equal(t, []string{"j1"}, w.admitted())
	assert.Contains(t, w.message("j2"), "is expected to take 50m0s")

	for i := range 20 { // of 23 jobs one was longer
		w.history(fmt.Sprintf("more%d", i), "n2", 40*time.Minute)
	}
	w.operator().pass()
	assert.Equal(t, []string{"j1", "j2"}, w.admitted())
}

// Nodes report by their own clocks how long a job took. One that lies, or whose clock jumped during a job, keeps no other node out
// of the windows.
func TestNoNodeAloneDecidesHowLongJobsAreExpectedToTake(t *testing.T) {
	w := newWorld(t)
	p := nights()
	w.create(p)
	w.nodes("n1", "n2", "n3")
	w.clock = time.Date(2026, 11, 22, 0, 25, 0, 0, time.UTC) // 35 minutes are left
	for i := range 10 {                                      // as many as the operator keeps
		w.historyBy(fmt.Sprintf("lie%d", i), "n1", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), 23*time.Hour)
	}
	for i := range 3 {
		w.history(fmt.Sprintf("old%d", i), "n2", 20*time.Minute)
	}
	w.queue("j", "n3")
	w.expecting(40 * time.Minute).pass()
	assert.Equal(t, []string{"j"}, w.admitted(), w.message("j"))
}

// The last jobs are those that the API server was told last, whatever the clocks of their nodes say.
func TestTheLastJobsAreNotThoseOfAClockThatRunsAhead(t *testing.T) {
	var d schedule.Durations
	spec := v1alpha1.FirmwareJobSpec{Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{Model: "15b3:101d"}}}}
	jobs := map[string]*v1alpha1.FirmwareJob{}
	created := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	succeeded := func(node string, now time.Time, took time.Duration) {
		j := &v1alpha1.FirmwareJob{Spec: *spec.DeepCopy()}
		j.Name, j.Spec.NodeName = fmt.Sprint("j", len(jobs)), node
		created = created.Add(time.Second)
		j.CreationTimestamp = metav1.NewTime(created)
		j.Status.StartTime, j.Status.CompletionTime = new(metav1.NewTime(now.Add(-took))), new(metav1.NewTime(now))
		meta.SetStatusCondition(&j.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: "Test"})
		jobs[j.Name] = j
	}
	for i := range 20 {
		succeeded(fmt.Sprint("n", i%2), created.AddDate(10, 0, 0), 50*time.Minute)
	}
	d.Learn(jobs)
	assert.Equal(t, 50*time.Minute, d.Expect(&spec))
	for range 100 {
		succeeded("n3", created, 20*time.Minute)
		succeeded("n4", created, 21*time.Minute)
	}
	d.Learn(jobs)
	assert.Equal(t, 20*time.Minute, d.Expect(&spec), "those of n4, the slowest of them, do not count")
}

// Bad input stops the pool of its own policy, and says which field is wrong.
func TestWindowsThatCannotBeWorkedWithStopTheirOwnPool(t *testing.T) {
	day := v1alpha1.RolloutWindow{Name: "day", Schedule: "0 8 * * *", Duration: minutes(600)}
	for name, c := range map[string]struct {
		edit    func(*v1alpha1.RolloutPolicySpec)
		reason  string
		message string
		job     string
	}{
		"unknown zone": {func(s *v1alpha1.RolloutPolicySpec) {
			s.Windows = []v1alpha1.RolloutWindow{day, {Name: "w", Schedule: "0 0 * * *", Duration: minutes(60), TimeZone: "Europe/Pariss"}}
		}, v1alpha1.ReasonInvalidSpec, `spec.windows[1].timeZone: "Europe/Pariss" is not known`, v1alpha1.ReasonInvalidSpec},
		"a day that never comes": {func(s *v1alpha1.RolloutPolicySpec) {
			s.Windows = []v1alpha1.RolloutWindow{{Name: "w", Schedule: "0 0 30 2 *", Duration: minutes(60)}}
		}, v1alpha1.ReasonInvalidSpec, `spec.windows[0].schedule: "0 0 30 2 *" never comes`, v1alpha1.ReasonInvalidSpec},
		"an hour that does not exist": {func(s *v1alpha1.RolloutPolicySpec) {
			s.Windows = append(s.Windows, v1alpha1.RolloutWindow{Name: "f", Effect: v1alpha1.WindowDeny, Schedule: "0 25 * * *", Duration: minutes(60)})
		}, v1alpha1.ReasonInvalidSpec, "spec.windows[0].schedule: ", v1alpha1.ReasonInvalidSpec},
		"a Deny over every window": {func(s *v1alpha1.RolloutPolicySpec) {
			s.Windows = []v1alpha1.RolloutWindow{day}
			s.Windows = append(s.Windows, v1alpha1.RolloutWindow{Name: "f", Effect: v1alpha1.WindowDeny, Schedule: "0 7 * * *", Duration: minutes(720)})
		}, v1alpha1.ReasonNeverOpens, "No window opens within a year. Until the windows are changed", v1alpha1.ReasonOutsideWindow},
		"a window shorter than any job": {func(s *v1alpha1.RolloutPolicySpec) {
			s.Windows = []v1alpha1.RolloutWindow{{Name: "w", Schedule: "50 12 * * *", Duration: minutes(29), TimeZone: "Europe/Paris"}}
		}, v1alpha1.ReasonNeverOpens, "A waiting job is expected to take 30m0s, and none of the next windows is that long.", v1alpha1.ReasonOutsideWindow},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := newPolicy("gpu", intstr.FromInt32(5), map[string]string{"pool": "gpu"})
			c.edit(&p.Spec)
			w.create(p, newNode("n1", map[string]string{"pool": "gpu"}), newNode("n2", nil))
			w.queue("j1", "n1")
			w.queue("j2", "n2")
			o := w.operator()
			o.pass()
			assert.Equal(t, []string{"j2"}, w.admitted(), "the pool of another policy goes on")
			assert.Equal(t, c.job, w.reason("j1"))
			assert.Equal(t, c.reason, w.ready("gpu").Reason)
			assert.Contains(t, w.ready("gpu").Message, c.message)
			w.requireStatus(o, "gpu", status.FailedStatus)

			w.change("gpu", func(p *v1alpha1.RolloutPolicy) { p.Spec.Windows = nil })
			o.pass()
			assert.Equal(t, []string{"j1", "j2"}, w.admitted(), "and this one goes on once it is corrected")
		})
	}
}

func TestAdmitsOneNodePerRack(t *testing.T) {
	w := newWorld(t)
	p := newPolicy("default", intstr.FromInt32(5), nil)
	p.Spec.TopologyBudgets = []v1alpha1.TopologyBudget{{TopologyKey: "example.com/rack", MaxUnavailable: new(intstr.FromInt32(1))}}
	w.create(p)
	for node, rack := range map[string]string{"n1": "r1", "n2": "r1", "n3": "r2"} {
		w.create(newNode(node, map[string]string{"example.com/rack": rack}))
		w.queue("j-"+node, node)
	}
	o := w.operator()
	o.pass()
	assert.Len(t, w.admitted(), 2)
	assert.Contains(t, w.admitted(), "j-n3")
	w.requireStatus(o, "default", status.InProgressStatus)
}

// R000-58: nodes that the planner refuses because the queue is full are counted, and called when there is room.
func TestReportsAndEmptiesFullQueue(t *testing.T) {
	w := newWorld(t)
	p := newPolicy("default", intstr.FromInt32(1), nil)
	p.Spec.MaxQueued = new(int32(1))
	w.create(p)
	w.nodes("n1", "n2", "n3")
	w.queue("j1", "n1")
	w.queue("j2", "n2")
	o, queues := w.operator(), queue.New(func() time.Time { return w.clock })
	var woken []string
	queues.OnWake(func(node string) { woken = append(woken, node) })
	o.Within(queues)
	o.pass()
	require.False(t, queues.Enter("default", "n3", "j3"), "j2 waits")
	o.pass()
	assert.EqualValues(t, 1, w.policy("default").Status.Nodes.Refused)
	assert.Contains(t, w.ready("default").Message, "1 more node is refused until fewer than maxQueued wait.")

	w.complete("j1")
	o.pass()
	assert.Equal(t, []string{"n3"}, woken)
	require.True(t, queues.Enter("default", "n3", "j3"))
	w.queue("j3", "n3")
	o.pass()
	assert.Zero(t, w.policy("default").Status.Nodes.Refused)
}

// expecting is an operator that expects jobs to take that long while it knows too little.
func (w *world) expecting(d time.Duration) *operator {
	o := w.operator()
	o.Expecting(d)
	return o
}
