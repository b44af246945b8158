package catalog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// R000-23: the first node of a model creates its catalog, the second one does not. No connection is opened for it.
func TestTheFirstNodeOfAModelCreatesItsCatalog(t *testing.T) {
	w := newWorld(t)
	w.look()
	assert.Zero(t, w.creates, "no node, no catalog")
	w.node("n1", "PowerEdge R650", "22.41.1000")
	w.look()
	w.node("n2", "POWEREDGE R650", "22.42.1000")
	w.node("other", "PowerEdge R750", "22.42.1000")
	w.look()
	w.wait()
	w.look()
	assert.Equal(t, 1, w.creates)
	c := w.get()
	assert.Equal(t, v1alpha1.CatalogMachine{Vendor: "dell-inc", Model: "poweredge-r650"}, c.Spec.Machine)
	assert.Empty(t, c.Spec.Providers)
	assert.Equal(t, int32(2), c.Status.Nodes)
	assert.Equal(t, int32(4), c.Status.Devices.Total)
	assert.Zero(t, w.net.count())
	w.requireStatus(status.CurrentStatus)
}

// R000-21, R000-50, R000-51: the status has the time, and the versions for each component, with who offers them; which devices are
// behind, and which known vulnerabilities they have.
func TestTheStatusSaysWhatIsOfferedAndWhoIsBehind(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "22.40.1000")
	w.node("n2", "PowerEdge R650", "22.41.1000")
	w.node("n3", "PowerEdge R650", "22.42.1000")
	w.source("cx6dx-2242", "22.42.1000")
	w.look()
	w.edit(withIndex)
	w.net.answer[ours] = indexOf(nicEntry("22.42.1000", `,"fixes":["CVE-2026-2"]`), nicEntry("22.41.1000", `,"fixes":["CVE-2026-1"]`),
		`{"class":"BIOS","version":"1.10.2","fixes":["CVE-2026-3"]}`)
	assert.Equal(t, 24*time.Hour, w.discover())

	s := w.get().Status
	assert.True(t, s.LastDiscoveryTime.Time.Equal(w.clock))
	nic := w.component(v1alpha1.ClassNIC)
	assert.Equal(t, []string{"22.42.1000", "22.41.1000"}, versionsOf(nic))
	assert.Equal(t, "sources", nic.Versions[0].Provider)
	assert.Equal(t, "cx6dx-2242", nic.Versions[0].Source)
	assert.Equal(t, []v1alpha1.CatalogRunning{
		{Version: "22.40.1000", Devices: 1, Position: v1alpha1.PositionBehind, Issues: []string{"CVE-2026-1", "CVE-2026-2"}, FixedIn: "22.42.1000"},
		{Version: "22.41.1000", Devices: 1, Position: v1alpha1.PositionBehind, Issues: []string{"CVE-2026-2"}, FixedIn: "22.42.1000"},
		{Version: "22.42.1000", Devices: 1, Position: v1alpha1.PositionNewest, Issues: []string{}},
	}, nic.Running)
	bios := w.component(v1alpha1.ClassBIOS)
	assert.Equal(t, []string{"1.10.2"}, versionsOf(bios))
	assert.Equal(t, v1alpha1.PositionUnknown, bios.Running[0].Position, "nobody declares a format of its versions")
	assert.Equal(t, []int32{3, 6, 2, 2, 3}, []int32{s.Nodes, s.Devices.Total, s.Devices.Behind, *s.Devices.Vulnerable, s.Devices.Unknown})
	assert.Equal(t, "2 of 6 devices run behind the newest version, 2 with a known vulnerability; for 3 it is not known. "+
		"No provider says whether 3 devices have a known vulnerability.", w.ready().Message)
	w.requireStatus(status.CurrentStatus)

	var d v1alpha1.NodeDevice
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: "n1-nic"}, &d))
	d.Status.Firmware.Running = "22.42.1000"
	require.NoError(t, w.client.Status().Update(t.Context(), &d))
	w.look()
	assert.Equal(t, int32(1), w.get().Status.Devices.Behind, "an update is seen without another discovery")
	assert.Equal(t, 1, w.net.count())
}

