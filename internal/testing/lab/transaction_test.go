package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// breakable gives the machine a check that decides and passes until the function it returns is called.
func (s *scene) breakable() (fail func()) {
	s.t.Helper()
	dir := s.node.Machine.Dir()
	broken := filepath.Join(dir, "broken")
	check := filepath.Join(dir, "etc/node-firmware/check/required.d/10-storage")
	require.NoError(s.t, os.MkdirAll(filepath.Dir(check), 0o755))
	script := "#!/bin/sh\nif [ -e " + broken + " ]; then echo the storage is gone; exit 3; fi\n"
	require.NoError(s.t, os.WriteFile(check, []byte(script), 0o755)) //nolint:gosec // an executable
	return func() { require.NoError(s.t, os.WriteFile(broken, nil, 0o600)) }
}

// wantAs declares a target with an image of its own for the scene's node alone: what becomes of it concerns no other scene.
func (s *scene) wantAs(rule string, change func(*target)) target {
	s.t.Helper()
	list := targetsOf(rule)
	list[0].source = s.node.Name + "-" + rule
	list[0].file = list[0].source
	list[0].image.Seed = uint64(len(s.node.Name)) + uint64(s.node.Name[len(s.node.Name)-1])
	if change != nil {
		change(&list[0])
	}
	require.NoError(s.t, list[0].publish(s.t.Context(), s.lab))
	s.declare(list)
	return list[0]
}

func (s *scene) step(name string, part v1alpha1.StepPart) v1alpha1.StepState {
	if j := s.job(); j != nil {
		for _, st := range j.Status.Steps {
			if st.Name == name && st.Part == part {
				return st.State
			}
		}
	}
	return ""
}

func (s *scene) requireRolledBack(key, version string) {
	s.t.Helper()
	eventually(s.t, "the previous firmware is being restored", func() bool {
		return s.condition(v1alpha1.ConditionRolledBack) == "True "+v1alpha1.ReasonRolledBack
	})
	eventually(s.t, "the node is back in service", func() bool { return s.maintenances() == 0 && !s.kubeNode().Spec.Unschedulable })
	running, err := s.node.Machine.Running(key)
	require.NoError(s.t, err)
	assert.Equal(s.t, version, running)
	eventually(s.t, "the job ends", func() bool { return s.condition(v1alpha1.ConditionFailed) == "True "+v1alpha1.ReasonUnhealthy })
}

// quarantined reports whether the image of the target is quarantined.
func (s *scene) quarantined(t target) bool {
	var source v1alpha1.FirmwareSource
	var all v1alpha1.FirmwareQuarantineList
	if s.lab.admin.Get(s.t.Context(), client.ObjectKey{Name: t.sourceName()}, &source) != nil || s.lab.admin.List(s.t.Context(), &all) != nil {
		return false
	}
	return slices.ContainsFunc(all.Items, func(q v1alpha1.FirmwareQuarantine) bool {
		return len(source.Status.Images) == 1 && q.Spec.Digest == source.Status.Images[0].Digest && q.Status.Scope != v1alpha1.QuarantineNone
	})
}

