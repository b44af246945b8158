package guard

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/deploy"
)

// daemonPod is the pod that a cluster makes of the manifests.
func daemonPod(t *testing.T) *corev1.Pod {
	t.Helper()
	objects, err := deploy.Objects(deploy.Daemon)
	require.NoError(t, err)
	var ds appsv1.DaemonSet
	for _, o := range objects {
		if o.GetKind() == "DaemonSet" {
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &ds))
		}
	}
	pod := &corev1.Pod{ObjectMeta: ds.Spec.Template.ObjectMeta, Spec: ds.Spec.Template.Spec}
	pod.Namespace, pod.Name = ds.Namespace, "firmware-daemon-x7k2p"
	// What the API server and its controllers add.
	pod.Spec.Priority, pod.Spec.NodeName = ptr.To(int32(2000001000)), "n1"
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	c := &pod.Spec.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: "PROXY", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{}}})
	c.Image = "nodefirmware/daemon:v0.1.0" // which the kubelet reports with the registry that it takes for granted
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: c.Name, ImageID: "docker.io/nodefirmware/daemon@sha256:0f"}}
	return pod
}

func read(t *testing.T, text []byte) corev1.Pod {
	t.Helper()
	var pod corev1.Pod
	require.NoError(t, yaml.UnmarshalStrict(text, &pod))
	return pod
}

// The kubelet refuses a static pod that refers to an object of the API; everything else is as in the daemon's pod.
func TestStaticPodIsTheDaemonsWithoutWhatTheAPIServerHandsOut(t *testing.T) {
	own := daemonPod(t)
	text, err := manifest(own, "id", "https://10.0.0.1:6443", "/var/lib/node-firmware/guard/profiles", "/var/lib/node-firmware/guard/keys")
	require.NoError(t, err)
	pod := read(t, text)
	require.Len(t, pod.Spec.Containers, 1)
	c, from := pod.Spec.Containers[0], own.Spec.Containers[0]

	assert.Equal(t, "v1", pod.APIVersion)
	assert.Equal(t, "Pod", pod.Kind)
	assert.Equal(t, own.Namespace, pod.Namespace)
	assert.NotSubset(t, pod.Labels, own.Labels, "its DaemonSet does not take it for its own")
	assert.Empty(t, pod.Spec.ServiceAccountName)
	assert.Empty(t, pod.Spec.NodeName)
	assert.Nil(t, pod.Spec.Affinity)
	assert.Nil(t, pod.Spec.NodeSelector)
	assert.True(t, pod.Spec.HostPID && pod.Spec.HostNetwork)
	assert.Equal(t, own.Spec.Priority, pod.Spec.Priority)
	assert.Equal(t, own.Spec.TerminationGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds)

	var volumes, mounts []string
	for _, v := range pod.Spec.Volumes {
		assert.True(t, v.HostPath != nil || v.EmptyDir != nil, v.Name)
		volumes = append(volumes, v.Name)
	}
	for _, m := range c.VolumeMounts {
		mounts = append(mounts, m.Name)
	}
	assert.Equal(t, []string{"host", "dev", "sys", "boot", "fwupd", "cache", "lock", "state", "tmp"}, volumes)
	assert.Equal(t, []string{"host", "dev", "sys", "sys", "boot", "fwupd", "cache", "lock", "state", "tmp"}, mounts)
	for _, e := range c.Env {
		assert.NotEqual(t, "PROXY", e.Name)
	}
	assert.Equal(t, "docker.io/nodefirmware/daemon@sha256:0f", c.Image, "the very image, whatever its tag names now")
	assert.Equal(t, corev1.PullIfNotPresent, c.ImagePullPolicy)
	assert.Equal(t, from.SecurityContext, c.SecurityContext)
	assert.Nil(t, c.LivenessProbe)
	want := append([]string{"guard"}, from.Args[1:]...)
	assert.Equal(t, append(want, "--profile-dir=/var/lib/node-firmware/guard/profiles", "--image-keys-dir=/var/lib/node-firmware/guard/keys", "--api-server=https://10.0.0.1:6443"), c.Args)
}

func TestStaticPodNeedsNothingThatAKubeletAsksTheAPIServerFor(t *testing.T) {
	own := daemonPod(t)
	c := &own.Spec.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: "GOMEMLIMIT", ValueFrom: &corev1.EnvVarSource{
		ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: c.Name, Resource: "limits.memory"},
	}})
	text, err := manifest(own, "id", "https://a", "/p", "/k")
	require.NoError(t, err)
	made := read(t, text).Spec.Containers[0]
	last := made.Env[len(made.Env)-1]
	assert.Equal(t, "GOMEMLIMIT", last.Name)
	assert.Equal(t, made.Name, last.ValueFrom.ResourceFieldRef.ContainerName, "no kubelet starts a container that refers to one which is not there")
	assert.Equal(t, "daemon", c.Env[len(c.Env)-1].ValueFrom.ResourceFieldRef.ContainerName, "the pod is not changed")

	own.Spec.RuntimeClassName = ptr.To("nvidia")
	_, err = manifest(own, "id", "https://a", "/p", "/k")
	require.ErrorContains(t, err, "runtime class nvidia, which a kubelet knows only from the API server")
}

func TestOneJobPodsGuardNamesNoJob(t *testing.T) {
	own := daemonPod(t)
	own.Spec.Containers[0].Args = []string{"job", "--name=update-n1", "--node-name=n1"}
	own.Status.ContainerStatuses[0].ImageID = "sha256:0f"
	text, err := manifest(own, "id", "https://a", "/p", "/k")
	require.NoError(t, err)
	c := read(t, text).Spec.Containers[0]
	assert.Equal(t, []string{"guard", "--node-name=n1", "--profile-dir=/p", "--image-keys-dir=/k", "--api-server=https://a"}, c.Args)
	assert.Equal(t, own.Spec.Containers[0].Image, c.Image, "a kubelet cannot resolve the id of an image")

	own.Status.ContainerStatuses[0].ImageID = "docker-pullable://nodefirmware/daemon@sha256:0f"
	text, err = manifest(own, "id", "https://a", "/p", "/k")
	require.NoError(t, err)
	assert.Equal(t, "nodefirmware/daemon@sha256:0f", read(t, text).Spec.Containers[0].Image, "as cri-dockerd reports it")

	own.Status.ContainerStatuses[0].ImageID = "docker.io/library/import-2026-11-22@sha256:0f"
	own.Spec.Containers[0].Image = "registry.example.com:5000/daemon:v1"
	text, err = manifest(own, "id", "https://a", "/p", "/k")
	require.NoError(t, err)
	assert.Equal(t, "registry.example.com:5000/daemon:v1", read(t, text).Spec.Containers[0].Image, "as containerd reports an imported one")
	own.Status.ContainerStatuses[0].ImageID = "registry.example.com:5000/daemon@sha256:0f"
	text, err = manifest(own, "id", "https://a", "/p", "/k")
	require.NoError(t, err)
	assert.Equal(t, "registry.example.com:5000/daemon@sha256:0f", read(t, text).Spec.Containers[0].Image)

	own.Spec.Containers[0].Args = []string{"discover"}
	_, err = manifest(own, "id", "https://a", "/p", "/k")
	require.ErrorContains(t, err, "begin with run or job")
}
