package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
)

// program builds the command.
func program(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, child.Build(dir, "kubectl-firmware"))
	return filepath.Join(dir, "kubectl-firmware")
}

// start is the program as a person runs it: with nothing but the address of an API server.
func start(t testing.TB, path, server string, args ...string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), path, append(args, "--server", server)...)
	c.Env = []string{"HOME=/nonexistent", "KUBECONFIG=/dev/null"}
	return c
}

// fleet serves that many devices as an API server does, a page at a time, from memory, and two policies of which it counts the changes.
func fleet(t testing.TB, devices int, patched *atomic.Int32) *httptest.Server {
	t.Helper()
	const most = 500
	var pages [][]byte
	for first := 0; first < devices; first += most {
		list, meta := []v1alpha1.NodeDevice{}, metav1.ListMeta{ResourceVersion: "1"}
		for i := first; i < min(first+most, devices); i++ {
			list = append(list, device(i))
		}
		if first+most < devices {
			meta.Continue = strconv.Itoa(len(pages) + 1)
		}
		// An API server writes the names of a list of custom resources in alphabetical order, as this does.
		page, err := json.Marshal(map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "NodeDeviceList", "metadata": meta, "items": list})
		require.NoError(t, err)
		pages = append(pages, page)
	}
	mux := http.NewServeMux()
	answer := func(path string, body any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			assert.NoError(t, json.NewEncoder(w).Encode(body))
		})
	}
	version := metav1.GroupVersionForDiscovery{GroupVersion: v1alpha1.GroupVersion.String(), Version: v1alpha1.GroupVersion.Version}
	answer("/api", metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}})
	group := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: v1alpha1.GroupName,
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
	answer("/apis", metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{group}})
	answer("/apis/"+v1alpha1.GroupName, group)
	answer("/apis/"+v1alpha1.GroupVersion.String(), metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: v1alpha1.GroupVersion.String(),
		APIResources: []metav1.APIResource{{Name: "nodedevices", SingularName: "nodedevice", Kind: "NodeDevice", Verbs: metav1.Verbs{"get", "list"}},
			{Name: "rolloutpolicies", SingularName: "rolloutpolicy", Kind: "RolloutPolicy", Verbs: metav1.Verbs{"get", "list", "patch"}},
			{Name: "nodefirmwares", SingularName: "nodefirmware", Kind: "NodeFirmware", Verbs: metav1.Verbs{"get", "list"}},
			{Name: "firmwarejobs", SingularName: "firmwarejob", Kind: "FirmwareJob", Verbs: metav1.Verbs{"get", "list"}},
			{Name: "firmwaresources", SingularName: "firmwaresource", Kind: "FirmwareSource", Verbs: metav1.Verbs{"get", "list"}},
			{Name: "firmwaretemplates", SingularName: "firmwaretemplate", Kind: "FirmwareTemplate", Verbs: metav1.Verbs{"get", "list"}},
			{Name: "configurationtemplates", SingularName: "configurationtemplate", Kind: "ConfigurationTemplate", Verbs: metav1.Verbs{"get", "list"}},
			{Name: "firmwarecatalogs", SingularName: "firmwarecatalog", Kind: "FirmwareCatalog", Verbs: metav1.Verbs{"get", "list"}},
			{Name: "firmwarequarantines", SingularName: "firmwarequarantine", Kind: "FirmwareQuarantine", Verbs: metav1.Verbs{"get", "list"}}},
	})
	answer("/api/v1", metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1",
		APIResources: []metav1.APIResource{{Name: "nodes", SingularName: "node", Kind: "Node", Verbs: metav1.Verbs{"get", "list"}}},
	})
	nodes := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	reports := v1alpha1.NodeFirmwareList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeFirmwareList"}}
	for i := range (devices + 7) / 8 {
		name := metav1.ObjectMeta{Name: fmt.Sprintf("gpu-%04d", i), Labels: map[string]string{"pool": "gpu"}}
		nodes.Items = append(nodes.Items, corev1.Node{ObjectMeta: name, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
		reports.Items = append(reports.Items, v1alpha1.NodeFirmware{ObjectMeta: name, Status: v1alpha1.NodeFirmwareStatus{Machine: &v1alpha1.Machine{Vendor: "Dell Inc.", Model: "PowerEdge R650"}}})
	}
	answer("/api/v1/nodes", nodes)
	kinds := "/apis/" + v1alpha1.GroupVersion.String() + "/"
	answer(kinds+"nodefirmwares", reports)
	source := v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "cx6dx"}, Status: v1alpha1.FirmwareSourceStatus{
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		Images:     []v1alpha1.StoredImage{{Class: v1alpha1.ClassNIC, Version: "22.42.1000", Vendor: "15b3", Digest: v1alpha1.Digest("sha256:" + strings.Repeat("42", 32))}},
	}}
	template := v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gpu-pool"}, Spec: v1alpha1.FirmwareTemplateSpec{Rules: []v1alpha1.FirmwareRule{{
		Name: "cx6dx", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC}, Version: "22.42.1000", SourceRef: v1alpha1.SourceReference{Name: "cx6dx"},
	}}}}
	for kind, list := range map[string]client.ObjectList{
		"firmwarejobs": &v1alpha1.FirmwareJobList{TypeMeta: metav1.TypeMeta{Kind: "FirmwareJobList"}}, "firmwaresources": &v1alpha1.FirmwareSourceList{TypeMeta: metav1.TypeMeta{Kind: "FirmwareSourceList"}, Items: []v1alpha1.FirmwareSource{source}},
		"firmwaretemplates":      &v1alpha1.FirmwareTemplateList{TypeMeta: metav1.TypeMeta{Kind: "FirmwareTemplateList"}, Items: []v1alpha1.FirmwareTemplate{template}},
		"configurationtemplates": &v1alpha1.ConfigurationTemplateList{TypeMeta: metav1.TypeMeta{Kind: "ConfigurationTemplateList"}},
		"firmwarequarantines":    &v1alpha1.FirmwareQuarantineList{TypeMeta: metav1.TypeMeta{Kind: "FirmwareQuarantineList"}},
	} {
		list.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(list.GetObjectKind().GroupVersionKind().Kind))
		answer(kinds+kind, list)
	}
	one := device(0).Status
	answer(kinds+"firmwarecatalogs", v1alpha1.FirmwareCatalogList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "FirmwareCatalogList"}, Items: []v1alpha1.FirmwareCatalog{{
		ObjectMeta: metav1.ObjectMeta{Name: "dell-inc.poweredge-r650"}, Status: v1alpha1.FirmwareCatalogStatus{Components: []v1alpha1.CatalogComponent{{
			Class: one.Class, Vendor: one.Vendor, Model: one.Model, PCIID: one.PCIID, SubsystemID: one.SubsystemID, BoardID: one.BoardID,
			Running: []v1alpha1.CatalogRunning{{Version: one.Running(), Position: v1alpha1.PositionBehind, Issues: []string{"CVE-2026-1", "CVE-2026-2", "CVE-2026-3"}}},
		}}},
	}}})
	var policies v1alpha1.RolloutPolicyList
	for _, name := range []string{"a", "b"} {
		p := v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Spec: v1alpha1.RolloutPolicySpec{State: v1alpha1.RolloutActive}}
		p.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "RolloutPolicy"}
		policies.Items = append(policies.Items, p)
		at := "/apis/" + v1alpha1.GroupVersion.String() + "/rolloutpolicies/" + name
		answer(at, p)
		mux.HandleFunc("PATCH "+at, func(w http.ResponseWriter, _ *http.Request) {
			paused := p.DeepCopy()
			paused.Spec.State = v1alpha1.RolloutPaused
			w.Header().Set("Content-Type", "application/json")
			assert.NoError(t, json.NewEncoder(w).Encode(paused))
			patched.Add(1)
		})
	}
	policies.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "RolloutPolicyList"}
	answer("/apis/"+v1alpha1.GroupVersion.String()+"/rolloutpolicies", policies)
	mux.HandleFunc("GET /apis/"+v1alpha1.GroupVersion.String()+"/nodedevices", func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, strconv.Itoa(most), r.URL.Query().Get("limit"))
		at := 0
		if from := r.URL.Query().Get("continue"); from != "" {
			var err error
			at, err = strconv.Atoi(from)
			assert.NoError(t, err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(pages[at])
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked := r.URL.Query(); {
		case asked.Has("sendInitialEvents"):
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			assert.NoError(t, json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity}))
		case asked.Has("watch"): // nothing changes
			w.Header().Set("Content-Type", "application/json")
			assert.NoError(t, http.NewResponseController(w).Flush())
			<-r.Context().Done()
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// device is as large as those of a real cluster: 3 KiB, a third of it what the API server notes of its fields.
func device(i int) v1alpha1.NodeDevice {
	at := metav1.NewTime(time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC))
	node := fmt.Sprintf("gpu-%04d", i/8)
	name := fmt.Sprintf("%s-nic-b83fd2%06x", node, i)
	condition := func(kind, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: 3, LastTransitionTime: at}
	}
	fields := func(n int) *metav1.FieldsV1 {
		return metav1.NewFieldsV1(`{"f:status":{` + strings.TrimSuffix(strings.Repeat(`"f:firmware":{"f:running":{}},`, n), ",") + `}}`)
	}
	digest := v1alpha1.Digest("sha256:" + strings.Repeat("3b", 32))
	origin := []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "gpu-pool", UID: "6a1f9a0a-3a39-4a44-9a43-5b4d8b6e7f10", Generation: 3, Rule: "cx6dx"}}
	return v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: "6a1f9a0a-3a39-4a44-9a43-5b4d8b6e7f11", ResourceVersion: strconv.Itoa(i), Generation: 3, CreationTimestamp: at,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeFirmware", Name: node, UID: "6a1f9a0a-3a39-4a44-9a43-5b4d8b6e7f12"}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "firmware-operator", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "nodefirmware.io/v1alpha1", Time: &at, FieldsType: "FieldsV1", FieldsV1: fields(10)},
				{Manager: "firmware-daemon", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "nodefirmware.io/v1alpha1", Time: &at, FieldsType: "FieldsV1", FieldsV1: fields(30)},
			},
		},
		Spec: v1alpha1.NodeDeviceSpec{NodeName: node, Firmware: &v1alpha1.DesiredFirmware{Version: "22.41.1000", Digest: digest}, Origin: origin},
		Status: v1alpha1.NodeDeviceStatus{
			ObservedGeneration: 3, Class: v1alpha1.ClassNIC, UniqueID: name, Vendor: "NVIDIA", Model: "ConnectX-6 Dx", PCIID: "15b3:101d", SubsystemID: "15b3:0016",
			BoardID: "MT_0000000359", SerialNumber: "MT2137X01234", PCIAddress: "0000:3b:00.0",
			Ports:    []v1alpha1.DevicePort{{PCIAddress: "0000:3b:00.0", NetDevice: "ens1f0np0", LinkType: "Ethernet"}, {PCIAddress: "0000:3b:00.1", NetDevice: "ens1f1np1", LinkType: "Ethernet"}},
			Firmware: &v1alpha1.ObservedFirmware{Running: "22.41.1000", Stored: "22.41.1000", Driver: "mstflint", Activation: v1alpha1.ActivationReboot, VersionFormat: v1alpha1.VersionFormatDotted},
			Applied:  &v1alpha1.AppliedFirmware{Digest: digest, Origin: origin, BootID: "6a1f9a0a-3a39-4a44-9a43-5b4d8b6e7f13", Time: at},
			Conditions: []metav1.Condition{condition(v1alpha1.ConditionReady, v1alpha1.ReasonUpToDate, "Runs 22.41.1000 as desired."),
				condition(v1alpha1.ConditionInspected, v1alpha1.ReasonSucceeded, "Read with the driver mstflint.")},
		},
	}
}