// R000-22: five found, three kept.
func TestNoMoreVersionsAreStoredThanTheSpecSays(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "22.40.1000")
	w.look()
	w.edit(withIndex)
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.VersionsToStore = 3 })
	w.net.answer[ours] = indexOf(nicEntry("1.1"), nicEntry("1.5"), nicEntry("1.3"), nicEntry("1.2"), nicEntry("1.4"))
	w.discover()
	assert.Equal(t, []string{"1.5", "1.4", "1.3"}, versionsOf(w.component(v1alpha1.ClassNIC)))
}

// R000-35, R000-36, R000-37: one request when the interval has passed, at that time; none before, and no write at rest.
func TestACatalogIsRefreshedWhenItsIntervalHasPassed(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "22.40.1000")
	w.look()
	w.edit(withIndex)
	w.net.answer[ours] = indexOf(nicEntry("1.1"))
	w.discover()
	writes := w.writes
	w.clock = w.clock.Add(24*time.Hour - time.Second)
	assert.Equal(t, time.Second, w.look(), "it is looked at when it is due")
	assert.Equal(t, time.Second, w.look())
	assert.Equal(t, 1, w.net.count())
	assert.Equal(t, writes, w.writes, "nothing is written at rest")
	w.clock = w.clock.Add(time.Second)
	w.net.answer[ours] = indexOf(nicEntry("1.2"))
	w.look()
	w.look()
	w.wait()
	assert.Equal(t, 24*time.Hour, w.look())
	assert.Equal(t, 2, w.net.count(), "exactly one")
	assert.Equal(t, []string{"1.2"}, versionsOf(w.component(v1alpha1.ClassNIC)))
}

// The status keeps whole seconds, and an answer is as old as the status says.
func TestADiscoveryThatIsDueAsks(t *testing.T) {
	w := newWorld(t)
	w.clock = w.clock.Add(700 * time.Millisecond)
	w.node("n1", "PowerEdge R650", "22.40.1000")
	w.look()
	w.edit(withIndex)
	w.net.answer[ours] = indexOf(nicEntry("1.1"))
	w.discover()
	w.clock = w.clock.Truncate(time.Second).Add(24 * time.Hour)
	w.discover()
	assert.Equal(t, 2, w.net.count())
}

// A new process goes on where the old one was: what is fresh is not asked for, what is stale is, and what was found stays.
func TestRestartAsksOnlyWhenDue(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.look()
	w.edit(withIndex)
	w.net.answer[ours] = indexOf(nicEntry("1.1", `,"fixes":["CVE-2026-1"],"url":"https://mirror.example.com/1.1.bin"`))
	w.discover()
	before, writes := w.get().Status, w.writes
	w.start(Bounds{})
	assert.Equal(t, 24*time.Hour, w.look())
	assert.Equal(t, before, w.get().Status)
	assert.Equal(t, writes, w.writes)
	assert.Equal(t, 1, w.net.count())
	w.clock = w.clock.Add(25 * time.Hour)
	w.discover()
	assert.Equal(t, 2, w.net.count())
}

// R000-45: a discovery can be requested, and the request is acted on once.
func TestADiscoveryCanBeRequested(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.look()
	w.edit(withIndex)
	w.net.answer[ours] = indexOf(nicEntry("1.1"))
	w.discover()
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.Requests.Discover = "a new BIOS is out" })
	w.discover()
	assert.Equal(t, 2, w.net.count())
	assert.Equal(t, "a new BIOS is out", w.get().Status.Requests.Discover)
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.Requests.Discover = "" })
	w.discover()
	assert.Equal(t, "a new BIOS is out", w.get().Status.Requests.Discover, "it is remembered")
	asked := w.net.count()
	w.look()
	w.start(Bounds{})
	assert.Equal(t, 24*time.Hour, w.look())
	assert.Equal(t, asked, w.net.count())
}

