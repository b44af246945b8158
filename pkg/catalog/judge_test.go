package catalog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestPlacesWhatItCanRead(t *testing.T) {
	for _, c := range []struct {
		running, newest string
		spelled         catalog.Spelling
		want            catalog.Position
	}{
		{"22.9", "22.10", catalog.Decimal, catalog.Behind},
		{"22.10", "22.10.0", catalog.Decimal, catalog.Newest},
		{"22.11", "22.10", catalog.Decimal, catalog.Ahead},
		{"22.9", "22.10", catalog.Text, catalog.Unknown},
		{"22.9-rc1", "22.10", catalog.Decimal, catalog.Unknown},
		{"", "22.10", catalog.Decimal, catalog.Unknown},
		{"22.9", "", catalog.Decimal, catalog.Unknown},
		{"0x9", "0x00a0", catalog.Hexadecimal, catalog.Behind},
		{"0a.10", "A.0F", catalog.Hexadecimal, catalog.Ahead},
		{"0xa0", "a0", catalog.Hexadecimal, catalog.Newest},
		{"0xg0", "a0", catalog.Hexadecimal, catalog.Unknown},
		{"GDC7", "GDC7", catalog.Text, catalog.Unknown},
	} {
		assert.Equal(t, c.want, catalog.Place(c.running, c.newest, c.spelled), "%+v", c)
	}
}

func TestAVulnerabilityIsKnownWhereAProviderSaysSoOrOrderDoes(t *testing.T) {
	type answer struct{ affected, known bool }
	yes, no, nobodyKnows := answer{true, true}, answer{false, true}, answer{}
	i := catalog.Issue{ID: "CVE-2026-1", FixedIn: []string{"1.5", "2.1"}, FixedInText: []string{"R5"}, Has: []string{"1.2", "odd"}}
	for _, c := range []struct {
		running string
		spelled catalog.Spelling
		want    answer
	}{
		{"1.4", catalog.Decimal, yes}, {"1.4", catalog.Text, nobodyKnows}, {"1.5", catalog.Decimal, no}, {"1.5", catalog.Text, no}, {"2.1", catalog.Text, no},
		{"3.0", catalog.Decimal, no}, {"3.0", catalog.Text, nobodyKnows}, {"R5", catalog.Decimal, no}, {"R4", catalog.Decimal, nobodyKnows},
		{"1.5.0", catalog.Decimal, no}, {"2.0", catalog.Decimal, nobodyKnows}, // of the second branch before it was fixed, or of one that never had it
		{"1.2", catalog.Text, yes}, {"odd", catalog.Decimal, yes}, {"other", catalog.Decimal, nobodyKnows}, {"", catalog.Decimal, nobodyKnows},
	} {
		affected, known := i.Affects(c.running, c.spelled)
		assert.Equal(t, c.want, answer{affected, known}, "%+v", c)
	}
	_, known := catalog.Issue{Has: []string{"1.2"}}.Affects("1.1", catalog.Decimal)
	assert.False(t, known, "what has it says nothing about other versions")
	doubted := catalog.Issue{InDoubt: []string{"1.5"}}
	for running, want := range map[string]answer{"1.4": nobodyKnows, "1.5": no, "1.6": no} {
		affected, known := doubted.Affects(running, catalog.Decimal)
		assert.Equal(t, want, answer{affected, known}, "if it is not of this device, then neither; if it is, it is fixed from 1.5 on: %s", running)
	}
}

func TestAVersionFixesWhatAProviderSaysOrOrderDoes(t *testing.T) {
	i := catalog.Issue{ID: "CVE-2026-1", FixedIn: []string{"1.5", "2.1"}, Has: []string{"3.1"}}
	for _, c := range []struct {
		version string
		spelled catalog.Spelling
		want    bool
	}{
		{"1.5", catalog.Text, true}, {"2.1", catalog.Decimal, true}, {"2.2", catalog.Decimal, true}, {"2.2", catalog.Text, false}, {"2.0", catalog.Decimal, false}, {"1.4", catalog.Decimal, false},
		{"3.1", catalog.Decimal, false}, {"odd", catalog.Decimal, false}, {"", catalog.Decimal, false},
	} {
		assert.Equal(t, c.want, i.FixedBy(c.version, c.spelled), "%+v", c)
	}
	assert.False(t, catalog.Issue{Has: []string{"1.2"}}.FixedBy("1.3", catalog.Decimal), "nobody says that it is fixed")
}

