package kubectl_test

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
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/kubectl"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // what people see is in their own zone
	apitest.Main(m)
}

var (
	at     = metav1.NewTime(time.Date(2026, 11, 26, 9, 30, 0, 0, time.UTC))
	digest = v1alpha1.Digest("sha256:" + strings.Repeat("3b", 32))
)

// shell runs the command as the user of a kubeconfig.
func shell(t *testing.T, kubeconfig string, args ...string) (out, said string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = kubectl.Run(t.Context(), append(args, "--kubeconfig", kubeconfig), genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &stdout, ErrOut: &stderr})
	return stdout.String(), stderr.String(), code
}

func condition(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: 1, LastTransitionTime: at}
}

func not(c metav1.Condition) metav1.Condition {
	c.Status = metav1.ConditionFalse
	return c
}

// put creates an object with its status.
func put(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	withStatus := o.DeepCopyObject().(client.Object)
	require.NoError(t, c.Create(t.Context(), o))
	withStatus.SetResourceVersion(o.GetResourceVersion())
	if _, hasNone := o.(*rbacv1.ClusterRole); hasNone {
		return
	}
	require.NoError(t, c.Status().Update(t.Context(), withStatus), o.GetName())
}

func device(node, name string, class v1alpha1.DeviceClass, running string, conditions ...metav1.Condition) *v1alpha1.NodeDevice {
	d := &v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-" + name},
		Spec: v1alpha1.NodeDeviceSpec{NodeName: node, Firmware: &v1alpha1.DesiredFirmware{
			Version: "22.41.1000", Digest: digest, Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid,
		}, Origin: []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "gpu", Rule: "cx6dx"}, {Kind: v1alpha1.OriginSource, Name: "cx6dx-2241"}}},
		Status: v1alpha1.NodeDeviceStatus{
			ObservedGeneration: 1, Class: class, UniqueID: "b83fd2a1c4e0", Vendor: "Mellanox", Model: "ConnectX-6 Dx", PCIID: "15b3:101d",
			Firmware: &v1alpha1.ObservedFirmware{Running: running}, Conditions: conditions,
		},
	}
	if class == v1alpha1.ClassDisk {
		d.Spec.Firmware, d.Spec.Origin = nil, nil
		d.Status.Vendor, d.Status.Model, d.Status.PCIID = "Samsung", "MZQL21T9HCJR", "144d:a80a"
	}
	return d
}

func node(name string, conditions ...metav1.Condition) *v1alpha1.NodeFirmware {
	return &v1alpha1.NodeFirmware{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1alpha1.NodeFirmwareStatus{
			ObservedGeneration: 1, Machine: &v1alpha1.Machine{Vendor: "Dell Inc.", Model: "PowerEdge R650"}, Conditions: conditions,
		},
	}
}

// job updates the adapter of a node.
func job(node string, conditions ...metav1.Condition) *v1alpha1.FirmwareJob {
	return &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-1a2b3c4d"},
		Spec: v1alpha1.FirmwareJobSpec{NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{
			Name: node + "-nic", UniqueID: "b83fd2a1c4e0", Model: "15b3:101d", FromVersion: "22.39.2048", Version: "22.41.1000", Digest: digest,
		}}}},
		Status: v1alpha1.FirmwareJobStatus{ObservedGeneration: 1, Conditions: conditions},
	}
}

