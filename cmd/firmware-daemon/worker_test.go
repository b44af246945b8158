package main_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
)

// runner looks at the writes of the machine as a daemon does.
func (m *machine) runner(t *testing.T) *command.ExecRunner {
	t.Helper()
	r, err := command.NewExecRunner(command.Config{Path: []string{m.ToolPath()}, StateDir: m.stateDir(), BootID: m.BootID})
	require.NoError(t, err)
	return r
}

// flashes starts the daemon and a job for nic0, and waits in the middle of its write, which goes on when the fault "slow" is
// cleared.
func (m *machine) flashes(t *testing.T, c *cluster) (unique string, w command.Writing) {
	t.Helper()
	m.start(t, c.args...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("daemon:\n%s", m.log)
		}
	})
	d := c.device(t, byBoard(nic0PSID))
	require.NoError(t, m.SetFault(simhost.Fault{ID: "slow", Kind: simhost.Hang, Operation: "write"}))
	c.admit(t, "aaaa", update(d, "22.41.1000",
		c.stock(simhost.NICImage, simhost.ImageOptions{Version: "22.41.1000", PSID: nic0PSID})))
	require.Eventually(t, func() bool {
		card, err := m.Device("nic0")
		return err == nil && card.Torn
	}, 5*time.Minute, 20*time.Millisecond)
	r := m.runner(t)
	require.Eventually(t, func() bool {
		found, err := r.Writing(d.Status.UniqueID)
		if err != nil || found == nil || found.Tool.PID == 0 {
			return false
		}
		w = *found
		return true
	}, 5*time.Minute, 20*time.Millisecond)
	return d.Status.UniqueID, w
}

// completes lets the write go on and the job end, and checks that there was one write.
func (m *machine) completes(t *testing.T, c *cluster) {
	t.Helper()
	require.NoError(t, m.ClearFault("slow"))
	require.EventuallyWithT(t, func(ct *assert.CollectT) {
		j := c.job(t, "aaaa")
		assert.True(ct, meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionComplete), "%+v", j.Status)
	}, 5*time.Minute, 100*time.Millisecond)
	running, err := m.Running("nic0")
	require.NoError(t, err)
	assert.Equal(t, "22.41.1000", running)
	writes := m.writes(t)
	require.Len(t, writes, 1, "written once")
	assert.Equal(t, simhost.Done, writes[0].Result)
}

// writesOnWhenItsPodEnds: what a container runtime kills is not the write, and the next daemon goes on with it (I6, F1, F11).
func writesOnWhenItsPodEnds(t *testing.T, c *cluster, m *machine) {
	unique, w := m.flashes(t, c)
	require.True(t, w.Protected, w.Unprotected)
	require.True(t, w.Inhibited, w.Uninhibited)
	assert.Error(t, m.reboots(), "the host does not reboot meanwhile")

	require.NoError(t, m.KillPod(m.daemon.Process.Pid))
	m.stop(syscall.SIGKILL)
	assert.True(t, w.Worker.Alive())
	assert.True(t, w.Tool.Alive())
	assert.Len(t, c.maintenances(t), 1, "the node stays out of service")

	m.start(t, c.args...)
	found, err := m.runner(t).Writing(unique)
	require.NoError(t, err)
	assert.Equal(t, command.WriteRunning, found.State)
	assert.Equal(t, w.Tool, found.Tool)
	m.completes(t, c)
	found, err = m.runner(t).Writing(unique)
	require.NoError(t, err)
	assert.Equal(t, command.WriteEnded, found.State)
	assert.Zero(t, found.Ended.ExitCode)
	held, err := m.Inhibitors()
	require.NoError(t, err)
	assert.Empty(t, held)
}

// reboots asks the host for a reboot.
func (m *machine) reboots() error {
	systemctl := command.Command{Argv: []string{"systemctl", "reboot"}}
	r, err := command.NewExecRunner(command.Config{Path: []string{m.ToolPath()}})
	if err != nil {
		return err
	}
	result, err := r.Run(context.Background(), systemctl)
	if err == nil && result.ExitCode != 0 {
		err = command.Failed(systemctl, result, errors.New("refused"))
	}
	return err
}

