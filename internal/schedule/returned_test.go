package schedule_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// holding is a pool of three nodes of which a failed job holds the first, whose failure is counted. Two may be held.
func holding(t *testing.T) schedule.Facts {
	t.Helper()
	f := spreading(3, 3, schedule.Plan{Halt: &schedule.Halt{MaxFailures: intstr.FromInt32(2), MaxHeld: 2}})
	f.Jobs = f.Jobs[:1]
	f.Jobs[0].State, f.Jobs[0].Edges[0].Verdict, f.Nodes[0].HeldBy = schedule.Held, schedule.Failed, f.Jobs[0].Name
	f.Policies[0].Ledger = []schedule.Entry{entry(f.Jobs[0])}
	record(&f, schedule.Decide(f))
	require.Equal(t, 1, f.Policies[0].Plan.Rollouts[0].Failed)
	require.Equal(t, []string{f.Jobs[0].UID}, f.Policies[0].Plan.Judged)
	return f
}

// A job that was to take a held node over, and ended before it did, gives the place back. The failure that holds the node is not
// counted again, and the node stands in the ledger as long as it is held.
func TestAPlaceIsGivenBack(t *testing.T) {
	for name, change := range map[string]func(*schedule.Job){
		"a restore":             func(j *schedule.Job) { j.Steps = true },
		"an update of a person": func(j *schedule.Job) { j.Edges = []schedule.JobEdge{{Edge: edges[0]}} },
		"the retry of the planner": func(j *schedule.Job) {
			j.Planned, j.Follows, j.Edges = true, "n0-j0", []schedule.JobEdge{{Edge: edges[0]}}
		},
	} {
		for end, happens := range map[string]func(*schedule.Facts){
			"was rejected": func(f *schedule.Facts) { f.Jobs[1].State = schedule.Finished },
			"was deleted":  func(f *schedule.Facts) { f.Jobs = f.Jobs[:1] },
		} {
			t.Run(name+" "+end, func(t *testing.T) {
				f := holding(t)
				held, next := entry(f.Jobs[0]), job("n0", 7, schedule.Queued)
				change(&next)
				f.Jobs = append(f.Jobs, next)
				d := schedule.Decide(f)
				require.Equal(t, []schedule.TakeOver{{Old: held, New: entry(next)}}, d.Policies[0].Replace)
				record(&f, d)
				f.Jobs[1].State = schedule.Admitted
				record(&f, schedule.Decide(f))

				happens(&f)
				o := schedule.Decide(f).Policies[0]
				assert.Equal(t, []schedule.Entry{held}, o.Ledger)
				assert.Equal(t, []string{held.UID}, o.Judged)
				assert.Equal(t, []string{"n0"}, o.Held)
				require.Len(t, o.Rollouts, 1)
				assert.Equal(t, 1, o.Rollouts[0].Failed, "it failed once")
				assert.Nil(t, o.Rollouts[0].Halted)
			})
		}
	}
}

// A failed job that was taken over, and whose daemon has not said so yet, gets no place again.
func TestWhatAnEndedJobTookOverGetsNoPlace(t *testing.T) {
	f := holding(t)
	retry := job("n0", 7, schedule.Finished)
	retry.Planned, retry.Follows = true, f.Jobs[0].Name
	f.Jobs, f.Policies[0].Ledger = append(f.Jobs, retry), []schedule.Entry{entry(retry)}
	f.Nodes[0].HeldBy = ""
	assert.Empty(t, schedule.Decide(f).Policies[0].Ledger)
}
