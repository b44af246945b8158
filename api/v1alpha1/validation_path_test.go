package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// TestUpgradePathsValidation (R002-13, R002-65, R002-66): a malformed list is refused.
func TestUpgradePathsValidation(t *testing.T) {
	type change = validation[*v1alpha1.FirmwareSource]
	first := func(change func(*v1alpha1.UpgradePath)) func(*v1alpha1.FirmwareSource) {
		return func(o *v1alpha1.FirmwareSource) { change(&o.Spec.UpgradePaths[0]) }
	}
	repeat := func(n int) func(*v1alpha1.FirmwareSource) {
		return func(o *v1alpha1.FirmwareSource) {
			for len(o.Spec.UpgradePaths) < n {
				o.Spec.UpgradePaths = append(o.Spec.UpgradePaths, o.Spec.UpgradePaths[0])
			}
		}
	}
	const field, differ, either = "spec.upgradePaths[0]", "from must not contain the version in to or via", "an upgrade path needs either from or below"
	checkCreate(t, func() *v1alpha1.FirmwareSource {
		o := validSource()
		o.Spec.UpgradePaths = []v1alpha1.UpgradePath{
			{To: "22.41.1000", From: []string{"22.36.1010"}, Via: "22.39.2048"}, {To: "22.41.1000", From: []string{"22.38.1002", "22.38.1900"}},
			{To: "22.41.1000", Below: "22.35.1012"},
		}
		return o
	}, []change{
		{name: "all there is", change: func(*v1alpha1.FirmwareSource) {}},
		{name: "nothing", change: func(o *v1alpha1.FirmwareSource) { o.Spec.UpgradePaths = nil }},
		{name: "from the version itself", change: first(func(p *v1alpha1.UpgradePath) { p.From = append(p.From, p.To) }), field: field, message: differ},
		{name: "via its start", change: first(func(p *v1alpha1.UpgradePath) { p.Via = p.From[0] }), field: field, message: differ},
		{name: "via its end", change: first(func(p *v1alpha1.UpgradePath) { p.Via = p.To }), field: field, message: "via must not be the version in to"},
		{name: "via nothing", change: first(func(p *v1alpha1.UpgradePath) { p.Via = "" })},
		{name: "to nothing", change: first(func(p *v1alpha1.UpgradePath) { p.To = "" }), field: field + ".to", message: "Required"},
		{name: "from nothing", change: first(func(p *v1alpha1.UpgradePath) { p.From = nil }), field: field, message: either},
		{name: "from and below", change: first(func(p *v1alpha1.UpgradePath) { p.Below = "1" }), field: field, message: either},
		{name: "from below", change: first(func(p *v1alpha1.UpgradePath) { p.From, p.Below = nil, "22.39.2048" })},
		{name: "from an empty version", change: first(func(p *v1alpha1.UpgradePath) { p.From = []string{""} }), field: field + ".from[0]", message: "at least 1 chars"},
		{name: "from one version twice", change: first(func(p *v1alpha1.UpgradePath) { p.From = []string{"1", "1"} }), field: field + ".from[1]", message: "Duplicate value"},
		{name: "from 64 versions", change: first(func(p *v1alpha1.UpgradePath) { p.From = versions(64) })},
		{name: "from 65 versions", change: first(func(p *v1alpha1.UpgradePath) { p.From = versions(65) }), field: field + ".from", message: "at most 64 items"},
		{name: "to 65 characters", change: first(func(p *v1alpha1.UpgradePath) { p.To = strings.Repeat("1", 65) }), field: field + ".to", message: "may not be more than 64"},
		{name: "128 paths", change: repeat(128)},
		{name: "129 paths", change: repeat(129), field: "spec.upgradePaths", message: "at most 128 items"},
	})
}

// versions are n different ones that validPaths does not name.
func versions(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("20.%d.1000", i)
	}
	return out
}

// TestDevicePathValidation: what the operator makes of the paths is bounded, and no hop comes without its image.
func TestDevicePathValidation(t *testing.T) {
	type change = validation[*v1alpha1.NodeDevice]
	first := func(change func(*v1alpha1.UpgradeStep)) func(*v1alpha1.NodeDevice) {
		return func(o *v1alpha1.NodeDevice) { change(&o.Spec.Firmware.Path[0]) }
	}
	repeat := func(n int) func(*v1alpha1.NodeDevice) {
		return func(o *v1alpha1.NodeDevice) {
			for len(o.Spec.Firmware.Path) < n {
				o.Spec.Firmware.Path = append(o.Spec.Firmware.Path, o.Spec.Firmware.Path[0])
			}
		}
	}
	const field = "spec.firmware.path[0]"
	checkCreate(t, func() *v1alpha1.NodeDevice {
		o := validDevice()
		o.Spec.Firmware.Path = []v1alpha1.UpgradeStep{
			{UpgradePath: v1alpha1.UpgradePath{To: "22.41.1000", From: []string{"22.36.1010"}, Via: "22.39.2048"}, Digest: digest},
			{UpgradePath: v1alpha1.UpgradePath{To: "22.41.1000", Below: "22.35.1012"}},
		}
		return o
	}, []change{
		{name: "a path", change: first(func(*v1alpha1.UpgradeStep) {})},
		{name: "via no image", change: first(func(s *v1alpha1.UpgradeStep) { s.Digest = "" }), field: field, message: "via needs the digest of its image"},
		{name: "an image of nothing", change: first(func(s *v1alpha1.UpgradeStep) { s.Via = "" }), field: field, message: "via needs the digest of its image"},
		{name: "from nowhere", change: first(func(s *v1alpha1.UpgradeStep) { s.From = nil }), field: field, message: "either from or below"},
		{name: "128 steps", change: repeat(128)},
		{name: "129 steps", change: repeat(129), field: "spec.firmware.path", message: "at most 128 items"},
	})
}