// A provider that fails says why; what it offered before stays, what others offer is new, and it is asked again later.
func TestFailedProviderKeepsOffers(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.look()
	w.edit(withIndex)
	w.net.answer[ours] = indexOf(nicEntry("1.1", `,"fixes":["CVE-2026-1"]`))
	w.discover()
	first := w.get().Status.LastDiscoveryTime
	w.clock = w.clock.Add(25 * time.Hour)
	delete(w.net.answer, ours)
	w.source("cx6dx", "1.2")
	assert.Equal(t, retryAfter, w.discover())
	nic := w.component(v1alpha1.ClassNIC)
	assert.Equal(t, []string{"1.2", "1.1"}, versionsOf(nic))
	assert.Equal(t, []string{"CVE-2026-1"}, nic.Running[0].Issues)
	w.node("n2", "PowerEdge R650", "0.9")
	w.look()
	assert.Equal(t, int32(2), *w.get().Status.Devices.Vulnerable, "what it said holds for versions that appear later")
	s := w.get().Status
	assert.True(t, first.Equal(s.LastDiscoveryTime), "not every provider answered")
	assert.Equal(t, "DownloadFailed", s.Providers[1].Reason)
	assert.Contains(t, w.ready().Message, "404")
	assert.Equal(t, "DownloadFailed", w.ready().Reason)
	w.requireStatus(status.InProgressStatus)
	assert.Equal(t, retryAfter, w.look(), "no hot loop")
	assert.Equal(t, 2, w.net.count())

	w.net.answer[ours] = "<html>login</html>"
	w.clock = w.clock.Add(retryAfter)
	w.discover()
	assert.Equal(t, "InvalidCatalog", w.ready().Reason)
	w.requireStatus(status.FailedStatus)
	w.net.answer[ours] = indexOf(nicEntry("1.3"))
	w.clock = w.clock.Add(retryAfter)
	assert.Equal(t, retryAfter, w.look(), "each further failure doubles the time")
	w.clock = w.clock.Add(retryAfter)
	w.discover()
	assert.Equal(t, []string{"1.3", "1.2"}, versionsOf(w.component(v1alpha1.ClassNIC)))
	w.requireStatus(status.CurrentStatus)

	var reasons []string
	for len(w.events.Events) > 0 {
		reasons = append(reasons, strings.Join(strings.Fields(<-w.events.Events)[:2], " "))
	}
	assert.Equal(t, []string{"Normal Succeeded", "Warning DownloadFailed", "Warning InvalidCatalog", "Normal Succeeded"}, reasons, "transitions only")
}

// Pausing cancels what runs, and nothing is asked until it is active again.
func TestPausingCancelsADiscovery(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.look()
	w.edit(withIndex)
	w.net.answer[ours] = indexOf(nicEntry("1.1"))
	w.net.hold[ours] = make(chan struct{})
	w.look()
	w.begun()
	w.requireStatus(status.InProgressStatus)
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.State = v1alpha1.CatalogPaused })
	w.look()
	w.wait()
	assert.Zero(t, w.look())
	assert.Equal(t, "Paused", w.ready().Reason)
	assert.Nil(t, w.get().Status.LastDiscoveryTime)
	assert.Empty(t, w.get().Status.Providers[1].Reason, "a cancelled discovery says nothing about the provider")
	assert.Equal(t, 1, w.net.count())
	w.requireStatus(status.CurrentStatus)
	close(w.net.hold[ours])
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.State = v1alpha1.CatalogActive })
	w.discover()
	assert.Equal(t, []string{"1.1"}, versionsOf(w.component(v1alpha1.ClassNIC)))
}

// What was asked for before an edit is not used after it.
func TestAnEditReplacesADiscovery(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.look()
	w.edit(withIndex)
	w.net.answer[ours] = indexOf(nicEntry("1.1"))
	w.net.hold[ours] = make(chan struct{})
	w.look()
	w.begun()
	other := "https://mirror.example.com/other.json"
	w.net.answer[other] = indexOf(nicEntry("1.2"))
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.Providers[1].URL = other })
	w.look()
	w.wait()
	w.discover()
	assert.Equal(t, []string{"1.2"}, versionsOf(w.component(v1alpha1.ClassNIC)))
}

// R000-56, R000-46: one discovery for each model, whatever is requested; the answer says so.
func TestADiscoveryThatIsScheduledIsNotScheduledAgain(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.look()
	w.edit(withIndex)
	w.net.answer[ours] = indexOf(nicEntry("1.1"))
	w.net.hold[ours] = make(chan struct{})
	w.look()
	w.begun()
	assert.Equal(t, AlreadyScheduled, w.reconciler.discoveries.Request(Task{Catalog: r650}))
	for range 5 {
		w.look()
	}
	close(w.net.hold[ours])
	w.wait()
	w.look()
	assert.Equal(t, 1, w.net.count())
}