// fleet is a pool of four nodes in the middle of a rollout: one is done, one is held, one has a job, one waits.
func fleet(t *testing.T, c client.Client) {
	t.Helper()
	heldBy := "Job gpu-2-1a2b3c4d failed at step gate (Unhealthy) and the node stays out of service: link of port 1 is down. To try again: " +
		wayout.Retry("gpu-2") + "  To return the node to service as it is: " + wayout.Request("nfw", "gpu-2", "release")
	upToDate := condition(v1alpha1.ConditionReady, v1alpha1.ReasonUpToDate, "Runs 22.41.1000 as desired.")
	pending := not(condition(v1alpha1.ConditionReady, v1alpha1.ReasonPending, "22.41.1000 is to be flashed."))
	failed := not(condition(v1alpha1.ConditionReady, v1alpha1.ReasonUnhealthy, "Link of port 1 is down."))
	unassigned := condition(v1alpha1.ConditionReady, v1alpha1.ReasonNotAssigned, "No template and no pin matches.")

	held := node("gpu-2", condition(v1alpha1.ConditionHeld, v1alpha1.ReasonUnhealthy, heldBy), not(condition(v1alpha1.ConditionReady, v1alpha1.ReasonUnhealthy, heldBy)))
	held.Status.HeldBy = "gpu-2-1a2b3c4d"
	failure := device("gpu-2", "nic", v1alpha1.ClassNIC, "22.39.2048", failed)
	failure.Status.Failure = &v1alpha1.DeviceFailure{Reason: v1alpha1.ReasonUnhealthy, Digest: digest, Job: "gpu-2-1a2b3c4d", Time: at}
	failedJob := job("gpu-2", condition(v1alpha1.ConditionAdmitted, v1alpha1.ReasonAdmitted, ""), condition(v1alpha1.ConditionFailed, v1alpha1.ReasonUnhealthy, heldBy),
		condition(v1alpha1.ConditionHeld, v1alpha1.ReasonUnhealthy, heldBy))
	failedJob.Status.Steps = []v1alpha1.JobStep{{Name: "flash", State: v1alpha1.StepSucceeded, Attempt: 1}, {Name: "gate", State: v1alpha1.StepFailed, Device: "gpu-2-nic", Attempt: 1, Message: "link of port 1 is down"}}
	running := job("gpu-3", condition(v1alpha1.ConditionAdmitted, v1alpha1.ReasonAdmitted, ""), not(condition(v1alpha1.ConditionReady, v1alpha1.ReasonProgressing, "Step 2 of 8: flash.")))
	running.Status.Steps = []v1alpha1.JobStep{{Name: "flash", State: v1alpha1.StepRunning, Device: "gpu-3-nic", Attempt: 1, Message: "writes"}}
	waits := job("gpu-4", not(condition(v1alpha1.ConditionAdmitted, v1alpha1.ReasonOutsideWindow, "No window is open before 2026-11-26T22:00:00Z.")))

	drive := device("gpu-1", "disk", v1alpha1.ClassDisk, "GDC5602Q", unassigned)
	drive.Status.PowerOnHours, drive.Status.PowerOnHoursTime = new(int64(1000)), &at

	policy := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: v1alpha1.RolloutPolicySpec{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}}}
	policy.Status = v1alpha1.RolloutPolicyStatus{
		ObservedGeneration: 1, Nodes: &v1alpha1.RolloutNodes{Selected: 4, Budget: 2, Queued: 1}, Waiting: []v1alpha1.WaitingNodes{{Reason: v1alpha1.ReasonOutsideWindow, Nodes: 1}},
		NextWindowTime: new(metav1.NewTime(at.Add(12*time.Hour + 30*time.Minute))),
		Admitted:       []v1alpha1.AdmittedNode{{Node: "gpu-2", Job: "gpu-2-1a2b3c4d", JobUID: "u"}, {Node: "gpu-3", Job: "gpu-3-1a2b3c4d", JobUID: "u"}},
		Conditions: []metav1.Condition{condition(v1alpha1.ConditionStalled, v1alpha1.ReasonRolloutHalted, "1 node is held: gpu-2. To try again: "+wayout.Retry("gpu-2")),
			not(condition(v1alpha1.ConditionReady, v1alpha1.ReasonRolloutHalted, "halted"))},
	}
	template := &v1alpha1.FirmwareTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: v1alpha1.FirmwareTemplateSpec{Rules: []v1alpha1.FirmwareRule{{
			Name: "cx6dx", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"}, Version: "22.41.1000", SourceRef: v1alpha1.SourceReference{Name: "cx6dx-2241"},
		}}},
		Status: v1alpha1.TemplateStatus{
			ObservedGeneration: 1, Devices: v1alpha1.TemplateDevices{Matched: 4, UpToDate: 1, OutOfDate: 2, Failed: 1},
			Conditions: []metav1.Condition{not(condition(v1alpha1.ConditionReady, v1alpha1.ReasonProgressing, "1 of 4 devices run their firmware."))},
		},
	}
	vfs := int32(8)
	tuning := &v1alpha1.ConfigurationTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "tuning"},
		Spec: v1alpha1.ConfigurationTemplateSpec{Rules: []v1alpha1.ConfigurationRule{{
			Name: "vfs", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "8086"}, DesiredConfiguration: v1alpha1.DesiredConfiguration{Settings: v1alpha1.Settings{NumVFs: &vfs}},
		}}},
	}
	source := &v1alpha1.FirmwareSource{
		ObjectMeta: metav1.ObjectMeta{Name: "cx6dx-2241"},
		Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{URL: "https://firmware.example.com/a.bin", Digest: digest,
			Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassNIC, Version: "22.41.1000"}}}}},
	}
	source.Status.Conditions = status.Source(nil, 1, at.Time, status.SourceFacts{
		Name: source.Name, Reached: status.SourceFetching, Files: 1, Reason: v1alpha1.ReasonDownloadFailed, Err: errors.New("fetch https://firmware.example.com/a.bin: the server answered 404 Not Found"),
	})
	quarantine := &v1alpha1.FirmwareQuarantine{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.QuarantineName(digest, "15b3:101d"), Generation: 1},
		Spec:       v1alpha1.FirmwareQuarantineSpec{Digest: digest, Model: "15b3:101d", State: v1alpha1.QuarantineActive},
		Status: v1alpha1.FirmwareQuarantineStatus{ObservedGeneration: 1, Version: "22.41.1000", Scope: v1alpha1.QuarantineFleet, Reports: []v1alpha1.QuarantineReport{{
			Job: "gpu-2-1a2b3c4d", Node: "gpu-2", Policy: "gpu", Evidence: v1alpha1.EvidenceDevice, Time: at, Message: "link of port 1 is down and was up before", State: v1alpha1.ReportCounted,
		}}},
	}
	quarantine.Status.Conditions = status.Quarantine(quarantine, at.Time)
	catalog := &v1alpha1.FirmwareCatalog{
		ObjectMeta: metav1.ObjectMeta{Name: "dell-inc.poweredge-r650"},
		Spec:       v1alpha1.FirmwareCatalogSpec{Machine: v1alpha1.CatalogMachine{Vendor: "dell-inc", Model: "poweredge-r650"}},
		Status: v1alpha1.FirmwareCatalogStatus{
			ObservedGeneration: 1, Nodes: 4, Devices: v1alpha1.CatalogDevices{Total: 5, Behind: 3},
			Providers: []v1alpha1.CatalogProviderStatus{{Name: "lvfs", LastDiscoveryTime: &at}, {Name: "ours", Reason: v1alpha1.ReasonDownloadFailed}},
			Components: []v1alpha1.CatalogComponent{
				{Class: v1alpha1.ClassNIC, Vendor: "Mellanox", Model: "ConnectX-6 Dx", PCIID: "15b3:101d",
					Versions: []v1alpha1.CatalogVersion{{Version: "22.41.1000", Provider: "lvfs"}},
					Running: []v1alpha1.CatalogRunning{
						{Version: "22.39.2048", Devices: 3, Position: v1alpha1.PositionBehind, Issues: []string{"CVE-2026-1234"}, FixedIn: "22.41.1000"},
						{Version: "22.41.1000", Devices: 1, Position: v1alpha1.PositionNewest},
					}},
				{Class: v1alpha1.ClassDisk, Vendor: "Samsung", Model: "MZQL21T9HCJR", PCIID: "144d:a80a",
					Running: []v1alpha1.CatalogRunning{{Version: "GDC5602Q", Devices: 1, Position: v1alpha1.PositionUnknown, Limit: &v1alpha1.CatalogLimit{
						Issue: "a00092491", PowerOnHours: 900_000, FirstFailureTime: new(metav1.NewTime(at.Add(899_000 * time.Hour))),
					}}}},
			},
			Conditions: []metav1.Condition{condition(v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded, "3 of 5 devices run behind the newest version.")},
		},
	}
	for _, name := range []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4"} {
		require.NoError(t, c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "gpu"}}}))
	}
	for _, o := range []client.Object{
		node("gpu-1", condition(v1alpha1.ConditionReady, v1alpha1.ReasonUpToDate, "2 of 2 devices run their firmware.")), held,
		node("gpu-3", not(condition(v1alpha1.ConditionReady, v1alpha1.ReasonProgressing, "Job gpu-3-1a2b3c4d is at step flash."))),
		node("gpu-4", not(condition(v1alpha1.ConditionReady, v1alpha1.ReasonPending, "1 device is to be updated."))),
		device("gpu-1", "nic", v1alpha1.ClassNIC, "22.41.1000", upToDate), drive, failure,
		device("gpu-3", "nic", v1alpha1.ClassNIC, "22.39.2048", pending), device("gpu-4", "nic", v1alpha1.ClassNIC, "22.39.2048", pending),
		failedJob, running, waits, policy, template, tuning, source, quarantine, catalog,
	} {
		put(t, c, o)
	}
}

