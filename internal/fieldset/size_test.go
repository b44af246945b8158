package fieldset_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	nfostatus "github.com/nodefirmware/node-firmware-operator/internal/status"
)

// long is a text of n bytes that begins with a number.
func long(n, number int) string {
	s := fmt.Sprintf("n%04d", number)
	return s + strings.Repeat("x", n-len(s))
}

// filled are as many entries as fit into a size in bytes of JSON, and at most n.
func filled[E any](t *testing.T, n, size int, entry func(i int) E) []E {
	t.Helper()
	var out []E
	for i := range n {
		next := append(out, entry(i))
		text, err := json.Marshal(next)
		require.NoError(t, err)
		if len(text) > size {
			break
		}
		out = next
	}
	return out
}

const unbounded = 1 << 30

// verbose are conditions with the longest messages that package status writes.
func verbose(types ...string) []metav1.Condition {
	out := conditions(metav1.ConditionTrue, types...)
	for i := range out {
		out[i].Message = strings.Repeat("m", 1024)
	}
	return out
}

func longDigest(i int) v1alpha1.Digest { return v1alpha1.Digest(fmt.Sprintf("sha256:%064x", i)) }

func longOrigin() []v1alpha1.Origin {
	var out []v1alpha1.Origin
	for i := range 4 {
		out = append(out, v1alpha1.Origin{
			Kind: v1alpha1.OriginTemplate, Name: long(253, i), UID: long(36, i), Generation: 1 << 40, Rule: long(63, i), Hash: v1alpha1.ContentHash(long(9, i)),
		})
	}
	return out
}

func longVerdict() *v1alpha1.HealthVerdict {
	v := &v1alpha1.HealthVerdict{Result: v1alpha1.HealthResultUnhealthy, BootID: long(36, 1)}
	for i := range 32 {
		v.Complaints = append(v.Complaints, long(512, i))
	}
	return v
}

// isSmall requires that the object, as the store has it, is under 256 KiB.
func (c cluster) isSmall(o client.Object) {
	c.Helper()
	c.read(o)
	all, err := json.Marshal(o)
	require.NoError(c, err)
	managed, err := json.Marshal(o.GetManagedFields())
	require.NoError(c, err)
	c.Logf("%T: %d bytes, %d of them in managedFields", o, len(all), len(managed))
	assert.Less(c, len(all), 256<<10, "%T", o)
}

// With every list as long as its writer makes it, and the longest texts in it, each kind is one object of less than 256 KiB in the
// store, with what the API server adds to it.
func TestNoObjectIsTooLarge(t *testing.T) {
	c := newCluster(t)
	t.Run("NodeFirmware", func(t *testing.T) { cluster{t, c.Client}.fullNodeFirmware() })
	t.Run("NodeDevice", func(t *testing.T) { cluster{t, c.Client}.fullNodeDevice() })
	t.Run("FirmwareTemplate", func(t *testing.T) { cluster{t, c.Client}.fullTemplate() })
	t.Run("ConfigurationTemplate", func(t *testing.T) { cluster{t, c.Client}.fullConfiguration() })
	t.Run("FirmwareJob", func(t *testing.T) { cluster{t, c.Client}.fullJob() })
	t.Run("FirmwareCatalog", func(t *testing.T) { cluster{t, c.Client}.fullCatalog() })
	t.Run("FirmwareQuarantine", func(t *testing.T) { cluster{t, c.Client}.fullQuarantine() })
	t.Run("FirmwareSource", func(t *testing.T) { cluster{t, c.Client}.fullSource(1, v1alpha1.FirmwareSourceSpec{}) })
	t.Run("FirmwareSource with keys", func(t *testing.T) {
		keys := filled(t, 8, unbounded, func(i int) string { return long(4096, i) })
		cluster{t, c.Client}.fullSource(2, v1alpha1.FirmwareSourceSpec{
			Verification: &v1alpha1.SourceVerification{Keys: keys},
		})
	})
	t.Run("FirmwareSource with a trusted root", func(t *testing.T) {
		identities := filled(t, 16, unbounded, func(i int) v1alpha1.SignerIdentity {
			return v1alpha1.SignerIdentity{Issuer: long(512, i), SubjectRegExp: long(512, i)}
		})
		cluster{t, c.Client}.fullSource(3, v1alpha1.FirmwareSourceSpec{Verification: &v1alpha1.SourceVerification{
			TrustedRoot: long(32<<10, 1), Identities: identities,
		}})
	})
}

