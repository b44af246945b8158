package plan_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// What may be flashed over which running version, and what is flashed first (R002-13, R002-65, R002-66).
func TestPathsDecideWhatIsFlashed(t *testing.T) {
	middle := inventory.Digest{2}
	needs := func(p ...plan.Edge) plan.Desired {
		return plan.Desired{Version: "3.0", Digest: digest, AllowDowngrade: true, Path: p}
	}
	from := func(v ...inventory.Version) []inventory.Version { return v }
	edge, minimum := plan.Edge{To: "3.0", From: from("1.0")}, plan.Edge{To: "3.0", Below: "2.0"}
	via := plan.Edge{To: "3.0", From: from("1.0"), Via: "2.0", Digest: middle}
	viaBelow := plan.Edge{To: "3.0", Below: "2.0", Via: "2.0", Digest: middle}
	older := plan.Edge{To: "3.0", Below: "1.5", Via: "1.5", Digest: inventory.Digest{3}}
	for name, c := range map[string]struct {
		desired plan.Desired
		running inventory.Version
		want    plan.Outcome
		why     plan.Reason
		flashes inventory.Version
	}{
		"over the version of a blocked edge":              {needs(edge), "1.0", plan.Blocked, plan.ReasonPathBlocked, ""},
		"over a version no edge names":                    {needs(edge), "1.0.0", plan.DueFlash, "", "3.0"},
		"an edge to another version":                      {needs(plan.Edge{To: "2.0", From: from("1.0")}), "1.0", plan.DueFlash, "", "3.0"},
		"below the minimum":                               {needs(minimum), "1.9", plan.Blocked, plan.ReasonPathBlocked, ""},
		"at the minimum":                                  {needs(minimum), "2.0", plan.DueFlash, "", "3.0"},
		"above the minimum":                               {needs(minimum), "2.1", plan.DueFlash, "", "3.0"},
		"not to be ordered against the minimum":           {needs(minimum), "2.x", plan.Blocked, plan.ReasonPathBlocked, ""},
		"not to be ordered against the way":               {needs(viaBelow), "2.x", plan.Blocked, plan.ReasonPathBlocked, ""},
		"not to be ordered, but named":                    {needs(minimum, plan.Edge{To: "3.0", From: from("2.x"), Via: "2.0", Digest: middle}), "2.x", plan.DueFlash, "", "2.0"},
		"a way, and a bound it cannot be ordered against": {needs(viaBelow, plan.Edge{To: "3.0", Below: "A1"}), "1.0", plan.Blocked, plan.ReasonPathBlocked, ""},
		"from where a way is declared":                    {needs(edge, via), "1.0", plan.DueFlash, "", "2.0"},
		"from where none is declared":                     {needs(edge, via), "1.5", plan.DueFlash, "", "3.0"},
		"from the version in between":                     {needs(edge, via), "2.0", plan.DueFlash, "", "3.0"},
		"from below the version in between":               {needs(viaBelow), "1.7", plan.DueFlash, "", "2.0"},
		"from below two, the older first":                 {needs(viaBelow, older), "1.4", plan.DueFlash, "", "1.5"},
		"from below two, in any order":                    {needs(older, viaBelow), "1.4", plan.DueFlash, "", "1.5"},
		"from between two":                                {needs(older, viaBelow), "1.6", plan.DueFlash, "", "2.0"},
		"named and below":                                 {needs(older, via), "1.0", plan.DueFlash, "", "2.0"},
		"below and named":                                 {needs(via, older), "1.0", plan.DueFlash, "", "2.0"},
		"to one that must not be flashed over this":       {needs(via, plan.Edge{To: "2.0", From: from("1.0")}), "1.0", plan.Blocked, plan.ReasonPathBlocked, ""},
		"to one that needs one itself":                    {needs(via, plan.Edge{To: "2.0", Below: "1.5", Via: "1.5", Digest: middle}), "1.0", plan.DueFlash, "", "1.5"},
		"to one without an image":                         {needs(plan.Edge{To: "3.0", From: from("1.0"), Via: "2.0"}), "1.0", plan.Blocked, plan.ReasonImageNotFound, ""},
		"to where it is":                                  {needs(plan.Edge{To: "3.0", Below: "2.0", Via: "1.0", Digest: middle}), "1.0", plan.Blocked, plan.ReasonPathBlocked, ""},
		"in a circle":                                     {needs(via, plan.Edge{To: "2.0", From: from("1.0"), Via: "3.0", Digest: middle}), "1.0", plan.Blocked, plan.ReasonPathBlocked, ""},
		"without paths, over a version nobody knows of":   {needs(), "x", plan.DueFlash, "", "3.0"},
	} {
		t.Run(name, func(t *testing.T) {
			got := plan.Decide(c.desired, plan.Facts{Driver: "sim", Running: c.running, Format: inventory.FormatDotted, Activation: inventory.ActivateReboot})
			assert.Equal(t, c.want, got.Outcome, got.Message)
			assert.Equal(t, c.why, got.Reason)
			assert.Equal(t, c.flashes, got.Version)
			if c.flashes == "2.0" {
				assert.Equal(t, middle, got.Digest)
			}
		})
	}
	_, err := plan.Path{{To: "3.0", Below: "A1"}, edge}.Next(plan.Image{Version: "3.0"}, "1.0", inventory.FormatDotted)
	assert.ErrorContains(t, err, "whether what runs is below A1", "the bound is named, and not the edge after it")
}