// viewer is the kubeconfig of a person with that role of deploy/ and no other right.
func viewer(t *testing.T, env *apitest.Env, role string) string {
	t.Helper()
	objects, err := deploy.Objects(deploy.RBAC)
	require.NoError(t, err)
	for _, o := range objects {
		if o.GetKind() == "ClusterRole" && o.GetName() == role {
			require.NoError(t, client.IgnoreAlreadyExists(env.Client.Create(t.Context(), o)))
		}
	}
	user := "someone-" + role
	_, err = env.ControlPlane.AddUser(user)
	require.NoError(t, err)
	if role != "" {
		require.NoError(t, client.IgnoreAlreadyExists(env.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})))
	}
	access := filepath.Join(filepath.Dir(env.ControlPlane.KubeconfigPath()), user+".conf")
	require.Eventually(t, func() bool { // roles take a moment to be in force
		_, _, code := shell(t, access, "status")
		return code == 0 || role == ""
	}, 5*time.Minute, 100*time.Millisecond)
	return access
}

// TestFleetInTheMiddleOfARollout: what a person with the role of a viewer sees. The files are what docs/kubectl-firmware.md shows.
func TestFleetInTheMiddleOfARollout(t *testing.T) {
	env := apitest.New(t)
	fleet(t, env.Client)
	access := viewer(t, env, "node-firmware-viewer")
	quarantine := "quarantine/" + v1alpha1.QuarantineName(digest, "15b3:101d")
	for file, commands := range map[string][]string{
		"status": {"status", "status -o wide"},
		"get": {
			"get", "get devices gpu-1-nic -o wide", "get --node gpu-1", "get --class disk", "get --model 144D:a80a", "get --model connectx", "get --version 22.39.2048",
			"get --out-of-date", "get --behind", "get --vulnerable", "get --held", "get --held --class Disk", "get --held --node gpu-1", "get --class NIC --version 22.41.1000 -o name",
		},
		"why": {
			"why gpu-2", "why gpu-4", "why gpu-1", "why device/gpu-2-nic", "why gpu-4-nic", "why job/gpu-3-1a2b3c4d", "why policy/gpu", "why source/cx6dx-2241", "why fws/cx6dx-2241",
			"why " + quarantine, "why catalog/dell-inc.poweredge-r650", "why template/gpu", "why nodedevice.nodefirmware.io/gpu-3-nic",
		},
		"exposure": {
			"exposure CVE-2026-1234", "exposure --all -o wide", "exposure cve-2026-1234 CVE-1999-0001 --node gpu-3", "exposure CVE-1999-0001", "exposure --all --class Disk",
			"exposure --all --model 15b3:101d -o name", "exposure CVE-1999-0001 -o name",
		},
		"wrong": {
			"exposure", "exposure --all CVE-2026-1234", "exposure --all --node gpu-11", "exposure --all -o xml",
			"why gpu2", "why xyzzyxyzzy", "why policy/gpuu", "why cow/gpu", "why", "get gpu-1-nik", "get --node gpu-11", "get --class gpu", "get -o xml", "status now",
		},
	} {
		t.Run(file, func(t *testing.T) {
			var all strings.Builder
			for _, command := range commands {
				out, said, code := shell(t, access, strings.Fields(command)...)
				fmt.Fprintf(&all, "$ kubectl firmware %s\n%s", command, out)
				if said != "" {
					fmt.Fprintf(&all, "(error stream) %s", said)
				}
				assert.Equal(t, file == "wrong", code == 1, "%s: exit code %d", command, code)
				all.WriteString("\n")
			}
			golden.Equal(t, "testdata/"+file+".golden", all.String())
		})
	}
	t.Run("who may see Nodes sees the pool too", func(t *testing.T) {
		out, said, code := shell(t, env.ControlPlane.KubeconfigPath(), "why", "gpu-4")
		assert.Zero(t, code, said)
		assert.Regexp(t, `(?m)^policy/gpu +RolloutHalted +1 node is held: gpu-2\.\njob/gpu-4-1a2b3c4d +OutsideWindow +No window is open`, out)
		assert.Contains(t, out, "\nTo try again:\n  kubectl firmware retry gpu-2\n")
	})
	t.Run("the version is there for who may not see pods", func(t *testing.T) {
		out, said, code := shell(t, access, "version")
		assert.Zero(t, code, said)
		assert.Contains(t, out, version.Current())
		assert.Equal(t, "The versions of the operator and the daemons were not read: user someone-node-firmware-viewer may not list pods. "+
			"Ask who administers the cluster for that right\n", said)
	})
	t.Run("for programs", func(t *testing.T) {
		for command, want := range map[string]string{
			"get gpu-1-nic -o jsonpath={.items[0].status.firmware.running}":      "22.41.1000",
			"get --held -o jsonpath={.kind}/{.items[*].kind}":                    "NodeDeviceList/NodeDevice",
			"get --class BIOS -o jsonpath={.items}":                              "[]",
			"why gpu-2 -o jsonpath={.kind}:{.reason}:{.next[0].purpose}":         "Explanation:Unhealthy:To try again",
			"status -o jsonpath={.kind}:{.pools[0].held}:{.versions[*].running}": "FleetStatus:1:GDC5602Q 22.39.2048 22.41.1000",
			"version --client -o jsonpath={.client}":                             version.Current(),

			"exposure --all -o jsonpath={.kind}:{.exposed[1].devices[*]}:{.exposed[1].fixedIn}:{.untold}:{.catalogs[0].providers[0].name}:{.first[0].device}": "Exposure:gpu-2-nic gpu-3-nic gpu-4-nic:22.41.1000:2:lvfs:gpu-1-disk",
		} {
			out, said, code := shell(t, access, strings.Fields(command)...)
			assert.Zero(t, code, said)
			assert.Equal(t, want, out, command)
		}
		for _, format := range []string{"json", "yaml"} {
			for _, verb := range []string{"status", "get", "why gpu-2", "version"} {
				out, said, code := shell(t, access, append(strings.Fields(verb), "-o", format)...)
				assert.Zero(t, code, said)
				assert.Contains(t, out, "apiVersion")
			}
		}
	})
	t.Run("names are completed", func(t *testing.T) {
		for line, want := range map[string][]string{
			"why gpu-2":       {"gpu-2", "gpu-2-1a2b3c4d", "gpu-2-nic"},
			"get gpu-1":       {"gpu-1-disk", "gpu-1-nic"},
			"get --node gpu-": {"gpu-1", "gpu-2", "gpu-3", "gpu-4"},
			"get --class ":    {"BIOS", "Disk", "NIC", "StorageController"},
			"retry gpu-2":     {"gpu-2", "gpu-2-1a2b3c4d"},
			"cancel gpu-3":    {"gpu-3-1a2b3c4d"},
			"pause ":          {"gpu"},
			"pin gpu-1":       {"gpu-1-disk", "gpu-1-nic"},
			"pin --source ":   {"cx6dx-2241"},
			"exposure CVE":    {"CVE-2026-1234"},

			"quarantine lift 3":        {quarantined},
			"release gpu-2 --dry-run ": {"none", "server"},
		} {
			t.Setenv("KUBECONFIG", access) // a shell completes before it knows of other flags
			var out bytes.Buffer
			words := strings.Split(line, " ")
			require.Zero(t, kubectl.Run(t.Context(), append([]string{"__complete"}, words...), genericiooptions.IOStreams{Out: &out, ErrOut: &bytes.Buffer{}}))
			got := strings.Split(strings.TrimSpace(out.String()), "\n")
			assert.Equal(t, append(want, ":4"), got, line)
		}
	})
	t.Run("the versions of the pods are counted", func(t *testing.T) {
		for name, image := range map[string]string{"o": "localhost/operator:v99.0.0", "d1": "localhost/daemon:v0.2.0", "d2": "localhost/daemon@sha256:1f"} {
			component := map[byte]string{'o': "operator", 'd': "daemon"}[name[0]]
			require.NoError(t, env.Client.Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: apitest.Namespace, Labels: map[string]string{
					"app.kubernetes.io/name": "node-firmware-operator", "app.kubernetes.io/component": component}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
			}))
		}
		out, said, code := shell(t, env.ControlPlane.KubeconfigPath(), "version")
		assert.Zero(t, code)
		assert.Regexp(t, `(?m)^operator +v99\.0\.0 +1\ndaemon +sha256:1f +1\ndaemon +v0\.2\.0 +1$`, out)
		assert.Equal(t, "The operator is of another major version than this command: take the command of that version.\n", said)

		file := filepath.Join(t.TempDir(), "b.tar.gz")
		out, said, code = shell(t, env.ControlPlane.KubeconfigPath(), "bundle", "-o", file)
		assert.Zero(t, code, said)
		assert.Equal(t, file+"\n", out)
		assert.Regexp(t, "^Secrets were taken out .+\n$", said, "all may be read")
		viewed := filepath.Join(t.TempDir(), "v.tar.gz")
		_, said, code = shell(t, access, "bundle", "-o", viewed)
		assert.Zero(t, code, said)
		for _, missing := range []string{"nodes: user someone-node-firmware-viewer may not list nodes. No role of the product has that right", "workloads/Pod: ", "events/objects: "} {
			assert.Contains(t, said, "Not read: "+missing)
		}
		assert.FileExists(t, viewed)
	})
}

