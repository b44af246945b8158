package v1alpha1_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
)

var someTime = metav1.NewTime(time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC))

// TestKubectlGetGolden: what `kubectl get` prints for objects as users see them, plain and wide.
func TestKubectlGetGolden(t *testing.T) {
	env := apitest.New(t)
	for kind, objects := range map[string][]client.Object{
		"FirmwareTemplate":      templatesInUse(),
		"ConfigurationTemplate": configurationsInUse(),
		"FirmwareSource":        sourcesInUse(),
		"FirmwareCatalog":       catalogsInUse(),
		"FirmwareQuarantine":    quarantinesInUse(),
		"RolloutPolicy":         policiesInUse(),
		"CleaningPolicy":        cleaningInUse(),
		"NodeFirmware":          nodesInUse(),
		"NodeDevice":            devicesInUse(),
		"FirmwareJob":           jobsInUse(),
	} {
		t.Run(kind, func(t *testing.T) {
			for _, o := range objects {
				withStatus := o.DeepCopyObject().(client.Object)
				require.NoError(t, env.Client.Create(t.Context(), o))
				withStatus.SetResourceVersion(o.GetResourceVersion())
				require.NoError(t, env.Client.Status().Update(t.Context(), withStatus))
			}
			gvk := v1alpha1.GroupVersion.WithKind(kind)
			name := strings.ToLower(kind)
			golden.Equal(t, "testdata/get-"+name+".golden",
				"$ kubectl get "+name+"\n"+env.Table(t, gvk, apitest.ColumnsDefault)+
					"\n$ kubectl get "+name+" -o wide\n"+env.Table(t, gvk, apitest.ColumnsWide))
		})
	}
}

func ready(status metav1.ConditionStatus, reason, message string, more ...metav1.Condition) []metav1.Condition {
	return append([]metav1.Condition{condition(v1alpha1.ConditionReady, status, reason, message)}, more...)
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 1, LastTransitionTime: someTime,
	}
}

func templatesInUse() []client.Object {
	done, failing, fresh := validTemplate(), validTemplate(), validTemplate()
	done.Status = v1alpha1.TemplateStatus{
		ObservedGeneration: 1, Nodes: v1alpha1.TemplateNodes{Selected: 6, UpToDate: 6, Baselines: 1}, Devices: v1alpha1.TemplateDevices{Matched: 18, UpToDate: 18},
		Conditions: ready(metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "18 of 18 devices run their firmware"),
	}
	failing.Name = "storage"
	failing.Status = v1alpha1.TemplateStatus{
		ObservedGeneration: 1, Nodes: v1alpha1.TemplateNodes{Selected: 40, UpToDate: 33, OutOfDate: 6, Baselines: 2},
		Devices:    v1alpha1.TemplateDevices{Matched: 322, UpToDate: 312, OutOfDate: 8, Failed: 1, Conflicting: 2},
		Conditions: ready(metav1.ConditionFalse, v1alpha1.ReasonProgressing, "312 of 320 devices run their firmware; 1 failed"),
	}
	fresh.Name = "telco"
	return []client.Object{done, failing, fresh}
}

func configurationsInUse() []client.Object {
	done, failing, fresh := validConfiguration(), validConfiguration(), validConfiguration()
	done.Status = v1alpha1.TemplateStatus{
		ObservedGeneration: 1, Nodes: v1alpha1.TemplateNodes{Selected: 6, UpToDate: 6, Baselines: 1}, Devices: v1alpha1.TemplateDevices{Matched: 12, UpToDate: 12},
		Conditions: ready(metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "12 of 12 assigned devices have the desired settings."),
	}
	failing.Name = "bios"
	failing.Status = v1alpha1.TemplateStatus{
		ObservedGeneration: 1, Nodes: v1alpha1.TemplateNodes{Selected: 40, UpToDate: 33, OutOfDate: 6, Baselines: 2},
		Devices:    v1alpha1.TemplateDevices{Matched: 40, UpToDate: 33, OutOfDate: 6, Failed: 1, Conflicting: 1},
		Conditions: ready(metav1.ConditionFalse, v1alpha1.ReasonProgressing, "33 of 39 assigned devices have the desired settings, 5 devices are in progress."),
	}
	fresh.Name = "telco"
	return []client.Object{done, failing, fresh}
}

