package catalog_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// The GUIDs are computed outside of the product: uuid.uuid5(uuid.NAMESPACE_DNS, id) of Python.
const (
	guidPCI  = "b8c9a67d-bfce-5dc6-ac14-f6c87e1682d9" // PCI\VEN_15B3&DEV_101D
	guidNVMe = "ca7a0429-cd2a-5f6a-b2d8-c92140a54551" // NVME\VEN_144D&DEV_A824
)

func TestDevicesHaveTheGUIDsThatFwupdGivesThem(t *testing.T) {
	q := r650()
	assert.Equal(t, []string{"e5cb0fb5-9c71-4e5e-9c2a-000000000001"}, q.Components[bios].GUIDs(), "the ESRT's own")
	assert.Equal(t, []string{guidPCI, guidBoard}, q.Components[nic].GUIDs(), "those of the chip and of the board; a PSID is no GUID")
	assert.Contains(t, q.Components[disk].GUIDs(), guidNVMe)
	assert.Empty(t, catalog.Component{Class: "NIC"}.GUIDs())
}

// R000-21: versions, with the vulnerabilities that they fix.
func TestLVFSOffersTheReleasesOfTheDevicesByGUID(t *testing.T) {
	c := collect(t, catalog.LVFS{Metadata: strings.NewReader(lvfs(
		component("00000000-0000-0000-0000-000000000001", "triplet", release("9.9.9", "CVE-2026-9")),
		component(strings.ToUpper(guidPCI), "triplet", release("22.9.1", "CVE-2026-1"), release("22.10.0"), release("22.8.0", "CVE-2026-1", "CVE-2026-2")),
		component(guidNVMe, "plain", release("GDC7302Q"), release("GDC5602Q", "CVE-2026-3")),
		`<component type="desktop"><provides><firmware type="flashed">`+guidPCI+`</firmware></provides><releases><release version="1.0.0"/></releases></component>`,
	))}, 5)
	assert.Equal(t, []string{"22.10.0", "22.9.1", "22.8.0"}, versions(c.Offers[nic], nic), "newest first, because the format is declared")
	assert.Equal(t, []string{"GDC7302Q", "GDC5602Q"}, versions(c.Offers[disk], disk), "in the order of the provider")
	assert.Empty(t, c.Offers[bios].First)
	assert.Equal(t, []catalog.Issue{
		{ID: "CVE-2026-1", FixedIn: []string{"22.8.0", "22.9.1"}}, {ID: "CVE-2026-2", FixedIn: []string{"22.8.0"}},
	}, c.Offers[nic].Issues)
	r := c.Offers[nic].Decimal[0]
	assert.Equal(t, "https://fw.example.com/22.10.0.cab", r.URL)
	assert.Equal(t, "sha256:"+strings.Repeat("0", 63)+"2", r.Digest.String(), "of the file, not of what is in it")
}

// The service signs its metadata with its own addresses; a mirror has the same files in one directory.
func TestFilesOfAMirrorAreFoundThere(t *testing.T) {
	for location, want := range map[string]string{
		"https://fwupd.org/downloads/abc-x.cab": "https://mirror.example.com/lvfs/abc-x.cab",
		"abc-x.cab":                             "https://mirror.example.com/lvfs/abc-x.cab",
		"https://fwupd.org/downloads/":          "https://fwupd.org/downloads/",
		"https://fwupd.org/downloads/..":        "https://fwupd.org/downloads/..",
	} {
		for _, base := range []string{"https://mirror.example.com/lvfs", "https://mirror.example.com/lvfs/"} {
			text := strings.ReplaceAll(lvfs(component(guidPCI, "triplet", release("22.10.0"))), "https://fw.example.com/22.10.0.cab", location)
			o := collect(t, catalog.LVFS{Metadata: strings.NewReader(text), Base: base}, 5).Offers[nic]
			assert.Equal(t, want, o.Decimal[0].URL)
		}
	}
}

