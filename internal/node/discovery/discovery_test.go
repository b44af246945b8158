package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

// machine is a host whose hardware a test changes.
type machine struct {
	mu    *sync.Mutex
	found host.Inventory
	err   error
	scans int
	// sysfs is the id the kernel has for a device whose driver knows another one; nil for the same.
	sysfs func(string) string
	// plugged stands for what is plugged in.
	plugged string
}

func (m *machine) ScanGuarded(_ context.Context, guard host.Guard) (host.Inventory, error) {
	m.mu.Lock()
	m.scans++
	found, err := m.found, m.err
	found.Devices = slices.Clone(m.found.Devices)
	m.mu.Unlock()
	for i := range found.Devices {
		id := found.Devices[i].Identity
		if m.sysfs != nil {
			id.UniqueID = m.sysfs(id.UniqueID)
		}
		if err := guard(id); err != nil {
			found.Devices[i].Identity, found.Devices[i].Err, found.Devices[i].Firmware = id, err, nil
		}
	}
	return found, err
}

// writes are the unique ids of the devices that are written to.
type writes map[string]bool

func (w writes) WriteRunning(id string) (bool, error) { return w[id], nil }

func (m *machine) look() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return "some" + m.plugged, nil
}

// book is a journal whose content a test changes.
type book struct {
	mu   *sync.Mutex
	view journal.View
}

func (b *book) View() (journal.View, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.view, nil
}

// bench is a node with its objects, its hardware and the discovery that is tested. Writes to the API are counted.
type bench struct {
	*discovery.Discovery
	client client.Client
	// mu guards what follows while loops run.
	mu     sync.Mutex
	host   *machine
	book   *book
	busy   writes
	steps  []v1alpha1.EnabledStep
	tools  []vendortool.Finding
	writes int
	refuse string // the name of an object whose writes fail
	// settings are nil where the daemon reads none.
	settings *settings
	// fixed is the class of devices whose settings are not to be changed.
	fixed inventory.Class
}

const node = "n1"

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	b := &bench{busy: writes{}}
	b.book = &book{mu: &b.mu}
	b.host = &machine{mu: &b.mu, found: host.Inventory{BootID: "boot-1", Devices: []inventory.Device{card("aa"), drive("bb"), bios()}}}
	counted := func(name string) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.writes++
		if name == b.refuse {
			return errors.New("refused")
		}
		return nil
	}
	inner := fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.NodeDevice{}, &v1alpha1.NodeFirmware{}).
		WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "node-uid"}},
			&v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: node, Generation: 1}}).
		WithObjects(objects...).Build()
	b.client = interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := counted(o.GetName()); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := counted(o.GetName()); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			if err := counted(o.(interface{ GetName() string }).GetName()); err != nil {
				return err
			}
			return c.SubResource(sub).Apply(ctx, o, opts...)
		},
	})
	b.restart()
	return b
}

// restart is the daemon's: all it knows is in the journal and in the API.
func (b *bench) restart() {
	c := discovery.Config{
		Node: node, Interval: 5 * time.Minute, Host: b.host, Look: b.host.look, Journal: b.book, Writes: b.busy, Steps: b.steps, Client: b.client, Reader: b.client,
		Tools: b.tools, Log: logr.Discard(),
	}
	if b.settings != nil {
		c.Settings, c.MayConfigure = b.settings, func(class inventory.Class) bool { return class != b.fixed }
	}
	b.Discovery = discovery.New(c)
}

// scans is how often the hardware was scanned, written how often the API was written to.
func (b *bench) scans() int   { b.mu.Lock(); defer b.mu.Unlock(); return b.host.scans }
func (b *bench) written() int { b.mu.Lock(); defer b.mu.Unlock(); return b.writes }

// change changes the scene while loops run.
func (b *bench) change(f func()) { b.mu.Lock(); defer b.mu.Unlock(); f() }

// seen scans and publishes.
func (b *bench) seen(t *testing.T) {
	t.Helper()
	require.NoError(t, b.Refresh(t.Context()))
}

