package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// pathChange is a change to valid upgrade paths, and the field below them that is refused.
type pathChange struct {
	name           string
	change         func(*v1alpha1.UpgradePaths)
	field, message string
}

// TestUpgradePathsValidation (R002-13, R002-65, R002-66): a malformed list is refused in a template's rule and in a
// source alike.
func TestUpgradePathsValidation(t *testing.T) {
	cases := slicesOf(plainPaths(), edgeCases(), hopCases(), minimumCases())
	t.Run("template", func(t *testing.T) {
		var changes []validation[*v1alpha1.FirmwareTemplate]
		for _, c := range cases {
			changes = append(changes, validation[*v1alpha1.FirmwareTemplate]{name: c.name, message: c.message,
				field: below("spec.rules[0].upgradePaths", c.field), change: func(o *v1alpha1.FirmwareTemplate) {
					c.change(o.Spec.Rules[0].UpgradePaths)
				}})
		}
		checkCreate(t, func() *v1alpha1.FirmwareTemplate {
			o := validTemplate()
			o.Spec.Rules[0].UpgradePaths = validPaths()
			return o
		}, changes)
	})
	t.Run("source", func(t *testing.T) {
		var changes []validation[*v1alpha1.FirmwareSource]
		for _, c := range cases {
			changes = append(changes, validation[*v1alpha1.FirmwareSource]{name: c.name, message: c.message,
				field: below("spec.upgradePaths", c.field), change: func(o *v1alpha1.FirmwareSource) { c.change(o.Spec.UpgradePaths) }})
		}
		checkCreate(t, func() *v1alpha1.FirmwareSource {
			o := validSource()
			o.Spec.UpgradePaths = validPaths()
			return o
		}, changes)
	})
}

func slicesOf(all ...[]pathChange) []pathChange {
	var out []pathChange
	for _, some := range all {
		out = append(out, some...)
	}
	return out
}

func below(parent, field string) string {
	if field == "" {
		return ""
	}
	return parent + "." + field
}

func plainPaths() []pathChange {
	return []pathChange{
		{name: "all there is", change: func(*v1alpha1.UpgradePaths) {}},
		{name: "nothing", change: func(p *v1alpha1.UpgradePaths) { *p = v1alpha1.UpgradePaths{} }},
	}
}

func edgeCases() []pathChange {
	edge := func(change func(*v1alpha1.BlockedEdge)) func(*v1alpha1.UpgradePaths) {
		return func(p *v1alpha1.UpgradePaths) { change(&p.BlockedEdges[0]) }
	}
	return []pathChange{
		{name: "an edge from a version to itself", change: edge(func(e *v1alpha1.BlockedEdge) { e.From = append(e.From, e.To) }),
			field: "blockedEdges[0]", message: "from must not contain the version in to"},
		{name: "an edge without to", change: edge(func(e *v1alpha1.BlockedEdge) { e.To = "" }),
			field: "blockedEdges[0].to", message: "Required"},
		{name: "an edge without from", change: edge(func(e *v1alpha1.BlockedEdge) { e.From = nil }),
			field: "blockedEdges[0].from", message: "Required"},
		{name: "an edge from an empty version", change: edge(func(e *v1alpha1.BlockedEdge) { e.From = []string{""} }),
			field: "blockedEdges[0].from[0]", message: "at least 1 chars"},
		{name: "an edge from one version twice", change: edge(func(e *v1alpha1.BlockedEdge) { e.From = []string{"1", "1"} }),
			field: "blockedEdges[0].from[1]", message: "Duplicate value"},
		{name: "an edge from 64 versions", change: edge(func(e *v1alpha1.BlockedEdge) { e.From = versions(64) })},
		{name: "an edge from 65 versions", change: edge(func(e *v1alpha1.BlockedEdge) { e.From = versions(65) }),
			field: "blockedEdges[0].from", message: "at most 64 items"},
		{name: "an edge to 65 characters", change: edge(func(e *v1alpha1.BlockedEdge) { e.To = strings.Repeat("1", 65) }),
			field: "blockedEdges[0].to", message: "may not be more than 64"},
		{name: "two edges to one version", change: func(p *v1alpha1.UpgradePaths) {
			p.BlockedEdges = append(p.BlockedEdges, p.BlockedEdges[0])
		}, field: "blockedEdges[1]", message: "Duplicate value"},
		{name: "64 edges", change: func(p *v1alpha1.UpgradePaths) { p.BlockedEdges = edges(64) }},
		{name: "65 edges", change: func(p *v1alpha1.UpgradePaths) { p.BlockedEdges = edges(65) },
			field: "blockedEdges", message: "at most 64 items"},
	}
}

