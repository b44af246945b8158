package main_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// executesOneJobAlone: with the strategy pod the daemon reads and scans and executes nothing; a process of its own executes
// the job, is killed in the middle, survives the reboot, waits for an API server that is away, and ends well (R000-64,
// R000-69).
func executesOneJobAlone(t *testing.T, c *cluster, m *machine) {
	m.start(t, append(slices.Clone(c.args), "--update-strategy=pod")...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last process:\n%s", m.log)
		}
	})
	card := c.device(t, byBoard(nic1PSID))
	c.admit(t, "pod", update(card, "28.41.1000", c.stock(simhost.NICImage, simhost.ImageOptions{Version: "28.41.1000", PSID: nic1PSID})))
	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		waits := meta.FindStatusCondition(c.job(t, "pod").Status.Conditions, v1alpha1.ConditionReconciling)
		require.NotNil(ct, waits)
		assert.Contains(ct, waits.Message, "waits for the pod")
	}, 5*time.Minute, 50*time.Millisecond)
	assert.NoFileExists(t, filepath.Join(m.stateDir(), "journal.db"), "nothing is executed")
	assert.Zero(t, m.stop(syscall.SIGTERM))

	require.NoError(t, m.SetFault(simhost.Fault{ID: "slow", Kind: simhost.Hang, Operation: "write"}))
	execute := append(slices.Clone(c.args), "--name="+c.node+"-pod")
	m.startAs(t, "job", execute...)
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(c.job(t, "pod").Status.Steps, func(s v1alpha1.JobStep) bool {
			return s.Name == "flash" && s.State == v1alpha1.StepRunning
		})
	}, 5*time.Minute, 20*time.Millisecond)
	m.stop(syscall.SIGKILL)
	m.startAs(t, "job", execute...)
	require.NoError(t, m.ClearFault("slow"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	event, err := m.WaitPowerEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, simhost.RebootRequested, event)
	m.stop(syscall.SIGKILL)
	require.NoError(t, m.Boot())

	require.NoError(t, c.ControlPlane.StopAPIServer())
	m.startAs(t, "job", execute...)
	select {
	case <-m.ended:
		require.Fail(t, "a process that cannot report must not end")
	case <-time.After(3 * time.Second): // sleeps: that something does not happen takes a while to see
	}
	require.NoError(t, c.ControlPlane.StartAPIServer())
	select {
	case <-m.ended:
	case <-time.After(5 * time.Minute):
		require.Fail(t, "the process does not end")
	}
	assert.Zero(t, m.daemon.ProcessState.ExitCode())
	j := c.job(t, "pod")
	assert.True(t, meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionComplete), "%+v", j.Status.Conditions)
	assert.EqualValues(t, 1, j.Status.Reboots)
	running, err := m.Running("nic1")
	require.NoError(t, err)
	assert.Equal(t, "28.41.1000", running)
	assert.Equal(t, "28.41.1000", c.device(t, byBoard(nic1PSID)).Status.Firmware.Running)
	var n v1alpha1.NodeFirmware
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: c.node}, &n))

	operations, err := m.Operations()
	require.NoError(t, err)
	again := exec.Command(filepath.Join(m.bin, "firmware-daemon"), append([]string{"job", "--node-name=" + m.node, "--health-probe-bind-address=0"}, append(m.local(), execute...)...)...)
	out, err := again.CombinedOutput()
	require.NoError(t, err, "%s", out)
	after, err := m.Operations()
	require.NoError(t, err)
	writes := func(list []simhost.Operation) (n int) {
		for _, o := range list {
			if o.Action == "Write" {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 1, writes(operations), "the write that outlived its process was not repeated")
	assert.Equal(t, 1, writes(after), "a job that has ended is not executed again")
}
