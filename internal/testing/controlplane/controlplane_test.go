package controlplane_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
)

// childDirectory makes the test binary start a control plane there and wait to be killed.
const childDirectory = "CONTROLPLANE_TEST_CHILD_DIRECTORY"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDirectory); dir != "" {
		if _, err := controlplane.Start(context.Background(), controlplane.Options{DataDir: dir}); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		runtime.GC() // a control plane nobody holds any more must run on
		os.Stdout.WriteString("started\n")
		select {}
	}
	os.Exit(m.Run())
}

func TestControlPlane(t *testing.T) {
	dir := t.TempDir()
	c, err := controlplane.Start(t.Context(), controlplane.Options{DataDir: dir})
	require.NoError(t, err)
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			require.NoError(t, c.Stop())
		}
	})
	api := clientOf(t, c.KubeconfigPath())

	t.Run("serves the version it is built from", func(t *testing.T) {
		version, err := api.Discovery().ServerVersion()
		require.NoError(t, err)
		release, err := controlplane.ParseRelease(os.Getenv(controlplane.ReleaseVariable))
		require.NoError(t, err)
		assert.Equal(t, release.String(), version.GitVersion)
		assert.Equal(t, "1", version.Major)
		assert.Equal(t, strings.Split(release.String(), ".")[1], version.Minor)
	})

	t.Run("gives a pod-bound token the name of its node", func(t *testing.T) {
		user := authenticatePodToken(t, api)
		assert.Equal(t, "system:serviceaccount:default:daemon", user.Username)
		assert.Equal(t, authenticationv1.ExtraValue{"node-1"}, user.Extra["authentication.kubernetes.io/node-name"])
	})

	t.Run("denies a user without a role", func(t *testing.T) {
		config, err := c.AddUser("nobody")
		require.NoError(t, err)
		nobody, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		_, err = nobody.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		require.True(t, apierrors.IsForbidden(err), "%v", err)
	})

	t.Run("refuses a second run in the same directory", func(t *testing.T) {
		_, err := controlplane.Start(t.Context(), controlplane.Options{DataDir: dir})
		require.ErrorContains(t, err, "another control plane runs there")
	})

	t.Run("keeps its objects and address through an outage of the API server", func(t *testing.T) {
		require.NoError(t, c.StopAPIServer())
		_, err := api.Discovery().ServerVersion()
		require.Error(t, err)
		require.NoError(t, c.StartAPIServer())
		_, err = api.CoreV1().Pods("default").Get(t.Context(), "daemon", metav1.GetOptions{})
		require.NoError(t, err)
	})

	t.Run("collects what an owner leaves behind, like a cluster", func(t *testing.T) {
		require.NoError(t, c.StartGarbageCollector(t.Context()))
		maps := api.CoreV1().ConfigMaps("default")
		owner, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID,
		}}}}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, maps.Delete(t.Context(), owner.Name, metav1.DeleteOptions{}))
		require.Eventually(t, func() bool {
			_, err := maps.Get(t.Context(), "owned", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}, 2*time.Minute, 50*time.Millisecond)
	})

	pids := processes(t, dir)
	require.Len(t, pids, 3)
	watch, err := api.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watch.Stop()
	require.NoError(t, c.Stop(), "an open watch does not keep it from stopping")
	stopped = true
	for _, pid := range pids {
		assert.False(t, running(pid), "process %d is left behind", pid)
	}
}

// TestKilledParent: the processes do not outlive a parent that could not stop them, and the next run in the directory
// starts with the objects of the last.
func TestKilledParent(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDirectory+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill() })
	line := make([]byte, len("started\n"))
	_, err = out.Read(line)
	require.NoError(t, err)
	pids := processes(t, dir)
	require.Len(t, pids, 2)
	_, err = clientOf(t, filepath.Join(dir, "kubeconfig")).CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "survivor"}}, metav1.CreateOptions{})
	require.NoError(t, err)

	require.NoError(t, child.Process.Signal(syscall.SIGKILL))
	_ = child.Wait()

	c, err := controlplane.Start(t.Context(), controlplane.Options{DataDir: dir})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Stop()) }()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !running(pid) }, time.Minute, 50*time.Millisecond)
	}
	_, err = clientOf(t, c.KubeconfigPath()).CoreV1().Namespaces().Get(t.Context(), "survivor", metav1.GetOptions{})
	require.NoError(t, err)
}

func clientOf(t *testing.T, kubeconfig string) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	api, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return api
}

func authenticatePodToken(t *testing.T, api *kubernetes.Clientset) authenticationv1.UserInfo {
	t.Helper()
	ctx := t.Context()
	_, err := api.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}},
		metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = api.CoreV1().ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "daemon"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	pod, err := api.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "daemon"},
		Spec: corev1.PodSpec{
			NodeName: "node-1", ServiceAccountName: "daemon",
			Containers: []corev1.Container{{Name: "daemon", Image: "daemon"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	token, err := api.CoreV1().ServiceAccounts("default").CreateToken(ctx, "daemon", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: ptr.To(int64(3600)),
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	review, err := api.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.True(t, review.Status.Authenticated, review.Status.Error)
	return review.Status.User
}

// processes are the processes of the control plane whose arguments name dir.
func processes(t *testing.T, dir string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		arguments, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		program, rest, _ := strings.Cut(string(arguments), "\x00")
		name := filepath.Base(program)
		if (name == "etcd" || name == "kube-apiserver" || name == "kube-controller-manager") && strings.Contains(rest, dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func running(pid int) bool {
	return syscall.Kill(pid, 0) == nil
}
