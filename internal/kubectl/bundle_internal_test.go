package kubectl

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// cluster is a world whose pods have logs, by pod/container and, of the one before, pod/container/previous.
type cluster struct {
	client.WithWatch
	logs  map[string]string
	asked *[]string
}

func (c cluster) podLogs() podLogs {
	return func(_ context.Context, _, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
		name := pod + "/" + o.Container
		if o.Previous {
			name += "/previous"
		}
		*c.asked = append(*c.asked, name)
		log, is := c.logs[name]
		if !is {
			return nil, forbids("pods")
		}
		return io.NopCloser(strings.NewReader(log)), nil
	}
}

// hidden is a new secret, which must be in no file.
func (p *planted) hidden() string {
	*p = append(*p, fmt.Sprintf("hunter2-%02d-x", len(*p)))
	return (*p)[len(*p)-1]
}

type planted []string

// plantedCluster is one with secrets wherever people put them.
func plantedCluster(t *testing.T, secrets *planted, wrong interceptor.Funcs) cluster {
	t.Helper()
	h := secrets.hidden
	ours := map[string]string{nameLabel: productName}
	labelled := func(component string) map[string]string {
		return map[string]string{nameLabel: productName, componentLabel: component}
	}
	spec := func(container string) corev1.PodSpec {
		return corev1.PodSpec{NodeName: "gpu-1", Containers: []corev1.Container{{
			Name: container, Image: "registry.example.com/operator:v1.2.3", Env: []corev1.EnvVar{{Name: "PROXY", Value: h()}},
			Args:    []string{"--kept-flag", "--token=" + h(), "--password", h(), "--proxy=http://anna:" + h() + "@kept-proxy"},
			Command: []string{"sh", "-c", "curl -u anna:" + h() + " https://kept-host/?sig=" + h()},
		}}}
	}
	annotated := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: "fw", Labels: labels, Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": h(), "vault/x": h()}}
	}
	operator, daemon := &corev1.Pod{ObjectMeta: annotated("operator-0", labelled("operator")), Spec: spec("manager")}, &corev1.Pod{ObjectMeta: annotated("daemon-0", labelled("daemon")), Spec: spec("daemon")}
	operator.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "manager", RestartCount: 2}}
	source := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "cx6", Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": h()}},
		Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{URL: "https://anna:" + h() + "@kept-mirror/a.bin?X-Amz-Signature=" + h()}}}}
	source.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Message: "fetch https://anna:" + h() + "@kept-mirror/a.bin: 403"}}
	owned(source, h(), "kubectl")
	settings := &v1alpha1.ConfigurationTemplate{ObjectMeta: metav1.ObjectMeta{Name: "bios", Annotations: map[string]string{"last-applied": h()}}}
	held := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1"}}
	held.Status.HeldBy = "gpu-1-job"
	device := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1-bios"}, Status: v1alpha1.NodeDeviceStatus{Parameters: []v1alpha1.ObservedParameter{
		{Name: "SetupPassword", Current: new(h())}, {Name: "kept-parameter", Current: new("kept-value")}}}}
	event := func(name, namespace, apiVersion string) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, InvolvedObject: corev1.ObjectReference{APIVersion: apiVersion, Name: name},
			Message: "kept-event " + name + " Authorization: Bearer " + h()}
	}
	node := &corev1.Node{ObjectMeta: annotated("gpu-1", map[string]string{"kept-label": "x"}), Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KernelVersion: "kept-kernel"}, Images: []corev1.ContainerImage{{Names: []string{"left-out-image"}}}}}
	node.Namespace = ""
	objects := []client.Object{
		operator, daemon, source, settings, held, device, node, event("about-source", "default", v1alpha1.GroupVersion.String()), event("about-pod", "fw", "v1"), event("left-out-event", "default", "v1"),
		&appsv1.Deployment{ObjectMeta: annotated("operator", ours), Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: spec("manager")}}},
		&appsv1.DaemonSet{ObjectMeta: annotated("daemon", ours), Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: spec("daemon")}}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "left-out-pod", Namespace: "fw"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "fw", Labels: ours}, StringData: map[string]string{"a": h()}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "fw", Labels: ours}, Data: map[string]string{"a": h()}},
	}
	list := wrong.List
	wrong.List = func(ctx context.Context, c client.WithWatch, o client.ObjectList, options ...client.ListOption) error {
		switch o.(type) {
		case *corev1.SecretList, *corev1.ConfigMapList:
			assert.Fail(t, "Secrets and ConfigMaps are not read")
		}
		if list != nil {
			return list(ctx, c, o, options...)
		}
		return c.List(ctx, o, options...)
	}
	return cluster{world(t, wrong, objects...), map[string]string{
		"operator-0/manager":          "kept-line password=" + h() + "\n{\"token\":\"" + h() + "\"}\n",
		"operator-0/manager/previous": "kept-panic\n-----BEGIN PRIVATE KEY-----\n" + h() + "\n-----END PRIVATE KEY-----\n",
	}, new([]string)}
}