// A component that appears later is asked for, once.
func TestANewComponentIsAskedFor(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.look()
	w.edit(withIndex)
	w.net.answer[ours] = indexOf(nicEntry("1.1"), `{"class":"Disk","version":"B"}`)
	w.discover()
	w.device("n1", "disk", v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassDisk, Vendor: "Samsung", Model: "PM1733", Firmware: &v1alpha1.ObservedFirmware{Running: "A"}})
	w.discover()
	assert.Equal(t, []string{"B"}, versionsOf(w.component(v1alpha1.ClassDisk)))
	assert.Equal(t, 24*time.Hour, w.look())
	assert.Equal(t, 2, w.net.count())
}

func TestForgetsDeletedCatalog(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.look()
	w.edit(withIndex)
	w.net.hold[ours] = make(chan struct{})
	w.look()
	w.begun()
	require.NoError(t, w.client.Delete(t.Context(), w.get()))
	w.look()
	w.wait()
	assert.Equal(t, 2, w.creates, "its model is still there")
	assert.Empty(t, w.get().Spec.Providers)
}

// An edit replaces a discovery that still waits, and the queue is not left without one.
func TestEditReplacesPendingRun(t *testing.T) {
	w := newWorld(t)
	w.start(Bounds{Parallel: 1})
	begun, letGo := make(chan string, 1), make(chan struct{})
	w.reconciler.discoveries.Request(hold("another", begun, letGo))
	<-begun
	w.node("n1", "PowerEdge R650", "1.0")
	w.look()
	w.edit(withIndex)
	w.look()
	other := "https://mirror.example.com/other.json"
	w.net.answer[other] = indexOf(nicEntry("1.2"))
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.Providers[1].URL = other })
	w.look()
	spec, scheduled := w.reconciler.discoveries.Scheduled(r650)
	assert.True(t, scheduled)
	assert.Equal(t, w.get().Generation, spec.own)
	close(letGo)
	w.wait()
	w.wait()
	w.look()
	assert.Equal(t, []string{"1.2"}, versionsOf(w.component(v1alpha1.ClassNIC)))
	assert.Equal(t, 1, w.net.count(), "what was replaced was never asked for")
}

// A provider that fails is no reason to ask the others again before they are due.
func TestOnlyTheProviderThatFailedIsAskedAgain(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.look()
	const broken = "https://mirror.example.com/broken.json"
	w.edit(withIndex)
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) {
		s.Providers = append(s.Providers, v1alpha1.CatalogProvider{Name: "broken", Type: v1alpha1.ProviderIndex, URL: broken})
	})
	w.net.answer[ours] = indexOf(nicEntry("1.1"))
	w.discover()
	asked := w.clock
	w.clock = w.clock.Add(retryAfter)
	w.discover()
	assert.Equal(t, []string{ours, broken, broken}, w.net.opened)
	w.net.answer[broken] = indexOf(nicEntry("1.2"))
	w.clock = w.clock.Add(2 * retryAfter)
	assert.Equal(t, 24*time.Hour-3*retryAfter, w.discover(), "the answer of the first one is older")
	assert.Equal(t, []string{"1.2", "1.1"}, versionsOf(w.component(v1alpha1.ClassNIC)))
	assert.True(t, w.get().Status.LastDiscoveryTime.Time.Equal(asked))
	assert.True(t, w.get().Status.Providers[2].LastDiscoveryTime.Time.Equal(w.clock))
	w.clock = asked.Add(24 * time.Hour)
	w.discover()
	assert.Equal(t, []string{ours, broken, broken, broken, ours}, w.net.opened)
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.Requests.Discover = "now" })
	w.discover()
	assert.Len(t, w.net.opened, 7, "a request asks them all")
}

// One image that cannot be listed hides no other one.
func TestNamesUnlistableImage(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.source("odd", "1.1 \u00fcber")
	w.source("good", "1.2")
	w.look()
	w.discover()
	assert.Equal(t, []string{"1.2"}, versionsOf(w.component(v1alpha1.ClassNIC)))
	assert.Contains(t, w.get().Status.Providers[0].Message, "source odd")
}