func (b *bench) names(t *testing.T) []string {
	t.Helper()
	var list v1alpha1.NodeDeviceList
	require.NoError(t, b.client.List(t.Context(), &list))
	var names []string
	for _, d := range list.Items {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return names
}

func (b *bench) device(t *testing.T, name string) *v1alpha1.NodeDevice {
	t.Helper()
	var d v1alpha1.NodeDevice
	require.NoError(t, b.client.Get(t.Context(), client.ObjectKey{Name: name}, &d))
	return &d
}

func (b *bench) node(t *testing.T) *v1alpha1.NodeFirmware {
	t.Helper()
	var n v1alpha1.NodeFirmware
	require.NoError(t, b.client.Get(t.Context(), client.ObjectKey{Name: node}, &n))
	return &n
}

func card(id string) inventory.Device {
	return inventory.Device{
		Identity: inventory.Identity{Class: inventory.NIC, UniqueID: id, Vendor: "Mellanox Technologies", VendorID: "15b3", DeviceID: "101d",
			Model: "ConnectX-6 Dx", BoardID: "MT_0000000359", PCI: []inventory.PCIAddress{{Bus: 0x3b}, {Bus: 0x3b, Function: 1}}},
		Ports:    []inventory.Port{{PCI: inventory.PCIAddress{Bus: 0x3b}, NetDevice: "ens1f0", Link: inventory.Ethernet, State: inventory.LinkUp, MAC: "b8:ce:f6:00:00:01"}},
		Firmware: &inventory.Firmware{Running: "22.39.1002", Stored: "22.39.1002", Activation: inventory.ActivateReboot, Format: inventory.FormatDotted},
		Driver:   "mstflint",
	}
}

func drive(id string) inventory.Device {
	return inventory.Device{
		Identity: inventory.Identity{Class: inventory.Disk, UniqueID: id, Model: "PM9A3", PCI: []inventory.PCIAddress{{Bus: 2}}},
		Firmware: &inventory.Firmware{Running: "GDC5302Q", Slots: []inventory.Slot{{Number: 1, Version: "GDC5302Q", State: inventory.SlotActive}}},
		Driver:   "nvme",
	}
}

func bios() inventory.Device {
	return inventory.Device{Identity: inventory.Identity{Class: inventory.BIOS, UniqueID: "cc", Vendor: "Lenovo"},
		Firmware: &inventory.Firmware{Running: "1.20", Activation: inventory.ActivateReboot}, Driver: "fwupd"}
}

// broken is the device with what sysfs still says and the reason why no more is known.
func broken(d inventory.Device) inventory.Device {
	d.UniqueID, d.BoardID, d.Firmware = "", "", nil
	d.Err = errors.New("mstflint: cannot open device")
	return d
}

func TestDevicesAppearByThemselves(t *testing.T) { // R001-1, R001-3, R001-4, R000-12
	b := newBench(t)
	b.seen(t)
	assert.Equal(t, []string{"n1-bios", "n1-disk-bb", "n1-nic-aa"}, b.names(t))

	d := b.device(t, "n1-nic-aa")
	assert.Equal(t, v1alpha1.NodeDeviceSpec{NodeName: node}, d.Spec, "what should run is not the daemon's to say")
	require.Len(t, d.OwnerReferences, 1)
	assert.Equal(t, metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node, UID: "node-uid"}, d.OwnerReferences[0])
	assert.Equal(t, "MT_0000000359", d.Status.BoardID)
	assert.Equal(t, "0000:3b:00.0", d.Status.PCIAddress)
	assert.Equal(t, []v1alpha1.DevicePort{{PCIAddress: "0000:3b:00.0", NetDevice: "ens1f0", LinkType: "Ethernet"}}, d.Status.Ports)
	assert.Equal(t, &v1alpha1.ObservedFirmware{Running: "22.39.1002", Stored: "22.39.1002", Activation: v1alpha1.ActivationReboot,
		Driver: "mstflint", VersionFormat: v1alpha1.VersionFormatDotted, Rollback: v1alpha1.RollbackNone, Access: v1alpha1.AccessReadWrite}, d.Status.Firmware)
	assert.True(t, meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionReady))

	n := b.node(t)
	assert.Equal(t, "boot-1", n.Status.BootID)
	assert.Equal(t, "1.20", n.Status.BIOSVersion)
	assert.NotNil(t, n.Status.LastScanTime)
}

func TestWritesNothingWithoutChange(t *testing.T) { // R001-2, R000-30
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		run(t, b)
		synctest.Wait()
		first := b.written()
		assert.Equal(t, 3+3+1, first, "each object is created, and each status written, once")
		time.Sleep(59 * time.Minute)
		assert.Equal(t, 12, b.scans(), "a scan at the start and one each five minutes")
		assert.Equal(t, first, b.written())
		time.Sleep(2 * time.Minute)
		assert.Equal(t, first+1, b.written(), "the time of the last scan is refreshed once an hour")
		b.Changed()
		b.Changed()
		synctest.Wait()
		assert.Equal(t, first+1, b.written())
	})
}