// A version of a format has its number of sections, or is the undivided number that the firmware keeps. The numbers and what they mean are
// examples of fwupd's own.
func TestReadsVersionsOfLVFSByTheirFormat(t *testing.T) {
	for _, c := range []struct{ format, version, want, older string }{
		{"number", "12", "12", "9"},
		{"pair", "0x00010002", "1.2", "1.1"}, {"pair", "1.10", "1.10", "1.9"},
		{"triplet", "16908800", "1.2.512", "1.2.6"}, {"triplet", "22.10.0", "22.10.0", "22.9.1"},
		{"quad", "0xff010005", "255.1.0.5", "255.1.0.4"}, {"quad", "1.2.3.10", "1.2.3.10", "1.2.3.9"},
		{"bcd", "0x12345678", "12.34.56.78", "12.34.9.1"}, {"bcd", "1.10", "1.10", "1.9"},
		{"intel-me", "0x0b32057a", "11.11.50.1402", "11.11.6.1402"}, {"intel-me", "11.8.50.3460", "11.8.50.3460", "11.8.9.9"},
		{"intel-me2", "0xb8320d84", "11.8.50.3460", "11.8.6.3460"},
		{"intel-csme19", "0x00000741", "19.0.0.1857", "19.0.0.999"},
		{"surface-legacy", "0x226a4b00", "137.2706.768", "137.999.768"},
		{"surface", "0x6001988", "6.25.136", "6.9.136"},
		{"dell-bios", "0x00ff0001", "255.0.1", "9.0.1"}, {"dell-bios", "1.15.2", "1.15.2", "1.9.3"},
		{"dell-bios-msb", "0x010f0201", "1.15.2", "1.9.2"}, {"dell-bios-msb", "1.15.2", "1.15.2", "1.9.2"},
		{"hex", "0x000000c8", "0x000000c8", "0x9"},
		{"compal-bios", "01.1A", "01.1A", "01.09"}, {"compal-bios", "282", "01.1a", "01.09"},
	} {
		is := inLVFS(t, c.format, c.version, c.older)
		assert.Equal(t, []string{c.want, c.older}, is, "%+v", c)
		is = inLVFS(t, c.format, c.older, c.version)
		assert.Equal(t, []string{c.want, c.older}, is, "%+v", c)
	}
	for _, c := range []struct{ format, version string }{
		{"plain", "2.0"}, {"unheard-of", "2.0.0"}, {"triplet", "2.0"}, {"quad", "2.0.0"}, {"dell-bios", "2.0"}, {"hex", "2.0"}, {"hex", "xyz"},
		{"triplet", "A.0.0"}, {"triplet", "20260131"}, {"number", "2.0"}, {"intel-me", "2.0.0"}, {"triplet", "4294967296"}, {"triplet", "0"},
	} {
		assert.Equal(t, []string{"odd", c.version}, inLVFS(t, c.format, "odd", c.version), "%+v is text, and listed as it comes", c)
	}
	assert.Equal(t, []string{"1.9", "1.10"}, inLVFS(t, "", "1.9", "1.10"), "no format is declared, and the driver of a BIOS declares none here")
}

// inLVFS lists two versions of the BIOS as a catalog does.
func inLVFS(t *testing.T, format string, versionsOf ...string) []string {
	t.Helper()
	var list []string
	for _, v := range versionsOf {
		list = append(list, release(v))
	}
	return versions(collect(t, catalog.LVFS{Metadata: strings.NewReader(lvfs(component("e5cb0fb5-9c71-4e5e-9c2a-000000000001", format, list...)))}, 5).Offers[bios], bios)
}

func affects(i catalog.Issue, running string, spelled catalog.Spelling) bool {
	affected, _ := i.Affects(running, spelled)
	return affected
}

// Vulnerabilities count in each format: a Dell BIOS that is older than the one that fixes it is affected.
func TestIssuesCountInVendorFormat(t *testing.T) {
	metadata := lvfs(component("e5cb0fb5-9c71-4e5e-9c2a-000000000001", "dell-bios", release("1.10.2", "CVE-2026-1"), release("1.9.2")))
	o := collect(t, catalog.LVFS{Metadata: strings.NewReader(metadata)}, 5).Offers[bios]
	spelled := catalog.SpellingOf(inventory.FormatPlain, o.Declared)
	require.Len(t, o.Issues, 1)
	assert.True(t, affects(o.Issues[0], "1.9.2", spelled))
	assert.False(t, affects(o.Issues[0], "1.11.0", spelled))
	text := lvfs(component("e5cb0fb5-9c71-4e5e-9c2a-000000000001", "plain", release("1.10.2", "CVE-2026-1")))
	o = collect(t, catalog.LVFS{Metadata: strings.NewReader(text)}, 5).Offers[bios]
	assert.False(t, affects(o.Issues[0], "1.9.2", catalog.Decimal), "text is not older than anything")
	assert.True(t, o.Issues[0].FixedBy("1.10.2", catalog.Decimal))
}

// R000-22: five found, three kept, and what the others fix is not forgotten.
func TestKeepsNoMoreThanAskedFor(t *testing.T) {
	metadata := lvfs(component(guidPCI, "triplet", release("1.0.1", "CVE-2026-1"), release("1.0.5"), release("1.0.2"), release("1.0.4"), release("1.0.3")))
	c := collect(t, catalog.LVFS{Metadata: strings.NewReader(metadata)}, 3)
	assert.Equal(t, []string{"1.0.5", "1.0.4", "1.0.3"}, versions(c.Offers[nic], nic))
	require.Len(t, c.Offers[nic].Issues, 1)
	assert.True(t, affects(c.Offers[nic].Issues[0], "1.0.0", catalog.Decimal))
	assert.Equal(t, "1.0.1", c.Offers[nic].Fixing[0].Version, "it is offered, and fixes something")
}

