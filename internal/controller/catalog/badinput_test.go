package catalog

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
)

// Whatever a provider serves, the catalog ends in the reason of it, nothing of the answer is listed, and it is asked again later.
func TestBadCatalogGetsItsReason(t *testing.T) {
	const million = 1_000_000
	entity := `<!DOCTYPE c [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>`
	for name, c := range map[string]struct {
		kind   v1alpha1.CatalogProviderType
		answer string
		tags   []artifact.Tag
		limits catalog.Limits
		want   catalog.Reason
	}{
		"LVFS: a million entries":  {kind: v1alpha1.ProviderLVFS, answer: "<components>" + strings.Repeat("<component/>", million) + "</components>", limits: catalog.Limits{Entries: million - 1}, want: catalog.InvalidCatalog},
		"Dell: a million entries":  {kind: v1alpha1.ProviderDell, answer: "<Manifest>" + strings.Repeat("<SoftwareComponent/>", million) + "</Manifest>", limits: catalog.Limits{Entries: 1000}, want: catalog.InvalidCatalog},
		"Index: a million entries": {kind: v1alpha1.ProviderIndex, answer: indexOf(strings.Repeat(nicEntry("1")+",", million) + nicEntry("1")), limits: catalog.Limits{Entries: 1000}, want: catalog.InvalidCatalog},
		"OCI: too many tags":       {kind: v1alpha1.ProviderOCI, tags: []artifact.Tag{nicTag("1", ""), nicTag("2", "")}, limits: catalog.Limits{Entries: 1}, want: catalog.InvalidCatalog},
		"LVFS: entity expansion":   {kind: v1alpha1.ProviderLVFS, answer: entity + "<components>&c;</components>", want: catalog.InvalidCatalog},
		"Dell: entity expansion":   {kind: v1alpha1.ProviderDell, answer: entity + "<Manifest>&c;</Manifest>", want: catalog.InvalidCatalog},
		"LVFS: an external entity": {kind: v1alpha1.ProviderLVFS, answer: `<!DOCTYPE c [<!ENTITY x SYSTEM "file:///etc/passwd">]><components>&x;</components>`, want: catalog.InvalidCatalog},
		"LVFS: invalid XML":        {kind: v1alpha1.ProviderLVFS, answer: "<components><component></components>", want: catalog.InvalidCatalog},
		"Dell: invalid XML":        {kind: v1alpha1.ProviderDell, answer: "<Manifest", want: catalog.InvalidCatalog},
		"Index: invalid JSON":      {kind: v1alpha1.ProviderIndex, answer: indexOf("{"), want: catalog.InvalidCatalog},
		"OCI: invalid annotation":  {kind: v1alpha1.ProviderOCI, tags: []artifact.Tag{{Name: "1", Annotations: map[string]string{catalog.EntriesAnnotation: "{"}}}, want: catalog.InvalidCatalog},
		"LVFS: more than memory":   {kind: v1alpha1.ProviderLVFS, answer: strings.Repeat(" ", maxSigned+1), want: catalog.InvalidCatalog},
		"Dell: a bomb":             {kind: v1alpha1.ProviderDell, answer: gzipped(t, "<Manifest>"+strings.Repeat(" ", 16<<20)), limits: catalog.Limits{Bytes: 1 << 20}, want: catalog.InvalidCatalog},
		"Index: a bomb":            {kind: v1alpha1.ProviderIndex, answer: gzipped(t, indexOf(nicEntry("1")+strings.Repeat(" ", 16<<20))), limits: catalog.Limits{Bytes: 1 << 20}, want: catalog.InvalidCatalog},
		"Index: nobody is there":   {kind: v1alpha1.ProviderIndex, want: catalog.DownloadFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.limits = c.limits
			w.start(Bounds{})
			w.node("n1", "PowerEdge R650", "1.0")
			w.look()
			p := v1alpha1.CatalogProvider{Name: "bad", Type: c.kind, URL: "https://mirror.example.com/bad.xml"}
			switch c.kind {
			case v1alpha1.ProviderOCI:
				p.URL = hub
			case v1alpha1.ProviderLVFS:
				w.net.answer[p.URL+".jcat"], p.Signers = w.signed("bad.xml", c.answer)
			}
			if c.answer != "" {
				w.net.answer[p.URL] = c.answer
			}
			w.net.tags[hub] = c.tags
			w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.Providers = []v1alpha1.CatalogProvider{p} })
			assert.Equal(t, retryAfter, w.discover())
			assert.Equal(t, string(c.want), w.ready().Reason, w.ready().Message)
			assert.Empty(t, w.component(v1alpha1.ClassNIC).Versions)
			if c.want == catalog.DownloadFailed {
				w.requireStatus(status.InProgressStatus)
			} else {
				w.requireStatus(status.FailedStatus)
			}
		})
	}
}

// A mirror that hangs ends in the reason of it.
func TestHangingMirrorGetsReason(t *testing.T) {
	w := newWorld(t)
	w.start(Bounds{Deadline: 50 * time.Millisecond})
	w.node("n1", "PowerEdge R650", "1.0")
	w.look()
	w.edit(withIndex)
	w.net.hold[ours] = make(chan struct{})
	assert.Equal(t, retryAfter, w.discover())
	assert.Equal(t, string(catalog.TimedOut), w.ready().Reason, w.ready().Message)
	w.requireStatus(status.InProgressStatus)
}