func TestAVersionThatChangedOnTheDeviceIsReported(t *testing.T) { // R000-12, R002-4
	synctest.Test(t, func(t *testing.T) { // a scan in another second is reported with its time
		b := newBench(t)
		b.seen(t)
		b.host.found.Devices[0].Firmware = &inventory.Firmware{Running: "22.41.1000", Stored: "22.41.1000"}
		before := b.writes
		b.seen(t)
		assert.Equal(t, "22.41.1000", b.device(t, "n1-nic-aa").Status.Firmware.Running)
		assert.Equal(t, before+2, b.writes, "of the device, and of the node that has another baseline")
	})
}

func TestHardwareThatIsGoneIsRemovedAndComesBack(t *testing.T) { // R001-2
	b := newBench(t)
	b.seen(t)
	card := b.host.found.Devices[0]
	b.host.found.Devices = b.host.found.Devices[1:]
	b.seen(t)
	assert.Equal(t, []string{"n1-bios", "n1-disk-bb"}, b.names(t))
	b.host.found.Devices = append(b.host.found.Devices, card)
	b.seen(t)
	assert.Equal(t, []string{"n1-bios", "n1-disk-bb", "n1-nic-aa"}, b.names(t))
}

func TestAnotherCardInTheSameSlotIsAnotherDevice(t *testing.T) { // R001-2
	b := newBench(t)
	b.seen(t)
	b.host.found.Devices[0] = card("dd")
	b.seen(t)
	assert.Equal(t, []string{"n1-bios", "n1-disk-bb", "n1-nic-dd"}, b.names(t))
}

func TestUnreadableDeviceKeepsFacts(t *testing.T) {
	b := newBench(t)
	b.seen(t)
	b.host.found.Devices[0] = broken(b.host.found.Devices[0])
	b.host.found.Devices[1].Firmware = &inventory.Firmware{Running: "NEW"}
	b.seen(t)
	assert.Equal(t, []string{"n1-bios", "n1-disk-bb", "n1-nic-aa"}, b.names(t), "it is the same device though it cannot say so")
	d := b.device(t, "n1-nic-aa")
	assert.Equal(t, "22.39.1002", d.Status.Firmware.Running, "what was last read")
	assert.Equal(t, "aa", d.Status.UniqueID)
	inspected := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionInspected)
	assert.Equal(t, v1alpha1.ReasonReadFailed, inspected.Reason)
	assert.Contains(t, inspected.Message, "cannot open device")
	assert.Equal(t, "NEW", b.device(t, "n1-disk-bb").Status.Firmware.Running, "its siblings are unaffected")
	assert.True(t, meta.IsStatusConditionTrue(b.node(t).Status.Conditions, v1alpha1.ConditionDegraded))

	b.host.found.Devices[0] = card("aa")
	b.seen(t)
	assert.True(t, meta.IsStatusConditionTrue(b.device(t, "n1-nic-aa").Status.Conditions, v1alpha1.ConditionInspected))
	assert.Nil(t, meta.FindStatusCondition(b.node(t).Status.Conditions, v1alpha1.ConditionDegraded))
}

// Two cards of one board look like one until the first of them is read: what is in the place of a device that cannot be read may be there.
func TestADeviceThatMayBePartOfAnUnreadableOneStays(t *testing.T) {
	b := newBench(t)
	second := card("dd")
	second.PCI = []inventory.PCIAddress{{Bus: 0xaf}}
	b.host.found.Devices = append(b.host.found.Devices, second)
	b.seen(t)
	both := b.host.found.Devices
	whole := broken(card("aa"))
	whole.PCI = append(whole.PCI, second.PCI...)
	b.host.found.Devices = []inventory.Device{whole}
	b.seen(t)
	assert.Equal(t, []string{"n1-nic-aa", "n1-nic-dd"}, b.names(t))
	assert.Equal(t, "22.39.1002", b.device(t, "n1-nic-dd").Status.Firmware.Running, "what was last read")

	b.host.found.Devices = both[:1]
	b.seen(t)
	assert.Equal(t, []string{"n1-nic-aa"}, b.names(t), "the board was read, and has one card")
}

func TestListsNeverReadDevice(t *testing.T) {
	b := newBench(t)
	b.host.found.Devices = []inventory.Device{broken(card("aa"))}
	b.seen(t)
	require.Len(t, b.names(t), 1)
	d := b.device(t, b.names(t)[0])
	assert.Equal(t, "ConnectX-6 Dx", d.Status.Model)
	assert.Equal(t, metav1.ConditionFalse, meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionInspected).Status)
}

