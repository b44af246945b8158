package deploy_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
)

const (
	chart   = "chart/node-firmware-operator"
	release = "node-firmware-operator"
)

// helmProgram is the helm that hack/tools pins, or the one that HELM names. The first call builds it, for some minutes.
var helmProgram = sync.OnceValues(func() (string, error) {
	if other := os.Getenv("HELM"); other != "" {
		return other, nil
	}
	out, err := exec.Command("go", "tool", "-modfile=../hack/tools/helm/go.mod", "-n", "helm").Output()
	return strings.TrimSpace(string(out)), err
})

// helm runs helm in the directory, with the access of a kubeconfig file, and returns what it said.
func helm(t *testing.T, directory, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	program, err := helmProgram()
	require.NoError(t, err, "build helm")
	own := t.TempDir()
	c := exec.CommandContext(t.Context(), program, args...)
	c.Dir = directory
	c.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HELM_CACHE_HOME="+own, "HELM_CONFIG_HOME="+own, "HELM_DATA_HOME="+own)
	var said, log bytes.Buffer
	c.Stdout, c.Stderr = &said, &log
	if err := c.Run(); err != nil {
		return said.String(), fmt.Errorf("%w: %s", err, log.String())
	}
	return said.String(), nil
}

// byKey are objects by kind, namespace and name.
func byKey(t *testing.T, objects []*unstructured.Unstructured) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, o := range objects {
		key := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		assert.NotContains(t, out, key, "twice")
		out[key] = o.Object
	}
	return out
}

// charted is what the chart installs with values, in the namespace.
func charted(t *testing.T, namespace, values string) map[string]map[string]any {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte(values), 0o644))
	text, err := helm(t, ".", os.DevNull, "template", release, chart, "--kube-version", "1.32.0", "--namespace", namespace, "--values", file)
	require.NoError(t, err)
	objects, err := deploy.Decode([]byte(text))
	require.NoError(t, err)
	return byKey(t, objects)
}

// variants are the values that change what is installed, each with the overlay that installs the same.
var variants = map[string]struct {
	values, components, rest string
	// own are the objects that a person makes who uses kustomize.
	own []string
}{
	"default": {},
	"drain":   {values: "maintenance: Drain", components: "drain"},
	"medik8s": {values: "{maintenance: Drain, medik8s: {leaseNamespace: medik8s-leases}}", components: "drain medik8s",
		own: []string{"RoleBinding medik8s-leases/node-firmware-operator"}},
	"pod-strategy": {values: "{updateStrategy: pod, podHandlers: [{image: handler}]}", components: "pod-strategy",
		own: []string{"ConfigMap %s/node-firmware-pod-handlers"}},
	"signed-images": {values: "imageVerification: Required", components: "signed-images"},
	"image-volume": {values: "imageVolume: {enabled: true, size: 50Gi, storageClassName: fast-local}", components: "image-volume", rest: `
patches:
- target: {kind: PersistentVolumeClaim, name: node-firmware-images}
  patch: |-
    - {op: add, path: /spec/storageClassName, value: fast-local}
    - {op: replace, path: /spec/resources/requests/storage, value: 50Gi}
`},
	"programs": {values: `
imagePullSecrets: [{name: registry}]
operator:
  image: {repository: registry.example.com/firmware/operator, tag: v9, pullPolicy: Never}
  args: [--allow-source-networks=10.0.5.0/24]
  env: [{name: HTTPS_PROXY, value: "http://proxy.example.com:3128"}]
  nodeSelector: {disk: large}
  priorityClassName: ""
daemon:
  image: {repository: registry.example.com/firmware/daemon, tag: v9, pullPolicy: Never}
  args: [--nvme-transports=pcie]
  resources: {limits: {memory: 2Gi}}
  tolerations: []
`, rest: `
images:
- {name: localhost/nodefirmware/operator, newName: registry.example.com/firmware/operator, newTag: v9}
- {name: localhost/nodefirmware/daemon, newName: registry.example.com/firmware/daemon, newTag: v9}
patches:
- target: {kind: Deployment}
  patch: |-
    - {op: replace, path: /spec/template/spec/containers/0/imagePullPolicy, value: Never}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --allow-source-networks=10.0.5.0/24}
    - {op: add, path: /spec/template/spec/containers/0/env/-, value: {name: HTTPS_PROXY, value: "http://proxy.example.com:3128"}}
    - {op: add, path: /spec/template/spec/nodeSelector, value: {disk: large}}
    - {op: remove, path: /spec/template/spec/priorityClassName}
    - {op: add, path: /spec/template/spec/imagePullSecrets, value: [{name: registry}]}
- target: {kind: DaemonSet}
  patch: |-
    - {op: replace, path: /spec/template/spec/containers/0/imagePullPolicy, value: Never}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --nvme-transports=pcie}
    - {op: add, path: /spec/template/spec/containers/0/resources/limits, value: {memory: 2Gi}}
    - {op: remove, path: /spec/template/spec/tolerations}
    - {op: add, path: /spec/template/spec/imagePullSecrets, value: [{name: registry}]}
`},
	"traces": {values: "traces: {endpoint: 'http://collector.monitoring:4318'}", rest: `
patches:
- target: {kind: Deployment, name: firmware-operator}
  patch: |-
    - {op: add, path: /spec/template/spec/containers/0/env/-, value: {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://collector.monitoring:4318"}}
    - {op: add, path: /spec/template/spec/containers/0/env/-, value: {name: OTEL_EXPORTER_OTLP_PROTOCOL, value: http/protobuf}}
`},
	"monitoring": {values: "{scrape: {enabled: true}, alerts: {enabled: true, labels: {release: prometheus}}, dashboard: {enabled: true}}",
		components: "scrape alerts dashboard", rest: `
patches:
- target: {kind: PrometheusRule}
  patch: '[{"op": "add", "path": "/metadata/labels/release", "value": "prometheus"}]'
`},
	"all": {values: `
updateStrategy: pod
podHandlers: [{vendor: Lenovo, image: handler, args: [--log-level=debug]}, {image: daemon}]
maintenance: Drain
medik8s: {leaseNamespace: medik8s-leases}
imageVerification: Required
imageVolume: {enabled: true}
`, components: "pod-strategy drain medik8s signed-images image-volume",
		own: []string{"RoleBinding medik8s-leases/node-firmware-operator", "ConfigMap %s/node-firmware-pod-handlers"}},
}