func hopCases() []pathChange {
	const differ = "to, via and the versions in from must differ"
	hop := func(change func(*v1alpha1.VersionHop)) func(*v1alpha1.UpgradePaths) {
		return func(p *v1alpha1.UpgradePaths) { change(&p.Hops[0]) }
	}
	repeat := func(n int) func(*v1alpha1.UpgradePaths) {
		return func(p *v1alpha1.UpgradePaths) {
			for len(p.Hops) < n {
				p.Hops = append(p.Hops, p.Hops[0])
			}
		}
	}
	return []pathChange{
		{name: "a hop via its end", change: hop(func(h *v1alpha1.VersionHop) { h.Via = h.To }), field: "hops[0]", message: differ},
		{name: "a hop via its start", change: hop(func(h *v1alpha1.VersionHop) { h.Via = h.From[0] }), field: "hops[0]", message: differ},
		{name: "a hop from its end", change: hop(func(h *v1alpha1.VersionHop) { h.From = []string{h.To} }), field: "hops[0]", message: differ},
		{name: "a hop via nothing", change: hop(func(h *v1alpha1.VersionHop) { h.Via = "" }),
			field: "hops[0].via", message: "Required"},
		{name: "a hop to nothing", change: hop(func(h *v1alpha1.VersionHop) { h.To = "" }),
			field: "hops[0].to", message: "Required"},
		{name: "a hop from nothing", change: hop(func(h *v1alpha1.VersionHop) { h.From = nil }),
			field: "hops[0].from", message: "Required"},
		{name: "a hop from an empty version", change: hop(func(h *v1alpha1.VersionHop) { h.From = []string{""} }),
			field: "hops[0].from[0]", message: "at least 1 chars"},
		{name: "a hop from 65 versions", change: hop(func(h *v1alpha1.VersionHop) { h.From = versions(65) }),
			field: "hops[0].from", message: "at most 64 items"},
		{name: "64 hops", change: repeat(64)},
		{name: "65 hops", change: repeat(65), field: "hops", message: "at most 64 items"},
	}
}

func minimumCases() []pathChange {
	return []pathChange{
		{name: "a minimum without a version", change: func(p *v1alpha1.UpgradePaths) { p.MinimumVersions[0].Version = "" },
			field: "minimumVersions[0].version", message: "Required"},
		{name: "two minimums of one version", change: func(p *v1alpha1.UpgradePaths) {
			p.MinimumVersions = append(p.MinimumVersions, p.MinimumVersions[0])
		}, field: "minimumVersions[1]", message: "Duplicate value"},
	}
}

func validPaths() *v1alpha1.UpgradePaths {
	return &v1alpha1.UpgradePaths{
		BlockedEdges:    []v1alpha1.BlockedEdge{{To: "22.41.1000", From: []string{"22.38.1002", "22.38.1900"}}},
		Hops:            []v1alpha1.VersionHop{{To: "22.41.1000", From: []string{"22.36.1010"}, Via: "22.39.2048"}},
		MinimumVersions: []v1alpha1.MinimumVersion{{To: "22.41.1000", Version: "22.35.1012"}},
	}
}

// versions are n different ones that validPaths does not name.
func versions(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("20.%d.1000", i)
	}
	return out
}

func edges(n int) []v1alpha1.BlockedEdge {
	out := make([]v1alpha1.BlockedEdge, n)
	for i, v := range versions(n) {
		out[i] = v1alpha1.BlockedEdge{To: v, From: []string{"19.1.1"}}
	}
	return out
}

