package catalog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

var (
	sha      = strings.Repeat("1", 64)
	otherSHA = strings.Repeat("2", 64)
)

// withVersions is a world whose provider offers a version for the NIC, with an address and a digest, and others without.
func withVersions(t *testing.T) *world {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "22.41.1000")
	w.look()
	w.edit(withIndex)
	w.net.answer[ours] = indexOf(
		nicEntry("22.42.1000", `,"url":"https://mirror.example.com/22.42.1000.bin","sha256":"`+sha+`"`),
		nicEntry("22.41.1000", `,"url":"https://mirror.example.com/22.41.1000.bin"`),
		nicEntry("22.40.1000", `,"url":"http://mirror.example.com/22.40.1000.bin","sha256":"`+sha+`"`),
		nicEntry("22.39.1000", `,"url":"file:///etc/shadow","sha256":"`+sha+`"`))
	w.discover()
	return w
}

func nicStage(source, version, sha256 string) v1alpha1.CatalogStage {
	return v1alpha1.CatalogStage{Source: source, Class: v1alpha1.ClassNIC, Version: version, SHA256: sha256}
}

func (w *world) stage(entries ...v1alpha1.CatalogStage) {
	w.Helper()
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.Stage = entries })
}

func (w *world) sources() []v1alpha1.FirmwareSource {
	w.Helper()
	var list v1alpha1.FirmwareSourceList
	require.NoError(w, w.client.List(w.Context(), &list))
	return list.Items
}

func (w *world) staged() metav1.Condition {
	w.Helper()
	c := meta.FindStatusCondition(w.get().Status.Conditions, v1alpha1.ConditionStaged)
	require.NotNil(w, c)
	return *c
}

// R000-68: a version becomes a source of this cluster, for the component it is offered for and no other. Nothing is assigned.
func TestAVersionIsStagedAsASource(t *testing.T) {
	w := withVersions(t)
	w.stage(nicStage("cx6dx-2242", "22.42.1000", sha))
	assert.Equal(t, stageAgain, w.look())
	w.wait() // for the discovery that the edit asks for
	sources := w.sources()
	require.Len(t, sources, 1)
	assert.Equal(t, "cx6dx-2242", sources[0].Name)
	assert.Equal(t, map[string]string{v1alpha1.StagedByAnnotation: r650}, sources[0].Annotations)
	assert.Equal(t, v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{
		URL: "https://mirror.example.com/22.42.1000.bin", SHA256: sha, Format: v1alpha1.FormatImage,
		Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassNIC, Vendor: "15b3", Models: []string{"101d"}, BoardIDs: []string{"MT_0000000359"}, Version: "22.42.1000"}},
	}}}, sources[0].Spec)
	assert.Equal(t, v1alpha1.ReasonProgressing, w.staged().Reason, "what was not seen is not reported")
	w.look()
	assert.Equal(t, v1alpha1.ReasonStaged, w.staged().Reason)
	assert.Equal(t, metav1.ConditionTrue, w.staged().Status)
	writes := w.writes
	w.look()
	assert.Equal(t, writes, w.writes)

	var d v1alpha1.NodeDevice
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: "n1-nic"}, &d))
	assert.Nil(t, d.Spec.Firmware, "staged is not assigned")

	mine := sources[0]
	mine.Spec.Downgrade = v1alpha1.DowngradeForbid
	require.NoError(t, w.client.Update(t.Context(), &mine))
	w.stage()
	w.look()
	assert.Equal(t, v1alpha1.DowngradeForbid, w.sources()[0].Spec.Downgrade, "the source is the user's, and stays when the entry goes")
	assert.Nil(t, meta.FindStatusCondition(w.get().Status.Conditions, v1alpha1.ConditionStaged))
	assert.Empty(t, w.get().Status.Staged)
}

// What is not exactly what a person asked for is not staged, by a reason of its own.
func TestWhatIsNotStagedSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		before  func(*world)
		entry   v1alpha1.CatalogStage
		reason  string
		message string
		sources int
	}{
		"a version that is not offered": {nil, nicStage("s", "1.0", sha), v1alpha1.ReasonNotOffered, "version 1.0", 0},
		"a component that is not there": {nil, v1alpha1.CatalogStage{Source: "s", Class: v1alpha1.ClassDisk, Version: "1.0", SHA256: sha}, v1alpha1.ReasonNotOffered, "compare class", 0},
		"several components": {func(w *world) {
			w.device("n1", "nic2", v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC, VendorID: "15b3", DeviceID: "101d", BoardID: "MT_2"})
			w.discover()
		}, nicStage("s", "22.42.1000", sha), v1alpha1.ReasonAmbiguous, "MT_2", 0},
		"another digest": {nil, nicStage("s", "22.42.1000", otherSHA), v1alpha1.ReasonDigestMismatch, sha, 0},
		"no digest":      {nil, nicStage("s", "22.41.1000", sha), v1alpha1.ReasonDigestMismatch, "No provider names the sha256", 0},
		"plain http":     {nil, nicStage("s", "22.40.1000", sha), v1alpha1.ReasonInvalidURL, "http://mirror", 0},
		"a file of the operator": {func(w *world) {
			w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.VersionsToStore = 16 })
			w.discover()
		}, nicStage("s", "22.39.1000", sha), v1alpha1.ReasonInvalidURL, "file:///etc/shadow", 0},
		"a name that is taken": {func(w *world) { w.source("s", "1.0") }, nicStage("s", "22.42.1000", sha), v1alpha1.ReasonNameTaken, "choose another name", 1},
		"a name that a template refers to": {func(w *world) {
			require.NoError(w, w.client.Create(w.Context(), &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "waits"},
				Spec: v1alpha1.FirmwareTemplateSpec{Rules: []v1alpha1.FirmwareRule{{Name: "r", SourceRef: v1alpha1.SourceReference{Name: "s"}}}}}))
		}, nicStage("s", "22.42.1000", sha), v1alpha1.ReasonInUse, "template waits", 0},
		"a name that a pin refers to": {func(w *world) {
			w.create(&v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "pinned"}, Spec: v1alpha1.NodeFirmwareSpec{
				Pins: []v1alpha1.FirmwarePin{{Name: "p", SourceRef: v1alpha1.SourceReference{Name: "s"}}}}})
		}, nicStage("s", "22.42.1000", sha), v1alpha1.ReasonInUse, "NodeFirmware pinned", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := withVersions(t)
			if c.before != nil {
				c.before(w)
			}
			w.stage(c.entry)
			w.look()
			w.wait()
			w.look()
			assert.Len(t, w.sources(), c.sources)
			assert.Equal(t, metav1.ConditionFalse, w.staged().Status)
			assert.Equal(t, c.reason, w.staged().Reason)
			assert.Contains(t, w.get().Status.Staged[0].Message, c.message)
			assert.Equal(t, "Succeeded", w.ready().Reason, "what is looked for is not what is staged")
		})
	}
}

func TestOneSourceIsCreatedInAPass(t *testing.T) {
	w := withVersions(t)
	w.stage(nicStage("a", "22.42.1000", sha), nicStage("b", "22.42.1000", sha))
	w.look()
	assert.Len(t, w.sources(), 1)
	w.look()
	assert.Len(t, w.sources(), 2)
	w.look()
	assert.Equal(t, v1alpha1.ReasonStaged, w.staged().Reason)
	assert.Equal(t, []v1alpha1.CatalogStaged{
		{Source: "a", Reason: "Staged", Message: "Its FirmwareSource says whether the file is in store."},
		{Source: "b", Reason: "Staged", Message: "Its FirmwareSource says whether the file is in store."},
	}, w.get().Status.Staged)
}
