package simulation_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
