package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule/window"
)

func recurring(t *testing.T, name, cron string, d time.Duration) window.Rule {
	t.Helper()
	r, err := window.Recurring(name, cron, d, "Europe/Paris")
	require.NoError(t, err)
	return r
}

// saturdays is a policy with a window from Saturday 22:00 to Sunday 02:00 in Paris.
func saturdays(t *testing.T, freezes ...window.Rule) schedule.Policy {
	p := policy("default", "", intstr.FromInt32(5))
	p.Calendar = window.New([]window.Rule{recurring(t, "saturdays", "0 22 * * 6", 4*time.Hour)}, freezes)
	p.Expected = 30 * time.Minute
	return p
}

func TestANodeIsAdmittedOnlyInAWindowThatItFitsInto(t *testing.T) {
	freeze := recurring(t, "quarter-end", "0 0 28 * *", 24*time.Hour)
	for name, c := range map[string]struct {
		now      string
		expected time.Duration
		freezes  []window.Rule
		reason   schedule.Reason
		message  string
		next     string
	}{
		"before the window": {now: "2026-11-28T20:59:00Z", reason: schedule.OutsideWindow,
			message: "Rollout policy default: opens Sat 2026-11-28 22:00 Europe/Paris.", next: "2026-11-28T21:00:00Z"},
		"in the window":                    {now: "2026-11-28T21:00:00Z", next: "2026-11-29T01:00:00Z"},
		"as long as what is expected fits": {now: "2026-11-29T00:30:00Z", next: "2026-11-29T01:00:00Z"},
		"not when less is left than is expected where nothing is known": {now: "2026-11-29T00:31:00Z", reason: schedule.OutsideWindow,
			message: "The window of rollout policy default closes Sun 2026-11-29 02:00 Europe/Paris and the job is expected to take 30m0s; it waits for the next one.", next: "2026-11-29T01:00:00Z"},
		"what is known to be short still fits": {now: "2026-11-29T00:31:00Z", expected: 25 * time.Minute, next: "2026-11-29T01:00:00Z"},
		"what is known to be long does not": {now: "2026-11-29T00:00:00Z", expected: 61 * time.Minute, reason: schedule.OutsideWindow,
			message: "The window of rollout policy default closes Sun 2026-11-29 02:00 Europe/Paris and the job is expected to take 1h5m0s; it waits for the next one.", next: "2026-11-29T01:00:00Z"},
		"nor ever, when no window is that long": {now: "2026-11-28T22:00:00Z", expected: 5 * time.Hour, reason: schedule.OutsideWindow,
			message: "The job is expected to take 5h0m0s, and none of the next windows of rollout policy default is that long. Lengthen a window, or shorten those with the effect Deny.", next: "2026-11-29T01:00:00Z"},
		"a Deny wins": {now: "2026-11-28T21:30:00Z", freezes: []window.Rule{freeze}, reason: schedule.OutsideWindow,
			message: "Window quarter-end of rollout policy default admits no node until Sun 2026-11-29 00:00 Europe/Paris; opens Sun 2026-11-29 00:00 Europe/Paris.", next: "2026-11-28T23:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339, c.now)
			require.NoError(t, err)
			j := job("n0", 1, schedule.Queued)
			j.Expected = c.expected
			d := schedule.Decide(schedule.Facts{Now: now, Policies: []schedule.Policy{saturdays(t, c.freezes...)}, Nodes: nodes(1), Jobs: []schedule.Job{j}})
			if c.reason == "" {
				assert.Len(t, d.Admit, 1)
			} else {
				require.Len(t, d.Wait, 1)
				assert.Equal(t, c.reason, d.Wait[0].Reason)
				assert.Equal(t, c.message, d.Wait[0].Message)
				assert.Empty(t, d.Admit)
			}
			assert.Equal(t, c.next, d.Next.UTC().Format(time.RFC3339), "the next decision")
		})
	}
}