// TestProgram: what a shell sees of the command.
func TestProgram(t *testing.T) {
	var patched atomic.Int32
	path, server := program(t), fleet(t, 1200, &patched)
	t.Run("prints to standard output, and nothing to standard error", func(t *testing.T) {
		var said strings.Builder
		c := start(t, path, server.URL, "get")
		c.Stderr = &said
		out, err := c.Output()
		require.NoError(t, err, said.String())
		assert.Equal(t, 1201, strings.Count(string(out), "\n"))
		assert.Regexp(t, `(?m)^gpu-0149-nic-b83fd20004af +NIC +22\.41\.1000 +22\.41\.1000 +UpToDate$`, string(out))
		assert.Empty(t, said.String())
	})
	t.Run("ends quietly where nobody reads on", func(t *testing.T) {
		var said strings.Builder
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, reader.Close())
		c := start(t, path, server.URL, "get")
		c.Stdout, c.Stderr = writer, &said
		err = c.Run()
		require.NoError(t, writer.Close())
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended)
		assert.Equal(t, syscall.SIGPIPE, ended.Sys().(syscall.WaitStatus).Signal())
		assert.Empty(t, said.String())
	})
	t.Run("does all that was agreed to where nobody reads on", func(t *testing.T) {
		var said strings.Builder
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, reader.Close())
		c := start(t, path, server.URL, "pause", "--all", "--yes")
		c.Stdout, c.Stderr = writer, &said
		err = c.Run()
		require.NoError(t, writer.Close())
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended)
		assert.Equal(t, 1, ended.ExitCode())
		assert.Equal(t, int32(2), patched.Load())
		assert.Contains(t, said.String(), "Error: print what was written: ")
	})
	t.Run("fails with 1 and says why", func(t *testing.T) {
		var said strings.Builder
		c := start(t, path, "http://127.0.0.1:1", "get")
		c.Stderr = &said
		out, err := c.Output()
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended)
		assert.Equal(t, 1, ended.ExitCode())
		assert.Empty(t, out)
		assert.Regexp(t, `^Error: the cluster at http://127\.0\.0\.1:1 does not answer: .*kubectl cluster-info\n$`, said.String())
	})
	t.Run("needs no cluster for its own version", func(t *testing.T) {
		out, err := start(t, path, "http://127.0.0.1:1", "version", "--client").Output()
		require.NoError(t, err)
		assert.Regexp(t, `(?m)^client +`+version.Current()+` +-$`, string(out))
	})
}

