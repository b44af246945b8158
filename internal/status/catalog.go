package status

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// CatalogConditions are the condition types of a FirmwareCatalog.
var CatalogConditions = []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled}

// CatalogFacts is what one pass over a FirmwareCatalog found out.
type CatalogFacts struct {
	Name string
	// Default says that it is the catalog that gives the others what they leave out.
	Default bool
	// Paused by its spec.
	Paused bool
	// Never says that no discovery was successful yet.
	Never bool
	// Scheduled says that a discovery waits or runs.
	Scheduled bool
	// QueueFull says that one is due and the queue has no room.
	QueueFull bool
	// Reason and Message of the first provider that failed; empty when none did.
	Reason, Message string
	// Untold counts the devices of which no provider says whether they have a known vulnerability.
	Untold int
	// LeftOut is what the status has no room for.
	LeftOut CatalogLeftOut
}

// CatalogLeftOut counts what a FirmwareCatalog has no room for.
type CatalogLeftOut struct {
	Components, Versions, Issues int
}

// Catalog maps the facts of a FirmwareCatalog to its conditions.
func Catalog(old []metav1.Condition, generation int64, now time.Time, s *v1alpha1.FirmwareCatalogStatus, f CatalogFacts) []metav1.Condition {
	ready := Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, Message: catalogSummary(s, f.Untold) + f.LeftOut.sentence()}
	want := []Condition{}
	work := func(reason string) {
		want = append(want, Condition{v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, ready.Message})
	}
	switch {
	case f.Default:
		ready.Message = "Holds the defaults of the other catalogs: providers, interval and number of versions."
	case f.Paused:
		ready.Reason, ready.Message = v1alpha1.ReasonPaused, ready.Message+" Paused: no provider is asked. To continue: "+wayout.State("fwc", f.Name, v1alpha1.CatalogActive)
	case f.Reason != "":
		ready.Status, ready.Reason = metav1.ConditionFalse, f.Reason
		ready.Message = sentence(f.Message) + " What it offered before stays listed, and it will be asked again later. " + ready.Message
		if f.Reason == v1alpha1.ReasonDownloadFailed || f.Reason == v1alpha1.ReasonTimedOut {
			work(f.Reason)
		} else {
			ready.Message += " To correct it: " + wayout.Edit("fwc", f.Name)
			want = append(want, Condition{v1alpha1.ConditionStalled, metav1.ConditionTrue, f.Reason, ready.Message})
		}
	case f.Never && f.QueueFull:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonQueueFull, "The discovery queue is full; retrying."
		work(v1alpha1.ReasonQueueFull)
	case f.Never:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonProgressing, "The providers are being asked for versions."
		work(v1alpha1.ReasonProgressing)
	}
	return Merge(old, generation, now, CatalogConditions, append(want, ready)...)
}

// sentence says what is left out, after the summary; empty for nothing.
func (l CatalogLeftOut) sentence() string {
	var parts []string
	for _, p := range []struct {
		n         int
		one, many string
	}{{l.Components, "component", "components"}, {l.Versions, "running version", "running versions"}, {l.Issues, "vulnerability", "vulnerabilities"}} {
		if p.n > 0 {
			parts = append(parts, text.Quantity(p.n, p.one, p.many))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return leftOut + strings.Join(parts, ", ") + "."
}

const leftOut = " Not listed because the status is full: "

// LeavesOutVulnerabilities reports whether a FirmwareCatalog has no room for all vulnerabilities of the versions that it lists.
func LeavesOutVulnerabilities(conditions []metav1.Condition) bool {
	for _, c := range conditions {
		if _, names, is := strings.Cut(c.Message, leftOut); is && c.Type == v1alpha1.ConditionReady && strings.Contains(names, " vulnerabilit") {
			return true
		}
	}
	return false
}

// catalogSummary says at a glance how the devices stand.
func catalogSummary(s *v1alpha1.FirmwareCatalogStatus, untold int) string {
	d := &s.Devices
	if d.Total == 0 {
		return "No device of this model has been read yet."
	}
	out := fmt.Sprintf("%d of %s behind the newest version", d.Behind, text.Quantity(int(d.Total), "device runs", "devices run"))
	if d.Vulnerable != nil && *d.Vulnerable > 0 {
		out += fmt.Sprintf(", %d with a known vulnerability", *d.Vulnerable)
	}
	if d.Unknown > 0 {
		out += fmt.Sprintf("; for %d it is not known", d.Unknown)
	}
	if d.Vulnerable != nil && untold > 0 { // where nobody tells anything, the count is absent
		out += fmt.Sprintf(". No provider says whether %s a known vulnerability", text.Quantity(untold, "device has", "devices have"))
	}
	return out + "."
}