// unpack are the files of a bundle by name.
func unpack(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	packed, err := gzip.NewReader(f)
	require.NoError(t, err)
	out := map[string]string{}
	for in := tar.NewReader(packed); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		content, err := io.ReadAll(in)
		require.NoError(t, err)
		assert.Equal(t, int64(0o600), header.Mode)
		name, below := strings.CutPrefix(header.Name, archiveRoot)
		assert.True(t, below, header.Name)
		out[name] = string(content)
	}
}

// TestABundleHasNoSecrets: none of those that were put everywhere, and what support needs.
func TestABundleHasNoSecrets(t *testing.T) {
	var secrets planted
	api, file := plantedCluster(t, &secrets, interceptor.Funcs{}), filepath.Join(t.TempDir(), "b.tar.gz")
	out, said, err := types(t.Context(), api, "bundle", "-o", file)
	require.NoError(t, err)
	assert.Equal(t, file+"\n", out)
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	files := unpack(t, file)
	var all strings.Builder
	for name, content := range files {
		all.WriteString(name + "\n" + content)
		if strings.HasSuffix(name, ".json") {
			assert.True(t, json.Valid([]byte(content)), name)
		}
	}
	for i, secret := range secrets {
		assert.NotContains(t, all.String()+said, secret, "secret %d of %d", i, len(secrets))
	}
	assert.Greater(t, len(secrets), 30)
	for _, want := range []string{
		"kept-mirror", "kept-proxy", "kept-host", "kept-flag", "kept-parameter", "kept-value", "kept-label", "kept-kernel", "kept-event about-source", "kept-event about-pod", "kept-line", "kept-panic",
		`"name": "PROXY"`, `"heldBy": "gpu-1-job"`, `"component": "operator"`, `"version": "v1.2.3"`,
	} {
		assert.Contains(t, all.String(), want)
	}
	assert.NotContains(t, all.String(), "left-out")
	assert.Equal(t, []string{
		"about.json", "events/fw/0001.json", "events/objects/0001.json", "logs/fw/operator-0/manager.log", "logs/fw/operator-0/manager.previous.log", "nodes/0001.json",
		"objects/ConfigurationTemplate/0001.json", "objects/FirmwareSource/0001.json", "objects/NodeDevice/0001.json", "objects/NodeFirmware/0001.json",
		"workloads/DaemonSet/0001.json", "workloads/Deployment/0001.json", "workloads/Pod/0001.json",
	}, slices.Sorted(maps.Keys(files)))
	assert.Equal(t, []string{"operator-0/manager", "operator-0/manager/previous", "daemon-0/daemon"}, *api.asked)
	assert.Contains(t, said, "Not read: logs/fw/daemon-0/daemon.log: ")
	assert.Contains(t, files["about.json"], "Not read: logs/fw/daemon-0/daemon.log: ")

	_, _, err = types(t.Context(), api, "bundle", "-o", file)
	require.ErrorContains(t, err, "is there already, and is not overwritten")
	again, err := os.Stat(file)
	require.NoError(t, err)
	assert.True(t, os.SameFile(info, again))
	assert.Equal(t, info.ModTime(), again.ModTime())
}

// TestABundleGoesOnWithoutRights: what may not be read is said in the file and to the person, and the rest is there.
func TestABundleGoesOnWithoutRights(t *testing.T) {
	var secrets planted
	api := plantedCluster(t, &secrets, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		switch list.(type) {
		case *corev1.PodList, *v1alpha1.NodeFirmwareList:
			return forbids("pods")
		case *corev1.NodeList:
			return errors.New("etcd leader changed, see https://anna:hunter2@etcd")
		}
		return c.List(ctx, list, options...)
	}})
	t.Chdir(t.TempDir())
	out, said, err := types(t.Context(), api, "bundle")
	require.NoError(t, err)
	assert.Equal(t, "node-firmware-bundle-20261126-093000.tar.gz\n", out)
	files := unpack(t, strings.TrimSpace(out))
	for _, want := range []string{"Not read: workloads/Pod: ", "Not read: objects/NodeFirmware: ", "Not read: nodes: etcd leader changed, see https://REDACTED@etcd", "No pod of the product was read"} {
		assert.Contains(t, said, want)
		assert.Contains(t, files["about.json"], want)
	}
	assert.Contains(t, files, "objects/FirmwareSource/0001.json")
	assert.Contains(t, files, "events/fw/0001.json")
}