func (c cluster) fullNodeFirmware() {
	n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: long(253, 1)}}
	n.Spec.Pins = filled(c.T, 64, unbounded, func(i int) v1alpha1.FirmwareRule {
		return v1alpha1.FirmwareRule{
			Name: long(63, i), Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassStorageController, Vendor: long(128, i), Models: []string{long(128, i)}, BoardIDs: []string{long(64, i)}, SerialNumbers: []string{long(128, i)}, PCIAddresses: []string{"0000:3b:00.0"}}, Version: long(64, i), SourceRef: v1alpha1.SourceReference{Name: long(253, i)},
			Policy: v1alpha1.PolicyValidate, Downgrade: v1alpha1.DowngradeForbid,
		}
	})
	c.create(n)
	require.NoError(c, fieldset.ApplyProvenance(c.Context(), c, n.Name, v1alpha1.NodeFirmwareStatus{
		Obsolete: filled(c.T, 64, unbounded, func(i int) v1alpha1.ObsoleteReference {
			return v1alpha1.ObsoleteReference{Kind: v1alpha1.OriginTemplate, Name: long(253, i), Rule: long(63, i), Reason: v1alpha1.ObsoleteSuperseded}
		}),
		Conditions: verbose(nfostatus.ProvenanceConditions...),
	}))
	text := long(128, 1)
	require.NoError(c, fieldset.ApplyNode(c.Context(), c, n.Name, v1alpha1.NodeFirmwareStatus{
		Conditions: verbose(nfostatus.NodeConditions...), Machine: &v1alpha1.Machine{Vendor: text, Model: text, SerialNumber: text},
		BootID: long(36, 1), LastScanTime: &now, BIOSVersion: long(64, 1), Baseline: strings.Repeat("a", 16),
		HeldBy: long(253, 1), Requests: v1alpha1.NodeRequests{Retry: text, Release: text, Scan: text},
		CurrentStep: &v1alpha1.CurrentStep{Job: long(253, 1), Name: long(63, 1)},
		Steps: filled(c.T, 64, unbounded, func(i int) v1alpha1.EnabledStep {
			return v1alpha1.EnabledStep{Name: long(63, i), Interface: long(63, i), Priority: 1000}
		}),
		LastError: long(1024, 1),
	}))
	c.isSmall(n)
}

func (c cluster) fullNodeDevice() {
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: long(253, 1)}, Spec: v1alpha1.NodeDeviceSpec{
		NodeName: long(253, 2),
	}}
	c.create(d)
	_, err := fieldset.ApplyDesired(c.Context(), c, d, v1alpha1.NodeDeviceSpec{Origin: longOrigin(), Configuration: longConfiguration(), Firmware: &v1alpha1.DesiredFirmware{
		Version: long(64, 1), Digest: longDigest(1), Policy: v1alpha1.PolicyValidate, Downgrade: v1alpha1.DowngradeForbid,
		Path: filled(c.T, 128, 96<<10, func(i int) v1alpha1.UpgradeStep { // as package match bounds it
			return v1alpha1.UpgradeStep{UpgradePath: v1alpha1.UpgradePath{
				To: long(64, i), From: filled(c.T, 64, unbounded, func(i int) string { return long(64, i+2000) }), Via: long(64, i+1000),
			}, Digest: longDigest(i)}
		}),
	}})
	require.NoError(c, err)
	text := long(128, 1)
	require.NoError(c, fieldset.ApplyObservation(c.Context(), c, d.Name, v1alpha1.NodeDeviceStatus{
		Conditions: verbose(nfostatus.DeviceConditions...), Class: v1alpha1.ClassStorageController, UniqueID: text, Vendor: text, Model: text, PCIID: "15b3:101d", SubsystemID: "15b3:0016",
		BoardID: long(64, 1), SerialNumber: text, PCIAddress: "0000:3b:00.0",
		Ports: filled(c.T, 32, unbounded, func(int) v1alpha1.DevicePort {
			return v1alpha1.DevicePort{PCIAddress: "0000:3b:00.0", NetDevice: long(16, 1), LinkType: "InfiniBand"}
		}),
		Firmware: &v1alpha1.ObservedFirmware{
			Running: long(64, 1), Stored: long(64, 1), Driver: long(63, 1), Access: v1alpha1.AccessReadOnly,
			Notes: filled(c.T, 4, unbounded, func(i int) string { return long(256, i) }),
		},
		Applied:       &v1alpha1.AppliedFirmware{Digest: longDigest(1), Origin: longOrigin(), BootID: long(36, 1), Time: now},
		Failure:       longFailure(),
		Configuration: &v1alpha1.ObservedConfiguration{Digest: longDigest(1), State: v1alpha1.ConfigurationOutOfDate, Activation: v1alpha1.ActivationDriverReload, Failure: longFailure()},
		Parameters: filled(c.T, 160, 32<<10, func(i int) v1alpha1.ObservedParameter { // as the daemon bounds them
			value := long(16, i)
			return v1alpha1.ObservedParameter{Name: long(128, i), Current: &value, Next: &value}
		}),
	}))
	c.isSmall(d)
}

