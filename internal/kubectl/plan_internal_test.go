package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	uids "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/document"
	"github.com/nodefirmware/node-firmware-operator/internal/forecast"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
)

const plannedTemplate = `apiVersion: nodefirmware.io/v1alpha1
kind: FirmwareTemplate
metadata: {name: gpu}
spec:
  nodeSelector: {matchLabels: {pool: gpu}}
  rules:
  - {name: cx6dx, selector: {class: NIC, vendor: "15b3"}, version: 22.41.1000, sourceRef: {name: cx6dx}}
---
apiVersion: nodefirmware.io/v1alpha1
kind: FirmwareSource
metadata: {name: cx6dx}
spec:
  files:
  - url: https://firmware.example.com/a.bin
    digest: sha256:4141414141414141414141414141414141414141414141414141414141414141
    images: [{class: NIC, vendor: "15b3", version: 22.41.1000}]
  - url: https://firmware.example.com/b.bin
    digest: sha256:3939393939393939393939393939393939393939393939393939393939393939
    images: [{class: NIC, vendor: "15b3", version: 22.39.2048}]
  upgradePaths: [{to: 22.41.1000, from: [22.35.1012], via: 22.39.2048}]
---
apiVersion: nodefirmware.io/v1alpha1
kind: RolloutPolicy
metadata: {name: gpu}
spec:
  nodeSelector: {matchLabels: {pool: gpu}}
  maxUnavailable: 2
  windows: [{name: saturdays, schedule: "0 22 * * 6", duration: 12h, timeZone: Europe/Paris}]
  waves: [{name: canary, nodeSelector: {matchLabels: {canary: "true"}}, soak: 1h}]
`

// plannedFleet are six nodes of a pool and one of another, in front of everything that may keep a device.
func plannedFleet() (out []client.Object) {
	device := func(node, running string, change func(d *v1alpha1.NodeDevice)) {
		d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: node + "-nic", UID: uids.UID(node), Generation: 1}}
		d.Spec.NodeName = node
		d.Status = v1alpha1.NodeDeviceStatus{ObservedGeneration: 1, Class: v1alpha1.ClassNIC, UniqueID: node, Vendor: "Mellanox", Model: "ConnectX-6 Dx", PCIID: "15b3:101d",
			Firmware: &v1alpha1.ObservedFirmware{Running: running, Driver: "mstflint", Activation: v1alpha1.ActivationReboot, VersionFormat: v1alpha1.VersionFormatDotted}}
		if change != nil {
			change(d)
		}
		out = append(out, d)
	}
	for i := range 7 {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gpu-%d", i), Labels: map[string]string{"pool": "gpu"}}}
		if i == 1 {
			n.Labels["canary"] = "true"
		}
		if i == 6 {
			n.Labels["pool"] = "storage"
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		firmware := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
		firmware.Status.LastScanTime = &metav1.Time{Time: anna.now}
		out = append(out, n, firmware)
	}
	device("gpu-0", "22.41.1000", nil)
	device("gpu-1", "22.39.2048", nil)
	device("gpu-2", "22.35.1012", nil)
	device("gpu-3", "22.39.2048", func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Activation = v1alpha1.ActivationDeviceReset })
	device("gpu-4", "22.39.2048", func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Access = v1alpha1.AccessReadOnly })
	device("gpu-5", "22.39.2048", func(d *v1alpha1.NodeDevice) {
		d.Status.Failure = &v1alpha1.DeviceFailure{Reason: v1alpha1.ReasonUnhealthy, Job: "gpu-5-j", Time: metav1.NewTime(anna.now)}
	})
	device("gpu-6", "22.35.1012", nil)
	for i := range 3 {
		j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("old-", i), UID: uids.UID(fmt.Sprint("old-", i))}}
		j.Spec = v1alpha1.FirmwareJobSpec{NodeName: "gpu-0", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{Name: "gpu-0-nic", Model: "15b3:101d"}}}}
		j.Status.StartTime, j.Status.CompletionTime = new(metav1.NewTime(anna.now)), new(metav1.NewTime(anna.now.Add(time.Duration(10+i)*time.Minute)))
		j.Status.Conditions = []metav1.Condition{yes(v1alpha1.ConditionComplete)}
		out = append(out, j)
	}
	return out
}

func planFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "objects.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// What would happen, for people and for programs. The file is what docs/kubectl-firmware.md shows.
func TestPlanOfFiles(t *testing.T) {
	file := planFile(t, plannedTemplate)
	var writes []string
	spy := interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			writes = append(writes, fmt.Sprint((&client.CreateOptions{}).ApplyOptions(options).DryRun))
			return c.Create(ctx, o, options...)
		},
	}
	api := world(t, spy, plannedFleet()...)
	var all strings.Builder
	for _, flags := range []string{"", "--nodes", "-o wide", "-o name", "-o jsonpath={.summary}"} {
		out, said, err := typesWith(t.Context(), api, "", append([]string{"plan", "-f", file}, strings.Fields(flags)...)...)
		require.ErrorIs(t, err, errDiffers)
		fmt.Fprintf(&all, "$ %s\n%s(error stream) %s\n", strings.TrimSpace("kubectl firmware plan -f objects.yaml "+flags), out, said)
	}
	out, said, err := typesWith(t.Context(), api, "", "plan")
	require.NoError(t, err, "nothing is declared")
	fmt.Fprintf(&all, "$ kubectl firmware plan\n%s(error stream) %s\n", out, said)
	golden.Equal(t, "testdata/plan.golden", all.String())
	for _, dryRun := range writes {
		assert.Equal(t, "[All]", dryRun)
	}
	require.Error(t, api.Get(t.Context(), client.ObjectKey{Name: "gpu"}, &v1alpha1.FirmwareTemplate{}), "nothing is written")
}

// typesWith is types with an input.
func typesWith(ctx context.Context, api client.Client, input string, args ...string) (out, said string, err error) {
	var stdout, stderr bytes.Buffer
	s := &session{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(input), Out: &stdout, ErrOut: &stderr}, flags: genericclioptions.NewConfigFlags(true), api: api,
		now: func() time.Time { return anna.now }}
	c := s.root()
	c.SetArgs(args)
	c.SetOut(&stderr)
	c.SetErr(&stderr)
	err = c.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errDiffers) {
		err = errors.New(s.explain(err))
	}
	return stdout.String(), stderr.String(), err
}

// A pin in a file is planned beside the requests that are there, and keeps them.
func TestPlanOfAPin(t *testing.T) {
	all := plannedFleet()
	for _, o := range all {
		if n, is := o.(*v1alpha1.NodeFirmware); is && n.Name == "gpu-6" {
			n.Spec.Requests.Retry = "reseated"
		}
	}
	pin := "apiVersion: nodefirmware.io/v1alpha1\nkind: NodeFirmware\nmetadata: {name: gpu-6}\nspec:\n  pins:\n" +
		"  - {name: nic, selector: {class: NIC, vendor: '15b3'}, version: 22.39.2048, sourceRef: {name: cx6dx}}\n---\n"
	_, source, _ := strings.Cut(plannedTemplate, "---\n")
	api := world(t, interceptor.Funcs{}, all...)
	out, _, err := typesWith(t.Context(), api, pin+source, "plan", "-f", "-", "-o", "jsonpath={.nodes[*].name} {.nodes[*].reboots} {.devices[*].path} {.devices[*].by} {.devices[*].wave}")
	require.ErrorIs(t, err, errDiffers)
	assert.Equal(t, `gpu-6 1 ["22.35.1012","22.39.2048"] pin/gpu-6/nic `, out)
	n := &v1alpha1.NodeFirmware{}
	require.NoError(t, api.Get(t.Context(), client.ObjectKey{Name: "gpu-6"}, n))
	assert.Empty(t, n.Spec.Pins)
}