// What is not listed for lack of room is counted in the message, the same from pass to pass and from process to process.
func TestWhatIsLeftOutIsCounted(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.look()
	w.edit(withIndex)
	var issues []string
	for i := range maxIssues + 6 {
		issues = append(issues, fmt.Sprintf("%q", fmt.Sprintf("CVE-2026-%d", 1000+i)))
	}
	w.net.answer[ours] = indexOf(nicEntry("1.1", `,"fixes":[`+strings.Join(issues, ",")+`]`))
	w.discover()
	assert.Contains(t, w.ready().Message, "Not listed because the status is full: 6 vulnerabilities.")
	run := w.component(v1alpha1.ClassNIC).Running[0]
	assert.Len(t, run.Issues, maxIssues)
	assert.Equal(t, "1.1", run.FixedIn)
	writes := w.writes
	w.look()
	assert.Equal(t, writes, w.writes)
}

// Where not all vulnerabilities of a component could be kept, nobody knows that a device has none.
func TestVulnerabilitiesThatWereCutAreNotNone(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.1")
	w.look()
	w.edit(withIndex)
	var issues []string
	for i := range 300 {
		issues = append(issues, fmt.Sprintf(`"CVE-2026-%d"`, 1000+i))
	}
	list := `,"fixes":[` + strings.Join(issues, ",") + `]`
	w.net.answer[ours] = indexOf(nicEntry("1.1", list))
	w.discover()
	assert.Nil(t, w.component(v1alpha1.ClassNIC).Running[0].Issues)
	assert.Contains(t, fmt.Sprint(w.get().Status.Providers), "44 vulnerabilities of one component were ignored")
}

// What providers said of a running version is known to a new process too, and it asks for one that it knows nothing of.
func TestRestartRemembersFixes(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.node("n2", "PowerEdge R650", "1.1")
	w.look()
	w.edit(withIndex)
	w.net.answer[ours] = indexOf(nicEntry("1.1", `,"fixes":["CVE-2026-1"]`), nicEntry("1.2", `,"fixes":["CVE-2026-2"]`), nicEntry("1.3"))
	w.discover()
	before := w.component(v1alpha1.ClassNIC)
	assert.Equal(t, []v1alpha1.CatalogRunning{
		{Version: "1.0", Devices: 1, Position: v1alpha1.PositionBehind, Issues: []string{"CVE-2026-1", "CVE-2026-2"}, FixedIn: "1.2"},
		{Version: "1.1", Devices: 1, Position: v1alpha1.PositionBehind, Issues: []string{"CVE-2026-2"}, FixedIn: "1.2"},
	}, before.Running)
	w.start(Bounds{})
	w.look()
	assert.Equal(t, before, w.component(v1alpha1.ClassNIC))
	assert.Equal(t, 1, w.net.count())

	w.node("n3", "PowerEdge R650", "0.9")
	w.discover()
	assert.Equal(t, 2, w.net.count())
	run := w.component(v1alpha1.ClassNIC).Running
	assert.Equal(t, []string{"CVE-2026-1", "CVE-2026-2"}, run[0].Issues)
	w.node("n4", "PowerEdge R650", "0.8")
	assert.Equal(t, 24*time.Hour, w.look(), "a process that has asked knows")
	assert.Equal(t, int32(4), *w.get().Status.Devices.Vulnerable)
}

