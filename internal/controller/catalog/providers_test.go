package catalog

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/heap"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature/signaturetest"
)

func gzipped(t testing.TB, text string) string {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.String()
}

// signed signs a file as LVFS does, and returns the jcat file and the certificate of the authority.
func (w *world) signed(name, content string) (jcat, signers string) {
	a := signaturetest.NewAuthority(w)
	return a.UndatedJcat(w, name, content), a.PEM()
}

// LVFS metadata is used only with a good signature of the file as it was downloaded.
func TestLVFSMetadataMustBeSigned(t *testing.T) {
	const url = "https://mirror.example.com/lvfs/firmware.xml.gz"
	// uuid.uuid5(uuid.NAMESPACE_DNS, 'PCI\\VEN_15B3&DEV_101D') of Python
	metadata := `<components><component type="firmware"><provides><firmware type="flashed">b8c9a67d-bfce-5dc6-ac14-f6c87e1682d9</firmware></provides>` +
		`<releases><release version="22.42.1000"><issues><issue type="cve">CVE-2026-1</issue></issues></release></releases></component></components>`
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "22.41.1000")
	w.look()
	content := gzipped(t, metadata)
	jcat, signers := w.signed("firmware.xml.gz", content)
	_, others := w.signed("firmware.xml.gz", content)
	w.net.answer[url] = content
	lvfs := func(signers string) {
		w.edit(func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = []v1alpha1.CatalogProvider{{Name: "lvfs", Type: v1alpha1.ProviderLVFS, URL: url, Signers: signers}}
		})
	}
	lvfs(signers)
	w.discover()
	assert.Equal(t, "DownloadFailed", w.ready().Reason, "no signature")
	w.net.answer[url+".jcat"] = jcat
	lvfs(others)
	w.discover()
	assert.Equal(t, "SignatureInvalid", w.ready().Reason)
	assert.Empty(t, w.component(v1alpha1.ClassNIC).Versions)
	lvfs(signers)
	w.discover()
	assert.Equal(t, []string{"22.42.1000"}, versionsOf(w.component(v1alpha1.ClassNIC)))
	assert.Equal(t, []string{"CVE-2026-1"}, w.component(v1alpha1.ClassNIC).Running[0].Issues)
	w.net.answer[url] = gzipped(t, metadata+" ")
	lvfs(signers + "\n")
	w.discover()
	assert.Equal(t, "SignatureInvalid", w.ready().Reason, "other bytes")
	assert.Equal(t, []string{"22.42.1000"}, versionsOf(w.component(v1alpha1.ClassNIC)), "what was verified stays")
}

// breaks is a network whose content breaks its parser.
type breaks struct{ network }

func (*breaks) Open(context.Context, string, *artifact.Access) (io.ReadCloser, error) {
	return &breaks{}, nil
}

func (*breaks) Read([]byte) (int, error) { panic("index out of range") }

func (*breaks) Close() error { return nil }

func TestContentThatBreaksAParserIsNotTheEndOfTheOperator(t *testing.T) {
	r := New(nil, Options{Network: &breaks{}})
	answers := r.ask(t.Context(), question{providers: []v1alpha1.CatalogProvider{{Name: "mirror", Type: v1alpha1.ProviderIndex, URL: "https://mirror.example.com/i"}}})
	require.Len(t, answers, 1)
	assert.Equal(t, "mirror", answers[0].Provider)
	assert.Equal(t, catalog.InvalidCatalog, catalog.ReasonOf(answers[0].Err))
}

// Metadata that was signed before what was used already is refused, and so is metadata whose signature does not say when.
func TestRefusesReplayedMetadata(t *testing.T) {
	const url = "https://mirror.example.com/lvfs/firmware.xml"
	content := `<components></components>`
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "22.41.1000")
	w.look()
	authority := signaturetest.NewAuthority(t)
	jcat, signers := authority.Jcat(t, "firmware.xml", content), authority.PEM()
	w.net.answer[url], w.net.answer[url+".jcat"] = content, jcat
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) {
		s.Providers = []v1alpha1.CatalogProvider{{Name: "lvfs", Type: v1alpha1.ProviderLVFS, URL: url, Signers: signers}}
	})
	w.discover()
	require.Equal(t, "Succeeded", w.ready().Reason, w.ready().Message)
	signed := w.get().Status.Providers[0].SignedTime
	require.NotNil(t, signed)

	discover := func(change func(*v1alpha1.FirmwareCatalogSpec)) {
		w.edit(change)
		w.discover()
	}
	used := func(at time.Time) { // a process before this one used what was signed then
		c := w.get()
		c.Status.Providers[0].SignedTime = new(metav1.NewTime(at))
		require.NoError(t, w.client.Status().Update(t.Context(), c))
		w.start(Bounds{})
	}
	used(signed.Add(-time.Hour))
	discover(func(s *v1alpha1.FirmwareCatalogSpec) { s.Requests.Discover = "newer" })
	assert.Equal(t, "Succeeded", w.ready().Reason)
	assert.True(t, w.get().Status.Providers[0].SignedTime.Equal(signed))
	later := signed.Add(time.Second)
	used(later)
	discover(func(s *v1alpha1.FirmwareCatalogSpec) { s.Requests.Discover = "older" })
	assert.Equal(t, "Replayed", w.ready().Reason)
	w.requireStatus(status.FailedStatus)
	assert.True(t, w.get().Status.Providers[0].SignedTime.Time.Equal(later), "what was used last counts")

	jcat, signers = w.signed("firmware.xml", content)
	w.net.answer[url+".jcat"] = jcat
	discover(func(s *v1alpha1.FirmwareCatalogSpec) { s.Providers[0].Signers = signers })
	assert.Equal(t, "Replayed", w.ready().Reason, "a signature without a time could be of any time")
	discover(func(s *v1alpha1.FirmwareCatalogSpec) { s.Providers[0].Name = "afresh" })
	assert.Equal(t, "Succeeded", w.ready().Reason, "a provider of another name begins afresh")
}