// Real processes: everything a job can leave behind that is not its target.
func TestWhatAJobBreaksIsRepairedOrWaitsForAPerson(t *testing.T) {
	t.Parallel()
	l := startLab(t, 6)
	l.allow(t, 6)

	t.Run("a daemon killed in the middle of a rollback finishes it", func(t *testing.T) { // R002-9, R002-47, R003-49
		t.Parallel()
		s := l.scene(t, 0)
		release := s.hold("write", 1)
		bad := s.wantAs("cx6dx", func(t *target) { t.image.LinkDown = true })
		eventually(t, "the rollback writes", func() bool { return s.step("restore", v1alpha1.PartRollback) == v1alpha1.StepRunning })
		s.node.KillDaemon()
		require.NoError(t, s.node.StartDaemon())
		release()
		s.requireRolledBack("nic0", "22.39.1002")
		assert.Equal(t, map[string]int{"nic0": 2}, s.flashes(), "the image, and what ran before, each once")
		eventually(t, "the image is quarantined", func() bool { return s.quarantined(bad) })
		require.NotNil(t, s.job().Status.Verdict)
		assert.Equal(t, v1alpha1.HealthResultHealthy, s.job().Status.Verdict.Result)
	})

	t.Run("a check of the administrator decides", func(t *testing.T) { // R002-14, R002-19
		t.Parallel()
		s := l.scene(t, 1)
		fail, release := s.breakable(), s.hold("download", 0)
		s.wantAs("pm9a3", nil)
		eventually(t, "the write begins", func() bool { return s.running("flash") })
		fail()
		release()
		eventually(t, "the gate fails twice, so that nobody is blamed and nothing more is done", func() bool {
			return s.condition(v1alpha1.ConditionRolledBack) == "False "+v1alpha1.ReasonUnhealthy
		})
		assert.Empty(t, s.job().Status.Blamed)
		running, err := s.node.Machine.Running("nvme0")
		require.NoError(t, err)
		assert.Equal(t, "GDC5602Q", running, "the slot was taken back")
		assert.True(t, s.kubeNode().Spec.Unschedulable)
		var devices v1alpha1.NodeDeviceList
		require.NoError(t, l.admin.List(t.Context(), &devices, client.MatchingFields{"spec.nodeName": s.node.Name}))
		for _, d := range devices.Items {
			assert.False(t, d.Status.IsUnhealthy(), d.Name)
		}
	})

	t.Run("without a way back the node waits for a person, who releases it", func(t *testing.T) { // R002-1, R002-27, R003-27
		t.Parallel()
		s := l.scene(t, 2)
		fail, release := s.breakable(), s.hold("write", 0)
		s.wantAs("bios", nil)
		eventually(t, "the write begins", func() bool { return s.running("flash") })
		assert.Equal(t, "False "+v1alpha1.ReasonRollbackUnavailable, s.condition(v1alpha1.ConditionRollbackAvailable))
		fail()
		release()
		eventually(t, "the node is held", func() bool { return s.condition(v1alpha1.ConditionHeld) == "True "+v1alpha1.ReasonNeedsIntervention })
		writes, reboots := s.writes(), s.node.Reboots()
		assert.Equal(t, 1, reboots)
		s.patchNode(func(n *v1alpha1.NodeFirmware) {
			n.Spec.Requests.Release = "as it is"
		})
		eventually(t, "the node is released", func() bool { return s.maintenances() == 0 && !s.kubeNode().Spec.Unschedulable })
		assert.Equal(t, writes, s.writes(), "nothing is written for that")
		assert.Equal(t, reboots, s.node.Reboots())
	})

	t.Run("a policy that requires a way back keeps what has none as it is", func(t *testing.T) {
		t.Parallel()
		s := l.scene(t, 3)
		p := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "careful"}, Spec: v1alpha1.RolloutPolicySpec{
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/hostname": s.node.Name}},
			Require:      v1alpha1.Requirements{v1alpha1.RequireRollback},
		}}
		require.NoError(t, l.admin.Create(t.Context(), p))
		s.wantAs("bios", nil)
		eventually(t, "the job is refused", func() bool {
			return s.condition(v1alpha1.ConditionFailed) == "True "+v1alpha1.ReasonRollbackUnavailable
		})
		assert.Zero(t, s.writes())
		assert.Zero(t, s.node.Reboots())
		assert.False(t, s.kubeNode().Spec.Unschedulable)
	})

	// R001-9, R001-24, R002-50: firmware and settings in one maintenance, settings alone, and a name that the card does not have.
	t.Run("settings come into force with firmware, and alone", func(t *testing.T) {
		t.Parallel()
		s := l.scene(t, 5)
		fct := s.settings("NUM_OF_VF", "8")
		refused := s.settingsAre(v1alpha1.ReasonParameterInvalid, metav1.ConditionFalse)
		assert.Contains(t, meta.FindStatusCondition(refused.Status.Conditions, v1alpha1.ConditionReady).Message, "NUM_OF_VFS")
		assert.Zero(t, s.jobs(), "what the card does not take disturbs nobody")

		list := targetsOf("cx6dx")
		require.NoError(t, list[0].publish(t.Context(), l))
		s.declare(list)
		s.edit(fct, 8)
		nic := s.settingsAre(v1alpha1.ReasonSucceeded, metav1.ConditionTrue)
		assert.Equal(t, v1alpha1.ConfigurationUpToDate, nic.Status.Configuration.State)
		require.Len(t, nic.Status.Parameters, 1)
		assert.Equal(t, "8", *nic.Status.Parameters[0].Current)
		s.requireDone(list, s.node.Reboots())
		assert.Equal(t, v1alpha1.StepSucceeded, s.step("flash", ""))
		assert.Equal(t, v1alpha1.StepSucceeded, s.step("configure", ""))

		s.edit(fct, 4)
		nic = s.settingsAre(v1alpha1.ReasonSucceeded, metav1.ConditionTrue)
		assert.Equal(t, "4", *nic.Status.Parameters[0].Current)
		eventually(t, "the job of the settings completes", func() bool {
			return s.jobs() == 2 && strings.HasPrefix(s.condition(v1alpha1.ConditionComplete), "True")
		})
		assert.Empty(t, s.step("flash", ""), "nothing is flashed for settings")
		assert.Zero(t, s.maintenances())
	})

	t.Run("a person runs steps", func(t *testing.T) { // R003-1, R003-5, R003-15, R003-23, R003-29, R003-33, R003-35, R003-53
		t.Parallel()
		s := l.scene(t, 4)
		one := ptr.To(int32(1))
		s.steps("wrong", v1alpha1.RequestedStep{Name: "verify-inventory", Expect: []v1alpha1.ExpectedDevices{{Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: v1alpha1.AnyVendor}, Count: one}}})
		eventually(t, "the inventory differs", func() bool { return s.condition(v1alpha1.ConditionFailed) == "True "+v1alpha1.ReasonStepFailed })
		assert.False(t, s.kubeNode().Spec.Unschedulable, "a step that only looks disturbs nothing")
		s.steps("reset", v1alpha1.RequestedStep{Name: "reset-bios-settings"})
		eventually(t, "the settings are reset", func() bool {
			return s.job().Name == "reset" && strings.HasPrefix(s.condition(v1alpha1.ConditionComplete), "True")
		})
		assert.Equal(t, 1, s.node.Reboots())
		assert.Zero(t, s.maintenances())
		eventually(t, "the node says that nothing runs any more", func() bool {
			var n v1alpha1.NodeFirmware
			return l.admin.Get(t.Context(), client.ObjectKey{Name: s.node.Name}, &n) == nil &&
				len(n.Status.Steps) > 0 && n.Status.Steps[0].Name == "preflight" && n.Status.CurrentStep == nil
		})
	})
}