func sourcesInUse() []client.Object {
	stored, broken := validSource(), validSource()
	stored.Status = v1alpha1.FirmwareSourceStatus{
		ObservedGeneration: 1,
		Conditions: status.Source(nil, 1, someTime.Time, status.SourceFacts{
			Reached: status.SourceDone, Files: 1, Images: 2, Verification: &v1alpha1.SourceVerification{Keys: []string{"RW"}},
		}),
		Images: []v1alpha1.StoredImage{
			{Version: "22.39.2048", Class: v1alpha1.ClassNIC, Digest: digest},
			{Version: "22.41.1000", Class: v1alpha1.ClassNIC, Digest: digest},
		},
	}
	broken.Name = "lenovo-7x21-bios"
	broken.Status = v1alpha1.FirmwareSourceStatus{
		ObservedGeneration: 1,
		Conditions: status.Source(nil, 1, someTime.Time, status.SourceFacts{
			Reached: status.SourceFetching, Files: 1, Reason: v1alpha1.ReasonDownloadFailed,
			Err: errors.New("fetch https://firmware.example.com/bios.cab: the server answered 404 Not Found"),
		}),
	}
	return []client.Object{stored, broken}
}

func quarantinesInUse() []client.Object {
	everywhere, confirmed := reported(), reported()
	everywhere.Spec.Model = "lenovo:7x21"
	everywhere.Status.Scope = v1alpha1.QuarantineFleet
	second := everywhere.Status.Reports[0]
	second.Job, second.Node = "gpu-018-1a2b3c4d", "gpu-018"
	everywhere.Status.Reports = append(everywhere.Status.Reports, second)
	confirmed.Spec.Model, confirmed.Spec.State = "samsung:pm9a3", v1alpha1.QuarantineConfirmed
	confirmed.Status = v1alpha1.FirmwareQuarantineStatus{ObservedGeneration: 1, Scope: v1alpha1.QuarantineFleet}
	for _, q := range []*v1alpha1.FirmwareQuarantine{everywhere, confirmed} {
		q.Name = v1alpha1.QuarantineName(q.Spec.Digest, q.Spec.Model)
		q.Status.Conditions = status.Quarantine(q, someTime.Time)
	}
	return []client.Object{reported(), everywhere, confirmed}
}

func policiesInUse() []client.Object {
	byNumber := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	byNumber.Status = v1alpha1.RolloutPolicyStatus{
		ObservedGeneration: 1, Nodes: &v1alpha1.RolloutNodes{Selected: 12, Budget: 1},
		Conditions: ready(metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "nothing waits"),
	}
	byPercent := &v1alpha1.RolloutPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: v1alpha1.RolloutPolicySpec{
			State: v1alpha1.RolloutPaused, MaxUnavailable: new(intstr.FromString("10%")),
		},
	}
	byPercent.Status = v1alpha1.RolloutPolicyStatus{
		ObservedGeneration: 1, Nodes: &v1alpha1.RolloutNodes{Selected: 200, Budget: 20, Unavailable: 3, Queued: 117},
		Waiting:   []v1alpha1.WaitingNodes{{Reason: v1alpha1.ReasonPaused, Nodes: 116}, {Reason: v1alpha1.ReasonQuarantined, Nodes: 1}},
		StartTime: &someTime, EstimatedCompletionTime: new(metav1.NewTime(someTime.Add(3 * time.Hour))),
		Conditions: ready(metav1.ConditionFalse, v1alpha1.ReasonPaused, "paused; 117 nodes wait"),
	}
	return []client.Object{byNumber, byPercent}
}

func cleaningInUse() []client.Object {
	p := validCleaning()
	p.Status = v1alpha1.CleaningPolicyStatus{
		ObservedGeneration: 1, Nodes: v1alpha1.CleaningNodes{Selected: 10, Clean: 3, Failed: 1},
		Conditions: ready(metav1.ConditionTrue, v1alpha1.ReasonStepFailed, "1 node waits for a person, because a step failed. To see which: kubectl get nfw -o wide"),
	}
	return []client.Object{p}
}

