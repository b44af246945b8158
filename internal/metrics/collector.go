package metrics

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/storedversion"
	"github.com/nodefirmware/node-firmware-operator/internal/lifetime"
)

// scrapeTimeout bounds one collection, which reads from a cache and normally takes milliseconds.
const scrapeTimeout = 10 * time.Second

// Collector counts the objects of the fleet when it is scraped. It keeps no counters of its own, so a restart does not
// change the numbers.
type Collector struct {
	reader  client.Reader
	leading <-chan struct{}
	stored  *storedversion.Progress
	log     logr.Logger
}

// NewCollector returns a collector over reader, which should be a cache. It reports nothing until leading is closed, so
// that only one of several replicas reports. Stored is the reconciler's of stored versions.
func NewCollector(reader client.Reader, leading <-chan struct{}, stored *storedversion.Progress, log logr.Logger) *Collector {
	return &Collector{reader: reader, leading: leading, stored: stored, log: log}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range Table {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector. A kind that cannot be listed is missing from the scrape, never zero.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	select {
	case <-c.leading:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var (
		deviceList   v1alpha1.NodeDeviceList
		jobList      v1alpha1.FirmwareJobList
		policyList   v1alpha1.RolloutPolicyList
		templateList v1alpha1.FirmwareTemplateList
		settingsList v1alpha1.ConfigurationTemplateList
		sourceList   v1alpha1.FirmwareSourceList
		catalogList  v1alpha1.FirmwareCatalogList
		nodeList     v1alpha1.NodeFirmwareList
		badList      v1alpha1.FirmwareQuarantineList
	)
	for _, kind := range []struct {
		list   client.ObjectList
		report func()
	}{
		{&deviceList, func() { reportDevices(deviceList.Items, out) }},
		{&jobList, func() { reportJobs(jobList.Items, out) }},
		{&policyList, func() { reportPolicies(policyList.Items, out) }},
		{&templateList, func() {
			reportTemplates("FirmwareTemplate", templateList.Items, func(t *v1alpha1.FirmwareTemplate) *v1alpha1.TemplateStatus { return &t.Status }, out)
		}},
		{&settingsList, func() {
			reportTemplates("ConfigurationTemplate", settingsList.Items, func(t *v1alpha1.ConfigurationTemplate) *v1alpha1.TemplateStatus { return &t.Status }, out)
		}},
		{&sourceList, func() { reportSources(sourceList.Items, out) }},
		{&catalogList, func() { reportCatalogs(catalogList.Items, out) }},
		{&nodeList, func() { reportNodes(nodeList.Items, out) }},
		{&badList, func() { reportQuarantines(badList.Items, out) }},
	} {
		if err := c.reader.List(ctx, kind.list, client.UnsafeDisableDeepCopy); err != nil {
			c.log.Error(err, "Could not collect metrics")
			continue
		}
		kind.report()
	}
	for resource, left := range c.stored.Resources() {
		storedVersions.states(out, []string{resource}, map[string]int32{"Pending": int32(left.Pending), "Refused": int32(left.Refused)})
	}
}

func reportDevices(list []v1alpha1.NodeDevice, out chan<- prometheus.Metric) {
	counts := map[[2]string]int{}
	for i := range list {
		d := &list[i]
		counts[[2]string{string(d.Status.Class), readyReason(d.Status.Conditions)}]++
	}
	for key, n := range counts {
		out <- devices.gauge(n, key[0], key[1])
	}
}

func reportJobs(list []v1alpha1.FirmwareJob, out chan<- prometheus.Metric) {
	counts, late := map[string]int{}, 0
	for i := range list {
		state := jobState(&list[i])
		counts[state]++
		stalled := meta.FindStatusCondition(list[i].Status.Conditions, v1alpha1.ConditionStalled)
		if state == v1alpha1.ConditionAdmitted && stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason == v1alpha1.ReasonNeedsIntervention {
			late++
		}
	}
	for state, n := range counts {
		out <- jobs.gauge(n, state)
	}
	out <- jobsLate.gauge(late)
}

// reportNodes counts each state also where no node is in it, so that an alert ends with the last one.
func reportNodes(list []v1alpha1.NodeFirmware, out chan<- prometheus.Metric) {
	counts := map[string]int{"All": len(list), "Held": 0, "NeedsIntervention": 0, "NotReporting": 0}
	for i := range list {
		conditions := list[i].Status.Conditions
		if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionHeld); c != nil && c.Status == metav1.ConditionTrue {
			if c.Reason == v1alpha1.ReasonNeedsIntervention {
				counts["NeedsIntervention"]++
			} else {
				counts["Held"]++
			}
		}
		if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionDaemonReady); c != nil && c.Reason == v1alpha1.ReasonNotReporting {
			counts["NotReporting"]++
		}
	}
	for state, n := range counts {
		out <- nodes.gauge(n, state)
	}
}

