package plan_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// What may be flashed over which running version, and what is flashed first (R002-13, R002-65, R002-66).
func TestPathsDecideWhatIsFlashedOverWhat(t *testing.T) {
	hop := inventory.Digest{2}
	needs := func(p plan.Path, hops ...plan.Hop) plan.Desired {
		return plan.Desired{Version: "3.0", Digest: digest, AllowDowngrade: true, Path: p, Hops: hops}
	}
	edge, minimum := plan.Path{BlockedFrom: []inventory.Version{"1.0"}}, plan.Path{Minimum: "2.0"}
	via := plan.Hop{From: []inventory.Version{"1.0"}, Version: "2.0", Digest: hop}
	for name, c := range map[string]struct {
		desired plan.Desired
		running inventory.Version
		want    plan.Outcome
		why     plan.Reason
		flashes inventory.Version
	}{
		"over the version of a blocked edge":            {needs(edge), "1.0", plan.Blocked, plan.ReasonEdgeBlocked, ""},
		"over a version no edge names":                  {needs(edge), "1.0.0", plan.DueFlash, "", "3.0"},
		"below the minimum":                             {needs(minimum), "1.9", plan.Blocked, plan.ReasonBelowMinimumVersion, ""},
		"at the minimum":                                {needs(minimum), "2.0", plan.DueFlash, "", "3.0"},
		"above the minimum":                             {needs(minimum), "2.1", plan.DueFlash, "", "3.0"},
		"not to be ordered against the minimum":         {needs(minimum), "2.x", plan.Blocked, plan.ReasonBelowMinimumVersion, ""},
		"from where a hop is declared":                  {needs(edge, via), "1.0", plan.DueFlash, "", "2.0"},
		"from where none is declared":                   {needs(edge, via), "1.5", plan.DueFlash, "", "3.0"},
		"from the hop":                                  {needs(edge, via), "2.0", plan.DueFlash, "", "3.0"},
		"to a hop that must not be flashed over this":   {needs(plan.Path{}, plan.Hop{From: via.From, Version: "2.0", Digest: hop, Path: edge}), "1.0", plan.Blocked, plan.ReasonEdgeBlocked, ""},
		"to a hop without an image":                     {needs(plan.Path{}, plan.Hop{From: via.From, Version: "2.0"}), "1.0", plan.Blocked, plan.ReasonImageNotFound, ""},
		"without paths, over a version nobody knows of": {needs(plan.Path{}), "x", plan.DueFlash, "", "3.0"},
	} {
		t.Run(name, func(t *testing.T) {
			got := plan.Decide(c.desired, plan.Facts{Driver: "sim", Running: c.running, Format: inventory.FormatDotted, Activation: inventory.ActivateReboot})
			assert.Equal(t, c.want, got.Outcome, got.Message)
			assert.Equal(t, c.why, got.Reason)
			assert.Equal(t, c.flashes, got.Version)
			if c.flashes == "2.0" {
				assert.Equal(t, hop, got.Digest)
			}
		})
	}
}
