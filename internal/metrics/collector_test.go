package metrics

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/storedversion"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

const (
	page  = "../../docs/reference/metrics.md"
	begin = "<!-- begin: written by go test ./internal/metrics -update -->\n"
	end   = "<!-- end -->"
)

func TestTheDocumentationListsExactlyTheMetrics(t *testing.T) {
	content, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(content), begin)
	require.True(t, found)
	_, tail, found := strings.Cut(rest, end)
	require.True(t, found)
	want := head + begin + Markdown() + end + tail
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(content), "run go test ./internal/metrics -update")
}

func TestMetricNamesFollowRules(t *testing.T) {
	problems, err := testutil.CollectAndLint(collector(t, true))
	require.NoError(t, err)
	assert.Empty(t, problems)
	for _, m := range Table {
		assert.True(t, strings.HasPrefix(m.Name, "node_firmware_"), m.Name)
	}
}

func TestCountsFleetAtEachScrape(t *testing.T) {
	assert.NoError(t, testutil.CollectAndCompare(collector(t, true), strings.NewReader(`
# HELP node_firmware_devices Devices by class and by the reason of their Ready condition.
# TYPE node_firmware_devices gauge
node_firmware_devices{class="BIOS",state="UpToDate"} 2
node_firmware_devices{class="NIC",state="Unknown"} 1
# HELP node_firmware_jobs Jobs that exist, by state: Queued, Admitted, Complete, Failed or Held. At most 10 finished jobs of each type are kept per node.
# TYPE node_firmware_jobs gauge
node_firmware_jobs{state="Admitted"} 2
node_firmware_jobs{state="Complete"} 1
node_firmware_jobs{state="Failed"} 1
node_firmware_jobs{state="Held"} 1
node_firmware_jobs{state="Queued"} 1
# HELP node_firmware_rollout_admitted_nodes Nodes in the policy's ledger, which a job may disturb now.
# TYPE node_firmware_rollout_admitted_nodes gauge
node_firmware_rollout_admitted_nodes{policy="default"} 1
node_firmware_rollout_admitted_nodes{policy="storage"} 0
# HELP node_firmware_rollout_queued_nodes Nodes with a job that waits for admission.
# TYPE node_firmware_rollout_queued_nodes gauge
node_firmware_rollout_queued_nodes{policy="default"} 7
node_firmware_rollout_queued_nodes{policy="storage"} 0
# HELP node_firmware_source_ready 1 when every image of a source is verified and in store, else 0 with the reason.
# TYPE node_firmware_source_ready gauge
node_firmware_source_ready{reason="DigestMismatch",source="bad"} 0
node_firmware_source_ready{reason="Succeeded",source="good"} 1
`), "node_firmware_devices", "node_firmware_jobs", "node_firmware_rollout_admitted_nodes", "node_firmware_rollout_queued_nodes", "node_firmware_source_ready"))
}

func TestWhatWaitsForAPersonIsCounted(t *testing.T) {
	assert.NoError(t, testutil.CollectAndCompare(collector(t, true), strings.NewReader(`
# HELP node_firmware_jobs_beyond_deadline Jobs whose running step has made no progress for longer than its deadline. Nothing is killed.
# TYPE node_firmware_jobs_beyond_deadline gauge
node_firmware_jobs_beyond_deadline 1
# HELP node_firmware_nodes Nodes with a NodeFirmware: All; Held after a failed job; NeedsIntervention, held where new firmware is or may be at fault and what ran before could not be restored; and NotReporting, whose daemon is silent though the Node is Ready. A silent node may be held as well.
# TYPE node_firmware_nodes gauge
node_firmware_nodes{state="All"} 5
node_firmware_nodes{state="Held"} 1
node_firmware_nodes{state="NeedsIntervention"} 1
node_firmware_nodes{state="NotReporting"} 2
# HELP node_firmware_quarantines Quarantined images by what a person decided (Active, Confirmed, Lifted) and by where they are not flashed: None, Policies or Fleet.
# TYPE node_firmware_quarantines gauge
node_firmware_quarantines{scope="Fleet",state="Active"} 1
node_firmware_quarantines{scope="None",state="Lifted"} 1
`), "node_firmware_jobs_beyond_deadline", "node_firmware_nodes", "node_firmware_quarantines"))
}