func TestBadXMLIsRefusedByItsReason(t *testing.T) {
	laughs := `<!DOCTYPE c [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>`
	for name, c := range map[string]struct {
		text string
		want catalog.Reason
	}{
		"nothing":                   {"", catalog.InvalidCatalog},
		"an error page":             {"<html><body>404</body></html>", catalog.InvalidCatalog},
		"no XML":                    {"not found", catalog.InvalidCatalog},
		"broken off":                {lvfs(component(guidPCI, "triplet", release("1.0.0")))[:300], catalog.InvalidCatalog},
		"tags that do not match":    {"<components><component></components>", catalog.InvalidCatalog},
		"entity expansion":          {laughs + "<components>&b;</components>", catalog.InvalidCatalog},
		"an external entity":        {`<!DOCTYPE c [<!ENTITY x SYSTEM "file:///etc/passwd">]><components>&x;</components>`, catalog.InvalidCatalog},
		"an entity of nobody":       {"<components>&b;</components>", catalog.InvalidCatalog},
		"a document type alone":     {`<!DOCTYPE components SYSTEM "https://example.com/x.dtd"><components/>`, catalog.InvalidCatalog},
		"another encoding":          {`<?xml version="1.0" encoding="latin1"?><components/>`, catalog.InvalidCatalog},
		"bytes that are not UTF-8":  {"<components>\xff</components>", catalog.InvalidCatalog},
		"elements nested very deep": {"<components>" + strings.Repeat("<component>", 100_000), catalog.InvalidCatalog},
		"one huge text":             {"<components><component><id>" + strings.Repeat("x", 2<<20), catalog.InvalidCatalog},
		"one huge tag":              {"<components><component a=\"" + strings.Repeat("x", 2<<20), catalog.InvalidCatalog},
		"one huge comment":          {"<components><!--" + strings.Repeat("x", 2<<20), catalog.InvalidCatalog},
		"releases without end":      {lvfs(component(guidPCI, "triplet", strings.Repeat(`<release version="1.0.0"/>`, 5000))), catalog.InvalidCatalog},
		"issues without end":        {lvfs(component(guidPCI, "triplet", release("1.0.0", strings.Fields(strings.Repeat("CVE-2026-1 ", 300_000))...))), catalog.InvalidCatalog},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, refused(t, catalog.LVFS{Metadata: strings.NewReader(c.text)}))
		})
	}
	t.Run("a connection that breaks", func(t *testing.T) {
		assert.Equal(t, catalog.DownloadFailed, refused(t, catalog.LVFS{Metadata: brokenOff("<components><component>")}))
	})
	t.Run("without end", func(t *testing.T) {
		p := catalog.LVFS{Metadata: &forever{head: "<components>", body: "<component></component>"}, Limits: catalog.Limits{Bytes: 1 << 20}}
		assert.Equal(t, catalog.InvalidCatalog, refused(t, p))
		p = catalog.LVFS{Metadata: &forever{head: "<components>", body: "<component></component>"}, Limits: catalog.Limits{Entries: 1000}}
		assert.Equal(t, catalog.InvalidCatalog, refused(t, p))
	})
	t.Run("cancelled", func(t *testing.T) {
		_, err := catalog.Collect(cancelled(), catalog.LVFS{Metadata: &forever{head: "<components>", body: "<component></component>"}}, r650(), 5)
		require.ErrorContains(t, err, "canceled")
	})
}

// Texts that a terminal or a table could not show are left out.
func TestTextsOfProvidersAreBounded(t *testing.T) {
	metadata := lvfs(component(guidPCI, "triplet", release("1.0.&#x1b;"), release(strings.Repeat("1", 65)), release("1.0.1", "CVE-\u202e1", strings.Repeat("C", 65), "CVE-2026-1")))
	c := collect(t, catalog.LVFS{Metadata: strings.NewReader(strings.ReplaceAll(metadata, "&#x1b;", "\u00e4"))}, 5)
	assert.Equal(t, []string{"1.0.1"}, versions(c.Offers[nic], nic))
	assert.Equal(t, []catalog.Issue{{ID: "CVE-2026-1", FixedIn: []string{"1.0.1"}}}, c.Offers[nic].Issues)
}

func FuzzLVFS(f *testing.F) {
	f.Add(lvfs(component(guidPCI, "triplet", release("1.0.0", "CVE-2026-1"))))
	f.Add(utf16le(lvfs()))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := catalog.Collect(t.Context(), catalog.LVFS{Metadata: strings.NewReader(text)}, r650(), 3)
		if err != nil {
			assert.Empty(t, c)
			return
		}
		for _, o := range c.Offers {
			assert.LessOrEqual(t, len(o.First), 3)
		}
	})
}