func TestPlanOfWrongInput(t *testing.T) {
	api := world(t, interceptor.Funcs{}, plannedFleet()...)
	empty := t.TempDir()
	for name, c := range map[string]struct{ input, file, says string }{
		"no such file":           {"", "/no/such.yaml", "-f /no/such.yaml: "},
		"an empty directory":     {"", empty, "there is no file with the ending .yaml, .yml or .json"},
		"an empty input":         {"", "-", "standard input: there is no object in the file"},
		"a kind of others":       {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "-", `standard input:1: apiVersion is "v1", want "nodefirmware.io/v1beta1" or "nodefirmware.io/v1alpha1"`},
		"a kind that is not for": {"apiVersion: nodefirmware.io/v1alpha1\nkind: FirmwareJob\nmetadata: {name: a}\n", "-", "want ConfigurationTemplate, FirmwareSource, FirmwareTemplate, NodeFirmware, RolloutPolicy"},
		"an unknown field":       {strings.Replace(plannedTemplate, "rules:", "rulez:", 1), "-", `standard input:6: unknown field "spec.rulez"`},
		"no name":                {strings.Replace(plannedTemplate, "name: gpu}", "labels: {}}", 1), "-", "FirmwareTemplate: metadata.name is missing"},
		"an object twice":        {plannedTemplate + "---\n" + plannedTemplate, "-", "FirmwareTemplate gpu is given twice"},
		"no such node":           {"apiVersion: nodefirmware.io/v1alpha1\nkind: NodeFirmware\nmetadata: {name: gpu1}\nspec: {}\n", "-", `there is no node "gpu1"; do you mean gpu-1?`},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := typesWith(t.Context(), api, c.input, "plan", "-f", c.file)
			require.ErrorContains(t, err, c.says)
			assert.Empty(t, out)
		})
	}
	_, said, err := typesWith(t.Context(), api, strings.Replace(plannedTemplate, "pool: gpu}", "pool: gpuu}", 1), "plan", "-f", "-")
	require.NoError(t, err, "nothing matches")
	assert.Contains(t, said, "FirmwareTemplate gpu: No node is selected")
	_, said, err = typesWith(t.Context(), api, strings.Replace(plannedTemplate, `vendor: "15b3"}, version: 22.41.1000, s`, `vendor: "15b4"}, version: 22.41.1000, s`, 1), "plan", "-f", "-")
	require.NoError(t, err)
	assert.Contains(t, said, `closest to device gpu-0-nic, but differs in vendor (the device reports 15b3, Mellanox)`)
}

// Who may not write the objects is told, and sees the plan all the same; who may not see Nodes is told which right that takes.
func TestPlanOfWhoMayNotWrite(t *testing.T) {
	refused := interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return forbids("firmwaretemplates")
	}}
	out, said, err := typesWith(t.Context(), world(t, refused, plannedFleet()...), plannedTemplate, "plan", "-f", "-")
	require.ErrorIs(t, err, errDiffers)
	assert.Contains(t, out, "1 node would be rebooted once, 1 drained")
	assert.Contains(t, said, "You may not write FirmwareTemplate gpu, FirmwareSource cx6dx, RolloutPolicy gpu, so the API server did not check it")
	hidden := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, is := list.(*corev1.NodeList); is {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New(`User "anna" cannot list resource "nodes" in API group "" at the cluster scope`))
		}
		return c.List(ctx, list, options...)
	}}
	_, _, err = typesWith(t.Context(), world(t, hidden, plannedFleet()...), "", "plan")
	require.ErrorContains(t, err, "user anna may not list nodes. No role of the product has that right; who administers the cluster gives it with: kubectl create clusterrole node-reader")
}

func TestBenchmarks(t *testing.T) { bench.Once(t) }

// BenchmarkPlan40000 is a plan of 40,000 devices on 5,000 nodes, each with 10 jobs in its history, of which all are to change.
func BenchmarkPlan40000(b *testing.B) {
	nodes := bench.Size(5000, 20)
	for b.Loop() {
		b.StopTimer()
		f := largeFleet(nodes)
		b.StartTimer()
		p := planOf(forecast.Make(f), nil)
		if p.Summary.Reboots != nodes {
			b.Fatal(p.Summary)
		}
	}
}