func TestTheProgressOfAPoolIsReportedAsFarAsItIsKnown(t *testing.T) {
	assert.NoError(t, testutil.CollectAndCompare(collector(t, true), strings.NewReader(`
# HELP node_firmware_rollout_complete 1 while no job of a pool waits or is admitted, else 0.
# TYPE node_firmware_rollout_complete gauge
node_firmware_rollout_complete{policy="default"} 0
node_firmware_rollout_complete{policy="storage"} 1
# HELP node_firmware_rollout_completion_timestamp_seconds When the last rollout of a pool was complete. Absent while one goes on.
# TYPE node_firmware_rollout_completion_timestamp_seconds gauge
node_firmware_rollout_completion_timestamp_seconds{policy="storage"} 900
# HELP node_firmware_rollout_waiting_nodes Nodes with a job that waits for admission, by the reason of the first of them.
# TYPE node_firmware_rollout_waiting_nodes gauge
node_firmware_rollout_waiting_nodes{policy="default",reason="BudgetExhausted"} 7
`), "node_firmware_rollout_complete", "node_firmware_rollout_completion_timestamp_seconds",
		"node_firmware_rollout_waiting_nodes", "node_firmware_rollout_estimated_completion_timestamp_seconds"))
}

func TestTheDevicesOfATemplateAreCountedByState(t *testing.T) {
	assert.NoError(t, testutil.CollectAndCompare(collector(t, true), strings.NewReader(`
# HELP node_firmware_template_devices Devices of a template, by its kind and by state: UpToDate, or, where the desired version does not run or a desired setting is not in force, Failed, Blocked or else OutOfDate. Conflicting ones match too, and another rule of the same rank does as well; one that keeps its last assignment counts in that state as well. The first 200 templates of each kind by name.
# TYPE node_firmware_template_devices gauge
node_firmware_template_devices{kind="ConfigurationTemplate",state="Blocked",template="tuning"} 0
node_firmware_template_devices{kind="ConfigurationTemplate",state="Conflicting",template="tuning"} 0
node_firmware_template_devices{kind="ConfigurationTemplate",state="Failed",template="tuning"} 0
node_firmware_template_devices{kind="ConfigurationTemplate",state="OutOfDate",template="tuning"} 1
node_firmware_template_devices{kind="ConfigurationTemplate",state="UpToDate",template="tuning"} 3
node_firmware_template_devices{kind="FirmwareTemplate",state="Blocked",template="cx6"} 1
node_firmware_template_devices{kind="FirmwareTemplate",state="Conflicting",template="cx6"} 6
node_firmware_template_devices{kind="FirmwareTemplate",state="Failed",template="cx6"} 2
node_firmware_template_devices{kind="FirmwareTemplate",state="OutOfDate",template="cx6"} 9
node_firmware_template_devices{kind="FirmwareTemplate",state="UpToDate",template="cx6"} 5
# HELP node_firmware_template_nodes Nodes that a template selects, by its kind and by state: UpToDate (every assigned device is as desired), OutOfDate, or NotAssigned (no device is). The first 200 templates of each kind by name.
# TYPE node_firmware_template_nodes gauge
node_firmware_template_nodes{kind="ConfigurationTemplate",state="NotAssigned",template="tuning"} 0
node_firmware_template_nodes{kind="ConfigurationTemplate",state="OutOfDate",template="tuning"} 1
node_firmware_template_nodes{kind="ConfigurationTemplate",state="UpToDate",template="tuning"} 1
node_firmware_template_nodes{kind="FirmwareTemplate",state="NotAssigned",template="cx6"} 9
node_firmware_template_nodes{kind="FirmwareTemplate",state="OutOfDate",template="cx6"} 8
node_firmware_template_nodes{kind="FirmwareTemplate",state="UpToDate",template="cx6"} 7
# HELP node_firmware_templates_not_reported Templates of a kind beyond the first 200, which have no metrics of their own.
# TYPE node_firmware_templates_not_reported gauge
node_firmware_templates_not_reported{kind="ConfigurationTemplate"} 0
node_firmware_templates_not_reported{kind="FirmwareTemplate"} 0
`), "node_firmware_template_devices", "node_firmware_template_nodes", "node_firmware_templates_not_reported"))
}