// settings declares a parameter of an adapter of the scene's node.
func (s *scene) settings(name, value string) *v1alpha1.ConfigurationTemplate {
	s.t.Helper()
	fct := &v1alpha1.ConfigurationTemplate{ObjectMeta: metav1.ObjectMeta{Name: "only-" + s.node.Name}}
	fct.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/hostname": s.node.Name}}
	fct.Spec.Rules = []v1alpha1.ConfigurationRule{{
		Name: "vfs", Selector: targetsOf("cx6dx")[0].selector,
		DesiredConfiguration: v1alpha1.DesiredConfiguration{Parameters: []v1alpha1.ParameterValue{{Name: name, Value: value}}},
	}}
	require.NoError(s.t, s.lab.admin.Create(s.t.Context(), fct))
	return fct
}

// edit declares how many virtual functions the adapter has, and nothing else.
func (s *scene) edit(fct *v1alpha1.ConfigurationTemplate, vfs int32) {
	s.t.Helper()
	require.NoError(s.t, s.lab.edit(s.t.Context(), fct, func() {
		fct.Spec.Rules[0].Settings.NumVFs, fct.Spec.Rules[0].Parameters = &vfs, nil
	}))
}

// settingsAre waits until the template of settings has that reason, and returns the adapter as the API has it then.
func (s *scene) settingsAre(reason string, ready metav1.ConditionStatus) (nic v1alpha1.NodeDevice) {
	s.t.Helper()
	eventually(s.t, "the template of settings says "+reason, func() bool {
		fct := &v1alpha1.ConfigurationTemplate{}
		if s.lab.admin.Get(s.t.Context(), client.ObjectKey{Name: "only-" + s.node.Name}, fct) != nil {
			return false
		}
		c := meta.FindStatusCondition(fct.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.ObservedGeneration == fct.Generation && c.Reason == reason && c.Status == ready
	})
	var devices v1alpha1.NodeDeviceList
	require.NoError(s.t, s.lab.admin.List(s.t.Context(), &devices, client.MatchingFields{"spec.nodeName": s.node.Name}))
	for _, d := range devices.Items {
		if d.Spec.Configuration != nil {
			nic = d
		}
	}
	return nic
}

func (s *scene) patchNode(change func(*v1alpha1.NodeFirmware)) {
	s.t.Helper()
	var n v1alpha1.NodeFirmware
	require.NoError(s.t, s.lab.admin.Get(s.t.Context(), client.ObjectKey{Name: s.node.Name}, &n))
	old := n.DeepCopy()
	change(&n)
	require.NoError(s.t, s.lab.admin.Patch(s.t.Context(), &n, client.MergeFrom(old)))
}

func (s *scene) steps(name string, steps ...v1alpha1.RequestedStep) {
	s.t.Helper()
	consents, err := s.lab.consents(s.t.Context())
	require.NoError(s.t, err)
	require.NoError(s.t, s.lab.admin.Create(s.t.Context(), &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: consents},
		Spec: v1alpha1.FirmwareJobSpec{
			NodeName: s.node.Name, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: steps, HealthyFor: "1s"},
		},
	}))
}
