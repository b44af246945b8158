package discovery_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// What the daemon publishes of the health of its node is as the definitions of the API want it, as long as it can get, and
// goes away with its cause.
// It proves R002-27, R002-31, R002-54.
func TestAPIServerAcceptsPublished(t *testing.T) {
	env := apitest.New(t)
	require.NoError(t, env.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	b := newBench(t)
	b.client = env.Client
	b.steps = []v1alpha1.EnabledStep{
		{Name: "preflight", Interface: "node", Priority: 1000},
		{Name: "flash", Interface: "NIC", Priority: 820},
	}
	long := strings.Repeat("ä", 2000)
	b.host.found.Devices[0].Firmware.Rollback = inventory.RollbackReadBack
	b.host.found.Devices[0].Firmware.RollbackMessage = long
	b.host.found.Devices[0].Firmware.ActivationMessage, b.host.found.Devices[0].DriverMessage = long, long
	job := held(step.Failure{Reason: step.Unhealthy, Message: long, Step: "health", Held: true, Blames: []string{"n1-nic-aa"}})
	job.Record.Rollback = &step.Rollback{Failure: &step.Failure{Reason: step.RollbackUnavailable, Message: long, Held: true}}
	b.book.view = journal.View{
		Jobs: []journal.Job{job}, Verdict: judged(journal.Unhealthy, "boot-1"),
		Devices: map[string]journal.Device{"aa": {UniqueID: "aa", Unhealthy: &journal.UnhealthyMark{
			Since: noon, Job: "n1-1234", Message: long,
		}}},
	}
	publish := func() (v1alpha1.NodeFirmware, v1alpha1.NodeDevice) {
		b.Discovery = discovery.New(discovery.Config{
			Node: node, Interval: time.Hour, Host: b.host, Journal: b.book, Writes: b.busy, Steps: b.steps, Client: env.Client, Log: logr.Discard(),
		})
		b.seen(t)
		return *b.node(t), *b.device(t, "n1-nic-aa")
	}

	n, d := publish()
	apitest.RequireStatus(t, &n, status.FailedStatus)
	apitest.RequireStatus(t, &d, status.FailedStatus)
	assert.Equal(t, b.steps, n.Status.Steps)
	assert.True(t, meta.IsStatusConditionFalse(n.Status.Conditions, v1alpha1.ConditionHealthy))
	require.True(t, d.Status.IsUnhealthy())
	assert.Equal(t, noon.Truncate(time.Second), d.Status.Failure.Time.UTC())
	assert.Equal(t, v1alpha1.RollbackReadBack, d.Status.Firmware.Rollback)
	require.NotEmpty(t, d.Status.Firmware.Notes)
	for _, note := range d.Status.Firmware.Notes {
		assert.NotEmpty(t, note)
		assert.LessOrEqual(t, len(note), 256)
	}

	again, deviceAgain := publish()
	assert.Equal(t, d.ResourceVersion, deviceAgain.ResourceVersion, "nothing changed, so nothing is written")
	again.Status.LastScanTime, n.Status.LastScanTime = nil, nil
	assert.Equal(t, n.Status, again.Status)

	b.host.found.BootID = "boot-2"
	n, _ = publish()
	assert.True(t, meta.IsStatusConditionPresentAndEqual(n.Status.Conditions, v1alpha1.ConditionHealthy, metav1.ConditionUnknown))

	b.book.view, b.steps = journal.View{Devices: map[string]journal.Device{"aa": {UniqueID: "aa"}}}, nil
	n, d = publish()
	apitest.RequireStatus(t, &n, status.CurrentStatus)
	apitest.RequireStatus(t, &d, status.CurrentStatus)
	assert.Nil(t, meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionHealthy))
	assert.Empty(t, n.Status.Steps)
	assert.Nil(t, d.Status.Failure)
}

// What the daemon publishes of the settings of a device is as the definitions of the API want it, as long as it can get, and goes away with
// what is desired.
func TestAPIServerAcceptsObservedSettings(t *testing.T) {
	env := apitest.New(t)
	require.NoError(t, env.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	b := tuned(t)
	b.client = env.Client
	long := strings.Repeat("ä", 600)
	b.settings.all = []inventory.Parameter{parameter("numVFs", "4", "4"), {Name: "EMPTY", Current: inventory.Read(""), Needs: inventory.ActivateDeviceReset}}
	for i := range 200 {
		b.settings.all = append(b.settings.all, parameter(fmt.Sprintf("P%03d", i), long, "1"))
	}
	b.restart()
	b.seen(t)
	c := parameters("EMPTY", "", "P199", "2")
	c.Unlisted = v1alpha1.UnlistedReset
	is := b.configured(t, c)
	assert.Greater(t, len(is.Parameters), 20)
	assert.LessOrEqual(t, v1alpha1.SizeOf(is.Parameters), 32<<10, "so that a device with a long upgrade path stays under 256 KiB")
	assert.Equal(t, v1alpha1.ObservedParameter{Name: "EMPTY", Current: ptr.To("")}, is.Parameters[0])
	assert.Equal(t, &v1alpha1.ObservedConfiguration{Digest: c.Digest(), State: v1alpha1.ConfigurationOutOfDate, Activation: v1alpha1.ActivationReboot}, is.Configuration)

	b.book.view = journal.View{Devices: map[string]journal.Device{"aa": {UniqueID: "aa", SettingsFailure: &journal.Failure{
		Digest: string(c.Digest()), Reason: string(step.VerifyFailed), Message: strings.Repeat("m", 1024), Job: "j", Time: noon,
	}}}}
	b.seen(t)
	d := b.device(t, "n1-nic-aa")
	require.NotNil(t, d.Status.Configuration.Failure)
	version := d.ResourceVersion
	b.seen(t)
	assert.Equal(t, version, b.device(t, "n1-nic-aa").ResourceVersion, "nothing changed, so nothing is written")

	d.Spec = v1alpha1.NodeDeviceSpec{NodeName: node}
	require.NoError(t, b.client.Update(t.Context(), d))
	b.seen(t)
	assert.Nil(t, b.device(t, "n1-nic-aa").Status.Configuration)
	assert.Empty(t, b.device(t, "n1-nic-aa").Status.Parameters)
}