func reportQuarantines(list []v1alpha1.FirmwareQuarantine, out chan<- prometheus.Metric) {
	counts := map[[2]string]int{}
	for i := range list {
		q := &list[i]
		counts[[2]string{string(q.Spec.State), string(cmp.Or(q.Status.Scope, v1alpha1.QuarantineNone))}]++
	}
	for key, n := range counts {
		out <- quarantines.gauge(n, key[0], key[1])
	}
}

func reportPolicies(list []v1alpha1.RolloutPolicy, out chan<- prometheus.Metric) {
	for i := range list {
		p := &list[i]
		nodes := ptr.Deref(p.Status.Nodes, v1alpha1.RolloutNodes{})
		out <- poolNodes.gauge(int(nodes.Selected), p.Name)
		out <- poolBudget.gauge(int(nodes.Budget), p.Name)
		out <- poolUnavailable.gauge(int(nodes.Unavailable), p.Name)
		out <- poolAdmitted.gauge(len(p.Status.Admitted), p.Name)
		out <- poolQueued.gauge(int(nodes.Queued), p.Name)
		progress(p, out)
		rollouts(p, out)
	}
}

// progress reports how far the rollout of a pool is.
func progress(p *v1alpha1.RolloutPolicy, out chan<- prometheus.Metric) {
	for _, w := range p.Status.Waiting {
		out <- poolWaiting.gauge(int(w.Nodes), p.Name, w.Reason)
	}
	complete := 0
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionComplete); c != nil && c.Status == metav1.ConditionTrue {
		complete = 1
		if p.Status.StartTime != nil {
			out <- poolCompletion.gauge(int(c.LastTransitionTime.Unix()), p.Name)
		}
	}
	out <- poolComplete.gauge(complete, p.Name)
	if t := p.Status.StartTime; t != nil {
		out <- poolStart.gauge(int(t.Unix()), p.Name)
	}
	if t := p.Status.EstimatedCompletionTime; t != nil {
		out <- poolEstimate.gauge(int(t.Unix()), p.Name)
	}
}

func reportSources(list []v1alpha1.FirmwareSource, out chan<- prometheus.Metric) {
	for i := range list {
		s := &list[i]
		ready := 0
		if meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionReady) {
			ready = 1
		}
		out <- sourceReady.gauge(ready, s.Name, readyReason(s.Status.Conditions))
	}
}

// readyReason is the reason of Ready, or "Unknown" for an object that was not reconciled yet.
func readyReason(conditions []metav1.Condition) string {
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return "Unknown"
}

func jobState(j *v1alpha1.FirmwareJob) string {
	for _, condition := range []string{
		v1alpha1.ConditionComplete, v1alpha1.ConditionHeld, v1alpha1.ConditionFailed, v1alpha1.ConditionAdmitted,
	} {
		if meta.IsStatusConditionTrue(j.Status.Conditions, condition) {
			return condition
		}
	}
	return "Queued"
}

// maxReported bounds the objects of a kind that are reported one by one. Each makes several time series: a template for each node would
// make ten times as many as there are nodes.
const maxReported = 200

// firstByName returns the objects that are reported one by one, the first maxReported by name, and how many are not. They belong to the
// list.
func firstByName[T any, P interface {
	*T
	GetName() string
}](list []T,
) (reported []P, left int) {
	for i := range list {
		reported = append(reported, &list[i])
	}
	slices.SortFunc(reported, func(a, b P) int { return cmp.Compare(a.GetName(), b.GetName()) })
	n := min(len(reported), maxReported)
	return reported[:n], len(reported) - n
}

func reportCatalogs(list []v1alpha1.FirmwareCatalog, out chan<- prometheus.Metric) {
	reported, left := firstByName(list)
	out <- catalogsNotReported.gauge(left)
	for _, f := range reported {
		s := &f.Status
		states := map[string]int32{"All": s.Devices.Total, "Behind": s.Devices.Behind, "Unknown": s.Devices.Unknown}
		if n := s.Devices.Vulnerable; n != nil {
			states["Vulnerable"] = *n
		}
		catalogDevices.states(out, []string{f.Name}, states)
		if at := s.LastDiscoveryTime; at != nil {
			out <- catalogDiscovery.gauge(int(at.Unix()), f.Name)
		}
	}
	failing := make(map[string]*metav1.Time, len(list))
	for i := range list {
		if at := list[i].Status.FirstFailure(); at != nil {
			failing[list[i].Name] = at
		}
	}
	soonest := slices.SortedFunc(maps.Keys(failing), func(a, b string) int {
		return cmp.Or(lifetime.Sooner(failing[a], failing[b]), cmp.Compare(a, b))
	})
	for _, name := range soonest[:min(len(soonest), maxReported)] {
		out <- catalogFailure.gauge(int(failing[name].Unix()), name)
	}
}

