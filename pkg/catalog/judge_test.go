package catalog_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestPlaceComparesOnlyOrdered(t *testing.T) {
	for _, c := range []struct {
		running, newest string
		dotted          bool
		want            catalog.Position
	}{
		{"22.9", "22.10", true, catalog.Behind},
		{"22.10", "22.10.0", true, catalog.Newest},
		{"22.11", "22.10", true, catalog.Ahead},
		{"22.9", "22.10", false, catalog.Unknown},
		{"22.9-rc1", "22.10", true, catalog.Unknown},
		{"", "22.10", true, catalog.Unknown},
		{"22.9", "", true, catalog.Unknown},
	} {
		assert.Equal(t, c.want, catalog.Place(c.running, c.newest, c.dotted), "%+v", c)
	}
}

func TestAVulnerabilityIsKnownWhereAProviderSaysSoOrOrderDoes(t *testing.T) {
	i := catalog.Issue{ID: "CVE-2026-1", FixedIn: []string{"1.5", "2.1"}, Has: []string{"1.2", "odd"}}
	for _, c := range []struct {
		running string
		dotted  bool
		want    bool
	}{
		{"1.4", true, true}, {"1.4", false, false}, {"1.5", true, false}, {"1.5.0", true, false}, {"2.1", false, false}, {"3.0", true, false},
		{"2.0", true, false}, // of the second branch before it was fixed, or of one that never had it: not known
		{"1.2", false, true}, {"odd", true, true}, {"other", true, false}, {"", true, false},
	} {
		assert.Equal(t, c.want, i.Affects(c.running, c.dotted), "%+v", c)
	}
	assert.False(t, catalog.Issue{Has: []string{"1.2"}}.Affects("1.1", true), "what has it says nothing about older versions")
}

func TestAVersionFixesWhatAProviderSaysOrOrderDoes(t *testing.T) {
	i := catalog.Issue{ID: "CVE-2026-1", FixedIn: []string{"1.5", "2.1"}, Has: []string{"3.1"}}
	for _, c := range []struct {
		version string
		dotted  bool
		want    bool
	}{
		{"1.5", false, true}, {"2.1", true, true}, {"2.2", true, true}, {"2.2", false, false}, {"2.0", true, false}, {"1.4", true, false},
		{"3.1", true, false}, {"odd", true, false}, {"", true, false},
	} {
		assert.Equal(t, c.want, i.FixedBy(c.version, c.dotted), "%+v", c)
	}
	assert.False(t, catalog.Issue{Has: []string{"1.2"}}.FixedBy("1.3", true), "nobody says that it is fixed")
}

// Every version of a provider counts, also those that are not kept.
func TestVersionsAreOrderedWhereTheirFormatIsDeclaredAndNobodyContradicts(t *testing.T) {
	dotted, plain := `"Dotted"`, `"Plain"`
	for name, c := range map[string]struct {
		providers [][]string // version, format; version, format ...
		driver    inventory.VersionFormat
		want      bool
	}{
		"a provider declares it":                {[][]string{{"1.9", `""`, "1.10", dotted}}, inventory.FormatPlain, true},
		"the driver declares it":                {[][]string{{"1.9", `""`, "1.10", `""`}}, inventory.FormatDotted, true},
		"nobody declares it":                    {[][]string{{"1.9", `""`, "1.10", `""`}}, inventory.FormatPlain, false},
		"the provider contradicts itself":       {[][]string{{"1.9", plain, "1.10", dotted}}, inventory.FormatDotted, false},
		"a version does not follow":             {[][]string{{"1.9", dotted, "B", dotted}}, inventory.FormatDotted, false},
		"a version that is not kept":            {[][]string{{"1.9", dotted, "1.10", dotted, "1.11", dotted, "B", dotted}}, inventory.FormatDotted, false},
		"another provider contradicts":          {[][]string{{"1.9", dotted}, {"1.9", plain}}, inventory.FormatDotted, false},
		"another provider has an odd version":   {[][]string{{"1.9", dotted}, {"B", `""`}}, inventory.FormatDotted, false},
		"a provider that offers nothing is one": {[][]string{{"1.9", dotted}, {}}, inventory.FormatPlain, true},
	} {
		t.Run(name, func(t *testing.T) {
			var order catalog.Order
			for _, p := range c.providers {
				var entries []string
				for i := 0; i < len(p); i += 2 {
					entries = append(entries, `{"class":"BIOS","version":"`+p[i]+`","versionFormat":`+p[i+1]+`}`)
				}
				got, err := catalog.Collect(t.Context(), catalog.Index{JSON: strings.NewReader(index(entries...))}, r650(), 2)
				require.NoError(t, err)
				order.Add(got.Offers[bios].Order)
			}
			assert.Equal(t, c.want, order.Holds(c.driver))
		})
	}
}

func TestTheNearestFixIsFound(t *testing.T) {
	offered := []catalog.Release{{Version: "1.9"}, {Version: "1.7"}, {Version: "1.6"}, {Version: "1.4"}, {Version: "odd"}}
	first, second := catalog.Issue{ID: "a", FixedIn: []string{"1.5"}}, catalog.Issue{ID: "b", FixedIn: []string{"1.6"}, Has: []string{"1.7"}}
	for _, c := range []struct {
		running string
		issues  []catalog.Issue
		want    string
	}{
		{"1.3", []catalog.Issue{first}, "1.5"}, {"1.3", []catalog.Issue{first, second}, "1.6"}, {"1.6.1", []catalog.Issue{second}, "1.9"},
		{"1.3", []catalog.Issue{{ID: "c", Has: []string{"1.3"}}}, ""}, {"2.0", []catalog.Issue{first}, ""}, {"odd", []catalog.Issue{first}, ""},
	} {
		assert.Equal(t, c.want, catalog.NearestFix(c.running, c.issues, offered, func(string) bool { return true }), "%+v", c)
	}
}
