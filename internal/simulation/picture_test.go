package simulation_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
)

func picture(t *testing.T, r *simulation.Result) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.WritePicture(&b))
	return b.String()
}

func TestThePictureNeedsNothingElse(t *testing.T) {
	html := picture(t, run(t, troubled(options(fleet(100), policy("default", "5")))))
	for _, outside := range []string{"http:", "https:", "url(", "@import", "<script", "<link", "<img", "src="} {
		assert.NotContains(t, html, outside)
	}
	assert.Contains(t, html, "prefers-color-scheme: dark")
	assert.NotContains(t, html, "ZgotmplZ", "the template refuses no value")
}

func TestThePictureIsWellFormedAndNamesEachState(t *testing.T) {
	html := picture(t, run(t, troubled(options(fleet(300), policy("default", "5%")))))
	svgs := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(html, -1)
	require.Len(t, svgs, 1)
	assert.NotContains(t, svgs[0], "NaN")
	for d := xml.NewDecoder(strings.NewReader(svgs[0])); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	for _, state := range []simulation.State{simulation.Done, simulation.Running, simulation.Held, simulation.Pausing, simulation.Waiting} {
		assert.Contains(t, html, "</i>"+state.String()+"</li>")
	}
}

func TestThePictureOfARolloutThatStopsSaysWhoWaitsAndWhy(t *testing.T) {
	o := options(fleet(20), policy("default", "0"))
	html := picture(t, run(t, o))
	assert.Contains(t, html, "The rollout stops after")
	assert.Contains(t, html, "BudgetExhausted")
	assert.Contains(t, html, "Policy default admits no node because its maxUnavailable is 0.")
}

func TestAPictureStaysSmallHoweverLongTheRolloutIs(t *testing.T) {
	o := troubled(options(fleet(500), policy("default", "1")))
	o.Work.Duration.Default = 3 * time.Hour
	html := picture(t, run(t, o))
	assert.Less(t, len(html), 256<<10)
}
