package deploy_test

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// person types the commands of docs/install.md into the shell of a machine that reaches a cluster and a registry.
type person struct {
	*controlplane.ControlPlane
	admin client.Client
	// at is the directory where the person is, and registry what stands for registry.example.com.
	at, registry string
}

func newPerson(t *testing.T) *person {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Out: io.Discard})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, plane.Stop()) })
	images := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(images.Close)
	p := &person{ControlPlane: plane, at: t.TempDir(), registry: strings.TrimPrefix(images.URL, "http://")}
	p.admin, err = client.New(plane.Config(), client.Options{Scheme: cluster.Scheme()})
	require.NoError(t, err)
	return p
}

// types runs a command as the documentation has it.
func (p *person) types(t *testing.T, line string) (string, error) {
	t.Helper()
	words := strings.Fields(line)
	switch words[0] {
	case "make":
		out, err := exec.CommandContext(t.Context(), "make", append(words[1:], "-C", "..", "CHARTS="+p.at+"/bin/chart")...).CombinedOutput()
		return string(out), err
	case "helm":
		if i := slices.IndexFunc(words, func(w string) bool { return strings.Contains(w, "registry.example.com") }); i > 0 {
			words[i] = strings.ReplaceAll(words[i], "registry.example.com", p.registry)
			words = append(words, "--plain-http")
		}
		return helm(t, p.at, p.KubeconfigPath(), words[1:]...)
	}
	line = strings.ReplaceAll(line, "deploy/kustomize", "kustomize") // this is a test of the package deploy
	if strings.HasPrefix(line, "kubectl delete") {
		line += " --wait=false" // no controller of namespaces runs here
	}
	return apitest.Kubectl(t, p.KubeconfigPath(), line), nil
}

// typed says that Helm or kubectl wrote something. The API server makes objects too, some time after its start.
func typed(m metav1.ManagedFieldsEntry) bool {
	return m.Manager == "helm" || strings.HasPrefix(m.Manager, "kubectl")
}

