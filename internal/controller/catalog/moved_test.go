package catalog

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// moves are the events about moved tags since the last call.
func (w *world) moves() []string {
	var out []string
	for len(w.events.Events) > 0 {
		if e := <-w.events.Events; strings.HasPrefix(e, "Warning "+v1alpha1.ReasonTagMoved) {
			out = append(out, e)
		}
	}
	return out
}

// R000-21: what a registry offers has the digest that its tag pointed to.
func TestATagIsOfferedByItsDigest(t *testing.T) {
	first := nicTag("22.42.1000", "GOOD")
	w := withTags(t, nicTag("22.41.1000", "OLD"), first, artifact.Tag{Name: "latest"})
	assert.Equal(t, v1alpha1.CatalogVersion{Version: "22.42.1000", Provider: "hub", URL: addressOf(first), Digest: v1alpha1.Digest(first.File.String())}, w.nicVersion("22.42.1000"))
	assert.Equal(t, v1alpha1.PositionBehind, w.component(v1alpha1.ClassNIC).Running[0].Position)
	assert.Empty(t, w.moves())
}

// R002-75: a tag that was moved is one event, and changes nothing else.
func TestATagThatWasMovedIsOneEvent(t *testing.T) {
	good, other := nicTag("22.42.1000", "GOOD"), nicTag("22.42.1000", "EVIL")
	w := withTags(t, good)
	w.net.tags[hub] = []artifact.Tag{other}
	w.tomorrow()
	assert.Equal(t, []string{"Warning TagMoved A tag moved: version 22.42.1000 in " + hub + " was " + good.Manifest.String() + " and is now " + other.Manifest.String() +
		". Nothing in store has changed. Find out who moved it before you use it."}, w.moves())
	assert.Equal(t, addressOf(other), w.nicVersion("22.42.1000").URL)
	w.requireStatus(status.CurrentStatus)
	w.start(Bounds{}) // another process
	w.look()
	w.tomorrow()
	assert.Empty(t, w.moves())
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
		want          int
	}{
		"nothing":                      {[]artifact.Tag{old, a}, []artifact.Tag{old, a}, 0},
		"a new tag":                    {[]artifact.Tag{old}, []artifact.Tag{old, a}, 0},
		"a tag that is gone":           {[]artifact.Tag{old, a}, []artifact.Tag{old}, 0},
		"a tag":                        {[]artifact.Tag{old, a}, []artifact.Tag{old, b}, 1},
		"a tag that follows versions":  {[]artifact.Tag{latest("22.41.1000", "OLD")}, []artifact.Tag{latest("22.42.1000", "A")}, 0},
		"another tag of the version":   {[]artifact.Tag{a}, []artifact.Tag{early, a}, 1},
		"another tag of the same file": {[]artifact.Tag{a}, []artifact.Tag{latest("22.42.1000", "A"), a}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := withTags(t, c.before...)
			w.net.tags[hub] = c.after
			w.tomorrow()
			assert.Len(t, w.moves(), c.want)
		})
	}
}
