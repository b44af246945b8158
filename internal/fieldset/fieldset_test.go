package fieldset_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	nfostatus "github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

func TestMain(m *testing.M) { apitest.Main(m) }

const digest = v1alpha1.Digest("sha256:0000000000000000000000000000000000000000000000000000000000000001")

var now = metav1.NewTime(time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC))

type cluster struct {
	*testing.T
	client.Client
}

func newCluster(t *testing.T) cluster { return cluster{t, apitest.New(t).Client} }

func conditions(status metav1.ConditionStatus, types ...string) []metav1.Condition {
	var out []metav1.Condition
	for _, kind := range types {
		out = append(out, metav1.Condition{Type: kind, Status: status, Reason: "Test", LastTransitionTime: now})
	}
	return out
}

func (c cluster) create(o client.Object) {
	c.Helper()
	require.NoError(c, c.Create(c.Context(), o))
}

func (c cluster) read(o client.Object) {
	c.Helper()
	require.NoError(c, c.Get(c.Context(), client.ObjectKeyFromObject(o), o))
}

func (c cluster) job(name string) *v1alpha1.FirmwareJob {
	c.Helper()
	j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{NodeName: "n1", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{Name: "verify-firmware"}}}}}
	c.create(j)
	return j
}

func (c cluster) source(name string) *v1alpha1.FirmwareSource {
	c.Helper()
	src := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{
		URL: "https://example.com/fw.bin", Digest: digest,
		Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassNIC, Version: "1"}},
	}}}}
	c.create(src)
	return src
}

// running is what a daemon reports in the middle of a job.
func running() v1alpha1.FirmwareJobStatus {
	return v1alpha1.FirmwareJobStatus{
		ObservedGeneration: 1, StartTime: &now,
		Conditions: append(conditions(metav1.ConditionFalse, v1alpha1.ConditionReady),
			conditions(metav1.ConditionTrue, v1alpha1.ConditionReconciling, v1alpha1.ConditionMaintenanceReady, v1alpha1.ConditionAdmitted)...),
		Steps:   []v1alpha1.JobStep{{Name: "flash", Device: "nic", State: v1alpha1.StepRunning, Attempt: 1}},
		Verdict: &v1alpha1.HealthVerdict{Result: v1alpha1.HealthResultHealthy, BootID: "b"},
		Blamed:  []v1alpha1.BlamedDevice{{Device: "nic"}},
	}
}

// execute writes what executes a job reports, which must be possible.
func (c cluster) execute(j *v1alpha1.FirmwareJob, s v1alpha1.FirmwareJobStatus) {
	c.Helper()
	written, err := fieldset.ApplyExecution(c.Context(), c, j, s)
	require.NoError(c, err)
	require.True(c, written)
	c.read(j)
}

// isRefused reports whether the API server refuses a report on the version of the job that was read.
func (c cluster) isRefused(j *v1alpha1.FirmwareJob) bool {
	c.Helper()
	written, err := fieldset.ApplyExecution(c.Context(), c, j, running())
	return !written && apierrors.IsConflict(err)
}

// owned lists what each field manager owns of an object's status: fields, those of requests by name, and conditions by type.
func (c cluster) owned(o client.Object) map[string][]string {
	c.Helper()
	c.read(o)
	out := map[string][]string{}
	for _, m := range o.GetManagedFields() {
		if m.Subresource != "status" {
			continue
		}
		assert.Equal(c, metav1.ManagedFieldsOperationApply, m.Operation, "%s of %s", m.Manager, o.GetName())
		var fields struct {
			Status map[string]map[string]any `json:"f:status"`
		}
		require.NoError(c, json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields))
		for name, inside := range fields.Status {
			part, shared := map[string]string{"f:conditions": "", "f:requests": "requests."}[name]
			if !shared {
				out[m.Manager] = append(out[m.Manager], strings.TrimPrefix(name, "f:"))
				continue
			}
			for key := range inside {
				if key != "." {
					out[m.Manager] = append(out[m.Manager], part+strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(key, "f:"), `k:{"type":"`), `"}`))
				}
			}
		}
		slices.Sort(out[m.Manager])
	}
	return out
}