func TestWhatWasAdmittedFinishesOutsideTheWindow(t *testing.T) {
	runs, crashed := job("n0", 1, schedule.Admitted), job("n1", 2, schedule.Queued)
	p := saturdays(t)
	p.Ledger = []schedule.Entry{entry(runs), entry(crashed)}
	d := schedule.Decide(schedule.Facts{Now: epoch, Policies: []schedule.Policy{p}, Nodes: nodes(2), Jobs: []schedule.Job{runs, crashed}})
	assert.False(t, outcome(t, d, "default").Changed())
	require.Len(t, d.Admit, 1, "the place was given in the window; only its condition was lost")
	assert.Equal(t, entry(crashed), d.Admit[0].Entry)
}

func TestAHeldNodeIsTakenOverOutsideAWindowButNotInAFreeze(t *testing.T) {
	holds, retry := job("n0", 1, schedule.Held), job("n0", 2, schedule.Queued)
	for name, freezes := range map[string][]window.Rule{"outside": nil, "freeze": {recurring(t, "always", "0 0 * * *", 24*time.Hour)}} {
		p := saturdays(t, freezes...)
		p.Ledger = []schedule.Entry{entry(holds)}
		d := schedule.Decide(schedule.Facts{Now: epoch, Policies: []schedule.Policy{p}, Nodes: nodes(1), Jobs: []schedule.Job{holds, retry}})
		if freezes == nil {
			assert.Len(t, outcome(t, d, "default").Replace, 1, name)
		} else {
			assert.Equal(t, schedule.OutsideWindow, reasons(d)[retry.Name], name)
		}
	}
}

// One team's mistake stops its own pool, and the default policy does not take its nodes.
func TestAPolicyWhoseWindowsCannotBeWorkedWithStopsItsOwnPool(t *testing.T) {
	bad := policy("gpu", "pool=gpu", intstr.FromInt32(5))
	bad.Stopped = `spec.windows[1].timeZone: "Europe/Pariss" is not known`
	ns := append(nodes(1, map[string]string{"pool": "gpu"}), schedule.Node{Name: "other", Ready: true})
	mine, other := job("n0", 1, schedule.Queued), job("other", 2, schedule.Queued)
	d := schedule.Decide(schedule.Facts{Policies: []schedule.Policy{bad, policy("default", "", intstr.FromInt32(1))}, Nodes: ns, Jobs: []schedule.Job{mine, other}})
	assert.Equal(t, map[string]schedule.Reason{mine.Name: schedule.InvalidSpec}, reasons(d))
	assert.Contains(t, d.Wait[0].Message, "spec.windows[1].timeZone")
	assert.Equal(t, []string{other.Name}, admitted(outcome(t, d, "default")))
	assert.Equal(t, 1, outcome(t, d, "gpu").Nodes, "it still has its pool")
}

func TestTheShortestJobThatFitsNowhereIsReported(t *testing.T) {
	var js []schedule.Job
	for i, hours := range []int{6, 5, 3, 7} {
		j := job("n"+string(rune('0'+i)), i, schedule.Queued)
		j.Expected = time.Duration(hours) * time.Hour
		js = append(js, j)
	}
	d := schedule.Decide(schedule.Facts{Now: epoch.AddDate(0, 0, 7).Add(21 * time.Hour), Policies: []schedule.Policy{saturdays(t)}, Nodes: nodes(4), Jobs: js})
	assert.Equal(t, 5*time.Hour, outcome(t, d, "default").TooLong)
	assert.Equal(t, []string{js[2].Name}, admitted(outcome(t, d, "default")))
}

// With each job that ends a little more is known of how long such a job takes. Thousands that wait need not be told.
func TestWhyAJobWaitsStaysTheSameWhileWhatIsExpectedOfItChangesALittle(t *testing.T) {
	tenLeft := time.Date(2026, 11, 29, 0, 50, 0, 0, time.UTC)
	said := map[string]bool{}
	for _, expected := range []time.Duration{20*time.Minute + time.Second, 21 * time.Minute, 24*time.Minute + 59*time.Second, 25 * time.Minute} {
		j := job("n0", 0, schedule.Queued)
		j.Expected = expected
		d := schedule.Decide(schedule.Facts{Now: tenLeft, Policies: []schedule.Policy{saturdays(t)}, Nodes: nodes(1), Jobs: []schedule.Job{j}})
		require.Len(t, d.Wait, 1)
		said[d.Wait[0].Message] = true
	}
	assert.Len(t, said, 1)
}
