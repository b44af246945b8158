package simhost

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestABootActivatesWhatABootCan(t *testing.T) {
	m := newMachine(t, func(s *Spec) { s.NVMe[0].Activation = PowerCycle })
	first, err := m.BootID()
	require.NoError(t, err)
	for key, u := range updates {
		if key == "nvme0" {
			require.Equal(t, 1, writes(m, key, image(t, key, u.version)).code, "needs more than a controller reset")
			continue
		}
		require.Zero(t, writes(m, key, image(t, key, u.version)).code, key)
	}
	require.NoError(t, m.Boot())
	second, err := m.BootID()
	require.NoError(t, err)
	assert.NotEqual(t, first, second)
	for key, u := range updates {
		want := u.version
		if key == "nvme0" {
			want = DefaultSamsungVersion
		}
		running, err := m.Running(key)
		require.NoError(t, err)
		assert.Equal(t, want, running, key)
	}
	require.NoError(t, m.CutPower())
	require.NoError(t, m.Boot())
	assert.Equal(t, newSamsung, device(t, m, "nvme0").Running, "a boot after a loss of power is a cold one")
}

func TestOnlyPowerCycleActivates(t *testing.T) {
	m := newMachine(t, func(s *Spec) { s.NICs[0].Activation, s.SCSI[0].Activation = PowerCycle, PowerCycle })
	for _, key := range []string{"nic0", "sda"} {
		require.Zero(t, writes(m, key, image(t, key, updates[key].version)).code, key)
		assert.NotZero(t, run(m, withFile(updates[key].activate[0], "")...).code, key)
	}
	require.NoError(t, m.Boot())
	assert.Equal(t, DefaultCX6Version, device(t, m, "nic0").Running)
	require.NoError(t, m.PowerCycle())
	assert.Equal(t, newCX6, device(t, m, "nic0").Running)
	assert.Equal(t, newSAS, device(t, m, "sda").Running)
}

func TestDeviceCanRefuseImageAtBoot(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.SetFault(Fault{ID: "refuse", Kind: Fail, Operation: "boot"}))
	for key, u := range updates {
		require.Zero(t, writes(m, key, image(t, key, u.version)).code, key)
	}
	require.NoError(t, m.Boot())
	require.NoError(t, m.ClearFaults())
	require.NoError(t, m.Boot())
	for key, u := range updates {
		d := device(t, m, key)
		assert.NotEqual(t, u.version, d.Running, key)
		assert.Equal(t, d.Running, d.Stored, key)
	}
}

func TestABootEndsTheToolsThatRun(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.SetFault(Fault{ID: "slow", Kind: Hang}))
	burn := start(t, m, "mstflint", "-d", cx6, "-i", image(t, "nic0", newCX6), "-y", "b")
	eventually(t, func() bool { return device(t, m, "nic0").Torn }, "the burn writes")
	ended := make(chan error, 1)
	go func() { ended <- burn.Wait() }()
	require.NoError(t, m.Boot())
	assert.ErrorContains(t, <-ended, "killed")
	assert.Empty(t, names(t, m, "var/lib/simhost/running"))
}

func TestOutsidePowerCutEndsWrites(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.SetFault(Fault{ID: "slow", Kind: Hang}))
	burn := start(t, m, "mstflint", "-d", cx6, "-i", image(t, "nic0", newCX6), "-y", "b")
	eventually(t, func() bool { return device(t, m, "nic0").Torn }, "the burn writes")
	require.NoError(t, m.CutPower())
	assert.Error(t, burn.Wait())
	event, err := m.PowerEvent()
	require.NoError(t, err)
	assert.Equal(t, PowerLost, event)
}

func TestWriteWithoutPowerNeverEnds(t *testing.T) {
	m := newMachine(t)
	c := &call{m: m, tool: "mstflint"}
	err := c.do(job{
		op: Operation{Device: "nic0", Action: "Write"},
		progress: func(percent int) {
			if percent == 100 {
				require.NoError(t, m.CutPower())
			}
		},
		finish: func(*state) { t.Error("the write ended without power") },
	})
	assert.ErrorIs(t, err, errDied)
	assert.ErrorIs(t, c.do(job{op: Operation{Device: "nic0", Action: "Write"}}), errDied, "nor does one begin")
	assert.Equal(t, []string{"Write Started"}, actions(t, m, "nic0"))
}