// checksTheStateFirst: a daemon that cannot read its state, with a job in it that was interrupted, does nothing to a device, and does not even
// read one (R002-3). One that can goes on with the job.
func checksTheStateFirst(t *testing.T, c *cluster, m *machine) {
	m.flashes(t, c)
	m.stop(syscall.SIGKILL)
	schema := m.setSchema(t, "99")
	require.NoError(t, m.ClearFault("slow"))
	require.Eventually(t, func() bool { return m.writes(t)[0].Result == simhost.Done }, 5*time.Minute, 20*time.Millisecond)
	before, err := m.Operations()
	require.NoError(t, err)
	require.NoError(t, m.SetFault(simhost.Fault{ID: "read", Kind: simhost.Fail, Operation: "query"}))
	m.start(t, c.args...)
	select {
	case <-m.ended:
	case <-time.After(5 * time.Minute):
		t.Error("it runs on")
	}
	assert.NotZero(t, m.stop(syscall.SIGKILL))
	assert.Contains(t, m.log.String(), "schema 99")
	after, err := m.Operations()
	require.NoError(t, err)
	assert.Equal(t, before, after)
	faults, err := m.Faults()
	require.NoError(t, err)
	require.Len(t, faults, 1)
	assert.Zero(t, faults[0].Matches, "reads of devices")

	require.NoError(t, m.ClearFault("read"))
	m.setSchema(t, schema)
	m.start(t, c.args...)
	m.completes(t, c)
}

// setSchema has the state be one of that schema, and returns which it was.
func (m *machine) setSchema(t *testing.T, schema string) (was string) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(m.stateDir(), "journal.db"), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte("meta"))
		was = string(bucket.Get([]byte("schema")))
		return bucket.Put([]byte("schema"), []byte(schema))
	}))
	require.NoError(t, db.Close())
	return was
}

// readsBackWhatLostItsWorker: nobody knows how the tool ended, so the device says what became of it.
func readsBackWhatLostItsWorker(t *testing.T, c *cluster, m *machine) {
	unique, w := m.flashes(t, c)
	require.NoError(t, syscall.Kill(w.Worker.PID, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !w.Worker.Alive() }, 5*time.Minute, 10*time.Millisecond)
	assert.True(t, w.Tool.Alive())
	m.completes(t, c)
	found, err := m.runner(t).Writing(unique)
	require.NoError(t, err)
	assert.NotEqual(t, command.WriteRunning, found.State)
}

// outlivesEveryKill: whenever the pod dies, no write is cut, none is made twice, and the job ends (F1, F11; I2, I6).
func outlivesEveryKill(t *testing.T, c *cluster, m *machine) {
	m.start(t, c.args...)
	d := c.device(t, byBoard(nic0PSID))
	c.admit(t, "aaaa", update(d, "22.41.1000",
		c.stock(simhost.NICImage, simhost.ImageOptions{Version: "22.41.1000", PSID: nic0PSID})))
	seed := rand.Uint64()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d, daemon:\n%s", seed, m.log)
		}
	})
	random := rand.New(rand.NewPCG(seed, 0))
	for range 5 {
		<-time.After(time.Duration(random.IntN(1500)) * time.Millisecond)
		require.NoError(t, m.KillPod(m.daemon.Process.Pid))
		w, err := m.runner(t).Writing(d.Status.UniqueID)
		require.NoError(t, err)
		if w != nil {
			t.Logf("killed with %v %s", w.Argv, w.State)
		}
		m.stop(syscall.SIGKILL)
		m.start(t, c.args...)
	}
	var j v1alpha1.FirmwareJob
	require.Eventually(t, func() bool {
		j = c.job(t, "aaaa")
		return j.Ended()
	}, 5*time.Minute, 100*time.Millisecond)
	if failed := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionFailed); failed != nil && failed.Status == metav1.ConditionTrue {
		assert.Contains(t, failed.Message, "interrupted twice", "two kills between the journal and the start of the tool")
	}
	card, err := m.Device("nic0")
	require.NoError(t, err)
	assert.False(t, card.Torn)
	for _, o := range m.writes(t) {
		assert.Equal(t, simhost.Done, o.Result, "%+v", o)
	}
	assert.LessOrEqual(t, len(m.writes(t)), 1)
}

// writes are the writes that were begun on the machine.
func (m *machine) writes(t *testing.T) []simhost.Operation {
	t.Helper()
	operations, err := m.Operations()
	require.NoError(t, err)
	var writes []simhost.Operation
	for _, o := range operations {
		if o.Action == "Write" {
			writes = append(writes, o)
		}
	}
	return writes
}
