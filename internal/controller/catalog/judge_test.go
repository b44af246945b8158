package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Whatever providers offer and devices run, the status stays within its bound, and what is left out is counted.
func TestTheStatusIsBounded(t *testing.T) {
	long := func(n, i int) string { s := fmt.Sprint(i); return s + strings.Repeat("x", n-len(s)) }
	var s v1alpha1.FirmwareCatalogStatus
	const kinds, runs, issues = 80, 30, 200
	for n := range kinds {
		k := kind{component: component{class: v1alpha1.ClassDisk, manufacturer: long(128, n), name: long(128, n), boardID: long(64, n)},
			format: inventory.FormatDotted, running: map[string]int32{}, names: map[string][]string{}}
		for i := range runs {
			k.running[fmt.Sprintf("1.%d", i)] = 1
			for device := range 2 * maxNames {
				k.note(fmt.Sprintf("1.%d", i), long(253, device))
			}
		}
		var from catalog.Offer
		for i := range 16 {
			from.Newest = append(from.Newest, catalog.Release{Version: fmt.Sprintf("2.%d", i), URL: long(1024, i), SHA256: long(64, i)})
		}
		for i := range issues {
			from.Issues = append(from.Issues, catalog.Issue{ID: long(64, i), MendedIn: []string{"2.0"}})
		}
		var o offers
		o.add(long(63, 1), from)
		c := judge(k, o, 16)
		assert.Equal(t, "2.15", c.Newest)
		count(&s, &c)
		s.Components = append(s.Components, c)
	}
	fit(&s)
	assert.LessOrEqual(t, size(s.Components), maxStatus)
	assert.NotEmpty(t, s.Components)
	assert.Equal(t, kinds, len(s.Components)+int(s.ComponentsNotListed))
	assert.Equal(t, []int32{kinds * runs, kinds * runs, kinds * runs}, []int32{s.Devices, s.DevicesBehind, s.DevicesVulnerable}, "the sums are of everything")
	for _, c := range s.Components {
		assert.Equal(t, issues, len(c.Issues)+int(c.IssuesNotListed))
		listed := c.RunningNotListed
		for _, r := range c.Running {
			listed += r.Devices
			assert.Equal(t, issues, len(r.Issues)+int(r.IssuesNotListed))
		}
		assert.Equal(t, int32(runs), listed)
	}
}

// Providers complete each other, and none takes back what an earlier one said.
func TestOffersOfProvidersAreMerged(t *testing.T) {
	var o offers
	o.add("a", catalog.Offer{Newest: []catalog.Release{{Version: "1.0", Source: "s", SHA256: "digest of the image"}},
		Issues: []catalog.Issue{{ID: "CVE-1", MendedIn: []string{"1.0"}}}})
	o.add("b", catalog.Offer{Newest: []catalog.Release{{Version: "1.1"}, {Version: "1.0", URL: "https://b/1.0", SHA256: "digest of b", Urgency: "high"}},
		Issues: []catalog.Issue{{ID: "CVE-1", MendedIn: []string{"1.0", "1.1"}, Has: []string{"0.9"}}}})
	c := judge(kind{format: inventory.FormatDotted, running: map[string]int32{"0.9": 2, "": 1}}, o, 5)
	assert.Equal(t, []v1alpha1.CatalogVersion{
		{Version: "1.1", Providers: []string{"b"}},
		{Version: "1.0", Providers: []string{"a", "b"}, Source: "s", URL: "https://b/1.0", SHA256: "digest of b", Urgency: "high"},
	}, c.Versions)
	assert.Equal(t, []v1alpha1.CatalogIssue{{ID: "CVE-1", MendedIn: []string{"1.0", "1.1"}, Affects: []string{"0.9"}, Devices: 2}}, c.Issues)
	assert.Equal(t, []v1alpha1.CatalogRunning{
		{Version: "0.9", Devices: 2, Position: v1alpha1.PositionBehind, Issues: []string{"CVE-1"}, MendedByNewest: []string{"CVE-1"}},
		{Version: "unknown", Devices: 1, Position: v1alpha1.PositionUnknown},
	}, c.Running)
}

// A few devices are named for each version that is behind or vulnerable, the same ones in whatever order the fleet is read.
func TestTheFirstDevicesOfAVersionAreNamed(t *testing.T) {
	devices := func(names ...string) []v1alpha1.NodeDevice {
		var out []v1alpha1.NodeDevice
		for _, n := range names {
			d := v1alpha1.NodeDevice{Status: v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC, Firmware: &v1alpha1.ObservedFirmware{Running: "1.0", VersionFormat: v1alpha1.VersionFormatDotted}}}
			d.Name = n
			out = append(out, d)
		}
		return out
	}
	for _, order := range [][]string{{"a", "b", "c", "d", "e", "f", "g"}, {"g", "f", "e", "d", "c", "b", "a"}, {"d", "g", "a", "e", "b", "f", "c"}} {
		all := tally{}
		all.add(devices(order[:4]...))
		all.add(devices(order[4:]...))
		for newest, want := range map[string][]string{"1.1": {"a", "b", "c", "d", "e"}, "1.0": nil} {
			var o offers
			o.add("p", catalog.Offer{Newest: []catalog.Release{{Version: newest}}})
			c := judge(all.kinds()[0], o, 5)
			assert.Equal(t, int32(7), c.Running[0].Devices)
			assert.Equal(t, want, c.Running[0].NodeDevices)
		}
	}
}
