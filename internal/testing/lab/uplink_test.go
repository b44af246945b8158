package lab

import (
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

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

// access is where the daemon of the node reaches the API server.
func access(t *testing.T, n *Node) string {
	config, err := clientcmd.LoadFromFile(filepath.Join(filepath.Dir(n.logPath), "access", "kubeconfig"))
	require.NoError(t, err)
	server, err := url.Parse(config.Clusters["lab"].Server)
	require.NoError(t, err)
	return server.Host
}

func TestMachineIsCutOffWhileItsUplinkHasNoLink(t *testing.T) {
	t.Parallel()
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
	eventually(t, "the link goes down", func() bool { return s.node.Traffic().CutOff > 0 })
	_, err := net.Dial("tcp", access(t, s.node))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	eventually(t, "nobody hears of the node", func() bool { return s.ready() == corev1.ConditionUnknown })
	cut := s.node.Traffic().CutOff
	assert.Zero(t, s.node.DaemonPID(), "without the API server a kubelet starts no pod of a DaemonSet after a boot")

	reboot()
	eventually(t, "the node is back", func() bool { return s.ready() == corev1.ConditionTrue })
	assert.Equal(t, 2, s.node.Reboots(), "a machine that is cut off can reboot")
	traffic := s.node.Traffic()
	assert.Greater(t, traffic.CutOff, cut)
	s.requireDone(s.want("pm9a3"), 2) // the daemon works as before
	assert.Equal(t, traffic.CutOff, s.node.Traffic().CutOff)
}