func longFailure() *v1alpha1.DeviceFailure {
	return &v1alpha1.DeviceFailure{
		Digest: longDigest(1), Reason: long(64, 1), Message: long(1024, 1), Job: long(253, 1), Time: now, Request: long(128, 1),
	}
}

// longConfiguration has as many parameters as there may be, with the longest names that then fit: each name is in the managed fields again.
func longConfiguration() *v1alpha1.DesiredConfiguration {
	out := &v1alpha1.DesiredConfiguration{Policy: v1alpha1.PolicyValidate, Unlisted: v1alpha1.UnlistedReset, Settings: v1alpha1.Settings{NumVFs: new(int32(65535))}}
	for i := range 128 {
		out.Parameters = append(out.Parameters, v1alpha1.ParameterValue{Name: long(120, i), Value: long(8, i)})
	}
	return out
}

func (c cluster) fullConfiguration() {
	o := &v1alpha1.ConfigurationTemplate{ObjectMeta: metav1.ObjectMeta{Name: long(253, 1)}, Spec: v1alpha1.ConfigurationTemplateSpec{Rules: []v1alpha1.ConfigurationRule{{
		Name: "r", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"}, DesiredConfiguration: *longConfiguration(),
	}}}}
	c.create(o)
	o.Status = v1alpha1.TemplateStatus{
		Conditions:      verbose(v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionConflict),
		AssignedDevices: filled(c.T, 50, unbounded, func(i int) string { return long(253, i) }),
	}
	require.NoError(c, c.Status().Update(c.Context(), o))
	c.isSmall(o)
}

func (c cluster) fullTemplate() {
	o := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: long(253, 1)}, Spec: v1alpha1.FirmwareTemplateSpec{Rules: []v1alpha1.FirmwareRule{{
		Name: "r", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"}, Version: "1", SourceRef: v1alpha1.SourceReference{Name: "s"},
	}}}}
	c.create(o)
	name := func(i int) string { return long(253, i) }
	_, err := fieldset.ApplyTemplate(c.Context(), c, o, v1alpha1.TemplateStatus{
		Conditions:      verbose(v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionConflict),
		AssignedDevices: filled(c.T, 50, unbounded, name),
	})
	require.NoError(c, err)
	c.isSmall(o)
}

