package view_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

const rack = "example.com/rack"

var digest = v1alpha1.Digest("sha256:" + strings.Repeat("3b", 32))

func condition(at time.Time, kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(at)}
}

// memory is an API server in memory.
type memory struct{ client.WithWatch }

// IsWatchListSemanticsUnSupported tells client-go to list before it watches.
func (memory) IsWatchListSemanticsUnSupported() bool { return true }

func inMemory(t testing.TB, objects []client.Object) memory {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	return memory{fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.NodeFirmware{}, &v1alpha1.NodeDevice{}, &v1alpha1.FirmwareJob{}, &v1alpha1.RolloutPolicy{}).
		WithIndex(&v1alpha1.NodeDevice{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*v1alpha1.NodeDevice).Spec.NodeName} }).
		WithIndex(&v1alpha1.FirmwareJob{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*v1alpha1.FirmwareJob).Spec.NodeName} }).
		Build()}
}

// plant makes fleets in the middle of a rollout.
type plant struct {
	now     time.Time
	objects []client.Object
}

// machines are models with what their devices are.
var machines = []struct {
	pool, vendor, model string
	nic, nicModel       string
	disk                string
}{
	{"gpu", "Dell Inc.", "PowerEdge XE9680", "15b3:1021", "ConnectX-7", "MZWLO3T8HCLS"},
	{"storage", "Supermicro", "SSG-121E-NES24R", "15b3:101d", "ConnectX-6 Dx", "KCD8XPUG15T3"},
	{"edge", "HPE", "ProLiant DL360 Gen11", "8086:1592", "E810-CQDA2", "MZQL21T9HCJR"},
}

// fleet has that many nodes with eight devices each.
func fleet(now time.Time, nodes int) []client.Object {
	p := &plant{now: now}
	for i := range nodes {
		p.node(i, nodes)
	}
	p.rest(nodes)
	return p.objects
}

