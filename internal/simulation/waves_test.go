package simulation_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
)

// inWaves is a policy of ten places with one canary that soaks for a day.
func inWaves() v1alpha1.RolloutPolicy {
	p := policy("default", "10")
	p.Spec.Waves = []v1alpha1.RolloutWave{{Name: "canary", Size: ptrTo(intstrOne), Soak: "24h"}}
	return p
}

func TestWavesWaitForEachSoak(t *testing.T) {
	r := run(t, options(fleet(21), inWaves()))
	p := r.Report.Policies[0]
	assert.Equal(t, simulation.Complete, r.Report.Ending)
	assert.InDelta(t, (20*time.Minute + 24*time.Hour + 40*time.Minute).Seconds(), p.Makespan, 0, "a canary, its soak, and two rounds of ten")
	html := picture(t, r)
	assert.Contains(t, html, "wave canary")
	assert.Contains(t, html, `class="soak"`)
	assert.Contains(t, html, "wave rest")
	for _, name := range []string{"canary", "rest"} {
		assert.Regexp(t, `<text [^>]*>`+name+`</text>`, html, "the wave is named without a pointer over it")
	}
	at := regexp.MustCompile(`<text x="([0-9.]+)"[^>]*>rest</text>`).FindStringSubmatch(html)
	require.Len(t, at, 2)
	x, err := strconv.ParseFloat(at[1], 64)
	require.NoError(t, err)
	assert.Less(t, x, 970.0, "the name does not leave the picture")
	assert.Contains(t, html, "</i>wave soaks</li>")
	assert.NotContains(t, html, "</i>halted until a person resumes</li>", "the legend has what occurs")
}

// One canary is enough for a fleet with four running versions: the nodes of each other one begin with one that goes alone.
func TestOneCanaryForFourVersions(t *testing.T) {
	versions := []simulation.Weighted{{Value: "1.0", Weight: 1}, {Value: "1.1", Weight: 1}, {Value: "1.2", Weight: 1}, {Value: "1.3", Weight: 1}}
	nodes := simulation.Made{Nodes: 40, Seed: 1, Models: []simulation.Weighted{{Value: "A", Weight: 1}}, Versions: versions}.Fleet()
	nodes[7].Labels["canary"] = "true"
	p := policy("default", "10")
	p.Spec.Waves = []v1alpha1.RolloutWave{
		{Name: "canary", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}, Soak: "24h"}, {Name: "half", Size: ptrTo(intstr.FromString("50%")), Soak: "2h"},
	}
	r := run(t, options(nodes, p))
	require.Equal(t, simulation.Complete, r.Report.Ending)
	got := r.Report.Policies[0]
	assert.Equal(t, 40, got.Jobs.Succeeded)
	assert.Equal(t, simulation.WaveReport{
		Update: "A to 2.0", Wave: "canary", From: nodes[7].Devices[0].Version, Succeeded: 1, Began: start,
		Proven: ptrTo(start.Add(20 * time.Minute)), Ended: ptrTo(start.Add(20 * time.Minute)),
	}, got.Waves[0])
	first, succeeded := map[string]bool{}, 0
	for _, w := range got.Waves {
		succeeded += w.Succeeded
		if !first[w.From] {
			assert.Equal(t, w.Began.Add(20*time.Minute), *w.Proven)
		}
		first[w.From] = true
	}
	assert.Len(t, first, 4)
	assert.Equal(t, 40, succeeded)

	html := picture(t, r)
	for _, v := range versions {
		assert.Contains(t, html, "A to 2.0 from "+v.Value)
	}
	assert.Contains(t, html, "</i>first node from a version, alone</li>")
	assert.Equal(t, len(versions), strings.Count(html, `<rect class="first"`), "each version is first once")
	var table strings.Builder
	r.Waves(&table)
	assert.Contains(t, table.String(), "Waves of policy default, times in UTC:\n  UPDATE    WAVE    FROM  SUCCEEDED  FAILED  BEGAN            FIRST SUCCESS    ENDED\n")
	assert.Regexp(t, `A to 2.0  canary  1\.[0-3]   1          0       Mon 5 Jan 09:00  Mon 5 Jan 09:20  Mon 5 Jan 09:20\n`, table.String())

	table.Reset()
	run(t, options(fleet(2), policy("default", "1"))).Waves(&table)
	assert.Contains(t, table.String(), "Policy default has neither waves nor a halt")
}

// A wave that selects none of the nodes waits for a person and not for time, whatever windows open meanwhile.
func TestAnEmptyWaveWaitsForAPerson(t *testing.T) {
	p := saturdays()
	p.Name = "default"
	p.Spec.Waves = []v1alpha1.RolloutWave{{Name: "canary", NodeSelector: selector("none")}}
	r := run(t, options(fleet(3), p))
	assert.Equal(t, simulation.Stuck, r.Report.Ending)
	assert.Equal(t, 3, r.Report.Policies[0].Waiting[schedule.WaveEmpty].Nodes)
	html := picture(t, r)
	assert.Contains(t, html, "</i>"+simulation.Stopped.String()+"</li>")
	assert.NotContains(t, html, "</i>"+simulation.TimeWaits.String()+"</li>")
}

func TestAHaltedRolloutWaitsForAPersonWhoResumesIt(t *testing.T) {
	o := options(fleet(21), inWaves())
	o.Work.BadImage = simulation.ByModel[float64]{Default: 1}
	r := run(t, o)
	assert.Equal(t, simulation.Stuck, r.Report.Ending)
	assert.Equal(t, 1, r.Report.Policies[0].Jobs.RolledBack)

	o.Work.BadImage.Default, o.Work.Held.Default, o.Work.Person = 0, 0.2, time.Hour
	r = run(t, o)
	assert.Equal(t, simulation.Complete, r.Report.Ending)
	assert.Positive(t, r.Report.Policies[0].Jobs.Held)
	html := picture(t, r)
	assert.Contains(t, html, `class="halt"`)
	assert.Contains(t, html, "</i>halted until a person resumes</li>")
	assert.Regexp(t, `<th>halted</th><td>[^<]* resumed after [^<]*node-`, html, "when, for how long, and because of which node")

	o.Work.Person = 0
	r = run(t, o)
	assert.Equal(t, simulation.Stuck, r.Report.Ending)
	assert.Positive(t, r.Report.Policies[0].Waiting[schedule.RolloutHalted].Nodes)
}