// lesser is a readable device that reports less of itself than before, so that its id is another one.
func lesser(d inventory.Device, id string) inventory.Device {
	d.UniqueID, d.BoardID, d.Firmware, d.Driver = id, "", nil, ""
	return d
}

func TestADeviceThatTellsLessOfItselfIsStillTheSame(t *testing.T) { // R001-2
	for name, tc := range map[string]struct {
		known inventory.Device
		less  string
	}{
		"a card a virtual machine was given":  {card("b8:ce:f6:00:00:01"), "pci.15b3-101d.0000:3b:00.0"},
		"a card that reports its PCI serial":  {card("b8:ce:f6:00:00:01"), "dsn.b8cef60000000001"},
		"a drive whose namespaces are gone":   {drive("eui.01"), "nvme.nqn.2014.08.org.nvmexpress:S1"},
		"an InfiniBand card without a driver": {card("0002c90300a1b2c0"), "dsn.0002c90300a1b2c0"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tc.known.SerialNumber = "S1"
			b.host.found.Devices = []inventory.Device{tc.known}
			b.seen(t)
			before := b.names(t)
			require.Len(t, before, 1)
			d := b.device(t, before[0])
			d.Spec.Firmware = &v1alpha1.DesiredFirmware{Version: "22.41.1000"}
			require.NoError(t, b.client.Update(t.Context(), d))

			b.host.found.Devices = []inventory.Device{lesser(tc.known, tc.less)}
			b.seen(t)
			assert.Equal(t, before, b.names(t))
			d = b.device(t, before[0])
			assert.NotNil(t, d.Spec.Firmware, "the desired firmware is kept")
			assert.Equal(t, tc.known.UniqueID, d.Status.UniqueID)
			inspected := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionInspected)
			assert.Equal(t, metav1.ConditionFalse, inspected.Status)
			assert.Contains(t, inspected.Message, tc.less)

			b.host.found.Devices = []inventory.Device{tc.known}
			b.seen(t)
			assert.True(t, meta.IsStatusConditionTrue(b.device(t, before[0]).Status.Conditions, v1alpha1.ConditionInspected))
		})
	}
}

func TestAWeakerIDAloneDoesNotMakeADeviceTheKnownOne(t *testing.T) { // R001-2
	known := card("b8:ce:f6:00:00:01")
	known.SerialNumber = "S1"
	for name, change := range map[string]func(*inventory.Device){
		"another serial number": func(d *inventory.Device) { d.SerialNumber = "S2" },
		"no serial number":      func(d *inventory.Device) { d.SerialNumber = "" },
		"another board":         func(d *inventory.Device) { d.BoardID = "MT_0000000001" },
		"another model":         func(d *inventory.Device) { d.DeviceID = "101e" },
		"another slot":          func(d *inventory.Device) { d.PCI = []inventory.PCIAddress{{Bus: 0x5e}} },
		"an id of equal worth":  func(d *inventory.Device) { d.UniqueID = "b8:ce:f6:00:00:99" },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.host.found.Devices = []inventory.Device{known}
			b.seen(t)
			before := b.names(t)
			other := lesser(known, "pci.15b3-101d.0000:3b:00.0")
			change(&other)
			b.host.found.Devices = []inventory.Device{other}
			b.seen(t)
			after := b.names(t)
			require.Len(t, after, 1)
			assert.NotEqual(t, before, after)
		})
	}
}

func TestAbsenceCountsOnlyAfterACompleteEnumeration(t *testing.T) { // R001-2
	b := newBench(t)
	b.seen(t)
	b.host.found.Devices = []inventory.Device{bios()} // neither card nor drive
	b.host.found.Incomplete = map[inventory.Class]error{inventory.NIC: errors.New("sys/class/net: permission denied")}
	scanned := b.node(t).Status.LastScanTime
	b.seen(t)
	assert.Equal(t, []string{"n1-bios", "n1-nic-aa"}, b.names(t))
	n := b.node(t)
	assert.Contains(t, meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionDegraded).Message, "permission denied")
	assert.True(t, scanned.Equal(n.Status.LastScanTime), "the scan was not complete")
}

func TestFailedScanChangesNothing(t *testing.T) {
	b := newBench(t)
	b.seen(t)
	before := b.writes
	b.host.err = errors.New("no sysfs")
	require.ErrorContains(t, b.Refresh(t.Context()), "no sysfs")
	assert.Equal(t, before, b.writes)
}