// wavePlace says what is counted together: nodes in one state of the updates whose open wave has that name.
type wavePlace struct{ wave, state string }

// rollouts reports the updates that a pool is followed in, while nodes wait or are admitted. Those of one pool that are in a wave of the
// same name are counted together: neither the number of updates nor their versions and models make time series. An old halt that
// concerns no node raises no alert.
func rollouts(p *v1alpha1.RolloutPolicy, out chan<- prometheus.Metric) {
	places, halted := map[wavePlace]int{}, 0
	atRest := meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionComplete)
	keeps := slices.ContainsFunc(p.Status.Waiting, func(w v1alpha1.WaitingNodes) bool { return w.Reason == v1alpha1.ReasonRolloutHalted })
	for i := range p.Status.Rollouts {
		r := &p.Status.Rollouts[i]
		if atRest {
			continue
		}
		for state, n := range map[string]int32{"Done": r.Done, "Succeeded": r.Succeeded, "Failed": r.Failed} {
			places[wavePlace{r.Wave, state}] += int(n)
		}
		if keeps && r.HaltedTime != nil {
			halted++
		}
	}
	out <- poolHalted.gauge(halted, p.Name)
	for place, n := range places {
		out <- poolWave.gauge(n, p.Name, place.wave, place.state)
	}
}

func reportTemplates[T any, P interface {
	*T
	GetName() string
}](kind string, list []T, status func(P) *v1alpha1.TemplateStatus, out chan<- prometheus.Metric,
) {
	reported, left := firstByName[T, P](list)
	out <- templatesNotReported.gauge(left, kind)
	for _, t := range reported {
		s, of := status(t), []string{kind, t.GetName()}
		templateDevices.states(out, of, map[string]int32{
			"UpToDate": s.Devices.UpToDate, "OutOfDate": s.Devices.OutOfDate - s.Devices.Failed - s.Devices.Blocked, "Failed": s.Devices.Failed,
			"Blocked": s.Devices.Blocked, "Conflicting": s.Devices.Conflicting,
		})
		templateNodes.states(out, of, map[string]int32{
			"UpToDate": s.Nodes.UpToDate, "OutOfDate": s.Nodes.OutOfDate, "NotAssigned": s.Nodes.Selected - s.Nodes.UpToDate - s.Nodes.OutOfDate,
		})
	}
}

// Metric is one metric of the operator. Code and documentation are both made from it.
type Metric struct {
	Name, Help string
	Labels     []string
	desc       *prometheus.Desc
}