// The tables "Who writes what" of docs/kinds say the same.
func TestEveryFieldManagerOwnsItsPartOfAStatusAlone(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()

	job := c.job("j1")
	version, err := fieldset.ApplyAdmission(ctx, c, job, job.ResourceVersion, running().Conditions)
	require.NoError(t, err)
	job.ResourceVersion = version
	c.execute(job, running())
	got := c.owned(job)
	assert.Len(t, got, 2)
	assert.Equal(t, []string{"Admitted"}, got["node-firmware-operator-rollout"])
	assert.ElementsMatch(t, []string{"observedGeneration", "startTime", "steps", "reboots", "verdict", "blamed",
		"Ready", "Reconciling", "MaintenanceReady"}, got["firmware-daemon"])
	assert.Empty(t, job.Status.Steps[0].Message, "what is absent stays absent")
	assert.Nil(t, job.Status.CompletionTime)
	c.end(job)
	got = c.owned(job)
	assert.Equal(t, []string{"Failed", "Ready", "Reconciling", "Stalled", "completionTime", "observedGeneration"}, got["node-firmware-operator-end"])
	assert.ElementsMatch(t, []string{"observedGeneration", "startTime", "steps", "reboots", "verdict", "blamed",
		"Ready", "Reconciling", "MaintenanceReady"}, got["firmware-daemon"], "its report of what it did stays")
	c.execute(job, done())
	got = c.owned(job)
	assert.NotContains(t, got["node-firmware-operator-end"], "completionTime", "a daemon that lives takes the end over")
	assert.Contains(t, got["firmware-daemon"], "completionTime")

	src := c.source("s1")
	s := v1alpha1.FirmwareSourceStatus{
		ObservedGeneration: 1,
		Conditions:         conditions(metav1.ConditionTrue, v1alpha1.ConditionReady, v1alpha1.ConditionSignatureVerified),
		Images:             []v1alpha1.StoredImage{{Version: "1", Class: v1alpha1.ClassNIC, Digest: digest}},
	}
	require.NoError(t, fieldset.ApplyStore(ctx, c, src, s))
	got = c.owned(src)
	assert.Len(t, got, 1)
	assert.ElementsMatch(t, []string{"observedGeneration", "images", "Ready", "SignatureVerified"}, got["node-firmware-operator-source"])

	require.NoError(t, fieldset.CreateQuarantine(ctx, c, digest, v1alpha1.AnyModel))
	quarantine := &v1alpha1.FirmwareQuarantine{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.QuarantineName(digest, v1alpha1.AnyModel)}}
	c.read(quarantine)
	quarantine.Status = v1alpha1.FirmwareQuarantineStatus{
		ObservedGeneration: 1, Version: "1", Scope: v1alpha1.QuarantineFleet, Conditions: conditions(metav1.ConditionTrue, v1alpha1.ConditionReady),
		Reports: []v1alpha1.QuarantineReport{{Job: "j1", Node: "n1", Time: now, State: v1alpha1.ReportCounted}},
	}
	stale := quarantine.DeepCopy()
	require.NoError(t, fieldset.ApplyQuarantine(ctx, c, quarantine))
	assert.True(t, apierrors.IsConflict(fieldset.ApplyQuarantine(ctx, c, stale)), "another version was read")
	assert.Equal(t, map[string][]string{
		"node-firmware-operator-quarantine": {"Ready", "observedGeneration", "reports", "scope", "version"},
	}, c.owned(quarantine))
	for _, m := range quarantine.ManagedFields {
		if m.Subresource == "" {
			assert.JSONEq(t, `{"f:spec":{"f:digest":{},"f:model":{}}}`, string(m.FieldsV1.GetRawBytes()), "the state is the user's")
		}
	}
	require.NoError(t, c.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "FirmwareQuarantine", "metadata": map[string]any{"name": quarantine.Name},
		"spec": map[string]any{"digest": string(digest), "model": v1alpha1.AnyModel, "state": "Lifted"},
	}}), client.FieldOwner("gitops")), "a user applies without a conflict")
	require.NoError(t, fieldset.CreateQuarantine(ctx, c, digest, v1alpha1.AnyModel))
	c.read(quarantine)
	assert.Equal(t, v1alpha1.QuarantineLifted, quarantine.Spec.State, "what exists is not changed")

	catalog := &v1alpha1.FirmwareCatalog{ObjectMeta: metav1.ObjectMeta{Name: "a.b"}}
	require.NoError(t, fieldset.CreateCatalog(ctx, c, v1alpha1.CatalogMachine{Vendor: "a", Model: "b"}))
	require.NoError(t, fieldset.ApplyCatalog(ctx, c, catalog.Name, v1alpha1.FirmwareCatalogStatus{
		ObservedGeneration: 1, LastDiscoveryTime: &now, Conditions: conditions(metav1.ConditionTrue, v1alpha1.ConditionReady),
		Components: []v1alpha1.CatalogComponent{{Class: v1alpha1.ClassNIC}},
	}))
	got = c.owned(catalog)
	assert.Len(t, got, 1, "what a discovery found is written by the operator alone")
	assert.ElementsMatch(t, []string{"observedGeneration", "lastDiscoveryTime", "components", "Ready", "nodes", "devices"}, got["node-firmware-operator-catalog"])
	require.NoError(t, c.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "FirmwareCatalog", "metadata": map[string]any{"name": catalog.Name},
		"spec": map[string]any{"machine": map[string]any{"vendor": "a", "model": "b"}, "state": "Paused", "discoveryInterval": "24h"},
	}}), client.FieldOwner("gitops")), "a user applies without a conflict")
	require.NoError(t, fieldset.CreateCatalog(ctx, c, v1alpha1.CatalogMachine{Vendor: "a", Model: "b"}))
	c.read(catalog)
	assert.Equal(t, []any{v1alpha1.CatalogPaused, int64(2)}, []any{catalog.Spec.State, catalog.Generation}, "what exists is not changed")

	device := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "n1-nic"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n1"}}
	c.create(device)
	all := conditions(metav1.ConditionTrue, v1alpha1.ConditionInspected, v1alpha1.ConditionConflict)
	_, err = fieldset.ApplyAssignment(ctx, c, device, device.ResourceVersion, all)
	require.NoError(t, err)
	require.NoError(t, fieldset.ApplyObservation(ctx, c, device.Name, v1alpha1.NodeDeviceStatus{ObservedGeneration: 1, Class: v1alpha1.ClassNIC, Conditions: all}))
	assert.Equal(t, map[string][]string{
		"node-firmware-operator-assignment": {"Conflict"}, "firmware-daemon": {"Inspected", "class", "observedGeneration"},
	}, c.owned(device))

	node := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	c.create(node)
	compared := v1alpha1.NodeFirmwareStatus{
		Obsolete:   []v1alpha1.ObsoleteReference{{Kind: v1alpha1.OriginTemplate, Name: "t", Rule: "r", Reason: v1alpha1.ObsoleteUpdated}},
		Conditions: conditions(metav1.ConditionTrue, v1alpha1.ConditionReady, v1alpha1.ConditionCurrent, v1alpha1.ConditionPinsUnmatched, v1alpha1.ConditionDaemonReady),
	}
	require.NoError(t, fieldset.ApplyNode(ctx, c, node.Name, v1alpha1.NodeFirmwareStatus{
		ObservedGeneration: 1, LastScanTime: &now, Requests: v1alpha1.NodeRequests{Scan: "now"},
	}))
	c.read(node)
	require.NoError(t, fieldset.ApplyPinned(ctx, c, node, "J1001", "new board"))
	assert.True(t, apierrors.IsConflict(fieldset.ApplyPinned(ctx, c, node, "J1002", "")), "another version was read")
	require.NoError(t, fieldset.ApplyProvenance(ctx, c, node.Name, compared))
	assert.True(t, apierrors.IsConflict(fieldset.ApplyDaemonReady(ctx, c, node, compared.Conditions)), "another version was read")
	c.read(node)
	require.NoError(t, fieldset.ApplyDaemonReady(ctx, c, node, compared.Conditions))
	_, err = fieldset.ApplyPins(ctx, c, node.Name, compared.Conditions)
	require.NoError(t, err)
	require.NoError(t, fieldset.ApplyMaintenanceRequest(ctx, c, node.Name, v1alpha1.MaintenanceRequest{ID: "1", Type: v1alpha1.MaintenanceDrain}))
	require.NoError(t, fieldset.ApplyMaintenance(ctx, c, node.Name, v1alpha1.MaintenanceAnswer{RequestID: "1", State: v1alpha1.MaintenanceDrained}))
	c.read(node)
	require.NoError(t, fieldset.ApplyNode(ctx, c, node.Name, node.Status), "what was read is reported again")
	assert.Equal(t, map[string][]string{
		"firmware-daemon":                    {"lastScanTime", "observedGeneration", "requests.scan"},
		"node-firmware-operator-requests":    {"pinnedMachine", "requests.adopt"},
		"firmware-daemon-maintenance":        {"maintenanceRequest"},
		"node-firmware-operator-maintenance": {"maintenance"},
		"node-firmware-operator-assignment":  {"PinsUnmatched"},
		"node-firmware-operator-node":        {"DaemonReady"},
		"node-firmware-operator-provenance":  {"Current", "obsolete"},
	}, c.owned(node))
	require.NoError(t, fieldset.SetObsoleteLabel(ctx, c, node.Name))
	c.read(node)
	assert.Equal(t, map[string]string{v1alpha1.ObsoleteLabel: "true"}, node.Labels)
	require.NoError(t, fieldset.RemoveObsoleteLabel(ctx, c, node.Name))
	require.NoError(t, fieldset.ApplyProvenance(ctx, c, node.Name, v1alpha1.NodeFirmwareStatus{}))
	c.read(node)
	assert.Empty(t, node.Labels)
	assert.Empty(t, node.Status.Obsolete)
}