func TestDevicesThatCannotBeToldApartAreSaidToBe(t *testing.T) {
	b := newBench(t)
	b.host.found.Devices = []inventory.Device{card("aa"), card("aa")}
	b.seen(t)
	assert.Len(t, b.names(t), 1)
	assert.Contains(t, meta.FindStatusCondition(b.node(t).Status.Conditions, v1alpha1.ConditionReady).Message, "same unique id")
}

func TestANodePublishesABoundedNumberOfDevices(t *testing.T) {
	b := newBench(t)
	b.seen(t)
	known := b.names(t)
	for i := range 2000 {
		b.host.found.Devices = append(b.host.found.Devices, card(fmt.Sprintf("%012x", i)))
	}
	b.seen(t)
	names := b.names(t)
	assert.Len(t, names, 512)
	for _, name := range known {
		assert.Contains(t, names, name, "what was published stays")
	}
	assert.Contains(t, meta.FindStatusCondition(b.node(t).Status.Conditions, v1alpha1.ConditionReady).Message, "2003 devices were found and 512 are shown")
	require.NoError(t, b.Publish(t.Context()))
	written := b.written()
	require.NoError(t, b.Publish(t.Context()))
	assert.Equal(t, written, b.written(), "and it is quiet")
}

func TestOneRefusedObjectDoesNotKeepAnotherFromTheTruth(t *testing.T) {
	b := newBench(t)
	b.refuse = "n1-disk-bb"
	require.ErrorContains(t, b.Refresh(t.Context()), "n1-disk-bb")
	assert.Equal(t, []string{"n1-bios", "n1-nic-aa"}, b.names(t))
	assert.NotEmpty(t, b.device(t, "n1-nic-aa").Status.BoardID)
	b.refuse = ""
	require.NoError(t, b.Publish(t.Context()))
	assert.NotEmpty(t, b.device(t, "n1-disk-bb").Status.Model)
}

func TestANameThatAnotherNodeTookIsSaid(t *testing.T) {
	b := newBench(t, &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n1-bios"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n2"}})
	require.ErrorContains(t, b.Refresh(t.Context()), "an object of node n2 has the name of a device of this node")
	assert.Empty(t, b.device(t, "n1-bios").Status.Model)
	assert.NotEmpty(t, b.device(t, "n1-nic-aa").Status.BoardID, "the others are reported")
	require.NoError(t, b.client.Delete(t.Context(), b.device(t, "n1-bios")))
	require.NoError(t, b.Publish(t.Context()))
	assert.Equal(t, node, b.device(t, "n1-bios").Spec.NodeName)
}

func TestAnswersSpecWithoutScan(t *testing.T) {
	b := newBench(t)
	b.seen(t)
	scans := b.host.scans
	d := b.device(t, "n1-nic-aa")
	d.Spec.Firmware = &v1alpha1.DesiredFirmware{Version: "22.41.1000", Digest: v1alpha1.Digest(inventory.Digest{1}.String())}
	require.NoError(t, b.client.Update(t.Context(), d))
	require.NoError(t, b.Publish(t.Context()))
	d = b.device(t, "n1-nic-aa")
	assert.Equal(t, v1alpha1.ReasonPending, meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady).Reason)
	assert.Equal(t, "22.39.1002", d.Status.Firmware.Running, "the desired version is never shown as observed")
	assert.Equal(t, scans, b.host.scans)
}

