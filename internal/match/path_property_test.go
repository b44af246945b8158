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

func drawPaths(t *rapid.T) v1alpha1.UpgradePaths {
	var out v1alpha1.UpgradePaths
	from := func() []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(someSteps), 1, 3, rapid.ID).Draw(t, "from")
	}
	for range rapid.IntRange(0, 3).Draw(t, "edges") {
		out.BlockedEdges = append(out.BlockedEdges, edge(pick(t, someSteps, "to"), from()...))
	}
	for range rapid.IntRange(0, 4).Draw(t, "hops") {
		out.Hops = append(out.Hops, via(pick(t, someSteps, "to"), pick(t, someSteps, "via"), from()...))
	}
	for range rapid.IntRange(0, 1).Draw(t, "minimums") {
		out.MinimumVersions = append(out.MinimumVersions, least(pick(t, someSteps, "to"), pick(t, someSteps, "minimum")))
	}
	if rapid.IntRange(0, 3).Draw(t, "malformed") != 0 { // most lists are ones the API server would take
		out.BlockedEdges = slices.DeleteFunc(out.BlockedEdges, func(e v1alpha1.BlockedEdge) bool { return slices.Contains(e.From, e.To) })
		out.Hops = slices.DeleteFunc(out.Hops, func(h v1alpha1.VersionHop) bool {
			return h.Via == h.To || slices.Contains(h.From, h.Via) || slices.Contains(h.From, h.To)
		})
	}
	return out
}

// R002-13, R002-65, R002-66: following package plan step by step, whatever the paths say and whatever runs, leads to the
// desired version through the hops that are declared, or to a refusal; it ends, and no image is ever flashed over a version
// it must not be flashed over.
func TestFollowingARouteNeverLeavesIt(t *testing.T) {
	reached, refused, hopped := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		declared := []v1alpha1.UpgradePaths{drawPaths(t), drawPaths(t)}
		some := rapid.Permutation(someSteps).Draw(t, "versions")
		to, running := inventory.Version(some[0]), inventory.Version(some[1])
		switch rapid.IntRange(0, 5).Draw(t, "hop for what runs") {
		case 0:
			running = to
		case 1, 2, 3: // most random hops are for others
			declared[0].Hops = append(declared[0].Hops, via(some[0], some[2], some[1]))
		}
		missing := rapid.SliceOfN(rapid.SampledFrom(someSteps), 0, 1).Draw(t, "missing")
		path, o := route(to, imageOf(missing...), NewPaths(&declared[0], "rule"), NewPaths(&declared[1], "source"))
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
func requireAllowed(t *rapid.T, declared []v1alpha1.UpgradePaths, to inventory.Version, f plan.Facts, d plan.Decision) {
	running, next := string(f.Running), string(d.Version)
	image, _ := imageOf()(d.Version)
	require.Equal(t, desired.Digest(image), d.Digest, "the image is the one of the version")
	asked := false
	var minimums []inventory.Version
	for _, p := range declared {
		for _, e := range p.BlockedEdges {
			require.False(t, e.To == next && slices.Contains(e.From, running), "%s is flashed over %s", next, running)
		}
		for _, h := range p.Hops {
			require.False(t, h.To == next && slices.Contains(h.From, running), "%s needs %s before it is flashed over %s", next, h.Via, running)
			asked = asked || h.Via == next && slices.Contains(h.From, running)
		}
		for _, m := range p.MinimumVersions {
			if m.To == next {
				minimums = append(minimums, inventory.Version(m.Version))
			}
		}
	}
	atLeast := func(format inventory.VersionFormat) func(inventory.Version) bool {
		return func(m inventory.Version) bool { return f.Running.Compare(m, format) >= inventory.Same }
	}
	require.True(t, minimums == nil || slices.ContainsFunc(minimums, atLeast(f.Format)), "%s over %s: the device knows its order", next, running)
	for _, m := range minimums {
		require.True(t, atLeast(inventory.FormatDotted)(m) || m == f.Running, "%s is flashed over %s and needs %s", next, running, m)
	}
	require.True(t, d.Version == to || asked, "nobody asked for %s", next)
}