// TestLogsAreThoseOfThePod: the API server is asked for them as kubectl logs does.
func TestLogsAreThoseOfThePod(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.String()) }))
	defer server.Close()
	logs, err := (&session{config: &rest.Config{Host: server.URL}}).realLogs()
	require.NoError(t, err)
	in, err := logs(t.Context(), "fw", "operator-0", &corev1.PodLogOptions{Container: "manager", Previous: true, TailLines: new(int64(3))})
	require.NoError(t, err)
	defer in.Close()
	asked, err := io.ReadAll(in)
	require.NoError(t, err)
	assert.Equal(t, "/api/v1/namespaces/fw/pods/operator-0/log?container=manager&previous=true&tailLines=3", string(asked))
}

// TestABundleIsBounded: what has no room is said; a log keeps its end; and of many pods those go first that matter.
func TestABundleIsBounded(t *testing.T) {
	var secrets planted
	api, dir := plantedCluster(t, &secrets, interceptor.Funcs{}), t.TempDir()
	noise := make([]byte, 0, 3*logKept)
	for i := 0; len(noise) < 2*logKept; i++ {
		noise = fmt.Appendf(noise, "line %d %x\n", i, i*i*7919)
	}
	api.logs["operator-0/manager"] = string(noise)
	for i := range mostLogs + 5 {
		name := fmt.Sprintf("daemon-%02d", i+10)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "fw", Labels: map[string]string{nameLabel: productName, componentLabel: "daemon"}},
			Spec: corev1.PodSpec{NodeName: "n" + name, Containers: []corev1.Container{{Name: "daemon", Image: "x:v1"}}}}
		require.NoError(t, api.Create(t.Context(), p))
	}
	file := filepath.Join(dir, "b.tar.gz")
	_, said, err := types(t.Context(), api, "bundle", "-o", file, "--node", "ndaemon-64")
	require.NoError(t, err)
	log := unpack(t, file)["logs/fw/operator-0/manager.log"]
	assert.LessOrEqual(t, len(log), logKept)
	assert.Regexp(t, `^line \d+ [0-9a-f]+\n`, log)
	assert.True(t, strings.HasSuffix(string(noise), log))
	assert.Equal(t, []string{"operator-0/manager", "operator-0/manager/previous", "daemon-64/daemon", "daemon-0/daemon", "daemon-10/daemon"}, (*api.asked)[:5])
	assert.Contains(t, said, "Left out: the logs of 7 pods")

	small := filepath.Join(dir, "small.tar.gz")
	_, said, err = types(t.Context(), api, "bundle", "-o", small, "--max-size", "2Mi")
	require.NoError(t, err)
	assert.Contains(t, said, "Left out, because the file may not become larger (--max-size): logs/fw/operator-0/manager.log")
	info, err := os.Stat(small)
	require.NoError(t, err)
	assert.LessOrEqual(t, info.Size(), int64(2<<20))
	for _, size := range []string{"1Mi", "much"} {
		_, _, err := types(t.Context(), api, "bundle", "-o", filepath.Join(dir, "none"), "--max-size", size)
		require.ErrorContains(t, err, "want a size of at least 2Mi")
	}
}

// TestABundleThatIsNotDoneLeavesNothing: after an interrupt, where it cannot be written, and in a cluster without the product.
func TestABundleThatIsNotDoneLeavesNothing(t *testing.T) {
	var secrets planted
	dir := t.TempDir()
	ctx, interrupt := context.WithCancel(t.Context())
	api := plantedCluster(t, &secrets, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, is := list.(*corev1.NodeList); is {
			interrupt()
			return ctx.Err()
		}
		return c.List(ctx, list, options...)
	}})
	_, _, err := types(ctx, api, "bundle", "-o", filepath.Join(dir, "b"))
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = types(t.Context(), api, "bundle", "-o", filepath.Join(dir, "no", "b"))
	require.ErrorContains(t, err, "write bundle: open ")
	gone := plantedCluster(t, &secrets, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("nobody answers")
	}})
	_, _, err = types(t.Context(), gone, "bundle", "-o", filepath.Join(dir, "b"))
	require.EqualError(t, err, "nobody answers")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
	b := &bundle{ctx: t.Context(), api: api.WithWatch, archive: newArchive(fullDisk{}, 100<<20, anna.now)}
	require.ErrorContains(t, b.objects(), "no space left on device")
}