// TestThePageShowsWhatIsPrinted: each command of docs/kubectl-firmware.md with its output is in the files that the test above compares.
func TestThePageShowsWhatIsPrinted(t *testing.T) {
	var printed strings.Builder
	for _, file := range []string{"status", "get", "why", "exposure", "plan", "simulate", "wrong", "stop", "held", "retry", "wait", "pin", "history"} {
		text, err := os.ReadFile("testdata/" + file + ".golden")
		require.NoError(t, err)
		printed.Write(text)
	}
	all := strings.ReplaceAll(printed.String(), "(error stream) ", "")
	page, err := os.ReadFile("../../docs/kubectl-firmware.md")
	require.NoError(t, err)
	shown := 0
	for i, block := range strings.Split(string(page), "```console\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, command := range strings.Split(block, "$ kubectl ")[1:] {
			shown++
			assert.Contains(t, all, "$ kubectl "+command+"\n", "block %d", i)
		}
	}
	assert.Equal(t, 17, shown)
}

func TestWhoMayNotReadIsToldWhichRoleMay(t *testing.T) {
	env := apitest.New(t)
	access := viewer(t, env, "")
	for _, args := range [][]string{{"status"}, {"get"}, {"why", "gpu-1"}, {"exposure", "--all"}, {"report"}} {
		out, said, code := shell(t, access, args...)
		assert.Equal(t, 1, code)
		assert.Empty(t, out)
		assert.Regexp(t, `^Error: user someone- may not (list|get) \w+\. The ClusterRole node-firmware-viewer has that right\. `+
			`Who administers the cluster gives it with: kubectl create clusterrolebinding node-firmware-viewer-someone- --clusterrole=node-firmware-viewer --user="someone-"\n$`, said)
	}
}

