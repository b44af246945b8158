package daemon_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/node/daemon"
	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// requests records what a client asks of the API server.
type requests struct {
	mu   sync.Mutex
	seen []string
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(q *http.Request) (*http.Response, error) {
		r.mu.Lock()
		r.seen = append(r.seen, q.Method+" "+q.URL.Path+"?"+q.URL.RawQuery)
		r.mu.Unlock()
		return next.RoundTrip(q)
	})
}

func (r *requests) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

func (r *requests) writes() int {
	return len(slices.DeleteFunc(r.all(), func(s string) bool { return strings.HasPrefix(s, "GET ") }))
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// machine is a host whose hardware a test changes.
type machine struct {
	mu      sync.Mutex
	devices []inventory.Device
}

func (m *machine) ScanGuarded(context.Context, host.Guard) (host.Inventory, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return host.Inventory{BootID: "boot-1", Devices: slices.Clone(m.devices)}, nil
}

func (m *machine) plug(devices ...inventory.Device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.devices = devices
}

type emptyJournal struct{}

func (emptyJournal) View() (journal.View, error) { return journal.View{}, nil }

// idle is a machine no device of which is written to.
type idle struct{}

func (idle) WriteRunning(string) (bool, error) { return false, nil }

func nic(id string) inventory.Device {
	return inventory.Device{Identity: inventory.Identity{Class: inventory.NIC, UniqueID: id, Model: "ConnectX-6 Dx"},
		Firmware: &inventory.Firmware{Running: "22.39.1002", Stored: "22.39.1002", Activation: inventory.ActivateReboot}, Driver: "mstflint"}
}

// startNode runs discovery for a node of the API until the test ends.
func startNode(t *testing.T, access *rest.Config, node string, host *machine) (ctrl.Manager, *discovery.Discovery) {
	t.Helper()
	mgr, err := daemon.NewManager(access, daemon.ManagerOptions{Node: node, ProbeAddress: "0", MetricsAddress: "0", Log: logr.Discard()})
	require.NoError(t, err)
	d := discovery.New(discovery.Config{Node: node, Interval: time.Hour, Host: host, Journal: emptyJournal{}, Writes: idle{}, Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Log: logr.Discard()})
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, daemon.AddDiscovery(ctx, mgr, d))
	done := make(chan error, 2)
	go func() { done <- d.RunScans(ctx) }()
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done)
		assert.NoError(t, <-done)
	})
	return mgr, d
}

func addNode(t *testing.T, env *apitest.Env, name string) {
	t.Helper()
	require.NoError(t, env.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

func TestADaemonSeesItsOwnNodeOnly(t *testing.T) { // R001-5
	env := apitest.New(t)
	addNode(t, env, "n1")
	addNode(t, env, "n2")
	for _, node := range []string{"n1", "n2"} {
		require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.FirmwareJob{
			ObjectMeta: metav1.ObjectMeta{Name: "scan-" + node}, Spec: v1alpha1.FirmwareJobSpec{NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{Name: "verify-firmware"}}}}}))
	}
	require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: "n2-nic-ff"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n2"}}))

	access, asked := rest.CopyConfig(env.Config), &requests{}
	access.Wrap(asked.wrap)
	host := &machine{}
	host.plug(nic("aa"))
	mgr, d := startNode(t, access, "n1", host)
	_, err := mgr.GetCache().GetInformer(t.Context(), &v1alpha1.FirmwareJob{}, cache.BlockUntilSynced(true))
	require.NoError(t, err)
	settled(t, env, "n1-nic-aa")

	var devices v1alpha1.NodeDeviceList
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NoError(c, mgr.GetClient().List(t.Context(), &devices))
		assert.Len(c, devices.Items, 1)
	}, time.Minute, 20*time.Millisecond)
	assert.Equal(t, "n1-nic-aa", devices.Items[0].Name)
	assert.Empty(t, devices.Items[0].ManagedFields, "the cache keeps no managed fields")
	var jobs v1alpha1.FirmwareJobList
	require.NoError(t, mgr.GetClient().List(t.Context(), &jobs))
	require.Len(t, jobs.Items, 1)
	assert.Equal(t, "scan-n1", jobs.Items[0].Name)
	var nodes v1alpha1.NodeFirmwareList
	require.NoError(t, mgr.GetClient().List(t.Context(), &nodes))
	assert.Len(t, nodes.Items, 1)

	for _, q := range asked.all() {
		if strings.HasPrefix(q, "GET ") {
			assert.Regexp(t, `fieldSelector=(spec\.nodeName|metadata\.name)%3Dn1(&|$)`, q, "every list and watch is for this node")
		}
	}
	assert.Error(t, mgr.GetClient().List(t.Context(), &v1alpha1.RolloutPolicyList{}), "nothing else can be watched by accident")

	var before int
	require.Eventually(t, func() bool { // until the cache has seen what was written last
		before = asked.writes()
		return d.Publish(t.Context()) == nil && asked.writes() == before
	}, time.Minute, 100*time.Millisecond)
	for range 3 {
		require.NoError(t, d.Publish(t.Context()))
	}
	assert.Equal(t, before, asked.writes(), "nothing is written at steady state: %s", asked.all())
}