func (p *plant) node(i, nodes int) {
	m := &machines[[]int{0, 0, 0, 1, 1, 2}[i*6/nodes]]
	name := fmt.Sprintf("%s-%03d", m.pool, i+1)
	perRack := 16
	if nodes > 500 {
		perRack = 40
	}
	p.add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"pool": m.pool, rack: fmt.Sprintf("r%02d", i/perRack+1), corev1.LabelTopologyZone: fmt.Sprintf("hall-%c", 'a'+i*3/nodes), corev1.LabelHostname: name,
	}}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
	n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(p.now)}}
	n.Status.Machine = &v1alpha1.Machine{Vendor: m.vendor, Model: m.model, SerialNumber: fmt.Sprintf("SN%06d", i)}
	n.Status.LastScanTime = &metav1.Time{Time: p.now.Add(-4 * time.Minute)}
	running, wanted := "28.39.2048", "28.43.1014"
	job := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name + "-1a2b3c4d", CreationTimestamp: metav1.NewTime(p.now.Add(-time.Hour))}}
	job.Spec = v1alpha1.FirmwareJobSpec{NodeName: name, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{
		Name: name + "-nic0", UniqueID: "b83fd2a1c4e0", Model: m.nic, FromVersion: running, Version: wanted, Digest: digest}}}}
	ready := func(status metav1.ConditionStatus, reason, message string) {
		n.Status.Conditions = append(n.Status.Conditions, condition(p.now.Add(-20*time.Minute), v1alpha1.ConditionReady, status, reason, message))
	}
	admitted := condition(p.now.Add(-15*time.Minute), v1alpha1.ConditionAdmitted, metav1.ConditionTrue, v1alpha1.ReasonAdmitted, "Admitted.")
	turn := i % 24
	share := i * 100 / nodes
	switch {
	case m.pool == "gpu" && turn == 7 && share < 30:
		said := fmt.Sprintf("Job %s failed at step health of %s-nic0 (Unhealthy) and the node stays in maintenance, powered on: link of port 1 is down and was up before. To try again: %s  To return the node to service as it is: %s",
			job.Name, name, wayout.Retry(name), wayout.Request("nfw", name, "release"))
		held := condition(p.now.Add(-42*time.Minute), v1alpha1.ConditionHeld, metav1.ConditionTrue, v1alpha1.ReasonUnhealthy, said)
		n.Status.HeldBy = job.Name
		n.Status.Conditions = append(n.Status.Conditions, held)
		ready(metav1.ConditionFalse, v1alpha1.ReasonUnhealthy, said)
		job.Status.Conditions = []metav1.Condition{admitted, condition(p.now, v1alpha1.ConditionFailed, metav1.ConditionTrue, v1alpha1.ReasonUnhealthy, said), held}
		job.Status.Steps = p.steps(name, 7, v1alpha1.StepFailed, "link of port 1 is down and was up before")
		job.Status.StartTime, job.Status.CompletionTime = &metav1.Time{Time: p.now.Add(-62 * time.Minute)}, &metav1.Time{Time: p.now.Add(-42 * time.Minute)}
		job.Status.Reboots = 1
		p.add(job)
	case turn == 11 && i%5 == 0:
		n.Status.Conditions = append(n.Status.Conditions, condition(p.now.Add(-3*time.Hour), v1alpha1.ConditionDaemonReady, metav1.ConditionFalse, v1alpha1.ReasonNotReporting,
			"The daemon has not reported since 15:20. To see what is wrong with its pod: kubectl -n node-firmware-system get pods -o wide"))
		ready(metav1.ConditionTrue, v1alpha1.ReasonUpToDate, "It had all that it is to have.")
	case m.pool == "storage" && turn == 3:
		n.Status.Conditions = append(n.Status.Conditions, condition(p.now.Add(-5*time.Hour), v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonConflict,
			"1 of 8 devices needs attention: "+name+"-nic0 (Conflict)."))
		ready(metav1.ConditionFalse, v1alpha1.ReasonConflict, "1 of 8 devices needs attention.")
	case m.pool == "gpu" && share < 32:
		running = wanted
		ready(metav1.ConditionTrue, v1alpha1.ReasonUpToDate, "Found 8 devices; all 8 with an assigned firmware run it.")
		job.Status.Conditions = []metav1.Condition{admitted, condition(p.now, v1alpha1.ConditionComplete, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "1 device runs 28.43.1014."),
			condition(p.now, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "1 device runs 28.43.1014.")}
		job.Status.Steps = p.steps(name, 9, v1alpha1.StepSucceeded, "")
		job.Status.StartTime, job.Status.CompletionTime = &metav1.Time{Time: p.now.Add(-3 * time.Hour)}, &metav1.Time{Time: p.now.Add(-2*time.Hour - 41*time.Minute)}
		job.Status.Reboots = 1
		p.add(job)
	case m.pool == "gpu" && share < 37:
		ready(metav1.ConditionFalse, v1alpha1.ReasonProgressing, "Step flash of "+name+"-nic0 runs.")
		job.Status.Conditions = []metav1.Condition{admitted, condition(p.now, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressing, fmt.Sprintf("Step %d of 9: %s.", i%9+1, steps[i%9]))}
		job.Status.Steps = p.steps(name, i%9, v1alpha1.StepRunning, "writes the image")
		job.Status.StartTime = &metav1.Time{Time: p.now.Add(-12 * time.Minute)}
		p.add(job)
	case m.pool == "gpu":
		ready(metav1.ConditionFalse, v1alpha1.ReasonPending, "1 of 8 devices is not done yet: "+name+"-nic0.")
		if share < 48 {
			job.Status.Conditions = []metav1.Condition{condition(p.now.Add(-30*time.Minute), v1alpha1.ConditionAdmitted, metav1.ConditionFalse, v1alpha1.ReasonWaitingForWave,
				"It waits for the wave rest, which opens when each node of the wave ten-percent has been judged.")}
			p.add(job)
		}
	default:
		ready(metav1.ConditionTrue, v1alpha1.ReasonUpToDate, "Found 8 devices; all 8 with an assigned firmware run it.")
	}
	p.add(n)
	for d := range 8 {
		p.device(n, m.nic, m.nicModel, m.disk, d, running, wanted)
	}
}

var steps = []string{"preflight", "archive", "maintenance", "flash", "reboot", "verify", "links", "health", "release"}

// steps of a job that is at one of them.
func (p *plant) steps(node string, at int, state v1alpha1.StepState, message string) (out []v1alpha1.JobStep) {
	for i, name := range steps {
		s := v1alpha1.JobStep{Name: name, State: v1alpha1.StepPending}
		begun := metav1.NewTime(p.now.Add(time.Duration(i*80-720) * time.Second))
		if name == "flash" || name == "archive" || name == "verify" {
			s.Device = node + "-nic0"
		}
		if i <= at {
			s.StartTime, s.Attempt = &begun, 1
		}
		if i < at {
			s.State, s.CompletionTime = v1alpha1.StepSucceeded, &metav1.Time{Time: begun.Add(75 * time.Second)}
		}
		if i == at {
			s.State, s.Message = state, message
			if state == v1alpha1.StepRunning {
				percent := int32(62)
				s.ProgressPercent = &percent
			}
		}
		out = append(out, s)
	}
	return out
}