func TestAClusterWithoutTheProductIsSaid(t *testing.T) {
	env := apitest.New(t)
	require.NoError(t, env.Client.DeleteAllOf(t.Context(), &apiextensionsv1.CustomResourceDefinition{}))
	for _, args := range [][]string{{"status"}, {"get"}, {"get", "--held"}, {"why", "gpu-1"}, {"why", "policy/gpu"}, {"exposure", "--all"}, {"report"}, {"bundle", "-o", filepath.Join(t.TempDir(), "none")}} {
		require.EventuallyWithT(t, func(ct *assert.CollectT) { // the API server takes a moment to forget each definition
			out, said, code := shell(t, env.ControlPlane.KubeconfigPath(), args...)
			assert.Equal(ct, 1, code)
			assert.Empty(ct, out)
			assert.Regexp(ct, `^Error: node-firmware-operator is not installed in the cluster at https://.+ \(context .+\): .+ Choose another cluster with --context, or install it: docs/install.md\n$`, said)
		}, 5*time.Minute, 100*time.Millisecond)
	}
}

func TestWrongAccessIsExplained(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "kubeconfig")
	_, said, code := shell(t, nowhere, "get")
	assert.Equal(t, 1, code)
	assert.Contains(t, said, "Error: read kubeconfig: ")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, os.WriteFile(nowhere, nil, 0o600))
	streams := genericiooptions.IOStreams{Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}
	assert.Equal(t, 130, kubectl.Run(ctx, []string{"get", "--kubeconfig", nowhere, "--server", "http://127.0.0.1:1"}, streams), "an interrupt")
}

// brokenPipe is where nobody reads on.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWhatCannotBePrintedIsAnError(t *testing.T) {
	var said bytes.Buffer
	assert.Equal(t, 1, kubectl.Run(t.Context(), []string{"version", "--client"}, genericiooptions.IOStreams{Out: brokenPipe{}, ErrOut: &said}))
	assert.Equal(t, "Error: broken pipe\n", said.String())
}