// The catalog default gives the others what they leave out, and looks for nothing itself.
func TestInheritsDefaultCatalog(t *testing.T) {
	w := newWorld(t)
	common := &v1alpha1.FirmwareCatalog{Spec: v1alpha1.FirmwareCatalogSpec{State: v1alpha1.CatalogActive, DiscoveryInterval: "1h", VersionsToStore: 2}}
	common.Name, common.Generation = v1alpha1.DefaultCatalog, 1
	withIndex(&common.Spec)
	w.create(common)
	_, err := w.reconciler.Reconcile(t.Context(), watch.Requests(v1alpha1.DefaultCatalog)[0])
	require.NoError(t, err)
	w.node("n1", "PowerEdge R650", "1.0")
	w.look()
	w.net.answer[ours] = indexOf(nicEntry("1.1"), nicEntry("1.2"), nicEntry("1.3"))
	assert.Equal(t, time.Hour, w.discover())
	assert.Equal(t, []string{"1.3", "1.2"}, versionsOf(w.component(v1alpha1.ClassNIC)))
	assert.Empty(t, w.get().Spec.Providers, "what is inherited is not written")
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKeyFromObject(common), common))
	assert.Equal(t, "Succeeded", meta.FindStatusCondition(common.Status.Conditions, v1alpha1.ConditionReady).Reason)
	assert.Equal(t, int64(1), common.Status.ObservedGeneration)

	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.VersionsToStore, s.DiscoveryInterval = 1, "2h" })
	assert.Equal(t, 2*time.Hour, w.discover())
	assert.Equal(t, []string{"1.3"}, versionsOf(w.component(v1alpha1.ClassNIC)))
	assert.ElementsMatch(t, watch.Requests(r650, v1alpha1.DefaultCatalog), w.reconciler.all(t.Context(), common))
	assert.Len(t, w.reconciler.heirs(t.Context(), common), 2)
	assert.Empty(t, w.reconciler.heirs(t.Context(), w.get()))

	other := "https://mirror.example.com/other.json"
	w.net.answer[other] = indexOf(nicEntry("1.4"))
	common.Spec.Providers[1].URL = other
	common.Generation++
	require.NoError(t, w.client.Update(t.Context(), common))
	w.discover()
	assert.Equal(t, []string{"1.4"}, versionsOf(w.component(v1alpha1.ClassNIC)), "an edit of it is seen at once")
	common.Spec.Providers = append(common.Spec.Providers, v1alpha1.CatalogProvider{Name: "more", Type: v1alpha1.ProviderIndex, URL: ours})
	common.Generation++
	require.NoError(t, w.client.Update(t.Context(), common))
	w.start(Bounds{})
	w.discover()
	assert.Len(t, w.get().Status.Providers, 3, "also what was added while no operator ran")
}

// A pass reads the nodes and devices of its model, whatever else the fleet has.
func TestPassReadsOnlyItsModel(t *testing.T) {
	w := newWorld(t)
	const nodes, models = 200, 20
	for i := range nodes {
		w.node(fmt.Sprint("n", i), fmt.Sprint("PowerEdge R", 640+10*(i%models)), "1.0")
	}
	w.look()
	w.discover()
	assert.Equal(t, int32(nodes/models), w.get().Status.Nodes)
	w.read = 0
	w.look()
	assert.Equal(t, nodes/models*3, w.read, "each node with its two devices")
}

// A source that appears, changes or goes is seen with the next look, which its event causes, and not when the next discovery is due.
func TestNewSourceTurnsBehindAtOnce(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.look()
	w.discover()
	assert.Equal(t, v1alpha1.PositionUnknown, w.component(v1alpha1.ClassNIC).Running[0].Position)
	w.source("cx6dx", "1.2")
	w.look()
	assert.Equal(t, int32(1), w.get().Status.Devices.Behind)
	var s, was v1alpha1.FirmwareSource
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: "cx6dx"}, &s))
	s.DeepCopyInto(&was)
	s.Status.Images[0].Version = "1.0"
	require.NoError(t, w.client.Status().Update(t.Context(), &s))
	w.look()
	assert.Equal(t, v1alpha1.PositionNewest, w.component(v1alpha1.ClassNIC).Running[0].Position)
	require.NoError(t, w.client.Delete(t.Context(), &s))
	w.look()
	assert.Equal(t, v1alpha1.PositionUnknown, w.component(v1alpha1.ClassNIC).Running[0].Position)
	assert.Zero(t, w.net.count(), "no provider is asked for it")

	assert.True(t, imagesChanged.Create(event.CreateEvent{Object: &was}))
	assert.True(t, imagesChanged.Delete(event.DeleteEvent{Object: &was}))
	assert.True(t, imagesChanged.Update(event.UpdateEvent{ObjectOld: &was, ObjectNew: &s}))
	assert.False(t, imagesChanged.Update(event.UpdateEvent{ObjectOld: &s, ObjectNew: &s}))
	assert.ElementsMatch(t, watch.Requests(r650), w.reconciler.all(t.Context(), &s), "which is how every catalog is looked at")
}