func TestTheJournalIsShown(t *testing.T) {
	b := newBench(t)
	b.seen(t)
	began := time.Now()
	job := journal.Job{Name: "n1-1234", UID: "u", Record: step.Record{Steps: []step.Step{{
		Step: plan.Step{Kind: plan.Flash, Device: "n1-nic-aa"}, State: step.Running, Started: &began}}}}
	job.Updates = []journal.Update{{Device: "n1-nic-aa", UniqueID: "aa"}}
	b.book.view = journal.View{Jobs: []journal.Job{job}}
	require.NoError(t, b.Publish(t.Context()))
	assert.Equal(t, v1alpha1.ReasonProgressing, meta.FindStatusCondition(b.device(t, "n1-nic-aa").Status.Conditions, v1alpha1.ConditionReady).Reason)
	assert.Equal(t, v1alpha1.ReasonNotAssigned, meta.FindStatusCondition(b.device(t, "n1-disk-bb").Status.Conditions, v1alpha1.ConditionReady).Reason)
	assert.Equal(t, "flash", b.node(t).Status.CurrentStep.Name)
	before := b.writes
	require.NoError(t, b.Publish(t.Context()))
	assert.Equal(t, before, b.writes)

	failed := journal.Failure{Version: "2", Digest: "sha256:00", Reason: v1alpha1.ReasonWriteFailed, Job: "n1-1234", Time: began}
	job.Record.Outcome, job.Record.Failure = step.Failed, &step.Failure{Reason: step.WriteFailed, Message: "the tool said no", Step: plan.Flash, Held: true}
	b.book.view = journal.View{Jobs: []journal.Job{job}, Devices: map[string]journal.Device{"aa": {UniqueID: "aa", LastFailure: &failed}},
		History: []journal.Past{{Job: "n1-1234", Result: journal.Failed, Message: "step flash: the tool said no"}}}
	require.NoError(t, b.Publish(t.Context()))
	n := b.node(t)
	assert.Nil(t, n.Status.CurrentStep)
	assert.Equal(t, "step flash: the tool said no", n.Status.LastError)
	assert.True(t, meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionHeld))
	assert.Equal(t, v1alpha1.ReasonWriteFailed, b.device(t, "n1-nic-aa").Status.Failure.Reason)

	origin := []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "t", UID: "u", Generation: 5, Rule: "r"}, {Kind: v1alpha1.OriginSource, Name: "s", UID: "v", Generation: 3}}
	b.book.view = journal.View{Devices: map[string]journal.Device{"aa": {UniqueID: "aa", LastApplied: &journal.Applied{
		Version: "2", Digest: "sha256:" + strings.Repeat("0", 64), Job: "n1-1234", BootID: "b", Time: began.Add(time.Hour), Origin: []journal.Origin{
			{Kind: "FirmwareTemplate", Name: "t", UID: "u", Generation: 5, Rule: "r"}, {Kind: "FirmwareSource", Name: "s", UID: "v", Generation: 3},
		},
	}}}}
	require.NoError(t, b.Publish(t.Context()))
	d := b.device(t, "n1-nic-aa")
	assert.Equal(t, origin, d.Status.Applied.Origin, "the first status after an update names all that it came from (R004-12)")
	assert.Nil(t, d.Status.Failure, "a later success makes the failure void")
	b.book.view = journal.View{}
	require.NoError(t, b.Publish(t.Context()))
	assert.NotNil(t, b.device(t, "n1-nic-aa").Status.Applied, "a lost journal takes nothing away")
}

// A failure that the journal has cleared is gone, also where the job that cleared it wrote nothing and so applied nothing; one of which a
// lost journal knows nothing stays.
func TestClearedFailureIsGone(t *testing.T) {
	b := newBench(t)
	failed := journal.Failure{Version: "2", Digest: "sha256:" + strings.Repeat("0", 64), Reason: v1alpha1.ReasonVerifyFailed, Job: "n1-1234", Time: time.Now()}
	b.book.view = journal.View{Devices: map[string]journal.Device{"aa": {UniqueID: "aa", LastFailure: &failed}}}
	b.seen(t)
	for _, lost := range []map[string]journal.Device{nil, {"aa": {UniqueID: "aa", Attempts: &journal.Attempts{Digest: "sha256:next", Writes: 1}}}} {
		b.book.view = journal.View{Devices: lost}
		require.NoError(t, b.Publish(t.Context()))
		require.NotNil(t, b.device(t, "n1-nic-aa").Status.Failure)
		assert.Equal(t, v1alpha1.ReasonVerifyFailed, b.device(t, "n1-nic-aa").Status.Failure.Reason)
	}
	b.book.view = journal.View{Devices: map[string]journal.Device{"aa": {UniqueID: "aa"}}}
	require.NoError(t, b.Publish(t.Context()))
	assert.Nil(t, b.device(t, "n1-nic-aa").Status.Failure)
}