// A template for each node must not make a time series for each node.
func TestTheTemplatesWithMetricsOfTheirOwnAreBounded(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	b := fake.NewClientBuilder().WithScheme(scheme)
	for i := range maxReported + 3 {
		b.WithObjects(&v1alpha1.FirmwareTemplate{ObjectMeta: name(fmt.Sprintf("t%03d", i))})
	}
	leading := make(chan struct{})
	close(leading)
	c := NewCollector(b.Build(), leading, &storedversion.Progress{}, logr.Discard())
	assert.Equal(t, 3*maxReported, testutil.CollectAndCount(c, "node_firmware_template_nodes"))
	assert.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP node_firmware_templates_not_reported Templates of a kind beyond the first 200, which have no metrics of their own.
# TYPE node_firmware_templates_not_reported gauge
node_firmware_templates_not_reported{kind="ConfigurationTemplate"} 0
node_firmware_templates_not_reported{kind="FirmwareTemplate"} 3
`), "node_firmware_templates_not_reported"))
}

func TestCatalogsSayHowManyDevicesAreBehindOrVulnerable(t *testing.T) {
	assert.NoError(t, testutil.CollectAndCompare(collector(t, true), strings.NewReader(`
# HELP node_firmware_catalog_devices Devices of a machine model, by what its catalog says of them: Behind the newest version, Vulnerable by the issue tags of a provider (absent where none tells), Unknown where it cannot be said whether they are behind, and All. A device may be in several. The first 200 catalogs by name.
# TYPE node_firmware_catalog_devices gauge
node_firmware_catalog_devices{catalog="dell-inc.poweredge-r650",state="All"} 60
node_firmware_catalog_devices{catalog="dell-inc.poweredge-r650",state="Behind"} 7
node_firmware_catalog_devices{catalog="dell-inc.poweredge-r650",state="Unknown"} 24
node_firmware_catalog_devices{catalog="dell-inc.poweredge-r650",state="Vulnerable"} 3
# HELP node_firmware_catalog_discovery_timestamp_seconds When the provider answered last whose answer about a machine model is the oldest. Absent until each has answered. The first 200 catalogs by name.
# TYPE node_firmware_catalog_discovery_timestamp_seconds gauge
node_firmware_catalog_discovery_timestamp_seconds{catalog="dell-inc.poweredge-r650"} 1000
`), "node_firmware_catalog_devices", "node_firmware_catalog_discovery_timestamp_seconds"))
}

// A catalog for each of many models must not make time series without bound.
func TestTheCatalogsWithMetricsOfTheirOwnAreBounded(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	b := fake.NewClientBuilder().WithScheme(scheme)
	for i := range maxReported + 3 { // the last one by name fails first
		at := metav1.Unix(int64(1_800_000_000-i), 0)
		b.WithObjects(&v1alpha1.FirmwareCatalog{ObjectMeta: name(fmt.Sprintf("a.m%03d", i)), Status: v1alpha1.FirmwareCatalogStatus{
			Components: []v1alpha1.CatalogComponent{{Running: []v1alpha1.CatalogRunning{{Limit: &v1alpha1.CatalogLimit{FirstFailureTime: &at}}}}},
		}})
	}
	leading := make(chan struct{})
	close(leading)
	c := NewCollector(b.Build(), leading, &storedversion.Progress{}, logr.Discard())
	assert.Equal(t, 3*maxReported, testutil.CollectAndCount(c, "node_firmware_catalog_devices"))
	const failure = "node_firmware_catalog_first_failure_timestamp_seconds"
	assert.Equal(t, maxReported, testutil.CollectAndCount(c, failure))
	reg := prometheus.NewPedanticRegistry()
	require.NoError(t, reg.Register(c))
	families, err := reg.Gather()
	require.NoError(t, err)
	var named []string
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == failure {
				named = append(named, m.Label[0].GetValue())
			}
		}
	}
	assert.Contains(t, named, fmt.Sprintf("a.m%03d", maxReported+2), "the one that fails first")
	assert.NotContains(t, named, "a.m000", "the one that fails last")
	assert.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP node_firmware_catalogs_not_reported Catalogs beyond the first 200, which have no metrics of their own.
# TYPE node_firmware_catalogs_not_reported gauge
node_firmware_catalogs_not_reported 3
`), "node_firmware_catalogs_not_reported"))
}