// everything lists what the person put into the cluster, but for namespaces.
func (p *person) everything(t *testing.T) []string {
	t.Helper()
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(p.Config()).ServerPreferredResources()
	require.NoError(t, err)
	objects, err := dynamic.NewForConfig(p.Config())
	require.NoError(t, err)
	var out []string
	for _, group := range kinds {
		for _, kind := range group.APIResources {
			if !slices.Contains(kind.Verbs, "list") || slices.Contains([]string{"events", "namespaces"}, kind.Name) {
				continue
			}
			gv, err := schema.ParseGroupVersion(group.GroupVersion)
			require.NoError(t, err)
			list, err := objects.Resource(gv.WithResource(kind.Name)).List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) {
				continue // a kind whose definition was just deleted
			}
			require.NoError(t, err, kind.Name)
			for _, o := range list.Items {
				if !slices.ContainsFunc(o.GetManagedFields(), typed) {
					continue
				}
				out = append(out, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// operator is the Deployment.
func (p *person) operator(t *testing.T) *appsv1.Deployment {
	t.Helper()
	var d appsv1.Deployment
	require.NoError(t, p.admin.Get(t.Context(), client.ObjectKey{Namespace: cluster.Namespace, Name: "firmware-operator"}, &d))
	return &d
}

var (
	installSection = regexp.MustCompile(`(?s)\n## With Helm\n(.*?)\n## `)
	consoleBlock   = regexp.MustCompile("(?s)```console\n(.*?)```")
	yamlBlock      = regexp.MustCompile("(?s)```yaml\n(.*?)```")
)

// TestHelmInstallsUpgradesAndUninstalls types the commands of docs/install.md one after another.
func TestHelmInstallsUpgradesAndUninstalls(t *testing.T) {
	p := newPerson(t)
	require.Empty(t, p.everything(t))
	text, err := os.ReadFile("../docs/install.md")
	require.NoError(t, err)
	section := installSection.FindSubmatch(text)
	require.NotNil(t, section)
	require.NoError(t, os.WriteFile(filepath.Join(p.at, "site.yaml"), yamlBlock.FindSubmatch(section[1])[1], 0o644))
	var commands []string
	for _, block := range consoleBlock.FindAllSubmatch(section[1], -1) {
		for line := range strings.Lines(string(block[1])) {
			line = strings.TrimSpace(strings.TrimPrefix(line, "$ "))
			if strings.HasPrefix(line, "helm uninstall") {
				assert.Equal(t, "registry.example.com/firmware/operator:v0.1.0", p.operator(t).Spec.Template.Spec.Containers[0].Image)
				// A Secret may have 1 MiB, and Helm keeps the chart and what it made of it in one: the definitions are in it twice.
				var releases corev1.SecretList
				require.NoError(t, p.admin.List(t.Context(), &releases, client.MatchingLabels{"owner": "helm"}))
				require.NotEmpty(t, releases.Items)
				for _, r := range releases.Items {
					assert.Less(t, len(r.Data["release"]), 512<<10)
					t.Logf("%s: %d bytes", r.Name, len(r.Data["release"]))
				}
			}
			said, err := p.types(t, line)
			require.NoError(t, err, "%s: %s", line, said)
			t.Logf("$ %s\n%s", line, said)
			if strings.HasPrefix(line, "helm uninstall") {
				left := p.everything(t)
				require.Len(t, left, 11, "%s", left)
				for _, o := range left {
					assert.Regexp(t, `^CustomResourceDefinition /[a-z]+\.nodefirmware\.io$`, o)
				}
			}
			commands = append(commands, strings.Join(strings.Fields(line)[:2], " "))
		}
	}
	assert.Equal(t, []string{"make chart", "kubectl create", "kubectl label", "helm install", "helm push", "helm upgrade", "helm uninstall", "kubectl delete",
		"kubectl delete"}, commands)
	require.Eventually(t, func() bool { return len(p.everything(t)) == 0 }, time.Minute, 100*time.Millisecond)
}

// TestHelmAndTheInstallationsThatAreThere: a chart over an installation by kustomize, and a second release, are refused and change nothing.
// The first can be taken over, and an upgrade from an earlier chart, to every option, upgrades the CRDs too.
func TestHelmAndTheInstallationsThatAreThere(t *testing.T) {
	p := newPerson(t)
	install := "helm install node-firmware-operator " + p.earlierChart(t) + " --namespace node-firmware-system"
	_, err := p.types(t, install+" --create-namespace --set alerts.enabled=true")
	require.ErrorContains(t, err, `no matches for kind "PrometheusRule"`)
	require.Empty(t, p.everything(t))

	apitest.Kubectl(t, p.KubeconfigPath(), "kubectl apply -k kustomize/default")
	before := p.everything(t)
	require.Greater(t, len(before), 40)
	installed := p.operator(t)
	_, err = p.types(t, install)
	require.ErrorContains(t, err, "exists and cannot be imported into the current release")
	assert.Equal(t, before, p.everything(t))

	said, err := p.types(t, install+" --take-ownership --server-side=false")
	require.NoError(t, err)
	assert.Contains(t, said, "Nothing is flashed until")
	var daemon appsv1.DaemonSet
	require.NoError(t, p.admin.Get(t.Context(), client.ObjectKey{Namespace: cluster.Namespace, Name: "firmware-daemon"}, &daemon))
	assert.EqualValues(t, 1, daemon.Generation, "no daemon is replaced")
	assert.Equal(t, installed.UID, p.operator(t).UID)
	assert.Equal(t, installed.Spec, p.operator(t).Spec, "nor the operator")
	assert.Equal(t, []string{"earlier"}, p.shortNames(t))

	before = p.everything(t)
	chart, err := filepath.Abs(chart)
	require.NoError(t, err)
	_, err = p.types(t, "helm install second "+chart+" --namespace other --create-namespace")
	require.ErrorContains(t, err, "exists and cannot be imported into the current release")
	assert.Equal(t, before, p.everything(t))

	require.NoError(t, os.WriteFile(filepath.Join(p.at, "all.yaml"), []byte(variants["all"].values), 0o644))
	apitest.Kubectl(t, p.KubeconfigPath(), "kubectl create namespace medik8s-leases")
	said, err = p.types(t, "helm upgrade node-firmware-operator "+chart+" --namespace node-firmware-system --values all.yaml")
	require.NoError(t, err)
	assert.Contains(t, said, "A daemon that runs is replaced when you delete its pod")
	assert.Equal(t, []string{"ndev"}, p.shortNames(t))
	assert.Equal(t, "Drain", value(p.operator(t).Spec.Template.Spec.Containers[0].Env, "MAINTENANCE"))

	apitest.Kubectl(t, p.KubeconfigPath(), "kubectl apply -f ../docs/examples/firmwaretemplate.yaml")
	_, err = p.types(t, "helm uninstall node-firmware-operator --namespace node-firmware-system")
	require.NoError(t, err)
	assert.Contains(t, apitest.Kubectl(t, p.KubeconfigPath(), "kubectl get firmwaretemplates"), "gpu-7x21", "what is declared stays")
	again := "helm install second " + chart + " --namespace other --create-namespace"
	_, err = p.types(t, again)
	require.ErrorContains(t, err, "exists and cannot be imported into the current release", "the definitions are of the first")
	_, err = p.types(t, again+" --take-ownership")
	require.NoError(t, err)
}

// earlierChart is a directory with the chart as an earlier version might have been: with another short name of NodeDevices.
func (p *person) earlierChart(t *testing.T) string {
	t.Helper()
	said, err := helm(t, ".", os.DevNull, "package", chart, "--destination", p.at)
	require.NoError(t, err, said)
	out, err := exec.CommandContext(t.Context(), "tar", "-C", p.at, "-xf", p.at+"/node-firmware-operator-0.1.0-dev.tgz").CombinedOutput()
	require.NoError(t, err, "%s", out)
	at := filepath.Join(p.at, "node-firmware-operator")
	file := filepath.Join(at, "files/crd/nodefirmware.io_nodedevices.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "\n    - ndev\n")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), "\n    - ndev\n", "\n    - earlier\n", 1)), 0o644))
	return at
}

func (p *person) shortNames(t *testing.T) []string {
	t.Helper()
	var d apiextensionsv1.CustomResourceDefinition
	require.NoError(t, p.admin.Get(t.Context(), client.ObjectKey{Name: "nodedevices.nodefirmware.io"}, &d))
	return d.Spec.Names.ShortNames
}