func TestBenchmarks(t *testing.T) { bench.Once(t) }

// BenchmarkGet: the whole program, for each verb that reads every device, against an API server that answers at once. Everything is read before
// the first line is printed, so the peak is that of when the lines come.
func BenchmarkGet(b *testing.B) {
	path, devices := program(b), bench.Size(40_000, 1000)
	server := fleet(b, devices, &atomic.Int32{})
	for line, more := range map[string]int{"get": 1, "exposure --all -o name": 0, "report": 1, "report -o cyclonedx": 8} {
		b.Run(line, func(b *testing.B) { measure(b, devices+more, path, server.URL, strings.Fields(line)...) })
	}
}

// measure runs the program, which prints that many lines.
func measure(b *testing.B, want int, path, server string, args ...string) {
	highWater := regexp.MustCompile(`VmHWM:\s+(\d+) kB`)
	peak := 0
	var cpu time.Duration
	for b.Loop() {
		c := start(b, path, server, args...)
		out, err := c.StdoutPipe()
		require.NoError(b, err)
		require.NoError(b, c.Start())
		lines := 0
		in := bufio.NewScanner(out)
		for in.Buffer(nil, 16<<20); in.Scan(); lines++ {
			if lines%500 != 0 {
				continue
			}
			if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid)); err == nil { // it may have ended
				if found := highWater.FindSubmatch(text); found != nil {
					kib, err := strconv.Atoi(string(found[1]))
					require.NoError(b, err)
					peak = max(peak, kib)
				}
			}
		}
		require.NoError(b, in.Err())
		require.NoError(b, c.Wait())
		require.Equal(b, want, lines)
		cpu += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	b.ReportMetric(float64(peak)/1024, "peak-MiB")
	b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
	require.Less(b, peak, 150<<10, "KiB of memory")
}

