package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// leftOfGuard lists the files of a guard on a machine.
func leftOfGuard(t *testing.T, n *Node) (left []string) {
	t.Helper()
	for _, pattern := range []string{staticPodPath + "/*", staticPodPath + "/.*", "var/lib/node-firmware/guard"} {
		found, err := filepath.Glob(filepath.Join(n.Machine.Dir(), pattern))
		require.NoError(t, err)
		left = append(left, found...)
	}
	return left
}

// A node whose only adapter comes up dead after the reboot that activates its firmware gets no pod from the API server. The guard
// that its kubelet starts by itself restores the previous firmware (R002-9).
func TestNodeThatAnAdapterCutsOffOverARebootIsRestoredByItsGuard(t *testing.T) {
	t.Parallel()
	l := startLabWith(t, Options{Nodes: 2, Uplink: true, UplinkAdapter: "nic1"})
	p := policy(1)
	require.NoError(t, l.declare(t.Context(), p))
	bad := targetsOf("cx7")
	bad[0].image.LinkDown, bad[0].source = true, "cx7-bad"
	require.NoError(t, bad[0].publish(t.Context(), l))
	require.NoError(t, l.admin.Create(t.Context(), fleetTemplate(bad)))

	var s *scene
	eventually(t, "a node is cut off", func() bool {
		for i, n := range l.Nodes {
			if n.Traffic().CutOff > 0 {
				s = l.scene(t, i)
			}
		}
		return s != nil
	})
	assert.Equal(t, "True "+v1alpha1.ReasonSucceeded, s.condition(v1alpha1.ConditionProtected))
	assert.Zero(t, s.node.DaemonPID(), "nothing starts the daemon")
	eventually(t, "the kubelet, which ran the guard before the write, starts it after the boot", func() bool {
		started, refused := s.node.static.seen()
		return started == 2 && assert.Empty(t, refused)
	})

	key, running := "nic1", func() string { v, _ := s.node.Machine.Running("nic1"); return v }
	restored := func() bool { return s.flashes()[key] == 2 }
	require.Eventually(t, restored, 10*time.Minute, 100*time.Millisecond, "the guard waits, and restores the previous firmware")
	eventually(t, "the second reboot brings the node back", func() bool { return s.node.Reboots() == 2 && !s.node.uplink.down() })
	assert.Equal(t, "28.39.1002", running())
	s.requireRolledBack(key, "28.39.1002")
	eventually(t, "the image is quarantined", func() bool { return s.quarantined(bad[0]) })
	assert.Equal(t, v1alpha1.EvidenceDevice, s.job().Status.Blamed[0].Evidence)
	eventually(t, "no guard is left", func() bool { return len(leftOfGuard(t, s.node)) == 0 })
	for _, n := range l.Nodes {
		if n != s.node {
			assert.Zero(t, n.Reboots())
			assert.Zero(t, n.Traffic(), "the other node never got the image")
		}
	}
	log, err := os.ReadFile(s.node.logPath)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(log), "this guard executes the job"), "the guard worked once, alone")
	assert.GreaterOrEqual(t, s.node.Traffic().CutOff, isolationTimeout)
}