// TestChartInstallsWhatKustomizeDoes compares every object of every variant. Two things differ: the chart has no Namespace, and its CRDs
// outlive it. The golden files have the workloads, and what a variant has beside or instead of the default.
func TestChartInstallsWhatKustomizeDoes(t *testing.T) {
	plain := charted(t, "node-firmware-system", "")
	for name, v := range variants {
		t.Run(name, func(t *testing.T) {
			for _, namespace := range []string{"node-firmware-system", "firm"} {
				got := charted(t, namespace, v.values)
				if namespace == "node-firmware-system" {
					golden.Equal(t, "testdata/chart/"+name+".yaml", difference(t, name, got, plain))
				}
				for _, own := range v.own {
					key := strings.ReplaceAll(own, "%s", namespace)
					assert.Contains(t, got, key)
					delete(got, key)
				}
				objects := kustomized(t, overlay(namespace, v.components, v.rest), "")
				for _, o := range objects { // kustomize takes kinds for namespaced that it does not know
					if strings.HasPrefix(o.GetAPIVersion(), "admissionregistration.k8s.io/") || strings.HasPrefix(o.GetAPIVersion(), "flowcontrol.") {
						o.SetNamespace("")
					}
				}
				want := byKey(t, objects)
				delete(want, "Namespace /"+namespace)
				for key, o := range want {
					if strings.HasPrefix(key, "CustomResourceDefinition ") {
						require.NoError(t, unstructured.SetNestedField(o, "keep", "metadata", "annotations", "helm.sh/resource-policy"))
					}
				}
				if deployment := got["Deployment "+namespace+"/firmware-operator"]; strings.Contains(v.values, "pod") {
					unstructured.RemoveNestedField(deployment, "spec", "template", "metadata", "annotations") // restarts it with the handlers
				}
				assert.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)))
				for key, o := range want {
					sortByName(t, o)
					sortByName(t, got[key])
					assert.Equal(t, normal(t, o), normal(t, got[key]), key)
				}
			}
		})
	}
}

// overlay is a kustomization with the components, in the namespace.
func overlay(namespace, components, rest string) string {
	out := fmt.Sprintf("resources: [../deploy/kustomize/default]\nnamespace: %q\n", namespace)
	if components != "" {
		out += "components:\n"
		for component := range strings.FieldsSeq(components) {
			out += "- ../deploy/kustomize/" + component + "\n"
		}
	}
	return out + rest
}

