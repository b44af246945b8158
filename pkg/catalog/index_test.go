package catalog_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func index(entries ...string) string {
	return `{"schema": "nodefirmware.io/catalog/v1", "versions": [` + strings.Join(entries, ",") + `]}`
}

func TestIndexLimitsItsVersions(t *testing.T) {
	c := collect(t, catalog.Index{JSON: strings.NewReader(index(
		`{"class":"NIC","vendor":"15B3","models":["101d"],"boardIDs":[" mt_0000000359"],"version":"22.41.1000","has":["CVE-2026-1"]}`,
		`{"class":"NIC","vendor":"mellanox","models":["ConnectX-6 Dx"],"version":"22.42.1000","versionFormat":"Dotted","fixes":["CVE-2026-1"]}`,
		`{"class":"NIC","vendor":"15b3","boardIDs":["MT_0000000436"],"version":"9"}`,
		`{"class":"NIC","vendor":"8086","version":"8"}`,
		`{"class":"Disk","models":["PM1733"],"version":"B"}`, `{"class":"Disk","vendor":"any","version":"A"}`, `{"class":"Disk","vendor":"*","version":"C"}`,
		`{"machine":{"vendor":"DELL INC","model":"poweredge-r650"},"class":"BIOS","vendor":"dell-inc","version":"1.0"}`,
		`{"machine":{"vendor":"Dell Inc.","model":"PowerEdge R750"},"class":"BIOS","version":"2.0"}`,
	))}, 5)
	assert.Equal(t, []string{"22.42.1000", "22.41.1000"}, versions(c.Offers[nic], nic))
	assert.Equal(t, []string{"B", "A"}, versions(c.Offers[disk], disk))
	assert.Equal(t, []string{"1.0"}, versions(c.Offers[bios], bios))
	assert.Equal(t, []catalog.Issue{{ID: "CVE-2026-1", FixedIn: []string{"22.42.1000"}, Has: []string{"22.41.1000"}}}, c.Offers[nic].Issues)
}

// A limit may be named with a version that has the vulnerability and with one that fixes it; of two the lower one counts.
func TestAnIndexTellsWhenDevicesFail(t *testing.T) {
	c := collect(t, catalog.Index{JSON: strings.NewReader(index(
		`{"class":"Disk","models":["PM1733"],"version":"HPD5","has":[" a00092491 ","CVE-2026-1"],"powerOnHours":{" a00092491 ":40000}}`,
		`{"class":"Disk","models":["PM1733"],"version":"HPD8","fixes":["a00092491"],"powerOnHours":{"a00092491":32768}}`,
	))}, 5)
	assert.Equal(t, []catalog.Issue{
		{ID: "a00092491", PowerOnHours: 32_768, FixedIn: []string{"HPD8"}, Has: []string{"HPD5"}}, {ID: "CVE-2026-1", Has: []string{"HPD5"}},
	}, c.Offers[disk].Issues)
}

func TestBadIndexesAreRefused(t *testing.T) {
	good := `{"class":"NIC","version":"1.0"}`
	for name, c := range map[string]struct {
		text string
		want catalog.Reason
	}{
		"nothing":             {"", catalog.InvalidCatalog},
		"an error page":       {"<html>404</html>", catalog.InvalidCatalog},
		"another schema":      {`{"schema": "v2", "versions": []}`, catalog.InvalidCatalog},
		"no schema":           {`{"versions": []}`, catalog.InvalidCatalog},
		"no list":             {`{"schema": "nodefirmware.io/catalog/v1", "versions": {}}`, catalog.InvalidCatalog},
		"an unknown member":   {index(`{"class":"NIC","version":"1.0","region":"eu"}`), catalog.InvalidCatalog},
		"an unknown class":    {index(`{"class":"GPU","version":"1.0"}`), catalog.InvalidCatalog},
		"an unknown format":   {index(`{"class":"NIC","version":"1.0","versionFormat":"semver"}`), catalog.InvalidCatalog},
		"no version":          {index(`{"class":"NIC"}`), catalog.InvalidCatalog},
		"a bad digest":        {index(`{"class":"NIC","version":"1.0","digest":"sha256:0"}`), catalog.InvalidCatalog},
		"a number for a text": {index(`{"class":"NIC","version":1}`), catalog.InvalidCatalog},
		"a limit of nothing":  {index(`{"class":"Disk","version":"1","has":["a"],"powerOnHours":{"b":1}}`), catalog.InvalidCatalog},
		"no limit":            {index(`{"class":"Disk","version":"1","has":["a"],"powerOnHours":{"a":0}}`), catalog.InvalidCatalog},
		"more than a century": {index(`{"class":"Disk","version":"1","has":["a"],"powerOnHours":{"a":1000001}}`), catalog.InvalidCatalog},
		"broken off":          {strings.TrimSuffix(index(good), "]}"), catalog.InvalidCatalog},
		"more after the end":  {index(good) + "{}", catalog.InvalidCatalog},
		"one huge entry":      {index(`{"class":"NIC","version":"` + strings.Repeat("1", 3<<20) + `"}`), catalog.InvalidCatalog},
		"nested very deep":    {index(strings.Repeat("[", 500_000)), catalog.InvalidCatalog},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, refused(t, catalog.Index{JSON: strings.NewReader(c.text)}))
		})
	}
	endless := func(l catalog.Limits) catalog.Index {
		return catalog.Index{JSON: &forever{head: `{"schema": "nodefirmware.io/catalog/v1", "versions": [` + good, body: "," + good}, Limits: l}
	}
	assert.Equal(t, catalog.InvalidCatalog, refused(t, endless(catalog.Limits{Bytes: 1 << 20})))
	assert.Equal(t, catalog.InvalidCatalog, refused(t, endless(catalog.Limits{Entries: 1000})))
	assert.Equal(t, catalog.DownloadFailed, refused(t, catalog.Index{JSON: brokenOff(`{"schema": `)}))
	_, err := catalog.Collect(cancelled(), endless(catalog.Limits{}), r650(), 5)
	require.ErrorIs(t, err, context.Canceled)
}