// What a person restored stays as well while the source had no image of the desired version: until another version is desired, and where the
// journal was lost.
func TestRestoredOverAVersionWithoutImage(t *testing.T) {
	b := newBench(t)
	at := time.Now()
	record := journal.Device{
		UniqueID: "aa", LastApplied: &journal.Applied{Version: "1", Digest: "sha256:" + strings.Repeat("1", 64), Job: "restore", Time: at},
		LastFailure: &journal.Failure{Version: "2", Reason: v1alpha1.ReasonRestored, Job: "restore", Time: at},
	}
	b.book.view = journal.View{Devices: map[string]journal.Device{"aa": record}}
	b.seen(t)
	ready := func(version string) string {
		d := b.device(t, "n1-nic-aa")
		d.Spec.Firmware = &v1alpha1.DesiredFirmware{Version: version, Digest: v1alpha1.Digest("sha256:" + strings.Repeat("2", 64)), Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeAllow}
		require.NoError(t, b.client.Update(t.Context(), d))
		require.NoError(t, b.Publish(t.Context()))
		d = b.device(t, "n1-nic-aa")
		require.False(t, d.Status.IsUnhealthy())
		return meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady).Reason
	}
	assert.Equal(t, v1alpha1.ReasonRestored, ready("2"))
	assert.Equal(t, v1alpha1.ReasonPending, ready("3"), "another version is desired")
	assert.Equal(t, v1alpha1.ReasonRestored, ready("2"))
	b.book.view = journal.View{}
	assert.Equal(t, v1alpha1.ReasonRestored, ready("2"), "a lost journal takes nothing away")
}

// An API server that was restored from a backup has the status of yesterday. The node says at once that it is at work, and one
// that is idle says that it is there; the operator waits for either.
func TestReplacesStatusFromBackup(t *testing.T) {
	for name, atWork := range map[string]bool{"at work": true, "idle": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.seen(t)
			yesterday := b.node(t).Status
			yesterday.LastScanTime = &metav1.Time{Time: yesterday.LastScanTime.Add(-24 * time.Hour)}
			if atWork {
				began := time.Now()
				b.book.view = journal.View{Jobs: []journal.Job{{Name: "of-today", UID: "u", Record: step.Record{Steps: []step.Step{{
					Step: plan.Step{Kind: plan.Flash, Device: "n1-nic-aa"}, State: step.Running, Started: &began}}}}}}
				require.NoError(t, b.Publish(t.Context()))
			}
			now, scans := b.node(t), b.scans()
			restored := now.DeepCopy()
			restored.Status = yesterday
			require.NoError(t, b.client.Status().Update(t.Context(), restored))

			require.NoError(t, b.Publish(t.Context())) // as when the daemon sees that its object has changed
			after := b.node(t).Status
			assert.Equal(t, now.Status.CurrentStep, after.CurrentStep)
			assert.Equal(t, atWork, after.CurrentStep != nil)
			assert.True(t, after.LastScanTime.After(yesterday.LastScanTime.Time))
			assert.Equal(t, scans, b.scans(), "no scan is needed for that, nor possible during a write")
		})
	}
}

func TestACardInTheMiddleOfItsUpdateIsSaidToBeThoughItCannotBeRead(t *testing.T) {
	b := newBench(t)
	b.seen(t)
	unread := broken(card("aa"))
	unread.UniqueID = "0002c90300a1b2c1" // the kernel knows an InfiniBand card by another id than its driver
	b.host.found.Devices[0] = unread
	began := time.Now()
	b.book.view = journal.View{Jobs: []journal.Job{{Name: "n1-1234", UID: "u",
		Record:  step.Record{Steps: []step.Step{{Step: plan.Step{Kind: plan.Activate, Device: "n1-nic-aa"}, State: step.Running, Started: &began}}},
		Updates: []journal.Update{{Device: "n1-nic-aa", UniqueID: "aa"}}}}}
	b.seen(t)
	assert.Equal(t, v1alpha1.ReasonProgressing, meta.FindStatusCondition(b.device(t, "n1-nic-aa").Status.Conditions, v1alpha1.ConditionReady).Reason)
}

func TestNothingIsCreatedForANodeThatIsNotThere(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	b.seen(t)
	assert.Empty(t, b.names(t))
}

func TestScansFollowTheThreshold(t *testing.T) { // R000-13, R000-26
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		run(t, b)
		synctest.Wait()
		require.Equal(t, 1, b.scans())
		advance := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		advance(time.Minute)
		b.SetThreshold(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, b.scans(), "the last scan is fresh")
		advance(59 * time.Second)
		assert.Equal(t, 1, b.scans(), "and still is")
		advance(time.Second)
		assert.Equal(t, 2, b.scans(), "now it is not")
		advance(time.Minute)
		b.SetThreshold(30 * time.Second)
		synctest.Wait()
		assert.Equal(t, 3, b.scans(), "the last scan is stale: exactly one")
		advance(31 * time.Second)
		assert.Equal(t, 4, b.scans())
		b.SetThreshold(24 * time.Hour)
		advance(24*time.Hour - 2*time.Second)
		assert.Equal(t, 4, b.scans(), "not before the threshold, however short the interval")
		advance(2 * time.Second)
		assert.Equal(t, 5, b.scans())
		advance(time.Hour)
		require.NoError(t, b.Refresh(t.Context()))
		advance(24*time.Hour - time.Second)
		assert.Equal(t, 6, b.scans(), "a scan that was requested counts too")
		b.SetThreshold(0)
		synctest.Wait()
		assert.Equal(t, 7, b.scans(), "the interval applies again")
		b.Request()
		b.Request()
		synctest.Wait()
		assert.Greater(t, b.scans(), 7)
	})
}