func largeFleet(nodes int) forecast.Facts {
	f := forecast.Facts{Now: anna.now}
	budget := intstr.FromString("10%")
	f.Policies = []v1alpha1.RolloutPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: v1alpha1.RolloutPolicySpec{State: v1alpha1.RolloutActive, MaxUnavailable: &budget}}}
	source := v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	source.Status.Conditions = []metav1.Condition{yes(v1alpha1.ConditionReady)}
	template := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	for m := range 8 {
		source.Status.Images = append(source.Status.Images, v1alpha1.StoredImage{Version: "2", Class: v1alpha1.ClassNIC, Vendor: "15b3", Models: []string{fmt.Sprintf("100%d", m)},
			Digest: v1alpha1.Digest(fmt.Sprintf("sha256:%064x", m))})
	}
	template.Spec.Rules = []v1alpha1.FirmwareRule{{Name: "r", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC}, Version: "2", SourceRef: v1alpha1.SourceReference{Name: "s"}}}
	f.Sources, f.Templates = []v1alpha1.FirmwareSource{source}, []*v1alpha1.FirmwareTemplate{template}
	for i := range nodes {
		name := fmt.Sprintf("node-%05d", i)
		f.Nodes = append(f.Nodes, schedule.Node{Name: name, Ready: true, Labels: map[string]string{"pool": "gpu"}})
		f.Firmware = append(f.Firmware, &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: name}})
		for m := range 8 {
			d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, m)}}
			d.Spec.NodeName = name
			d.Status = v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC, UniqueID: d.Name, Model: fmt.Sprint("M", m), PCIID: fmt.Sprintf("15b3:100%d", m),
				Firmware: &v1alpha1.ObservedFirmware{Running: "1", Driver: "d", Activation: v1alpha1.ActivationReboot}}
			f.Devices = append(f.Devices, d)
		}
		for h := range 10 {
			j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(name, h), UID: uids.UID(fmt.Sprint(name, h))}}
			j.Spec.NodeName, j.Spec.Task = name, v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{Name: name + "-0", Model: "15b3:1000"}}}
			j.Status.StartTime, j.Status.CompletionTime = &metav1.Time{Time: f.Now}, &metav1.Time{Time: f.Now.Add(10 * time.Minute)}
			j.Status.Conditions = []metav1.Condition{yes(v1alpha1.ConditionComplete)}
			f.Jobs = append(f.Jobs, j)
		}
	}
	return f
}

// A node that its job cordoned and reboots is one that others can follow, and not a node that is broken.
func TestThePlanGoesOnAfterTheJobThatRunsNow(t *testing.T) {
	f := largeFleet(3)
	one := intstr.FromInt32(1)
	f.Policies[0].Spec.MaxUnavailable = &one
	running := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "runs", UID: "runs", CreationTimestamp: metav1.NewTime(f.Now.Add(-time.Minute))}}
	running.Spec.NodeName, running.Spec.Task = "node-00000", v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate}
	for m := range 8 {
		running.Spec.Task.Devices = append(running.Spec.Task.Devices, v1alpha1.TaskDevice{Name: fmt.Sprint("node-00000-", m), UniqueID: fmt.Sprint("node-00000-", m),
			Model: fmt.Sprintf("15b3:100%d", m), FromVersion: "1", Version: "2", Digest: v1alpha1.Digest(fmt.Sprintf("sha256:%064x", m))})
	}
	running.Status.Conditions = []metav1.Condition{yes(v1alpha1.ConditionAdmitted)}
	f.Jobs = append(f.Jobs, running)
	f.Policies[0].Status.Admitted = []v1alpha1.AdmittedNode{{Node: "node-00000", Job: "runs", JobUID: "runs"}}
	f.Nodes[0].Ready, f.Nodes[0].Cordoned = false, true
	follow := func() (goes, waits int) {
		for _, n := range forecast.Make(f).Nodes {
			for _, j := range n.Jobs {
				switch {
				case j.Running:
				case j.Goes():
					goes++
				default:
					waits++
				}
			}
		}
		return goes, waits
	}
	goes, waits := follow()
	assert.Equal(t, []int{2, 0}, []int{goes, waits})
	f.Nodes[0].Taken = "a person cordoned it"
	goes, waits = follow()
	assert.Equal(t, []int{0, 2}, []int{goes, waits}, "it stays out of service")
}

// Both versions of the API are read, and sent as the one that the program speaks.
func TestAFileMayBeOfEitherVersion(t *testing.T) {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		of := "nodefirmware.io/" + version
		o, problems := proposed(document.Header{APIVersion: of, Kind: "RolloutPolicy"}, []byte(`{"apiVersion":"`+of+`","kind":"RolloutPolicy","metadata":{"name":"gpu"}}`))
		require.Empty(t, problems)
		assert.Equal(t, v1alpha1.GroupVersion.WithKind("RolloutPolicy"), o.GetObjectKind().GroupVersionKind())
	}
}
