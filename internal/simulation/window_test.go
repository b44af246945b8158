package simulation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
)

// saturdays is a policy of ten places on Saturday nights in Paris.
func saturdays() v1alpha1.RolloutPolicy {
	p := policy("night", "10")
	p.Spec.Windows = []v1alpha1.RolloutWindow{{Name: "saturday", Schedule: "0 22 * * 6", Duration: "4h", TimeZone: "Europe/Paris"}}
	return p
}

func TestARolloutInWindowsTakesAsManyOfThemAsItNeeds(t *testing.T) {
	r := run(t, options(fleet(240), saturdays()))
	p := r.Report.Policies[0]
	assert.Equal(t, simulation.Complete, r.Report.Ending)
	assert.Equal(t, time.Date(2026, 1, 18, 1, 0, 0, 0, time.UTC), p.Finished.UTC(), "120 nodes on each of two Saturdays, to the last minute")
	assert.InDelta(t, p.LowerBound, p.Makespan, 0)
	assert.InDelta(t, p.Bounds["work"], p.Bounds["rounds"], 0)
}

func TestVaryingJobsFillWindows(t *testing.T) {
	o := options(fleet(500), saturdays())
	o.Work.Spread = 0.2
	r := run(t, o)
	p := r.Report.Policies[0]
	require.Equal(t, simulation.Complete, r.Report.Ending)
	assert.GreaterOrEqual(t, p.Ratio, 1.0)
	assert.Less(t, p.Makespan, (6 * 7 * 24 * time.Hour).Seconds(), "no window is left out")
}

func TestADenyWinsOverAnAllow(t *testing.T) {
	policy := saturdays()
	policy.Spec.Windows = append(policy.Spec.Windows, v1alpha1.RolloutWindow{
		Name: "sale", Effect: v1alpha1.WindowDeny, StartTime: &metav1.Time{Time: start}, EndTime: &metav1.Time{Time: start.AddDate(0, 0, 7)},
	})
	r := run(t, options(fleet(10), policy))
	assert.Equal(t, time.Date(2026, 1, 17, 21, 20, 0, 0, time.UTC), r.Report.Policies[0].Finished.UTC())
	html := picture(t, r)
	assert.Contains(t, html, "sale: Mon 5 Jan 10:00 to Mon 12 Jan 10:00 CET")
	assert.Contains(t, html, "Sat 17 Jan 22:00 to ")
	assert.Contains(t, html, "Times are in Europe/Paris.")
	assert.Contains(t, html, simulation.TimeWaits.String())
}

func TestAJobThatFitsIntoNoWindowIsFoundBeforeTheRollout(t *testing.T) {
	policy := saturdays()
	o := options(fleet(10), policy)
	o.Work.Expected = 5 * time.Hour
	o.Horizon = 5*24*time.Hour + 13*time.Hour // in the middle of the first window
	r := run(t, o)
	p := r.Report.Policies[0]
	assert.Equal(t, simulation.Horizon, r.Report.Ending)
	assert.Contains(t, p.Ready, "none of the next windows is that long", "the words of the policy itself")
	assert.Contains(t, p.Waiting[schedule.OutsideWindow].Message, "none of the next windows")
}

func TestOneNodePerRackAtATime(t *testing.T) {
	nodes := simulation.Made{Nodes: 40, Seed: 1, Racks: 4, RackLabel: "rack"}.Fleet()
	p := policy("default", "10")
	p.Spec.TopologyBudgets = []v1alpha1.TopologyBudget{{TopologyKey: "rack", MaxUnavailable: ptrTo(intstrOne)}}
	r := run(t, options(nodes, p))
	got := r.Report.Policies[0]
	assert.Equal(t, 4, got.PeakUnavailable)
	assert.InDelta(t, (200 * time.Minute).Seconds(), got.Makespan, 0)
	assert.InDelta(t, got.Makespan, got.Bounds["topology"], 0)
}