func (p *plant) device(n *v1alpha1.NodeFirmware, nic, nicModel, disk string, i int, running, wanted string) {
	d := &v1alpha1.NodeDevice{Spec: v1alpha1.NodeDeviceSpec{NodeName: n.Name}}
	says := condition(p.now, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonNotAssigned, "No template and no pin matches.")
	switch i {
	case 0:
		d.Name = n.Name + "-nic0"
		d.Spec.Firmware = &v1alpha1.DesiredFirmware{Version: wanted, Digest: digest, Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid}
		d.Spec.Origin = []v1alpha1.Origin{{Kind: v1alpha1.OriginTemplate, Name: "fleet", Rule: "nic"}}
		vendor := "Mellanox"
		if strings.HasPrefix(nic, "8086") {
			vendor = "Intel"
			running = wanted
		}
		if n.Status.Machine.Vendor == "Supermicro" && !strings.HasSuffix(n.Name, "7") {
			running = wanted
		}
		d.Status = v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC, Vendor: vendor, Model: nicModel, PCIID: nic, PCIAddress: "0000:5e:00.0", Firmware: &v1alpha1.ObservedFirmware{Running: running, Stored: running}}
		says = condition(p.now, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonUpToDate, "Runs "+wanted+" as desired.")
		if running != wanted {
			says = condition(p.now, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPending, wanted+" is to be flashed.")
		}
		if strings.HasPrefix(n.Name, "storage") && len(n.Status.Conditions) > 1 {
			d.Status.Conditions = append(d.Status.Conditions, condition(p.now.Add(-5*time.Hour), v1alpha1.ConditionConflict, metav1.ConditionTrue, v1alpha1.ReasonConflict,
				"The rules fleet/nic and lab/all-nics both want it; the last valid assignment stays. To change one of them: kubectl edit fwt lab"))
		}
	case 1:
		d.Name = n.Name + "-bios"
		version := []string{"2.3.1", "2.3.1", "2.1.7"}[len(n.Name)%3]
		d.Status = v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassBIOS, Vendor: n.Status.Machine.Vendor, Model: n.Status.Machine.Model, Firmware: &v1alpha1.ObservedFirmware{Running: version}}
	default:
		d.Name = fmt.Sprintf("%s-disk%d", n.Name, i-2)
		version := "OPPA0B5Q"
		if i == 5 {
			version = "OPPA1B5Q"
		}
		d.Status = v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassDisk, Vendor: "Samsung", Model: disk, PCIID: "144d:a824", Firmware: &v1alpha1.ObservedFirmware{Running: version}}
	}
	d.Status.ObservedGeneration = 1
	d.Status.Conditions = append(d.Status.Conditions, says)
	p.add(d)
}

