package match

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// someSteps are the versions of the properties; the last one follows no format.
var someSteps = []string{"1.0", "2.0", "3.0", "4.0", "5.0", "6.0", "7-rc"}

func drawPaths(t *rapid.T) paths {
	var out paths
	for range rapid.IntRange(0, 7).Draw(t, "paths") {
		p := v1alpha1.UpgradePath{To: pick(t, someSteps, "to")}
		if rapid.IntRange(0, 3).Draw(t, "below") == 0 {
			p.Below = pick(t, someSteps, "bound")
		} else {
			p.From = rapid.SliceOfNDistinct(rapid.SampledFrom(someSteps), 1, 3, rapid.ID).Draw(t, "from")
		}
		if rapid.Bool().Draw(t, "via") {
			p.Via = pick(t, someSteps, "between")
		}
		out = append(out, p)
	}
	if rapid.IntRange(0, 3).Draw(t, "malformed") != 0 { // most lists are ones the API server would take
		out = slices.DeleteFunc(out, func(p v1alpha1.UpgradePath) bool {
			return p.Via == p.To || slices.Contains(p.From, p.To) || slices.Contains(p.From, p.Via) || p.Below != "" && p.Via != "" && p.Via < p.Below
		})
	}
	return out
}

// R002-13, R002-65, R002-66: following package plan step by step, whatever the paths say and whatever runs, leads to the
// desired version through the hops that are declared, or to a refusal; it ends, and no image is ever flashed over a version
// it must not be flashed over.
func TestFollowingRouteNeverStrays(t *testing.T) {
	reached, refused, hopped := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		declared := drawPaths(t)
		some := rapid.Permutation(someSteps).Draw(t, "versions")
		to, running := inventory.Version(some[0]), inventory.Version(some[1])
		switch rapid.IntRange(0, 5).Draw(t, "hop for what runs") {
		case 0:
			running = to
		case 1, 2, 3: // most random hops are for others
			declared = append(declared, via(some[0], some[2], some[1]))
		}
		missing := rapid.SliceOfN(rapid.SampledFrom(someSteps), 0, 1).Draw(t, "missing")
		path, o := route(to, imageOf(missing...), NewPaths(declared, "source"))
		assigned := &v1alpha1.DesiredFirmware{Version: string(to), Policy: v1alpha1.PolicyApply, Path: path}
		if o == nil {
			assigned.Digest, _ = imageOf()(to)
		} else {
			require.NotEmpty(t, o.Reason)
			require.Nil(t, path)
		}
		if rapid.Bool().Draw(t, "downgrade") {
			assigned.Downgrade = v1alpha1.DowngradeAllow
		}
		facts := plan.Facts{
			Driver: "x", Running: running,
			Format: rapid.SampledFrom([]inventory.VersionFormat{inventory.FormatPlain, inventory.FormatDotted}).Draw(t, "format"),
		}
		for steps := 0; ; steps++ {
			require.LessOrEqual(t, steps, len(someSteps), "it ends")
			d := plan.Decide(desired.Of(assigned, "again"), facts)
			switch {
			case d.Outcome == plan.UpToDate:
				require.Equal(t, to, facts.Running)
				reached++
				return
			case d.Outcome == plan.Blocked:
				require.NotEmpty(t, d.Reason)
				refused++
				return
			}
			require.Nil(t, o, "nothing is flashed where the way cannot be followed")
			requireAllowed(t, declared, to, facts, d)
			require.True(t, assigned.Downgrade == v1alpha1.DowngradeAllow || facts.Format == inventory.FormatPlain ||
				d.Version.Compare(facts.Running, facts.Format) == inventory.Newer, "no downgrade that is not allowed")
			if d.Version != to {
				hopped++
			}
			facts.Running = d.Version
		}
	})
	assert.NotZero(t, reached)
	assert.NotZero(t, refused)
	assert.NotZero(t, hopped)
}

// requireAllowed holds one step to what is declared, by comparing everything with everything.
func requireAllowed(t *rapid.T, declared paths, to inventory.Version, f plan.Facts, d plan.Decision) {
	running, next := string(f.Running), string(d.Version)
	image, _ := imageOf()(d.Version)
	require.Equal(t, desired.Digest(image), d.Digest, "the image is the one of the version")
	asked := false
	for _, p := range declared {
		about := slices.Contains(p.From, running)
		if p.Below != "" {
			order := f.Running.Compare(inventory.Version(p.Below), f.Format)
			require.False(t, p.To == next && order == inventory.Incomparable, "%s is flashed over %s, which nobody can order against %s", next, running, p.Below)
			about = order == inventory.Older
		}
		require.False(t, p.To == next && about, "%s is flashed over %s, at once", next, running)
		asked = asked || p.Via == next && about
	}
	require.True(t, d.Version == to || asked, "nobody asked for %s", next)
}
