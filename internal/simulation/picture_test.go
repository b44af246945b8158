package simulation_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
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

// Each colour means one thing, also to those who do not tell red from green: any two of one scheme differ by 12 at least on the scale of
// CIELAB, where 2 can just be seen side by side.
func TestColoursAreToldApart(t *testing.T) {
	html := picture(t, run(t, options(fleet(2), policy("default", "1"))))
	schemes := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(html, -1)
	require.Len(t, schemes, 2, "light and dark")
	for _, scheme := range schemes {
		colours := regexp.MustCompile(`--(s\d|used|window|freeze|first|wave|soak): (#[0-9a-f]{6})`).FindAllStringSubmatch(scheme[1], -1)
		require.Len(t, colours, 15)
		for i, a := range colours {
			for _, b := range colours[:i] {
				for sight, m := range sights {
					assert.GreaterOrEqual(t, distance(lab(t, a[2], m), lab(t, b[2], m)), 12.0, "%s and %s for %s sight", a[1], b[1], sight)
				}
			}
		}
	}
}

// sights are what linear red, green and blue look like (Machado, Oliveira and Fernandes, 2009).
var sights = map[string][3][3]float64{
	"normal": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protan": {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deutan": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
}

// lab is a colour in CIELAB as it is seen.
func lab(t *testing.T, colour string, sight [3][3]float64) [3]float64 {
	t.Helper()
	var light, seen [3]float64
	for i := range light {
		v, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		require.NoError(t, err)
		light[i] = float64(v) / 255 / 12.92
		if c := float64(v) / 255; c > 0.04045 {
			light[i] = math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	for i, row := range sight {
		seen[i] = min(1, max(0, row[0]*light[0]+row[1]*light[1]+row[2]*light[2]))
	}
	f := func(v float64) float64 {
		if v > 0.008856 {
			return math.Cbrt(v)
		}
		return 7.787*v + 16.0/116
	}
	x := f((0.4124*seen[0] + 0.3576*seen[1] + 0.1805*seen[2]) / 0.95047)
	y := f(0.2126*seen[0] + 0.7152*seen[1] + 0.0722*seen[2])
	z := f((0.0193*seen[0] + 0.1192*seen[1] + 0.9505*seen[2]) / 1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

func distance(a, b [3]float64) float64 {
	return math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
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