// The operator ends a job under a field manager of its own, and the daemon takes over when it lives after all.
func TestEndOfAJobWithoutADaemon(t *testing.T) {
	c := newCluster(t)
	job := c.job("j1")
	c.execute(job, running())
	stale := job.DeepCopy()
	c.end(job)
	assert.True(t, c.isRefused(stale), "the daemon has not seen the end")
	written, err := fieldset.ApplyExecution(t.Context(), c, job, running())
	require.NoError(t, err)
	assert.False(t, written, "a job that has ended stays ended")
	c.read(job)
	assert.False(t, meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionReconciling))
	assert.NotEmpty(t, job.Status.Steps, "what the daemon reported stays")
	apitest.RequireStatus(t, job, status.FailedStatus)

	for range 2 { // what another manager wrote is overruled, and stays so
		c.execute(job, done())
		assert.False(t, job.Failed(), "the daemon knows better how the job ended")
		apitest.RequireStatus(t, job, status.CurrentStatus)
	}
}

// end ends a job in place of its daemon.
func (c cluster) end(j *v1alpha1.FirmwareJob) {
	c.Helper()
	s := v1alpha1.FirmwareJobStatus{CompletionTime: &now, Conditions: nfostatus.JobNodeGone("n1", j.Status.Conditions, j.Generation, now.Time)}
	require.NoError(c, fieldset.ApplyEnd(c.Context(), c, j, s))
	c.read(j)
}