// registry has the tags that a test gives it.
type registry struct {
	tags []catalog.TaggedManifest
	err  error
}

func (r registry) Tags(context.Context) iter.Seq2[catalog.TaggedManifest, error] {
	return func(yield func(catalog.TaggedManifest, error) bool) {
		for _, t := range r.tags {
			if !yield(t, nil) {
				return
			}
		}
		if r.err != nil {
			yield(catalog.TaggedManifest{}, r.err)
		}
	}
}

func tag(name, entries string) catalog.TaggedManifest {
	return catalog.TaggedManifest{
		Tag: name, Manifest: sha256.Sum256([]byte(name + entries)), File: sha256.Sum256([]byte(name)), Annotations: map[string]string{catalog.EntriesAnnotation: entries},
	}
}

func TestOffersDescribedTags(t *testing.T) {
	const repository = "oci://registry.example.com/firmware/cx6"
	offered := func(tags ...catalog.TaggedManifest) catalog.OCI {
		return catalog.OCI{Repository: repository, Registry: registry{tags: tags}}
	}
	first, several := tag("22.41.1000", `[{"class":"NIC","vendor":"15b3"}]`), tag("v2", `[{"class":"NIC","vendor":"15b3","version":"22.42.1000"}]`)
	several.File = inventory.Digest{}
	c := collect(t, offered(catalog.TaggedManifest{Tag: "latest"}, first, several), 5)
	assert.Equal(t, []catalog.Release{
		{Version: "22.41.1000", URL: repository + "@" + first.Manifest.String(), Digest: first.File},
		{Version: "22.42.1000", URL: repository + "@" + several.Manifest.String()},
	}, c.Offers[nic].First)
	assert.Equal(t, []string{"22.42.1000", "22.41.1000"}, versions(c.Offers[nic], nic))
	for name, entries := range map[string]string{
		"no list": `{}`, "an unknown member": `[{"class":"NIC","region":"eu"}]`, "an unknown class": `[{"class":"GPU"}]`,
		"an address of its own": `[{"class":"NIC","url":"https://example.com/x"}]`, "a digest of its own": `[{"class":"NIC","digest":"sha256:` + strings.Repeat("0", 64) + `"}]`,
	} {
		assert.Equal(t, catalog.InvalidCatalog, refused(t, offered(tag("1", entries))), name)
	}
	assert.Equal(t, catalog.DownloadFailed, refused(t, catalog.OCI{Registry: registry{err: errors.New("list tags: 401")}}))
	limited := offered(first, several)
	limited.Limits.Entries = 1
	assert.Equal(t, catalog.InvalidCatalog, refused(t, limited))
}

func FuzzIndex(f *testing.F) {
	f.Add(index(`{"class":"NIC","vendor":"15b3","version":"22.41.1000","versionFormat":"Dotted","fixes":["CVE-2026-1"]}`))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := catalog.Collect(t.Context(), catalog.Index{JSON: strings.NewReader(text)}, r650(), 3)
		if err != nil {
			assert.Empty(t, c)
		}
	})
}

func FuzzOCI(f *testing.F) {
	f.Add("22.41.1000", `[{"class":"NIC","vendor":"15b3","versionFormat":"Dotted","fixes":["CVE-2026-1"]}]`)
	f.Fuzz(func(t *testing.T, name, annotation string) {
		c, err := catalog.Collect(t.Context(), catalog.OCI{Repository: "oci://r/x", Registry: registry{tags: []catalog.TaggedManifest{tag(name, annotation)}}}, r650(), 3)
		if err != nil {
			assert.Empty(t, c)
			return
		}
		for _, o := range c.Offers {
			for _, r := range o.First {
				assert.True(t, strings.HasPrefix(r.URL, "oci://r/x@sha256:"), "what is offered has a digest")
			}
		}
	})
}