func (c cluster) fullJob() {
	text := long(128, 1)
	j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: long(253, 1)}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: long(253, 1), Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Request: &text, Devices: filled(c.T, 128, 64<<10, func(i int) v1alpha1.TaskDevice { // as the planner bounds them
			return v1alpha1.TaskDevice{
				Name: long(120, i), UniqueID: long(16, i), Model: "15b3:101d", FromVersion: "1", Version: "2", Digest: longDigest(i), RollbackDigest: longDigest(i),
			}
		})},
	}}
	c.create(j)
	_, err := fieldset.ApplyAdmission(c.Context(), c, j, j.ResourceVersion, verbose(v1alpha1.ConditionAdmitted))
	require.NoError(c, err)
	c.read(j)
	updates, err := json.Marshal(j.Spec.Task.Devices)
	require.NoError(c, err)
	bad := filled(c.T, len(j.Spec.Task.Devices), 48<<10, func(i int) v1alpha1.BlamedDevice { // as the daemon bounds them, and the steps
		return v1alpha1.BlamedDevice{Device: j.Spec.Task.Devices[i].Name, Message: long(256, 1), Evidence: v1alpha1.EvidenceNetwork}
	})
	c.execute(j, v1alpha1.FirmwareJobStatus{
		Conditions: verbose(nfostatus.JobConditions...), StartTime: &now, CompletionTime: &now, Request: &text, Verdict: longVerdict(), Blamed: bad,
		Steps: filled(c.T, 512, max(184<<10-2*len(updates)-48<<10, 16<<10), func(i int) v1alpha1.JobStep {
			return v1alpha1.JobStep{Name: long(63, i), Device: long(253, i), State: v1alpha1.StepFailed, Message: long(64, i), StartTime: &now, CompletionTime: &now}
		}),
	})
	c.isSmall(j)
}

func (c cluster) fullSource(n int, spec v1alpha1.FirmwareSourceSpec) {
	src := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: long(253, n)}, Spec: spec}
	models := filled(c.T, 64, 900, func(i int) string { return long(6, i) })
	others, err := json.Marshal(spec)
	require.NoError(c, err)
	src.Spec.Files = filled(c.T, 64, 54<<10-len(others), func(i int) v1alpha1.FirmwareFile {
		f := v1alpha1.FirmwareFile{
			URL: "https://" + long(100, i), Digest: v1alpha1.Digest(fmt.Sprintf("sha256:%064x", i)),
			Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassStorageController, Vendor: long(128, 1), Models: models, Version: long(64, i)}},
		}
		if spec.Verification != nil {
			f.SignatureURL = f.URL + "." + long(100, i)
		}
		return f
	})
	c.create(src)
	s := v1alpha1.FirmwareSourceStatus{
		Conditions: verbose(nfostatus.SourceConditions...),
		Images: filled(c.T, 512, 62<<10, func(i int) v1alpha1.StoredImage { // with the spec, what the source controller takes
			return v1alpha1.StoredImage{Version: long(64, i), Class: v1alpha1.ClassStorageController, Vendor: long(128, 1), Models: models, Digest: longDigest(i)}
		}),
	}
	require.NoError(c, fieldset.ApplyStore(c.Context(), c, src, s))
	c.read(src)
	c.isSmall(src)
}

func (c cluster) fullQuarantine() {
	model := v1alpha1.ModelKey("", "", long(128, 1), long(128, 1))
	require.NoError(c, fieldset.CreateQuarantine(c.Context(), c, longDigest(1), model))
	q := &v1alpha1.FirmwareQuarantine{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.QuarantineName(longDigest(1), model)}}
	c.read(q)
	q.Status = v1alpha1.FirmwareQuarantineStatus{
		ObservedGeneration: 1, Conditions: verbose(v1alpha1.ConditionReady), Version: long(64, 1), Scope: v1alpha1.QuarantinePolicies,
		Reports: filled(c.T, 16, unbounded, func(i int) v1alpha1.QuarantineReport {
			return v1alpha1.QuarantineReport{
				Job: long(253, i), Node: long(253, i), Policy: long(253, i), Evidence: v1alpha1.EvidenceNetwork, Time: now, Message: long(512, i),
				State: v1alpha1.ReportWithdrawn,
			}
		}),
	}
	require.NoError(c, fieldset.ApplyQuarantine(c.Context(), c, q))
	c.isSmall(q)
	text, err := json.Marshal(q.Status)
	require.NoError(c, err)
	assert.Less(c, len(text), 24<<10)
}
