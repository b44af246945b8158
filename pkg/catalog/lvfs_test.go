package catalog_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
)

// The GUIDs are computed outside of the product: uuid.uuid5(uuid.NAMESPACE_DNS, id) of Python.
const (
	guidPCI  = "b8c9a67d-bfce-5dc6-ac14-f6c87e1682d9" // PCI\VEN_15B3&DEV_101D
	guidNVMe = "ca7a0429-cd2a-5f6a-b2d8-c92140a54551" // NVME\VEN_144D&DEV_A824
)

func TestDevicesHaveTheGUIDsThatFwupdGivesThem(t *testing.T) {
	q := r650()
	assert.Equal(t, []string{"e5cb0fb5-9c71-4e5e-9c2a-000000000001"}, q.Components[bios].GUIDs(), "the ESRT's own")
	assert.Equal(t, []string{guidPCI}, q.Components[nic].GUIDs(), "a PSID is no GUID")
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
	r := c.Offers[nic].Newest[0]
	assert.Equal(t, "https://fw.example.com/22.10.0.cab", r.URL)
	assert.Equal(t, "sha256:"+strings.Repeat("0", 63)+"2", r.Digest.String(), "of the file, not of what is in it")
}

// A version that does not follow the declared format is not ordered, and with it none of the component.
func TestLVFSVersionsAreOrderedOnlyInTheFormatThatIsDeclared(t *testing.T) {
	for name, c := range map[string]struct {
		format   string
		releases []string
		want     []string
	}{
		"quad":                 {"quad", []string{"1.2.3.9", "1.2.3.10"}, []string{"1.2.3.10", "1.2.3.9"}},
		"an undivided number":  {"triplet", []string{"16908800", "1.3.0"}, []string{"16908800", "1.3.0"}},
		"a format of a vendor": {"intel-me", []string{"1.9", "1.10"}, []string{"1.9", "1.10"}},
		"none":                 {"", []string{"1.9", "1.10"}, []string{"1.9", "1.10"}},
	} {
		t.Run(name, func(t *testing.T) {
			var list []string
			for _, v := range c.releases {
				list = append(list, release(v))
			}
			got := collect(t, catalog.LVFS{Metadata: strings.NewReader(lvfs(component("e5cb0fb5-9c71-4e5e-9c2a-000000000001", c.format, list...)))}, 5)
			assert.Equal(t, c.want, versions(got.Offers[bios], bios))
		})
	}
}

// R000-22: five found, three kept, and what the others fix is not forgotten.
func TestKeepsNoMoreThanAskedFor(t *testing.T) {
	metadata := lvfs(component(guidPCI, "triplet", release("1.0.1", "CVE-2026-1"), release("1.0.5"), release("1.0.2"), release("1.0.4"), release("1.0.3")))
	c := collect(t, catalog.LVFS{Metadata: strings.NewReader(metadata)}, 3)
	assert.Equal(t, []string{"1.0.5", "1.0.4", "1.0.3"}, versions(c.Offers[nic], nic))
	require.Len(t, c.Offers[nic].Issues, 1)
	assert.True(t, c.Offers[nic].Issues[0].Affects("1.0.0", true))
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