func nodesInUse() []client.Object {
	idle, working := validNodeFirmware(), validNodeFirmware()
	lenovo := &v1alpha1.Machine{Vendor: "Lenovo", Model: "7X21", SerialNumber: "J300ABCD"}
	idle.Status = v1alpha1.NodeFirmwareStatus{
		ObservedGeneration: 1, Machine: lenovo, BIOSVersion: "2.61.1", Baseline: "9f2c4e1a7b3d5566", LastScanTime: &someTime,
		Conditions: ready(metav1.ConditionTrue, v1alpha1.ReasonUpToDate, "6 of 6 devices run their firmware"),
	}
	leaving := validNodeFirmware()
	leaving.Name, leaving.Spec.Service = "gpu-019", v1alpha1.NodeOutOfService
	leaving.Status = *idle.Status.DeepCopy()
	leaving.Status.Conditions = append(leaving.Status.Conditions, condition(v1alpha1.ConditionClean, metav1.ConditionFalse, v1alpha1.ReasonProgressing,
		"Job gpu-019-3c4d5e6f runs the steps of CleaningPolicy gpu."))
	working.Name = "gpu-018"
	working.Status = v1alpha1.NodeFirmwareStatus{
		ObservedGeneration: 1, Machine: lenovo, BIOSVersion: "2.56.0", LastScanTime: &someTime,
		CurrentStep: &v1alpha1.CurrentStep{Job: "gpu-018-1a2b3c4d", Name: "flash"},
		Conditions:  ready(metav1.ConditionFalse, v1alpha1.ReasonProgressing, "job gpu-018-1a2b3c4d is at step flash"),
	}
	return []client.Object{idle, working, leaving}
}

func devicesInUse() []client.Object {
	current, staged, unassigned := validDevice(), validDevice(), validDevice()
	current.Status = v1alpha1.NodeDeviceStatus{
		ObservedGeneration: 1, Class: v1alpha1.ClassNIC, Model: "ConnectX-6 Dx", BoardID: "MT_0000000359",
		PCIAddress: "0000:3b:00.0",
		Firmware:   &v1alpha1.ObservedFirmware{Running: "22.41.1000", Stored: "22.41.1000"},
		Conditions: ready(metav1.ConditionTrue, v1alpha1.ReasonUpToDate, "runs 22.41.1000"),
	}
	staged.Name = "gpu-018-nic-b83fd2a1c4f0"
	staged.Spec.NodeName = "gpu-018"
	staged.Status = *current.Status.DeepCopy()
	staged.Status.Firmware.Running = "22.39.2048"
	staged.Status.Conditions = ready(metav1.ConditionFalse, v1alpha1.ReasonPending,
		"22.41.1000 is stored and waits for its activation",
		condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonPending, ""))
	unassigned.Name = "gpu-017-disk-eui3634473052b01234"
	unassigned.Spec.Firmware, unassigned.Spec.Origin = nil, nil
	unassigned.Status = v1alpha1.NodeDeviceStatus{
		ObservedGeneration: 1, Class: v1alpha1.ClassDisk, Model: "SAMSUNG MZQL21T9HCJR-00A07",
		PCIAddress: "0000:5e:00.0",
		Firmware:   &v1alpha1.ObservedFirmware{Running: "GDC5602Q", Stored: "GDC5602Q"},
		Conditions: ready(metav1.ConditionTrue, v1alpha1.ReasonNotAssigned, "no template and no pin matches"),
	}
	return []client.Object{current, staged, unassigned}
}

func jobsInUse() []client.Object {
	done, running, queued := validJob(), validJob(), validJob()
	admitted := condition(v1alpha1.ConditionAdmitted, metav1.ConditionTrue, v1alpha1.ReasonAdmitted, "")
	done.Status = v1alpha1.FirmwareJobStatus{
		ObservedGeneration: 1, Reboots: 1,
		Conditions: ready(metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "1 device updated", admitted),
	}
	running.Name = "gpu-018-5e6f7a8b"
	running.Spec.NodeName = "gpu-018"
	running.Status = v1alpha1.FirmwareJobStatus{
		ObservedGeneration: 1,
		Conditions:         ready(metav1.ConditionFalse, v1alpha1.ReasonProgressing, "step 3 of 8: flash", admitted),
		Steps: []v1alpha1.JobStep{
			{Name: "preflight", State: v1alpha1.StepSucceeded},
			{Name: "maintenance", State: v1alpha1.StepSucceeded},
			{Name: "flash", State: v1alpha1.StepRunning, Device: "gpu-018-nic-b83fd2a1c4f0"},
			{Name: "reboot", State: v1alpha1.StepPending},
		},
	}
	queued.Name = "gpu-019-9c0d1e2f"
	queued.Spec.NodeName = "gpu-019"
	queued.Status = v1alpha1.FirmwareJobStatus{
		ObservedGeneration: 1,
		Conditions: ready(metav1.ConditionFalse, v1alpha1.ReasonPending, "waits for admission",
			condition(v1alpha1.ConditionAdmitted, metav1.ConditionFalse, v1alpha1.ReasonBudgetExhausted, "")),
	}
	return []client.Object{done, running, queued}
}
