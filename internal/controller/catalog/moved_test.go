package catalog

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
)

const hub = "oci://registry.example.com/firmware/cx6"

// nicTag is a tag of an artifact for the NIC with the content.
func nicTag(name, content string) artifact.Tag {
	return artifact.Tag{Name: name, Manifest: sha256.Sum256([]byte("manifest of " + content)), File: sha256.Sum256([]byte(content)),
		Annotations: map[string]string{catalog.EntriesAnnotation: `[{"class":"NIC","vendor":"15b3","models":["101d"],"versionFormat":"Dotted"}]`}}
}

func addressOf(t artifact.Tag) string { return hub + "@" + t.Manifest.String() }

// withTags is a world whose provider is a repository.
func withTags(t *testing.T, tags ...artifact.Tag) *world {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "22.41.1000")
	w.look()
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) {
		s.Providers = []v1alpha1.CatalogProvider{{Name: "hub", Type: v1alpha1.ProviderOCI, URL: hub}}
	})
	w.net.tags[hub] = tags
	w.discover()
	require.Equal(t, "Succeeded", w.ready().Reason, w.ready().Message)
	return w
}

// tomorrow is a discovery after the interval.
func (w *world) tomorrow() {
	w.Helper()
	w.clock = w.clock.Add(24 * time.Hour)
	w.discover()
}

func (w *world) nicVersion(version string) v1alpha1.CatalogVersion {
	w.Helper()
	for _, v := range w.component(v1alpha1.ClassNIC).Versions {
		if v.Version == version {
			return v
		}
	}
	w.Fatalf("version %s is not listed", version)
	return v1alpha1.CatalogVersion{}
}

// tagsMoved is the message of the condition; empty when there is none.
func (w *world) tagsMoved() string {
	w.Helper()
	c := meta.FindStatusCondition(w.get().Status.Conditions, v1alpha1.ConditionTagsMoved)
	if c == nil {
		return ""
	}
	assert.Equal(w, v1alpha1.ReasonTagMoved, c.Reason)
	return c.Message
}

// warnings are the events of the reason since the last call.
func (w *world) warnings(reason string) int {
	n := 0
	for len(w.events.Events) > 0 {
		if strings.HasPrefix(<-w.events.Events, "Warning "+reason) {
			n++
		}
	}
	return n
}

// R000-21: what a registry offers has the digest that its tag pointed to, and is staged by it.
func TestATagIsOfferedAndStagedByItsDigest(t *testing.T) {
	first := nicTag("22.42.1000", "GOOD")
	w := withTags(t, nicTag("22.41.1000", "OLD"), first, artifact.Tag{Name: "latest"})
	v := w.nicVersion("22.42.1000")
	digest := strings.TrimPrefix(first.File.String(), "sha256:")
	assert.Equal(t, v1alpha1.CatalogVersion{Version: "22.42.1000", Providers: []string{"hub"}, Tag: "22.42.1000", URL: addressOf(first), SHA256: digest}, v)
	assert.Equal(t, v1alpha1.PositionBehind, w.component(v1alpha1.ClassNIC).Running[0].Position)
	w.stage(nicStage("cx6dx-2242", "22.42.1000", digest))
	w.discover()
	require.Len(t, w.sources(), 1)
	file := w.sources()[0].Spec.Files[0]
	assert.Equal(t, []string{addressOf(first), digest}, []string{file.URL, file.SHA256})
	w.look()
	assert.Equal(t, v1alpha1.ReasonStaged, w.staged().Reason)
	assert.Empty(t, w.tagsMoved())
}