func TestToolsOfManyProcessesKeepTheMachineWhole(t *testing.T) {
	m := newMachine(t)
	var wg sync.WaitGroup
	for key, u := range updates {
		path := image(t, key, u.version)
		wg.Go(func() {
			for range 3 {
				assert.Zero(t, writes(m, key, path).code, key)
				if key == BIOSKey || key == "nic1" {
					break
				}
			}
		})
	}
	wg.Wait()
	ops, err := m.Operations()
	require.NoError(t, err)
	for i, o := range ops {
		assert.Equal(t, i+1, o.ID)
		assert.Equal(t, Done, o.Result, o)
	}
	for key, u := range updates {
		assert.Equal(t, u.version, device(t, m, key).Stored, key)
	}
}

func TestOperationsRecordWrites(t *testing.T) {
	m := newMachine(t)
	data := imageFor("nic0", newCX6)
	require.Zero(t, run(m, "mstflint", "-d", cx6, "-i", save(t, data), "-y", "b").code)
	ops, err := m.Operations()
	require.NoError(t, err)
	require.Len(t, ops, 2)
	boot, err := m.BootID()
	require.NoError(t, err)
	got := ops[1]
	assert.False(t, got.Time.IsZero())
	assert.Equal(t, "mstflint", got.Tool)
	assert.Equal(t, []string{"-y", "b"}, got.Argv[len(got.Argv)-2:])
	got.Time, got.Argv, got.Tool = ops[0].Time, nil, ""
	assert.Equal(t, Operation{
		ID: 2, Time: ops[0].Time, BootID: boot, Device: "nic0", Action: "Write", Version: newCX6, Digest: digest(data),
		Bytes: len(data), Result: Done,
	}, got)
}

func TestRefusesWhatIsNoMachine(t *testing.T) {
	m := newMachine(t)
	_, err := Create(m.Dir(), DefaultSpec("again", 1))
	assert.ErrorContains(t, err, "holds one already")
	_, err = Open(t.TempDir())
	assert.ErrorContains(t, err, "open machine")
	twice := DefaultSpec("n", 1)
	twice.NVMe[1].Key = "nvme0"
	_, err = Create(t.TempDir(), twice)
	assert.ErrorContains(t, err, "nvme0")
	_, err = m.Device("floppy")
	assert.ErrorContains(t, err, "floppy")
	again, err := Open(m.Dir())
	require.NoError(t, err)
	spec, err := again.Spec()
	require.NoError(t, err)
	assert.Equal(t, "node-7", spec.Name)
}

func TestToolsFindMachineByPath(t *testing.T) {
	m := newMachine(t)
	t.Setenv("PATH", m.ToolPath())
	var out captured
	assert.Zero(t, RunTool([]string{"mstflint", "-d", cx6, "q"}, &out, &out), "by PATH")
	assert.Contains(t, string(out), "PSID:                  MT_0000000359")
	assert.Equal(t, exitSimhost, RunTool([]string{"ls"}, &out, &out))
	elsewhere := filepath.Join(t.TempDir(), "usr/bin/mstflint")
	assert.Equal(t, exitSimhost, RunTool([]string{elsewhere}, &out, &out))
	assert.True(t, IsTool("/any/where/nvme"))
	assert.False(t, IsTool("simhost.test"))
	for _, name := range Tools() {
		target, err := os.Readlink(filepath.Join(m.ToolPath(), name))
		require.NoError(t, err)
		assert.True(t, filepath.IsAbs(target))
	}
}

func TestWaitingForPowerEventsEndsWithItsContext(t *testing.T) {
	m := newMachine(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.WaitPowerEvent(ctx)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestNsenterSystemctlRefuseRest(t *testing.T) {
	m := newMachine(t)
	assert.Equal(t, 127, run(m, "nsenter", "--target", "1", "--", "rm", "-rf", "/").code)
	assert.Equal(t, 1, run(m, "nsenter", "--target", "1").code)
	assert.Equal(t, 1, run(m, "systemctl", "poweroff").code)
	assert.Zero(t, run(m, "nsenter", "--target", "1", "--mount", "--", "mstflint", "-d", cx6, "q").code)
}

type captured []byte

func (c *captured) Write(p []byte) (int, error) {
	*c = append(*c, p...)
	return len(p), nil
}