// BenchmarkPlan: the whole program, where every device is to change. The history of the nodes is empty.
func BenchmarkPlan(b *testing.B) {
	path, devices := program(b), bench.Size(40_000, 1000)
	server := fleet(b, devices, &atomic.Int32{})
	peak, cpu := int64(0), time.Duration(0)
	for b.Loop() {
		c := start(b, path, server.URL, "plan")
		out, err := c.CombinedOutput()
		var ended *exec.ExitError
		require.ErrorAs(b, err, &ended, string(out))
		require.Equal(b, 2, ended.ExitCode(), string(out))
		require.Contains(b, string(out), fmt.Sprintf("%d on %d", devices, devices/8))
		used, is := c.ProcessState.SysUsage().(*syscall.Rusage)
		require.True(b, is)
		peak = max(peak, used.Maxrss)
		cpu += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	b.ReportMetric(float64(peak)/1024, "peak-MiB")
	b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
}

// BenchmarkUI: the whole program until a page has all of the fleet, and then at rest.
func BenchmarkUI(b *testing.B) {
	path, devices := program(b), bench.Size(40_000, 1000)
	server := fleet(b, devices, &atomic.Int32{})
	peak, cpu := int64(0), time.Duration(0)
	for b.Loop() {
		c := start(b, path, server.URL, "ui")
		out, err := c.StdoutPipe()
		require.NoError(b, err)
		require.NoError(b, c.Start())
		in := bufio.NewScanner(out)
		require.True(b, in.Scan())
		address, err := url.Parse(in.Text())
		require.NoError(b, err)
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+address.Host+"/api/stream", nil)
		require.NoError(b, err)
		r.Header.Set("Authorization", "Bearer "+strings.TrimPrefix(address.Fragment, "token="))
		page, err := http.DefaultClient.Do(r)
		require.NoError(b, err)
		told := bufio.NewScanner(page.Body)
		told.Buffer(nil, 16<<20)
		for told.Scan() && told.Text() != "event: outage" {
		}
		require.NoError(b, told.Err())
		require.NoError(b, c.Process.Signal(os.Interrupt))
		require.NoError(b, c.Wait(), "Ctrl-C ends it with 0")
		require.NoError(b, page.Body.Close())
		used, is := c.ProcessState.SysUsage().(*syscall.Rusage)
		require.True(b, is)
		peak = max(peak, used.Maxrss)
		cpu += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	b.ReportMetric(float64(peak)/1024, "peak-MiB")
	b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
}