func TestLookSeesHardwareChange(t *testing.T) { // R001-2
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		run(t, b)
		time.Sleep(time.Minute)
		require.Equal(t, 1, b.scans())
		b.change(func() { b.host.plugged = "others" })
		time.Sleep(15 * time.Second)
		assert.Equal(t, 2, b.scans())
		time.Sleep(time.Minute)
		assert.Equal(t, 2, b.scans(), "exactly one")
	})
}

func TestNoScanDisturbsAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		job := journal.Job{Name: "j", Record: step.Record{Steps: []step.Step{{Step: plan.Step{Kind: plan.Flash, Device: "d"}, State: step.Running}}}}
		b.change(func() { b.book.view = journal.View{Jobs: []journal.Job{job}} })
		run(t, b)
		time.Sleep(10 * time.Minute)
		assert.Zero(t, b.scans())
		b.change(func() { b.book.view = journal.View{} })
		time.Sleep(time.Minute)
		assert.Equal(t, 1, b.scans())
	})
}

func TestSkipsDeviceBeingWritten(t *testing.T) {
	update := journal.Update{Class: inventory.NIC, Device: "n1-nic-aa", UniqueID: "aa"}
	began := time.Now()
	burning := journal.Job{Name: "j", UID: "u", Updates: []journal.Update{update}, Record: step.Record{Steps: []step.Step{
		{Step: plan.Step{Kind: plan.Flash, Device: update.Device}, State: step.Running, Started: &began}}}}
	ended := journal.Job{Name: "j", UID: "u", Updates: []journal.Update{update}, Record: step.Record{Outcome: step.Failed}}
	for name, begin := range map[string]func(*bench){
		"a step of a job writes": func(b *bench) { b.book.view = journal.View{Jobs: []journal.Job{burning}} },
		"the write has outlived its job": func(b *bench) {
			b.book.view = journal.View{Jobs: []journal.Job{ended}}
			b.busy["aa"] = true
		},
		"only its driver knows its id": func(b *bench) {
			b.book.view = journal.View{Jobs: []journal.Job{burning}}
			b.host.sysfs = func(id string) string { return "sysfs-" + id }
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.seen(t)
			begin(b)
			b.host.found.Devices[1].Firmware = &inventory.Firmware{Running: "NEW"}
			b.seen(t)
			inspected := meta.FindStatusCondition(b.device(t, "n1-nic-aa").Status.Conditions, v1alpha1.ConditionInspected)
			assert.Contains(t, inspected.Message, "is being written to")
			assert.Equal(t, "22.39.1002", b.device(t, "n1-nic-aa").Status.Firmware.Running)
			assert.Equal(t, "NEW", b.device(t, "n1-disk-bb").Status.Firmware.Running, "its siblings are read")
		})
	}
	t.Run("it is not known which card it is", func(t *testing.T) {
		b := newBench(t)
		b.host.sysfs = func(id string) string { return "sysfs-" + id }
		b.book.view = journal.View{Jobs: []journal.Job{burning}}
		b.seen(t)
		n := b.node(t)
		assert.Contains(t, meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionDegraded).Message, "nic")
		assert.Len(t, b.names(t), 3)
	})
}

func TestRetriesFailedScanSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.change(func() { b.host.err = errors.New("no sysfs") })
		run(t, b)
		time.Sleep(45 * time.Second)
		assert.Equal(t, 2, b.scans())
		assert.Zero(t, b.written())
	})
}

func TestPublishingIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.change(func() { b.refuse = "n1-disk-bb" })
		run(t, b)
		time.Sleep(10 * time.Second)
		assert.NotContains(t, b.names(t), "n1-disk-bb")
		b.change(func() { b.refuse = "" })
		time.Sleep(time.Minute)
		assert.Contains(t, b.names(t), "n1-disk-bb")
	})
}

// run runs both loops until the test ends.
func run(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 3)
	go func() { done <- b.RunLooks(ctx) }()
	go func() { done <- b.RunScans(ctx) }()
	go func() { done <- b.RunPublisher(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 3 {
			assert.NoError(t, <-done)
		}
	})
}