// The metrics. All are gauges.
var (
	devices = metric("node_firmware_devices", "Devices by class and by the reason of their Ready condition.", "class", "state")
	jobs    = metric("node_firmware_jobs", "Jobs that exist, by state: Queued, Admitted, Complete, Failed or Held. At most 10 finished jobs of each type are kept per node.", "state")

	jobsLate = metric("node_firmware_jobs_beyond_deadline", "Jobs whose running step has made no progress for longer than its deadline. Nothing is killed.")

	nodes       = metric("node_firmware_nodes", "Nodes with a NodeFirmware: All; Held after a failed job; NeedsIntervention, held where new firmware is or may be at fault and what ran before could not be restored; and NotReporting, whose daemon is silent though the Node is Ready. A silent node may be held as well.", "state")
	quarantines = metric("node_firmware_quarantines", "Quarantined images by what a person decided (Active, Confirmed, Lifted) and by where they are not flashed: None, Policies or Fleet.", "state", "scope")

	poolNodes       = metric("node_firmware_rollout_nodes", "Nodes in the pool of a rollout policy.", "policy")
	poolBudget      = metric("node_firmware_rollout_budget_nodes", "Nodes of the pool that may be unavailable at once.", "policy")
	poolUnavailable = metric("node_firmware_rollout_unavailable_nodes", "Nodes that use up the budget: admitted, not Ready, cordoned, at work by their own report, or not heard of.", "policy")
	poolAdmitted    = metric("node_firmware_rollout_admitted_nodes", "Nodes in the policy's ledger, which a job may disturb now.", "policy")
	poolQueued      = metric("node_firmware_rollout_queued_nodes", "Nodes with a job that waits for admission.", "policy")
	poolWaiting     = metric("node_firmware_rollout_waiting_nodes", "Nodes with a job that waits for admission, by the reason of the first of them.", "policy", "reason")
	poolStart       = metric("node_firmware_rollout_start_timestamp_seconds", "When the present or the last rollout of a pool began.", "policy")
	poolCompletion  = metric("node_firmware_rollout_completion_timestamp_seconds", "When the last rollout of a pool was complete. Absent while one goes on.", "policy")
	poolEstimate    = metric("node_firmware_rollout_estimated_completion_timestamp_seconds", "When the present rollout will be complete at its pace. Absent while that cannot be known.", "policy")
	poolComplete    = metric("node_firmware_rollout_complete", "1 while no job of a pool waits or is admitted, else 0.", "policy")

	poolHalted = metric("node_firmware_rollout_halted", "Updates of a pool that are halted until a person changes spec.requests.resume, while nodes wait for that. 0 where none is.", "policy")
	poolWave   = metric("node_firmware_rollout_wave_nodes", "Nodes of the updates under way in a pool, by the open wave of the update and by state: Succeeded and Failed in that wave, or Done, which succeeded in the waves before. A node counts once for each of its updates.", "policy", "wave", "state")

	templateDevices      = metric("node_firmware_template_devices", "Devices of a template, by its kind and by state: UpToDate, or, where the desired version does not run or a desired setting is not in force, Failed, Blocked or else OutOfDate. Conflicting ones match too, and another rule of the same rank does as well; one that keeps its last assignment counts in that state as well. The first 200 templates of each kind by name.", "kind", "template", "state")
	templateNodes        = metric("node_firmware_template_nodes", "Nodes that a template selects, by its kind and by state: UpToDate (every assigned device is as desired), OutOfDate, or NotAssigned (no device is). The first 200 templates of each kind by name.", "kind", "template", "state")
	templatesNotReported = metric("node_firmware_templates_not_reported", "Templates of a kind beyond the first 200, which have no metrics of their own.", "kind")

	sourceReady = metric("node_firmware_source_ready", "1 when every image of a source is verified and in store, else 0 with the reason.", "source", "reason")

	catalogDevices      = metric("node_firmware_catalog_devices", "Devices of a machine model, by what its catalog says of them: Behind the newest version, Vulnerable by the issue tags of a provider (absent where none tells), Unknown where it cannot be said whether they are behind, and All. A device may be in several. The first 200 catalogs by name.", "catalog", "state")
	catalogDiscovery    = metric("node_firmware_catalog_discovery_timestamp_seconds", "When the provider answered last whose answer about a machine model is the oldest. Absent until each has answered. The first 200 catalogs by name.", "catalog")
	catalogFailure      = metric("node_firmware_catalog_first_failure_timestamp_seconds", "When the first device of a machine model has been powered on for as long as a known vulnerability of its firmware lets it work, if it stays on. Absent where none has such a limit. The 200 catalogs whose devices fail first.", "catalog")
	catalogsNotReported = metric("node_firmware_catalogs_not_reported", "Catalogs beyond the first 200, which have no metrics of their own.")

	storedVersions = metric("node_firmware_storage_migration_objects", "Objects of a resource that may be stored in an earlier version of the API, by state: Pending, or Refused, which the API server did not store in the present one, and which are tried again. At least one until the CustomResourceDefinition says that none is left, then 0.", "resource", "state")
)

// Table lists the metrics in the order of the documentation.
var Table = []Metric{devices, jobs, jobsLate, nodes, quarantines, poolNodes, poolBudget, poolUnavailable, poolAdmitted, poolQueued,
	poolWaiting, poolStart, poolCompletion, poolEstimate, poolComplete,
	poolHalted, poolWave, templateDevices, templateNodes, templatesNotReported, sourceReady,
	catalogDevices, catalogDiscovery, catalogFailure, catalogsNotReported, storedVersions}

func metric(name, help string, labels ...string) Metric {
	return Metric{Name: name, Help: help, Labels: labels, desc: prometheus.NewDesc(name, help, labels, nil)}
}

func (m Metric) gauge(value int, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(value), labels...)
}

// states reports how many of what an object counts are in each state.
func (m Metric) states(out chan<- prometheus.Metric, of []string, counts map[string]int32) {
	for state, n := range counts {
		out <- m.gauge(int(max(0, n)), append(slices.Clone(of), state)...)
	}
}

// Markdown returns the table for the documentation.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n")
	for _, m := range Table {
		labels := "none"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | gauge | %s | %s |\n", m.Name, labels, m.Help)
	}
	return b.String()
}