// A version that cannot be read, or that its provider declares to be text, is alone without an order.
func TestUnreadableVersionStandsAlone(t *testing.T) {
	decimal, plain := `"Dotted"`, `"Plain"`
	for name, c := range map[string]struct {
		entries []string // version, format; version, format ...
		driver  inventory.VersionFormat
		want    []string
	}{
		"a provider declares it":         {[]string{"1.9", `""`, "1.10", decimal}, inventory.FormatPlain, []string{"1.10", "1.9"}},
		"the driver declares it":         {[]string{"1.9", `""`, "1.10", `""`}, inventory.FormatDotted, []string{"1.10", "1.9"}},
		"nobody declares it":             {[]string{"1.9", `""`, "1.10", `""`}, inventory.FormatPlain, []string{"1.9", "1.10"}},
		"one is declared to be text":     {[]string{"1.8", `""`, "1.11", plain, "1.9", `""`}, inventory.FormatDotted, []string{"1.9", "1.8", "1.11"}},
		"one does not follow":            {[]string{"B", decimal, "1.9", decimal, "1.10", decimal}, inventory.FormatDotted, []string{"1.10", "1.9", "B"}},
		"all are declared to be text":    {[]string{"1.9", plain, "1.10", plain}, inventory.FormatDotted, []string{"1.9", "1.10"}},
		"nothing is offered":             {nil, inventory.FormatDotted, nil},
		"one beyond those that are kept": {[]string{"1.1", `""`, "1.2", `""`, "1.3", `""`, "B", `""`}, inventory.FormatDotted, []string{"1.3", "1.2", "1.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var entries []string
			for i := 0; i < len(c.entries); i += 2 {
				entries = append(entries, `{"class":"BIOS","version":"`+c.entries[i]+`","versionFormat":`+c.entries[i+1]+`}`)
			}
			got, err := catalog.Collect(t.Context(), catalog.Index{JSON: strings.NewReader(index(entries...))}, r650(), 3)
			require.NoError(t, err)
			o := got.Offers[bios]
			spelled := catalog.SpellingOf(c.driver, o.Declared)
			list := o.Versions(spelled)
			catalog.Sort(list, spelled)
			var is []string
			for _, r := range list {
				is = append(is, r.Version)
			}
			assert.Equal(t, c.want, is)
		})
	}
}

func TestTheNearestFixIsFound(t *testing.T) {
	reachable := []catalog.Release{{Version: "1.4"}, {Version: "1.6"}, {Version: "1.7"}, {Version: "1.9"}}
	first, second := catalog.Issue{ID: "a", FixedIn: []string{"1.5"}}, catalog.Issue{ID: "b", FixedIn: []string{"1.6"}, Has: []string{"1.7"}}
	for _, c := range []struct {
		issues []catalog.Issue
		want   string
	}{
		{[]catalog.Issue{first}, "1.6"}, {[]catalog.Issue{first, second}, "1.6"}, {[]catalog.Issue{{ID: "c", FixedIn: []string{"1.8"}}}, "1.9"},
		{[]catalog.Issue{{ID: "c", Has: []string{"1.3"}}}, ""}, {[]catalog.Issue{{ID: "c", FixedIn: []string{"2.0"}}}, ""},
	} {
		assert.Equal(t, c.want, catalog.NearestFix(c.issues, reachable, catalog.Decimal), "%+v", c)
	}
}

// A list that was cut says nothing of the versions beside it: one that is newer than what was kept may be older than what was left out, or be
// listed as having it.
func TestWhatWasCutIsNotNone(t *testing.T) {
	type answer struct{ affected, known bool }
	yes, no, nobodyKnows := answer{true, true}, answer{false, true}, answer{}
	entry := func(version, format, list, issue string) string {
		return fmt.Sprintf(`{"class":"BIOS","version":%q,"versionFormat":%q,%q:[%q]}`, version, format, list, issue)
	}
	var ordered, text, have, many []string
	for i := range 20 {
		ordered = append(ordered, entry(fmt.Sprintf("%d.5", i+1), "Dotted", "fixes", "a"))
		text = append(text, entry(fmt.Sprintf("%d.5", i+1), "Plain", "fixes", "a"))
		have = append(have, entry(fmt.Sprintf("3.%d", i), "Dotted", "has", "a"))
	}
	for i := range 300 {
		many = append(many, fmt.Sprintf(`"CVE-%d"`, i))
	}
	collectBIOS := func(entries ...string) catalog.Offer {
		got, err := catalog.Collect(t.Context(), catalog.Index{JSON: strings.NewReader(index(entries...))}, r650(), 3)
		require.NoError(t, err)
		return got.Offers[bios]
	}
	fixedByOne := entry("2.5", "Dotted", "fixes", "a")
	for name, c := range map[string]struct {
		entries []string
		want    map[string]answer
	}{
		"branches":                   {ordered, map[string]answer{"1.4": yes, "1.5": no, "12.4": nobodyKnows, "12.5": nobodyKnows, "20.4": nobodyKnows, "20.5": no, "21.0": no}},
		"branches, the newest first": {reversed(ordered), map[string]answer{"1.4": yes, "12.4": nobodyKnows, "20.5": no, "21.0": no}},
		"text":                       {append(text, fixedByOne), map[string]answer{"1.5": no, "2.5": no, "2.4": nobodyKnows, "19.5": nobodyKnows, "20.5": no}},
		"what has it":                {append(have, fixedByOne), map[string]answer{"2.4": yes, "3.19": yes, "3.0": nobodyKnows, "4.0": no, "2.5": no}},
	} {
		t.Run(name, func(t *testing.T) {
			o := collectBIOS(c.entries...)
			require.Len(t, o.Issues, 1)
			for running, want := range c.want {
				affected, known := o.Issues[0].Affects(running, catalog.Decimal)
				assert.Equal(t, want, answer{affected, known}, running)
				if want != no {
					assert.False(t, o.Issues[0].FixedBy(running, catalog.Decimal), running)
				}
			}
		})
	}
	o := collectBIOS(fmt.Sprintf(`{"class":"BIOS","version":"1.0","fixes":[%s]}`, strings.Join(many, ",")))
	assert.Equal(t, 300, len(o.Issues)+o.IssuesLeftOut, "those of one release beyond the bound are counted")
}

func reversed(list []string) []string {
	out := slices.Clone(list)
	slices.Reverse(out)
	return out
}