// done is what a daemon reports of a job that it completed.
func done() v1alpha1.FirmwareJobStatus {
	s := running()
	s.CompletionTime = new(metav1.NewTime(now.Add(time.Hour)))
	s.Conditions = conditions(metav1.ConditionTrue, v1alpha1.ConditionReady, v1alpha1.ConditionComplete)
	return s
}

func TestAnotherObjectOfTheSameNameIsNotWritten(t *testing.T) {
	c := newCluster(t)
	job := c.job("j1")
	old := job.DeepCopy()
	require.NoError(t, c.Delete(t.Context(), job))
	_, err := fieldset.ApplyExecution(t.Context(), c, old, running())
	assert.True(t, apierrors.IsNotFound(err) || apierrors.IsConflict(err), "a status creates no job: %v", err)
	c.job("j1")
	assert.True(t, c.isRefused(old))
	_, err = fieldset.ApplyAdmission(t.Context(), c, old, old.ResourceVersion, running().Conditions)
	assert.True(t, apierrors.IsConflict(err))
	c.read(job)
	text, err := json.Marshal(job.Status)
	require.NoError(t, err)
	assert.JSONEq(t, `{"observedGeneration":-1,"reboots":0}`, string(text))
}

// The status of a policy is the ledger: one manager writes it, to the version that was read alone.
func TestLedgerIsComparedAndSwapped(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, fieldset.EnsureDefaultPolicy(t.Context(), c))
	p := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultRolloutPolicy}}
	c.read(p)
	assert.Equal(t, 1, p.Spec.MaxUnavailable.IntValue(), "what the API server defaults")
	p.Status = v1alpha1.RolloutPolicyStatus{
		ObservedGeneration: 1, Conditions: conditions(metav1.ConditionTrue, v1alpha1.ConditionReady), Nodes: &v1alpha1.RolloutNodes{Selected: 1},
		Admitted: []v1alpha1.AdmittedNode{{Node: "n1", Job: "j", JobUID: "u"}},
	}
	stale := p.DeepCopy()
	require.NoError(t, fieldset.ApplyRollout(t.Context(), c, p))
	stale.Status.Admitted = nil
	assert.True(t, apierrors.IsConflict(fieldset.ApplyRollout(t.Context(), c, stale)), "another version was read")
	assert.Equal(t, map[string][]string{fieldset.FieldOwnerRollout: {"Ready", "admitted", "nodes", "observedGeneration"}}, c.owned(p))
	require.NoError(t, fieldset.EnsureDefaultPolicy(t.Context(), c), "what is there stays")
	p.Spec.State = v1alpha1.RolloutPaused
	require.NoError(t, c.Update(t.Context(), p), "a person owns the spec, and no default conflicts")
	require.NoError(t, fieldset.EnsureDefaultPolicy(t.Context(), c))
	c.read(p)
	assert.Equal(t, v1alpha1.RolloutPaused, p.Spec.State)
}