// What nobody knows is not counted as none: where no provider tells vulnerabilities the count is absent, and a list that is empty is there.
func TestUnknownIsNotZero(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.node("n2", "PowerEdge R650", "1.2")
	w.source("cx6dx", "1.2")
	w.look()
	w.discover()
	assert.Nil(t, w.get().Status.Devices.Vulnerable, "sources tell none")
	assert.Equal(t, "1 of 4 devices run behind the newest version; for 2 it is not known.", w.ready().Message)
	assert.Nil(t, w.component(v1alpha1.ClassNIC).Running[0].Issues)

	w.edit(withIndex)
	w.net.answer[ours] = indexOf(nicEntry("1.2", `,"fixes":[]`))
	w.discover()
	assert.Equal(t, new(int32), w.get().Status.Devices.Vulnerable, "the index says that there are none")
	assert.Contains(t, w.ready().Message, "No provider says whether 2 devices have a known vulnerability.", "of each BIOS")
	assert.NotNil(t, w.component(v1alpha1.ClassNIC).Running[0].Issues)
	assert.Nil(t, w.component(v1alpha1.ClassBIOS).Running[0].Issues)
	w.start(Bounds{})
	w.look()
	assert.Equal(t, new(int32), w.get().Status.Devices.Vulnerable, "a new process remembers")

	w.node("n3", "PowerEdge R650", "odd")
	w.discover()
	assert.Equal(t, new(int32), w.get().Status.Devices.Vulnerable)
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.Requests.Discover = "again" })
	w.net.answer[ours] = indexOf(nicEntry("1.2", `,"fixes":["CVE-2026-1"]`))
	w.discover()
	assert.Equal(t, new(int32(1)), w.get().Status.Devices.Vulnerable)
	assert.Contains(t, w.ready().Message, "No provider says whether 4 devices have a known vulnerability.", "nor of a version that cannot be compared")
}

// A fix is a version that is offered, also when it is none of the newest ones that are listed, and one that is allowed.
func TestFixIsOffered(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "1.0")
	w.source("cx6dx", "1.4")
	w.source("later", "1.5")
	w.look()
	var s v1alpha1.FirmwareSource
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: "cx6dx"}, &s))
	s.Spec.UpgradePaths = []v1alpha1.UpgradePath{{To: "1.4", From: []string{"1.0"}}}
	require.NoError(t, w.client.Update(t.Context(), &s))
	w.edit(withIndex)
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.VersionsToStore = 1 })
	w.net.answer[ours] = indexOf(nicEntry("1.5"), nicEntry("1.4", `,"fixes":["CVE-2026-1"]`))
	w.discover()
	nic := w.component(v1alpha1.ClassNIC)
	assert.Equal(t, []string{"1.5"}, versionsOf(nic))
	assert.Equal(t, "1.5", nic.Running[0].FixedIn, "the paths of its source forbid 1.4")
	s.Spec.UpgradePaths = nil
	require.NoError(t, w.client.Update(t.Context(), &s))
	w.look()
	assert.Equal(t, "1.4", w.component(v1alpha1.ClassNIC).Running[0].FixedIn)
}

// What is not known to be for a device is neither its newest version nor a vulnerability of it, and is said: a device that runs the newest one
// that is known to be for it may be behind.
func TestDoubtIsSaidAsUnknown(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "22.41.1000")
	w.node("n2", "PowerEdge R650", "22.40.1000")
	w.node("n3", "PowerEdge R650", "22.43.1000")
	w.source("cx6dx", "22.41.1000")
	w.look()
	const dell = "https://mirror.example.com/Catalog.xml"
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) {
		s.Providers = []v1alpha1.CatalogProvider{{Name: "sources", Type: v1alpha1.ProviderSources}, {Name: "dell", Type: v1alpha1.ProviderDell, URL: dell}}
	})
	w.net.answer[dell] = `<Manifest><SoftwareComponent vendorVersion="22.42.10.00"><ComponentType value="FRMW"/><SupportedDevices><Device>` +
		`<PCIInfo deviceID="101D" vendorID="15B3" subVendorID="15B3" subDeviceID="0016"/></Device></SupportedDevices>` +
		`<SupportedSystems><Brand><Display>PowerEdge</Display><Model><Display>R650</Display></Model></Brand></SupportedSystems></SoftwareComponent></Manifest>`
	w.discover()
	nic := w.component(v1alpha1.ClassNIC)
	want := []v1alpha1.CatalogRunning{
		{Version: "22.40.1000", Devices: 1, Position: v1alpha1.PositionBehind},
		{Version: "22.41.1000", Devices: 1, Position: v1alpha1.PositionUnknown},
		{Version: "22.43.1000", Devices: 1, Position: v1alpha1.PositionAhead},
	}
	assert.Equal(t, []string{"22.41.1000"}, versionsOf(nic))
	assert.Equal(t, want, nic.Running)
	assert.Equal(t, "For 15b3:101d it is not known whether 1 release is for these devices, such as 22.42.1000: "+
		"its package is for certain boards, and the devices report none (subsystemID). Newer versions of that kind leave the position unknown.", w.get().Status.Providers[1].Message)
	w.start(Bounds{})
	w.look()
	assert.Equal(t, want, w.component(v1alpha1.ClassNIC).Running, "a new process knows no better")

	var d v1alpha1.NodeDevice
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: "n2-nic"}, &d))
	d.Status.SubsystemID = "15b3:0016"
	require.NoError(t, w.client.Status().Update(t.Context(), &d))
	w.discover()
	var boards []string
	for _, c := range w.get().Status.Components {
		boards = append(boards, c.SubsystemID)
	}
	assert.Equal(t, []string{"", "", "15b3:0016"}, boards, "the boards are told apart")
	assert.Equal(t, []string{"22.42.1000", "22.41.1000"}, versionsOf(w.get().Status.Components[2]))
}

