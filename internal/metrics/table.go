package metrics

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

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

	templateDevices      = metric("node_firmware_template_devices", "Devices of a template, by state: UpToDate, or, where the desired version does not run, Failed, Blocked or else OutOfDate. Conflicting ones match too, and another rule of the same rank does as well; one that keeps its last assignment counts in that state as well. The first 200 templates by name.", "template", "state")
	templateNodes        = metric("node_firmware_template_nodes", "Nodes that a template selects, by state: UpToDate (every assigned device runs the desired version), OutOfDate, or NotAssigned (no device is). The first 200 templates by name.", "template", "state")
	templatesNotReported = metric("node_firmware_templates_not_reported", "Templates beyond the first 200, which have no metrics of their own.")

	sourceReady = metric("node_firmware_source_ready", "1 when every image of a source is verified and in store, else 0 with the reason.", "source", "reason")

	catalogDevices      = metric("node_firmware_catalog_devices", "Devices of a machine model, by what its catalog says of them: Behind the newest version, Vulnerable by the issue tags of a provider, Unknown where it cannot be said whether they are behind, and All. A device may be in several. The first 200 catalogs by name.", "catalog", "state")
	catalogDiscovery    = metric("node_firmware_catalog_discovery_timestamp_seconds", "When the provider answered last whose answer about a machine model is the oldest. Absent until each has answered. The first 200 catalogs by name.", "catalog")
	catalogsNotReported = metric("node_firmware_catalogs_not_reported", "Catalogs beyond the first 200, which have no metrics of their own.")
)

// Table lists the metrics in the order of the documentation.
var Table = []Metric{devices, jobs, poolNodes, poolBudget, poolUnavailable, poolAdmitted, poolQueued,
	poolWaiting, poolStart, poolCompletion, poolEstimate, poolComplete,
	poolHalted, poolWave, templateDevices, templateNodes, templatesNotReported, sourceReady,
	catalogDevices, catalogDiscovery, catalogsNotReported}

func metric(name, help string, labels ...string) Metric {
	return Metric{Name: name, Help: help, Labels: labels, desc: prometheus.NewDesc(name, help, labels, nil)}
}

func (m Metric) gauge(value int, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(value), labels...)
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
