package lab

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

func (s *scene) ready() corev1.ConditionStatus {
	for _, c := range s.kubeNode().Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

func TestMachineIsCutOffWhileItsUplinkHasNoLink(t *testing.T) {
	l := startLabWith(t, Options{Nodes: 1, Uplink: true})
	s := l.scene(t, 0)
	eventually(t, "the node is Ready", func() bool { return s.ready() == corev1.ConditionTrue })
	eventually(t, "the daemon reports the devices", func() bool {
		var devices v1alpha1.NodeDeviceList
		return l.admin.List(t.Context(), &devices) == nil && len(devices.Items) == 6
	})
	assert.Zero(t, s.node.Traffic(), "nothing goes wrong while the link is up")

	reboot := func() {
		require.NoError(t, exec.CommandContext(t.Context(), filepath.Join(s.node.Machine.ToolPath(), "systemctl"), "reboot").Run())
	}
	require.NoError(t, s.node.Machine.SetFault(simhost.Fault{Kind: simhost.LinkDown, Device: "nic0", Operation: "boot", Count: 1}))
	reboot()
	eventually(t, "the daemon is refused", func() bool { return s.node.Traffic().Refused > 0 })
	eventually(t, "nobody hears of the node", func() bool { return s.ready() == corev1.ConditionUnknown })
	cut := s.node.Traffic().CutOff
	assert.Positive(t, cut)

	reboot()
	eventually(t, "the node is back", func() bool { return s.ready() == corev1.ConditionTrue })
	assert.Equal(t, 2, s.node.Reboots(), "a machine that is cut off can reboot")
	traffic := s.node.Traffic()
	assert.Greater(t, traffic.CutOff, cut)
	s.requireDone(s.want("pm9a3"), 2) // the daemon works as before
	assert.Equal(t, traffic.CutOff, s.node.Traffic().CutOff)
}