// A tag that was moved is told in the status, a condition and an event. What was staged stays by its digest, and what is not staged yet is
// refused, because the digest in the spec is another one.
func TestATagThatWasMovedIsTold(t *testing.T) {
	good, other := nicTag("22.42.1000", "GOOD"), nicTag("22.42.1000", "EVIL")
	w := withTags(t, good)
	digest := strings.TrimPrefix(good.File.String(), "sha256:")
	w.stage(nicStage("cx6dx-2242", "22.42.1000", digest))
	w.discover()
	w.look()
	staged := w.sources()
	require.Len(t, staged, 1)
	w.warnings("")

	w.net.tags[hub] = []artifact.Tag{other}
	w.tomorrow()
	v := w.nicVersion("22.42.1000")
	require.NotNil(t, v.Moved)
	assert.Equal(t, good.Manifest.String(), v.Moved.From)
	assert.True(t, v.Moved.Time.Time.Equal(w.clock))
	assert.Equal(t, addressOf(other), v.URL)
	for _, said := range []string{"Tag 22.42.1000", good.Manifest.String(), other.Manifest.String(), "Nothing in store was changed"} {
		assert.Contains(t, w.tagsMoved(), said)
	}
	assert.Equal(t, 1, w.warnings(v1alpha1.ReasonTagMoved))
	assert.Equal(t, staged, w.sources(), "what was staged stays as it was")
	assert.Equal(t, v1alpha1.ReasonStaged, w.staged().Reason)
	w.requireStatus(status.CurrentStatus)
	w.stage(nicStage("cx6dx-2242", "22.42.1000", digest), nicStage("again", "22.42.1000", digest))
	w.discover()
	assert.Equal(t, v1alpha1.ReasonDigestMismatch, w.staged().Reason)
	assert.Len(t, w.sources(), 1, "nothing is staged by a tag")

	before := w.tagsMoved()
	require.NotEmpty(t, before, "passes and discoveries later it is still told")
	w.start(Bounds{}) // another process
	w.look()
	w.tomorrow()
	assert.Equal(t, before, w.tagsMoved(), "it stays told")
	assert.Zero(t, w.warnings(v1alpha1.ReasonTagMoved), "and is one event")
	writes := w.writes
	w.look()
	assert.Equal(t, writes, w.writes, "nothing is written at rest")

	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.Discover = "seen, the vendor rebuilt it" })
	w.discover()
	assert.Empty(t, w.tagsMoved(), "somebody has seen it")
	assert.Nil(t, w.nicVersion("22.42.1000").Moved)
	w.net.tags[hub] = []artifact.Tag{good}
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.Discover = "once more" })
	w.discover()
	assert.NotEmpty(t, w.tagsMoved(), "what the requested discovery found itself")
}

func TestWhatCountsAsAMove(t *testing.T) {
	old, a, b := nicTag("22.41.1000", "OLD"), nicTag("22.42.1000", "A"), nicTag("22.42.1000", "B")
	latest := func(version, content string) artifact.Tag {
		t := nicTag("latest", content)
		t.Annotations = map[string]string{catalog.EntriesAnnotation: `[{"class":"NIC","vendor":"15b3","version":"` + version + `","versionFormat":"Dotted"}]`}
		return t
	}
	early := latest("22.42.1000", "EVIL")
	early.Name = "0"
	for name, c := range map[string]struct {
		before, after []artifact.Tag
		want          map[string]string // version: digest it moved from
	}{
		"nothing":                      {[]artifact.Tag{old, a}, []artifact.Tag{old, a}, nil},
		"a new tag":                    {[]artifact.Tag{old}, []artifact.Tag{old, a}, nil},
		"a tag that is gone":           {[]artifact.Tag{old, a}, []artifact.Tag{old}, nil},
		"a tag":                        {[]artifact.Tag{old, a}, []artifact.Tag{old, b}, map[string]string{"22.42.1000": a.Manifest.String()}},
		"a tag that follows versions":  {[]artifact.Tag{latest("22.41.1000", "OLD")}, []artifact.Tag{latest("22.42.1000", "A")}, map[string]string{"22.42.1000": latest("", "OLD").Manifest.String()}},
		"another tag of the version":   {[]artifact.Tag{a}, []artifact.Tag{early, a}, map[string]string{"22.42.1000": a.Manifest.String()}},
		"another tag of the same file": {[]artifact.Tag{a}, []artifact.Tag{latest("22.42.1000", "A"), a}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := withTags(t, c.before...)
			w.net.tags[hub] = c.after
			w.tomorrow()
			got := map[string]string{}
			for _, v := range w.component(v1alpha1.ClassNIC).Versions {
				if v.Moved != nil {
					got[v.Version] = v.Moved.From
				}
			}
			if c.want == nil {
				c.want = map[string]string{}
			}
			assert.Equal(t, c.want, got)
			assert.Equal(t, len(c.want) > 0, w.tagsMoved() != "")
		})
	}
}