func TestWhatCannotBeAskedSaysSo(t *testing.T) {
	r := New(nil, Options{})
	answers := r.ask(t.Context(), question{providers: []v1alpha1.CatalogProvider{
		{Name: "oci", Type: v1alpha1.ProviderOCI, URL: "oci://registry.example.com/firmware"}, {Name: "mirror", Type: v1alpha1.ProviderIndex, URL: ours},
		{Name: "new", Type: "Redfish", URL: ours},
	}})
	require.Len(t, answers, 3)
	for _, a := range answers {
		assert.Equal(t, catalog.InvalidCatalog, catalog.ReasonOf(a.Err), a.Provider)
	}
}

// One provider that hangs leaves the others their time.
func TestAProviderThatHangsLeavesTimeForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork()
		net.answer["https://a/good"], net.hold["https://a/hangs"], net.hold["oci://a/hangs"] = indexOf(nicEntry("1.0")), make(chan struct{}), make(chan struct{})
		r := New(nil, Options{Now: time.Now, Network: net})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		answers := r.ask(ctx, question{versions: 5, query: catalog.Query{Components: []catalog.Component{{Class: "NIC", VendorID: "15b3", DeviceID: "101d"}}},
			providers: []v1alpha1.CatalogProvider{
				{Name: "hangs", Type: v1alpha1.ProviderIndex, URL: "https://a/hangs"}, {Name: "registry", Type: v1alpha1.ProviderOCI, URL: "oci://a/hangs"},
				{Name: "good", Type: v1alpha1.ProviderIndex, URL: "https://a/good"},
			}})
		assert.Equal(t, 40*time.Minute, time.Since(began))
		assert.Equal(t, catalog.TimedOut, catalog.ReasonOf(answers[0].Err))
		assert.Equal(t, catalog.TimedOut, catalog.ReasonOf(answers[1].Err))
		require.NoError(t, answers[2].Err)
		assert.Len(t, answers[2].Offers[0].First, 1)
	})
}

// BenchmarkLVFSMetadata reads signed metadata of the size of LVFS' own as the operator does: 40 MiB of XML, of which each hundredth component
// is for the machine. The peak of the heap is reported; the bound is 64 MiB.
func BenchmarkLVFSMetadata(b *testing.B) {
	const url, guid = "https://mirror.example.com/lvfs/firmware.xml.gz", "b8c9a67d-bfce-5dc6-ac14-f6c87e1682d9" // PCI\VEN_15B3&DEV_101D
	var text strings.Builder
	text.WriteString("<components>")
	for i := 0; text.Len() < bench.Size(40, 1)<<20; i++ {
		id := fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
		if i%100 == 0 {
			id = guid
		}
		fmt.Fprintf(&text, `<component type="firmware"><id>com.example.%d</id><provides><firmware type="flashed">%s</firmware></provides><releases>`, i, id)
		for j := range 4 {
			fmt.Fprintf(&text, `<release version="%d.%d.0" timestamp="1767225600"><checksum type="sha256" target="container">%064x</checksum><description><p>%s</p></description>`+
				`<issues><issue type="cve">CVE-2026-%d</issue></issues></release>`, i, j, i*4+j, strings.Repeat("text ", 40), i)
		}
		text.WriteString("</releases></component>")
	}
	text.WriteString("</components>")
	size := text.Len()
	w := newWorld(b)
	w.net.answer[url] = gzipped(b, text.String())
	var signers string
	w.net.answer[url+".jcat"], signers = w.signed("firmware.xml.gz", w.net.answer[url])
	text.Reset()
	q := question{versions: 5, query: catalog.Query{Components: []catalog.Component{{Class: "NIC", VendorID: "15b3", DeviceID: "101d"}}},
		providers: []v1alpha1.CatalogProvider{{Name: "lvfs", Type: v1alpha1.ProviderLVFS, URL: url, Signers: signers}}}
	b.SetBytes(int64(size))
	for b.Loop() {
		var answers []Answered
		peak := heap.Peak(func() { answers = w.reconciler.ask(b.Context(), q) })
		require.NoError(b, answers[0].Err)
		require.Len(b, answers[0].Offers[0].First, 5)
		require.Less(b, peak, uint64(64<<20))
		b.ReportMetric(float64(peak)/(1<<20), "MiB-peak")
	}
	b.ReportMetric(float64(len(w.net.answer[url]))/(1<<20), "MiB-downloaded")
}