// TestDevicePathValidation: what the operator makes of the paths is bounded, and no hop comes without its image.
func TestDevicePathValidation(t *testing.T) {
	type change = validation[*v1alpha1.NodeDevice]
	path := func(change func(*v1alpha1.UpgradePath)) func(*v1alpha1.NodeDevice) {
		return func(o *v1alpha1.NodeDevice) { change(o.Spec.Firmware.Path) }
	}
	repeat := func(n int) func(*v1alpha1.NodeDevice) {
		return path(func(p *v1alpha1.UpgradePath) {
			for len(p.Hops) < n {
				p.Hops = append(p.Hops, p.Hops[0])
			}
		})
	}
	checkCreate(t, func() *v1alpha1.NodeDevice {
		o := validDevice()
		o.Spec.Firmware.Path = &v1alpha1.UpgradePath{
			BlockedFrom: []string{"22.38.1002"}, MinimumVersion: "22.35.1012",
			Hops: []v1alpha1.UpgradeHop{{From: []string{"22.36.1010"}, Version: "22.39.2048", Digest: digest}},
		}
		return o
	}, []change{
		{name: "a path", change: path(func(*v1alpha1.UpgradePath) {})},
		{name: "a hop without an image", change: path(func(p *v1alpha1.UpgradePath) { p.Hops[0].Digest = "" }),
			field: "spec.firmware.path.hops[0].digest", message: "Required"},
		{name: "a hop from nowhere", change: path(func(p *v1alpha1.UpgradePath) { p.Hops[0].From = nil }),
			field: "spec.firmware.path.hops[0].from", message: "Required"},
		{name: "32 hops", change: repeat(32)},
		{name: "33 hops", change: repeat(33), field: "spec.firmware.path.hops", message: "at most 32 items"},
		{name: "128 blocked versions", change: path(func(p *v1alpha1.UpgradePath) { p.BlockedFrom = versions(128) })},
		{name: "129 blocked versions", change: path(func(p *v1alpha1.UpgradePath) { p.BlockedFrom = versions(129) }),
			field: "spec.firmware.path.blockedFrom", message: "at most 128 items"},
	})
}

// TestQuarantineValidation (R002-26): an image is quarantined once for one model, and never without naming the job.
func TestQuarantineValidation(t *testing.T) {
	type change = validation[*v1alpha1.FirmwareSource]
	entry := func(o *v1alpha1.FirmwareSource) *v1alpha1.QuarantinedImage { return &o.Status.Quarantine[0] }
	again := func(o *v1alpha1.FirmwareSource) {
		o.Status.Quarantine = append(o.Status.Quarantine, o.Status.Quarantine[0])
	}
	existing := validSource()
	checkStatus(t, existing, func(o *v1alpha1.FirmwareSource) {
		o.Status.Quarantine = []v1alpha1.QuarantinedImage{quarantined()}
	}, []change{
		{name: "an image of one model", change: func(*v1alpha1.FirmwareSource) {}},
		{name: "an image of every model", change: func(o *v1alpha1.FirmwareSource) { entry(o).Model = v1alpha1.AnyModel }},
		{name: "an image of two models", change: func(o *v1alpha1.FirmwareSource) {
			again(o)
			o.Status.Quarantine[1].Model = "15b3:101f"
		}},
		{name: "an image of no model", change: func(o *v1alpha1.FirmwareSource) { entry(o).Model = "" },
			field: "status.quarantine[0].model", message: "Required"},
		{name: "an image that failed in no job", change: func(o *v1alpha1.FirmwareSource) { entry(o).Job = "" },
			field: "status.quarantine[0].job", message: "Required"},
		{name: "half a digest", change: func(o *v1alpha1.FirmwareSource) { entry(o).Digest = "sha256:3b1f" },
			field: "status.quarantine[0].digest", message: "should match"},
		{name: "the longest model", change: func(o *v1alpha1.FirmwareSource) {
			entry(o).Model = v1alpha1.ModelKey("", "", strings.Repeat("v", 128), strings.Repeat("m", 128))
		}},
	})
}

func quarantined() v1alpha1.QuarantinedImage {
	return v1alpha1.QuarantinedImage{
		Digest: digest, Model: "15b3:101d", Version: "22.41.1000", Since: someTime, NodeName: "gpu-017", Job: "gpu-017-1a2b3c4d",
		Message: "link of port 1 is down and was up before",
	}
}