// settled waits until the device has a status that speaks of its present spec.
func settled(t *testing.T, env *apitest.Env, name string) *v1alpha1.NodeDevice {
	t.Helper()
	var d v1alpha1.NodeDevice
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.NoError(c, env.Client.Get(t.Context(), client.ObjectKey{Name: name}, &d))
		assert.Equal(c, d.Generation, d.Status.ObservedGeneration)
		assert.NotNil(c, meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady))
	}, 2*time.Minute, 20*time.Millisecond)
	return &d
}

func TestSharesDeviceWithOperator(t *testing.T) { // R001-3, R001-11
	env := apitest.New(t)
	addNode(t, env, "n1")
	host := &machine{}
	host.plug(nic("aa"))
	_, d := startNode(t, env.Config, "n1", host)
	settled(t, env, "n1-nic-aa")

	device := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n1-nic-aa"}}
	_, err := fieldset.ApplyDesired(t.Context(), env.Client, device, v1alpha1.NodeDeviceSpec{
		Origin:   []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "t", Rule: "r"}},
		Firmware: &v1alpha1.DesiredFirmware{Version: "22.41.1000", Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid},
	})
	require.NoError(t, err)
	_, err = fieldset.ApplyAssignment(t.Context(), env.Client, device, "", []metav1.Condition{{
		Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSourceNotFound,
		Message: "Source s is missing; create it.", LastTransitionTime: metav1.Now(),
	}})
	require.NoError(t, err)

	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got := settled(t, env, "n1-nic-aa")
		ready := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady)
		assert.Equal(c, v1alpha1.ReasonSourceNotFound, ready.Reason)
		assert.NotNil(c, meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionBlocked))
		assert.Equal(c, "n1", got.Spec.NodeName)
	}, 2*time.Minute, 20*time.Millisecond)

	managers := map[string]bool{}
	for _, f := range settled(t, env, "n1-nic-aa").ManagedFields {
		managers[f.Manager+"/"+f.Subresource] = true
	}
	assert.Equal(t, map[string]bool{"firmware-daemon/": true, "firmware-daemon/status": true, "node-firmware-operator-assignment/": true, "node-firmware-operator-assignment/status": true}, managers)

	_, err = fieldset.ApplyAssignment(t.Context(), env.Client, device, "", nil)
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		got := settled(t, env, "n1-nic-aa")
		assert.Nil(c, meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionBlocked), "the daemon did not take the operator's condition over")
		assert.Nil(c, meta.FindStatusCondition(got.Status.Conditions, "Nothing"))
		assert.Equal(c, v1alpha1.ReasonImageNotFound, meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady).Reason)
	}, 2*time.Minute, 20*time.Millisecond)

	host.plug(nic("bb"))
	require.NoError(t, d.Refresh(t.Context()))
	settled(t, env, "n1-nic-bb")
	var gone v1alpha1.NodeDevice
	require.Error(t, env.Client.Get(t.Context(), client.ObjectKey{Name: "n1-nic-aa"}, &gone), "another card in the slot is another device")
}

func TestWaitsForItsNode(t *testing.T) {
	env := apitest.New(t)
	host := &machine{}
	host.plug(nic("aa"))
	startNode(t, env.Config, "n1", host)
	require.NoError(t, env.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	settled(t, env, "n1-nic-aa")
	require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var n v1alpha1.NodeFirmware
		require.NoError(c, env.Client.Get(t.Context(), client.ObjectKey{Name: "n1"}, &n))
		assert.NotNil(c, n.Status.LastScanTime)
	}, 2*time.Minute, 20*time.Millisecond)
}