// R002-69.
func TestObjectsToStoreAnewAreCounted(t *testing.T) {
	leading, progress := make(chan struct{}), &storedversion.Progress{}
	close(leading)
	progress.Set("nodedevices.nodefirmware.io", storedversion.Left{Pending: 40_000, Refused: 2})
	progress.Set("firmwarejobs.nodefirmware.io", storedversion.Left{})
	c := NewCollector(fake.NewClientBuilder().Build(), leading, progress, logr.Discard())
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP node_firmware_storage_migration_objects `+storedVersions.Help+`
# TYPE node_firmware_storage_migration_objects gauge
node_firmware_storage_migration_objects{resource="firmwarejobs",state="Pending"} 0
node_firmware_storage_migration_objects{resource="firmwarejobs",state="Refused"} 0
node_firmware_storage_migration_objects{resource="nodedevices",state="Pending"} 40000
node_firmware_storage_migration_objects{resource="nodedevices",state="Refused"} 2
`), "node_firmware_storage_migration_objects"))
}

func TestAReplicaThatDoesNotLeadReportsNothing(t *testing.T) {
	assert.Zero(t, testutil.CollectAndCount(collector(t, false)))
}

func collector(t *testing.T, leads bool) prometheus.Collector {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	objects := []client.Object{
		&v1alpha1.NodeDevice{ObjectMeta: name("a"), Status: v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassBIOS, Conditions: conditions("Ready", "UpToDate")}},
		&v1alpha1.NodeDevice{ObjectMeta: name("b"), Status: v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassBIOS, Conditions: conditions("Ready", "UpToDate")}},
		&v1alpha1.NodeDevice{ObjectMeta: name("c"), Status: v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC}},
		&v1alpha1.RolloutPolicy{ObjectMeta: name("default"), Status: v1alpha1.RolloutPolicyStatus{
			Nodes: &v1alpha1.RolloutNodes{Queued: 7}, Admitted: []v1alpha1.AdmittedNode{{Node: "n"}}, Waiting: []v1alpha1.WaitingNodes{{Reason: "BudgetExhausted", Nodes: 7}},
		}},
		&v1alpha1.RolloutPolicy{ObjectMeta: name("storage"), Status: v1alpha1.RolloutPolicyStatus{
			Conditions: []metav1.Condition{{Type: "Complete", Status: metav1.ConditionTrue, LastTransitionTime: metav1.Unix(900, 0)}},
			StartTime:  ptr.To(metav1.Unix(1, 0)),
		}},
		&v1alpha1.FirmwareTemplate{ObjectMeta: name("cx6"), Status: v1alpha1.TemplateStatus{
			Nodes:   v1alpha1.TemplateNodes{Selected: 24, UpToDate: 7, OutOfDate: 8},
			Devices: v1alpha1.TemplateDevices{UpToDate: 5, OutOfDate: 12, Failed: 2, Blocked: 1, Conflicting: 6},
		}},
		&v1alpha1.ConfigurationTemplate{ObjectMeta: name("tuning"), Status: v1alpha1.TemplateStatus{
			Nodes: v1alpha1.TemplateNodes{Selected: 2, UpToDate: 1, OutOfDate: 1}, Devices: v1alpha1.TemplateDevices{UpToDate: 3, OutOfDate: 1},
		}},
		&v1alpha1.FirmwareCatalog{ObjectMeta: name("dell-inc.poweredge-r650"), Status: v1alpha1.FirmwareCatalogStatus{
			LastDiscoveryTime: ptr.To(metav1.Unix(1000, 0)), Devices: v1alpha1.CatalogDevices{Total: 60, Behind: 7, Vulnerable: new(int32(3)), Unknown: 24},
		}},
		&v1alpha1.FirmwareSource{ObjectMeta: name("good"), Status: v1alpha1.FirmwareSourceStatus{Conditions: conditions("Ready", "Succeeded")}},
		&v1alpha1.FirmwareSource{ObjectMeta: name("bad"), Status: v1alpha1.FirmwareSourceStatus{
			Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "DigestMismatch"}},
		}},
	}
	silent := metav1.Condition{Type: "DaemonReady", Status: metav1.ConditionFalse, Reason: "NotReporting"}
	for node, c := range map[string][]metav1.Condition{
		"well": conditions("Ready", "UpToDate"), "held": conditions("Held", "WriteFailed"), "bad": append(conditions("Held", "NeedsIntervention"), silent),
		"silent": {silent}, "down": {{Type: "DaemonReady", Status: metav1.ConditionFalse, Reason: "NodeNotReady"}},
	} {
		objects = append(objects, &v1alpha1.NodeFirmware{ObjectMeta: name(node), Status: v1alpha1.NodeFirmwareStatus{Conditions: c}})
	}
	objects = append(objects,
		&v1alpha1.FirmwareQuarantine{ObjectMeta: name("q"), Spec: v1alpha1.FirmwareQuarantineSpec{State: "Active"}, Status: v1alpha1.FirmwareQuarantineStatus{Scope: "Fleet"}},
		&v1alpha1.FirmwareQuarantine{ObjectMeta: name("r"), Spec: v1alpha1.FirmwareQuarantineSpec{State: "Lifted"}})
	for job, c := range map[string][]metav1.Condition{
		"late":   append(conditions("Admitted", "Admitted"), conditions("Stalled", "NeedsIntervention")...),
		"queued": nil, "admitted": conditions("Admitted", "Admitted"),
		"complete": append(conditions("Complete", "Succeeded"), conditions("Admitted", "Admitted")...),
		"failed":   append(conditions("Failed", "WriteFailed"), conditions("Admitted", "Admitted")...),
		"held":     append(conditions("Failed", "WriteFailed"), conditions("Held", "WriteFailed")...),
	} {
		objects = append(objects, &v1alpha1.FirmwareJob{ObjectMeta: name(job), Status: v1alpha1.FirmwareJobStatus{Conditions: c}})
	}
	leading := make(chan struct{})
	if leads {
		close(leading)
	}
	return NewCollector(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), leading, &storedversion.Progress{}, logr.Discard())
}

func name(s string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: s} }

func conditions(kind, reason string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: reason}}
}
