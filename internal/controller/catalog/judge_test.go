package catalog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Whatever providers offer and devices run, the status stays within its bound, and what is left out is counted.
func TestTheStatusIsBounded(t *testing.T) {
	long := func(n, i int) string { s := fmt.Sprint(i); return s + strings.Repeat("x", n-len(s)) }
	var s v1alpha1.FirmwareCatalogStatus
	const kinds, runs, issues = 80, 30, 200
	for n := range kinds {
		k := kind{ComponentKey: component{Class: v1alpha1.ClassDisk, Vendor: long(128, n), Model: long(128, n), BoardID: long(64, n)},
			format: inventory.FormatDotted, running: map[string]int32{}}
		for i := range runs {
			k.running[fmt.Sprintf("1.%d", i)] = 1
		}
		var from catalog.Offer
		for i := range 16 {
			from.Decimal = append(from.Decimal, catalog.Release{Version: fmt.Sprintf("2.%d", i), URL: long(1024, i), Digest: inventory.Digest{1}})
		}
		for i := range issues {
			from.Issues = append(from.Issues, catalog.Issue{ID: long(64, i), FixedIn: []string{"2.0"}})
		}
		var o offers
		o.add(long(63, 1), from)
		c := judge(k, o, 16, nil)
		assert.Equal(t, "2.15", c.Versions[0].Version)
		count(&s, &c)
		s.Components = append(s.Components, c)
	}
	left := fit(&s)
	assert.LessOrEqual(t, v1alpha1.SizeOf(s.Components), maxStatus)
	assert.NotEmpty(t, s.Components)
	assert.Equal(t, kinds, len(s.Components)+left.Components)
	assert.Equal(t, kinds*(runs-maxRunning), left.Versions)
	assert.Positive(t, left.Issues)
	assert.Equal(t, v1alpha1.CatalogDevices{Total: kinds * runs, Behind: kinds * runs, Vulnerable: new(int32(kinds * runs))}, s.Devices, "the sums are of everything")
}

// Providers complete each other, and none takes back what an earlier one said.
func TestOffersOfProvidersAreMerged(t *testing.T) {
	var o offers
	o.add("a", catalog.Offer{Decimal: []catalog.Release{{Version: "1.0", Source: "s", Digest: inventory.Digest{1}}},
		Issues: []catalog.Issue{{ID: "CVE-1", FixedIn: []string{"1.0"}}}})
	o.add("b", catalog.Offer{Decimal: []catalog.Release{{Version: "1.1"}, {Version: "1.0", URL: "https://b/1.0", Digest: inventory.Digest{2}}},
		Issues: []catalog.Issue{{ID: "CVE-1", FixedIn: []string{"1.0", "1.1"}, Has: []string{"0.9"}}}})
	c := judge(kind{format: inventory.FormatDotted, running: map[string]int32{"0.9": 2, "": 1}}, o, 5, nil)
	assert.Equal(t, []v1alpha1.CatalogVersion{
		{Version: "1.1", Provider: "b"},
		{Version: "1.0", Provider: "b", Source: "s", URL: "https://b/1.0", Digest: v1alpha1.Digest(inventory.Digest{2}.String())},
	}, c.Versions)
	assert.Equal(t, []v1alpha1.CatalogRunning{
		{Version: "0.9", Devices: 2, Position: v1alpha1.PositionBehind, Issues: []string{"CVE-1"}, FixedIn: "1.0"},
		{Version: "unknown", Devices: 1, Position: v1alpha1.PositionUnknown},
	}, c.Running)
}

// A fix that the upgrade paths of its source forbid is none; one that is reached by way of another version is.
func TestFixIsReached(t *testing.T) {
	var o offers
	o.add("sources", catalog.Offer{Decimal: []catalog.Release{{Version: "1.3", Source: "s"}, {Version: "1.2", Source: "s"}, {Version: "1.1", Source: "s"}},
		Issues: []catalog.Issue{{ID: "CVE-1", FixedIn: []string{"1.1"}}}})
	for want, list := range map[string][]v1alpha1.UpgradePath{
		"1.1": nil,
		"1.2": {{To: "1.1", From: []string{"1.0"}}, {To: "1.2", From: []string{"1.0"}, Via: "0.9"}},
		"1.3": {{To: "1.1", From: []string{"1.0"}}, {To: "1.2", Below: "1.1"}},
		"":    {{To: "1.1", From: []string{"1.0"}}, {To: "1.2", Below: "1.1"}, {To: "1.3", From: []string{"1.0"}, Via: "1.2"}},
	} {
		c := judge(kind{format: inventory.FormatDotted, running: map[string]int32{"1.0": 1}}, o, 5, map[string]*match.Paths{"s": match.NewPaths(list, "s")})
		assert.Equal(t, want, c.Running[0].FixedIn)
	}
}

// What the status said is completed, and never made better than what is known now.
func TestWhatIsRememberedCompletesARunningVersion(t *testing.T) {
	type run = v1alpha1.CatalogRunning
	for name, c := range map[string]struct{ was, is, want run }{
		"nothing before": {run{}, run{Issues: []string{"a"}, FixedIn: "1.1"}, run{Issues: []string{"a"}, FixedIn: "1.1"}},
		"nothing now":    {run{Issues: []string{"a"}, FixedIn: "1.1"}, run{}, run{Issues: []string{"a"}, FixedIn: "1.1"}},
		"the same":       {run{Issues: []string{"a"}}, run{Issues: []string{"a"}, FixedIn: "1.1"}, run{Issues: []string{"a"}, FixedIn: "1.1"}},
		"a later fix":    {run{Issues: []string{"b"}, FixedIn: "1.2"}, run{Issues: []string{"a"}, FixedIn: "1.1"}, run{Issues: []string{"a", "b"}, FixedIn: "1.2"}},
		"an earlier fix": {run{Issues: []string{"b"}, FixedIn: "1.0"}, run{Issues: []string{"a"}, FixedIn: "1.1"}, run{Issues: []string{"a", "b"}, FixedIn: "1.1"}},
		"no fix before":  {run{Issues: []string{"b"}}, run{Issues: []string{"a"}, FixedIn: "1.1"}, run{Issues: []string{"a", "b"}}},
		"no fix for it":  {run{Issues: []string{"b"}, FixedIn: "1.0"}, run{Issues: []string{"a"}}, run{Issues: []string{"a", "b"}}},
	} {
		got := c.is
		offers{before: []run{c.was}}.complete(&got)
		assert.Equal(t, c.want, got, name)
	}
}