func (p *plant) rest(nodes int) {
	ten := intstr.FromString("10%")
	three := intstr.FromInt32(3)
	eight := intstr.FromInt32(8)
	window := []v1alpha1.RolloutWindow{{Name: "nights", Schedule: "0 20 * * 1-5", Duration: "10h", TimeZone: "Europe/Berlin"}, {Name: "weekend", Schedule: "0 6 * * 6", Duration: "40h"}}
	gpu := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Generation: 1}, Spec: v1alpha1.RolloutPolicySpec{
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}, State: v1alpha1.RolloutActive, MaxUnavailable: &eight, Windows: window,
		TopologyBudgets: []v1alpha1.TopologyBudget{{TopologyKey: rack, MaxUnavailable: &three}},
		Waves:           []v1alpha1.RolloutWave{{Name: "canary", Size: &three, Soak: "1h"}, {Name: "ten-percent", Size: &ten, Soak: "4h"}},
	}}
	gpu.Status = v1alpha1.RolloutPolicyStatus{
		ObservedGeneration: 1, Nodes: &v1alpha1.RolloutNodes{Selected: int32(nodes / 2), Budget: 8, Queued: 15}, Waiting: []v1alpha1.WaitingNodes{{Reason: v1alpha1.ReasonWaitingForWave, Nodes: 15}},
		Rollouts: []v1alpha1.RolloutStatus{{Model: "15b3:1021", Version: "28.43.1014", Digest: digest, Wave: "ten-percent", Done: 3, Succeeded: 2, Failed: 1,
			Message: "2 of 6 nodes of the wave ten-percent are judged, 1 failed. The wave rest opens 4h after the last one."}},
		EstimatedCompletionTime: &metav1.Time{Time: p.now.Add(31 * time.Hour)},
		Conditions:              []metav1.Condition{condition(p.now, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressing, "The update of 15b3:1021 to 28.43.1014 is in the wave ten-percent.")},
	}
	for _, o := range p.objects {
		if j, is := o.(*v1alpha1.FirmwareJob); is && j.HasPlace() && len(gpu.Status.Admitted) < 8 {
			gpu.Status.Admitted = append(gpu.Status.Admitted, v1alpha1.AdmittedNode{Node: j.Spec.NodeName, Job: j.Name, JobUID: "u"})
		}
	}
	gpu.Status.Nodes.Unavailable = int32(len(gpu.Status.Admitted))
	p.add(gpu)
	one := intstr.FromInt32(2)
	storage := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "storage", Generation: 1}, Spec: v1alpha1.RolloutPolicySpec{
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "storage"}}, State: v1alpha1.RolloutActive, MaxUnavailable: &one, Waves: []v1alpha1.RolloutWave{{Name: "first", Size: &one}}}}
	halted := "The update of 15b3:101d to 22.41.1000 is halted: 1 node failed in a row. To go on: " + wayout.Request("rp", "storage", "resume")
	storage.Status = v1alpha1.RolloutPolicyStatus{ObservedGeneration: 1, Nodes: &v1alpha1.RolloutNodes{Selected: int32(nodes / 3), Budget: 2},
		Rollouts: []v1alpha1.RolloutStatus{{Model: "15b3:101d", Version: "22.41.1000", Digest: digest, Wave: "first", Failed: 1, HaltedTime: &metav1.Time{Time: p.now.Add(-2 * time.Hour)}, Message: halted}},
		Conditions: []metav1.Condition{condition(p.now.Add(-2*time.Hour), v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRolloutHalted, halted),
			condition(p.now, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonRolloutHalted, halted)}}
	p.add(storage)
	p.add(&v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultRolloutPolicy, Generation: 1}, Spec: v1alpha1.RolloutPolicySpec{State: v1alpha1.RolloutActive},
		Status: v1alpha1.RolloutPolicyStatus{ObservedGeneration: 1, Nodes: &v1alpha1.RolloutNodes{Selected: int32(nodes / 6), Budget: 1}, Conditions: []metav1.Condition{condition(p.now, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "No node of the pool has anything to do.")}}})
	p.add(&v1alpha1.ConfigurationTemplate{ObjectMeta: metav1.ObjectMeta{Name: "tuning"}, Status: v1alpha1.TemplateStatus{Conditions: []metav1.Condition{
		condition(p.now.Add(-26*time.Hour), v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonNoMatch, "The rule vfs matches no device. To correct it: "+wayout.Edit("fct", "tuning"))}}})
	p.add(&v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "connectx-7"}, Status: v1alpha1.FirmwareSourceStatus{Conditions: []metav1.Condition{condition(p.now, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "1 image is in store.")}}})
	for i, m := range machines {
		machine, _ := v1alpha1.CatalogOf(m.vendor, m.model)
		c := &v1alpha1.FirmwareCatalog{ObjectMeta: metav1.ObjectMeta{Name: machine.CatalogName()}}
		vendor := "Mellanox"
		if i == 2 {
			vendor = "Intel"
		}
		c.Status.Components = []v1alpha1.CatalogComponent{
			{Class: v1alpha1.ClassNIC, Vendor: vendor, Model: m.nicModel, PCIID: m.nic, Versions: []v1alpha1.CatalogVersion{{Version: "28.43.1014"}}, Running: []v1alpha1.CatalogRunning{
				{Version: "28.39.2048", Position: v1alpha1.PositionBehind, Issues: []string{"CVE-2026-31245"}, FixedIn: "28.43.1014"}, {Version: "28.43.1014", Position: v1alpha1.PositionNewest}}},
			{Class: v1alpha1.ClassBIOS, Vendor: m.vendor, Model: m.model, Versions: []v1alpha1.CatalogVersion{{Version: "2.3.1"}}, Running: []v1alpha1.CatalogRunning{
				{Version: "2.3.1", Position: v1alpha1.PositionNewest}, {Version: "2.1.7", Position: v1alpha1.PositionBehind}}},
			{Class: v1alpha1.ClassDisk, Vendor: "Samsung", Model: m.disk, PCIID: "144d:a824", Versions: []v1alpha1.CatalogVersion{{Version: "OPPA0B5Q"}}, Running: []v1alpha1.CatalogRunning{
				{Version: "OPPA0B5Q", Position: v1alpha1.PositionNewest}, {Version: "OPPA1B5Q", Position: v1alpha1.PositionAhead}}},
		}
		p.add(c)
	}
}

func (p *plant) add(o client.Object) { p.objects = append(p.objects, o) }
