package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// startPodLab starts a lab whose jobs are executed by pods.
func startPodLab(t *testing.T, nodes int, daemons string) *Lab {
	t.Helper()
	handlers := filepath.Join(t.TempDir(), "handlers.yaml")
	require.NoError(t, os.WriteFile(handlers, []byte(`
handlers:
- image: registry.example/any:1
- vendor: Lenovo
  image: registry.example/lenovo:1
- vendor: Lenovo
  model: ThinkSystem SR650 V2
  image: registry.example/sr650:1
  args: [--log-level=debug]
`), 0o600))
	return startLabWith(t, Options{Nodes: nodes, UpdateStrategy: config.StrategyPod, DaemonStrategy: daemons, Handlers: handlers})
}

// pods are those that execute jobs on the scene's node.
func (s *scene) pods() []corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	require.NoError(s.t, s.lab.admin.List(s.t.Context(), &list, client.InNamespace(cluster.Namespace),
		client.MatchingFields{"spec.nodeName": s.node.Name}, client.HasLabels{v1alpha1.JobPodLabel}))
	return list.Items
}

// R000-3, R000-38, R000-59, R000-60
func TestPodsExecuteJobs(t *testing.T) {
	t.Parallel()
	l := startPodLab(t, 3, "")
	l.allow(t, 3)
	t.Run("on one node", l.podsSurvive)
	t.Run("an API server that is away in the middle delays nothing on the node, and hears of it later", l.podsOutlastTheAPIServer) // R000-69
}

func (l *Lab) podsSurvive(t *testing.T) {
	t.Run("killed in the middle of a write and by the reboot, it comes to the same end", func(t *testing.T) {
		t.Parallel()
		s := l.scene(t, 0)
		release := s.hold("write", 0)
		list := s.want("cx7")
		eventually(t, "the write begins", func() bool { return s.running("flash") && s.writes() > 0 })
		daemon := s.node.DaemonPID()
		require.True(t, s.node.KillJob())
		assert.Equal(t, daemon, s.node.DaemonPID(), "the daemon is not concerned")
		release()
		s.requireDone(list, 1)
		assert.Equal(t, map[string]int{"nic1": 1}, s.flashes(), "the write went on and was not repeated")
		eventually(t, "the pod succeeds", func() bool {
			pods := s.pods()
			return len(pods) == 1 && pods[0].Status.Phase == corev1.PodSucceeded
		})
		pod := s.pods()[0]
		assert.Equal(t, "registry.example/sr650:1", pod.Spec.Containers[0].Image, "the closest handler executes")
		assert.Contains(t, pod.Spec.Containers[0].Args, "--log-level=debug")
		assert.Equal(t, string(s.job().UID), pod.Labels[v1alpha1.JobPodLabel])
		assert.Equal(t, "NodeFirmware", metav1.GetControllerOf(&pod).Kind)
		var device v1alpha1.NodeDeviceList
		eventually(t, "the daemon reads the hardware again", func() bool {
			require.NoError(t, l.admin.List(t.Context(), &device, client.MatchingFields{"spec.nodeName": s.node.Name}))
			for _, d := range device.Items {
				if d.Status.Applied != nil {
					return d.Status.Firmware != nil && d.Status.Firmware.Running == list[0].image.Version
				}
			}
			return false
		})
	})

	t.Run("a pod that is deleted is made again, and a node that is held is released by one", func(t *testing.T) {
		t.Parallel()
		s := l.scene(t, 2)
		require.NoError(t, s.node.Machine.SetFault(simhost.Fault{Kind: simhost.Lie, Device: "nic1", Operation: "write"}))
		goOn := s.hold("read", 0) // for the archive, before the node is touched
		s.want("cx7")
		eventually(t, "the pod runs", func() bool { return len(s.pods()) == 1 && len(s.job().Status.Steps) > 0 })
		first := s.pods()[0]
		require.NoError(t, l.admin.Delete(t.Context(), &first))
		goOn()
		eventually(t, "the node is held", func() bool { return strings.HasPrefix(s.condition(v1alpha1.ConditionHeld), "True") })
		eventually(t, "another pod has executed it", func() bool {
			pods := s.pods()
			return len(pods) == 1 && pods[0].UID != first.UID && pods[0].Status.Phase == corev1.PodSucceeded
		})
		assert.True(t, s.kubeNode().Spec.Unschedulable)
		release := `{"spec":{"requests":{"release":"as it is"}}}`
		require.NoError(t, l.admin.Patch(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: s.node.Name}}, client.RawPatch("application/merge-patch+json", []byte(release))))
		eventually(t, "the node is released", func() bool { return s.maintenances() == 0 && !s.kubeNode().Spec.Unschedulable })
	})
}

func (l *Lab) podsOutlastTheAPIServer(t *testing.T) {
	s := l.scene(t, 1)
	release := s.hold("write", 0)
	list := s.want("cx6dx")
	eventually(t, "the write begins", func() bool { return s.running("flash") && s.writes() > 0 })
	require.NoError(t, l.StopAPIServer())
	release()
	eventually(t, "the card is flashed", func() bool {
		device, err := s.node.Machine.Device("nic0")
		return err == nil && device.Stored == list[0].image.Version
	})
	require.NoError(t, l.StartAPIServer())
	s.requireDone(list, 0)
	assert.Equal(t, map[string]int{"nic0": 1}, s.flashes())
}

func TestTwoExecutorsNeverRunOneJob(t *testing.T) { // R000-54: the daemon was not restarted after the strategy changed
	t.Parallel()
	l := startPodLab(t, 1, config.StrategyDaemon)
	p := policy(1)
	p.Spec.HealthyFor = "1m" // the pod's process waits half a minute before it gives up
	require.NoError(t, l.declare(t.Context(), p))
	s := l.scene(t, 0)
	list := s.want("cx7")
	s.requireDone(list, 1)
	assert.Equal(t, map[string]int{"nic1": 1}, s.flashes())
	eventually(t, "the pod's process is refused", func() bool {
		log, err := os.ReadFile(s.node.logPath) // all of it: the daemon goes on logging
		require.NoError(t, err)
		return strings.Contains(string(log), "another firmware-daemon is using it")
	})
}