// What a release needs to run before it is met at once, or by way of another one that is offered.
func TestFixIsReachedByWhatItNeeds(t *testing.T) {
	needs := func(v string) []catalog.Need { return []catalog.Need{{Compare: "ge", Version: v}} }
	for want, list := range map[string][]catalog.Release{
		"1.3": {{Version: "1.3", Needs: needs("1.0")}},
		"1.4": {{Version: "1.4", Needs: needs("1.2")}, {Version: "1.2"}},
		"1.5": {{Version: "1.5", Needs: needs("1.4")}, {Version: "1.4", Needs: needs("1.2")}, {Version: "1.2", Needs: needs("0.9")}},
		"":    {{Version: "1.5", Needs: needs("1.2")}, {Version: "1.2", Needs: needs("1.1")}},
	} {
		var o offers
		o.add("a", catalog.Offer{Decimal: list, Issues: []catalog.Issue{{ID: "CVE-1", FixedIn: []string{list[0].Version}}}})
		c := judge(kind{format: inventory.FormatDotted, running: map[string]group{"1.0": {devices: 1}}}, o, 5, nil)
		assert.Equal(t, want, c.Running[0].FixedIn)
	}
}

// What Dell spells otherwise than the device is the same version, and what cannot be read disturbs no other one, also after a restart.
func TestVendorSpellingIsNewest(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "PowerEdge R650", "22.41.1000")
	w.node("n2", "PowerEdge R650", "22.40.1000")
	w.look()
	const dell = "https://mirror.example.com/Catalog.xml"
	w.edit(func(s *v1alpha1.FirmwareCatalogSpec) {
		s.Providers = []v1alpha1.CatalogProvider{{Name: "dell", Type: v1alpha1.ProviderDell, URL: dell}}
	})
	offered := func(version string) string {
		return `<SoftwareComponent vendorVersion="` + version + `"><ComponentType value="FRMW"/><SupportedDevices><Device><PCIInfo deviceID="101D" vendorID="15B3"/></Device></SupportedDevices>` +
			`<SupportedSystems><Brand><Display>PowerEdge</Display><Model><Display>R650</Display></Model></Brand></SupportedSystems></SoftwareComponent>`
	}
	w.net.answer[dell] = `<Manifest>` + offered("A05") + offered("22.41.10.00") + offered("23.1.2") + `</Manifest>`
	w.discover()
	want := w.component(v1alpha1.ClassNIC)
	assert.Equal(t, []string{"22.41.1000", "A05", "23.1.2"}, versionsOf(want))
	assert.Equal(t, []v1alpha1.CatalogRunning{
		{Version: "22.40.1000", Devices: 1, Position: v1alpha1.PositionBehind}, {Version: "22.41.1000", Devices: 1, Position: v1alpha1.PositionNewest},
	}, want.Running)
	w.start(Bounds{})
	w.look()
	assert.Equal(t, want, w.component(v1alpha1.ClassNIC))
}