// sortByName sorts the lists of a pod that kustomize puts into another order where it merges them.
func sortByName(t *testing.T, o map[string]any) {
	t.Helper()
	pod, found, err := unstructured.NestedMap(o, "spec", "template", "spec")
	require.NoError(t, err)
	if !found {
		return
	}
	for _, c := range pod["containers"].([]any) {
		for _, list := range []any{c.(map[string]any)["env"], c.(map[string]any)["volumeMounts"], pod["volumes"]} {
			slices.SortFunc(list.([]any), func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	require.NoError(t, unstructured.SetNestedMap(o, pod, "spec", "template", "spec"))
}

// normal is an object as text, without the blank lines that kustomize adds to folded texts, which are CEL here.
func normal(t *testing.T, o map[string]any) string {
	t.Helper()
	text, err := yaml.Marshal(o)
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\n\n", "\n")
}

// difference is what a variant has that the plain chart has not, or has otherwise, without what is long and in a file as it is. Of the
// default it is the workloads.
func difference(t *testing.T, variant string, got, plain map[string]map[string]any) string {
	t.Helper()
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(got)) {
		kind, _, _ := strings.Cut(key, " ")
		if kind == "ValidatingAdmissionPolicy" || kind == "PrometheusRule" || strings.HasSuffix(key, "/node-firmware-dashboard") {
			continue
		}
		if variant == "default" && (kind == "Deployment" || kind == "DaemonSet") || normal(t, got[key]) != normal(t, plain[key]) {
			fmt.Fprintf(&out, "---\n%s", normal(t, got[key]))
		}
	}
	for key := range plain {
		assert.Contains(t, got, key, "no variant installs less")
	}
	return out.String()
}

func TestChartInstallsLessWhereAsked(t *testing.T) {
	for key := range charted(t, "x", "crds: {enabled: false}") {
		assert.NotContains(t, key, "CustomResourceDefinition")
	}
	for key, o := range charted(t, "x", "crds: {keep: false}") {
		assert.NotContains(t, normal(t, o), "helm.sh/resource-policy", key)
	}
	for key, o := range charted(t, "1000", "") {
		assert.NotContains(t, normal(t, o), "namespace: 1000", "%s: a text, not a number", key)
	}
	everything := "{admissionPolicies: {enabled: false}, maintenance: Drain, updateStrategy: pod, podHandlers: [{image: x}]}"
	for key := range charted(t, "x", everything) {
		assert.NotContains(t, key, "ValidatingAdmissionPolicy")
	}
}

// TestWrongValuesAreRefused: the schema says which value is wrong, before anything is installed.
func TestWrongValuesAreRefused(t *testing.T) {
	for values, said := range map[string][]string{
		"operator: {imagee: {}}": {"'/operator'", "additional properties 'imagee' not allowed"},
		"surprise: 1":            {"additional properties 'surprise' not allowed"},
		"maintenance: drain":     {"'/maintenance'", "must be one of 'Operator', 'Drain'"},
		"updateStrategy: pod":    {"'/podHandlers'", "minItems"},
		"{updateStrategy: pod, podHandlers: [{vendor: x}]}":               {"'/podHandlers/0'", "missing property 'image'"},
		"podHandlers: [{image: x, args: ['--a b']}]":                      {"'/podHandlers/0/args/0'", "does not match pattern"},
		"medik8s: {leaseNamespace: leases}":                               {"'/medik8s/leaseNamespace'", "maxLength"},
		"operator: {args: [--maintenance=Drain]}":                         {"'/operator/args/0'"},
		"daemon: {args: [log-level=debug]}":                               {"'/daemon/args/0'", "does not match pattern"},
		"traces: {endpoint: 'collector:4318', protocol: http/json}":       {"'/traces/endpoint'", "'/traces/protocol'"},
		"traces: {endpoint: 'http://me:secret@collector:4318'}":           {"'/traces/endpoint'", "does not match pattern"},
		"imageVolume: {enabled: 'yes'}":                                   {"'/imageVolume/enabled'", "want boolean"},
		"imageVolume: {size: large}":                                      {"'/imageVolume/size'", "does not match pattern"},
		"daemon: {image: {repository: x, pullPolicy: Sometimes}}":         {"'/daemon/image/pullPolicy'", "must be one of"},
		"operator: {image: {repository: x, tag: 'sha256:aa'}, env: [{}]}": {"'/operator/image/tag'", "'/operator/env/0'"},
	} {
		file := filepath.Join(t.TempDir(), "values.yaml")
		require.NoError(t, os.WriteFile(file, []byte(values), 0o644))
		_, err := helm(t, ".", os.DevNull, "template", release, chart, "--values", file)
		require.Error(t, err, values)
		for _, text := range said {
			assert.ErrorContains(t, err, text, values)
		}
	}
}

// TestValuesAreDocumented writes the table of values from values.yaml: each has a comment there, and a place in the schema.
func TestValuesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(chart + "/values.yaml")
	require.NoError(t, err)
	var document yamlv3.Node
	require.NoError(t, yamlv3.Unmarshal(text, &document))
	var table strings.Builder
	table.WriteString("# Values of the chart\n\nWritten from the comments of `values.yaml`. Values that are not in this table are refused. " +
		"How the chart is installed: [installation](../install.md#with-helm).\n\n| Value | Default | Meaning |\n|---|---|---|\n")
	describe(t, &table, "", document.Content[0])
	golden.Equal(t, "../docs/reference/chart.md", table.String())
}

// describe adds the values of a mapping. One without a comment is a group of others.
func describe(t *testing.T, out *strings.Builder, parent string, mapping *yamlv3.Node) {
	t.Helper()
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := parent + key.Value
		if key.HeadComment == "" {
			require.Equal(t, yamlv3.MappingNode, value.Kind, "%s has no comment", name)
			describe(t, out, name+".", value)
			continue
		}
		var of any
		require.NoError(t, value.Decode(&of))
		is, err := yaml.Marshal(of)
		require.NoError(t, err)
		is, err = yaml.YAMLToJSON(is)
		require.NoError(t, err)
		fmt.Fprintf(out, "| `%s` | `%s` | %s |\n", name, is, strings.ReplaceAll(strings.ReplaceAll(key.HeadComment, "# ", ""), "\n", " "))
	}
}
