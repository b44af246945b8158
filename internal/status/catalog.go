package status

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// CatalogConditions are the condition types of a FirmwareCatalog.
var CatalogConditions = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionStaged, v1alpha1.ConditionTagsMoved,
}

// CatalogFacts is what one pass over a FirmwareCatalog found out.
type CatalogFacts struct {
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
}

// Catalog maps the facts of a FirmwareCatalog to its conditions.
func Catalog(old []metav1.Condition, generation int64, now time.Time, s *v1alpha1.FirmwareCatalogStatus, f CatalogFacts) []metav1.Condition {
	ready := Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, Message: catalogSummary(s)}
	want := []Condition{}
	work := func(reason string) {
		want = append(want, Condition{v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, ready.Message})
	}
	switch {
	case f.Paused:
		ready.Reason, ready.Message = v1alpha1.ReasonPaused, "Paused: no versions are looked for. "+ready.Message
	case f.Reason != "":
		ready.Status, ready.Reason = metav1.ConditionFalse, f.Reason
		ready.Message = sentence(f.Message) + " What it offered before stays listed, and it is asked again. " + ready.Message
		if f.Reason == v1alpha1.ReasonDownloadFailed || f.Reason == v1alpha1.ReasonDeadlineExceeded {
			work(f.Reason)
		} else {
			want = append(want, Condition{v1alpha1.ConditionStalled, metav1.ConditionTrue, f.Reason, ready.Message})
		}
	case f.Never && f.QueueFull:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonQueueFull, "As many discoveries wait as this operator allows; it is tried again."
		work(v1alpha1.ReasonQueueFull)
	case f.Never:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonProgressing, "Versions are looked for."
		work(v1alpha1.ReasonProgressing)
	}
	if len(s.Staged) > 0 {
		want = append(want, catalogStaged(s.Staged))
	}
	if moved, ok := catalogMoved(s.Components); ok {
		want = append(want, moved)
	}
	return Merge(old, generation, now, CatalogConditions, append(want, ready)...)
}

// catalogMoved is about the tag that was moved last; false where none was.
func catalogMoved(components []v1alpha1.CatalogComponent) (Condition, bool) {
	var last *v1alpha1.CatalogVersion
	n := 0
	for i := range components {
		for j := range components[i].Versions {
			v := &components[i].Versions[j]
			if v.Moved == nil {
				continue
			}
			n++
			if last == nil || v.Moved.Time.After(last.Moved.Time.Time) {
				last = v
			}
		}
	}
	if n == 0 {
		return Condition{}, false
	}
	message := fmt.Sprintf("Tag %s (version %s) pointed to %s and points to %s now", last.Tag, last.Version, last.Moved.From, last.URL)
	if n > 1 {
		message += fmt.Sprintf("; %d versions were replaced in all", n)
	}
	return Condition{v1alpha1.ConditionTagsMoved, metav1.ConditionTrue, v1alpha1.ReasonTagMoved, message + ". Nothing in store was changed, and no source follows " +
		"a tag. Find out who moved it before you stage it; a requested discovery (spec.discover) ends this message."}, true
}

// catalogStaged is about the first entry that is not staged.
func catalogStaged(all []v1alpha1.CatalogStaged) Condition {
	for _, s := range all {
		if s.Reason != v1alpha1.ReasonStaged {
			return Condition{v1alpha1.ConditionStaged, metav1.ConditionFalse, s.Reason, sentence(s.Source + ": " + s.Message)}
		}
	}
	return Condition{v1alpha1.ConditionStaged, metav1.ConditionTrue, v1alpha1.ReasonStaged,
		fmt.Sprintf("There is a FirmwareSource for %s. Nothing is flashed before a template or pin refers to it.", quantity(len(all), "version", "versions"))}
}

// catalogSummary says at a glance how the devices stand.
func catalogSummary(s *v1alpha1.FirmwareCatalogStatus) string {
	if s.Devices == 0 {
		return "No device of this model was read."
	}
	out := fmt.Sprintf("%d of %s behind the newest version", s.DevicesBehind, quantity(int(s.Devices), "device runs", "devices run"))
	if s.DevicesVulnerable > 0 {
		out += fmt.Sprintf(", %d with a known vulnerability", s.DevicesVulnerable)
	}
	if s.DevicesUnknown > 0 {
		out += fmt.Sprintf("; of %d it is not known", s.DevicesUnknown)
	}
	return out + "."
}
