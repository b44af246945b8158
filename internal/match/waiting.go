package match

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// origin identifies the template that an update of a job comes from, whether or not the template exists.
type origin struct{ name, uid string }

// waitingJob is a job that waits for its admission.
type waitingJob struct {
	name, node, reason string
	since              metav1.Time
	origins            []origin
}

// keptWaiting is how many of the oldest waiting jobs of a template are known in order. Only the first is reported, but with one
// each admission would look for the next one among thousands.
const keptWaiting = 50

// order is a text that sorts older jobs first.
func (w *waitingJob) order() string { return w.since.UTC().Format(time.RFC3339) + "/" + w.name }

func (w *waitingJob) equal(o *waitingJob) bool {
	return w.node == o.node && w.reason == o.reason && w.since.Equal(&o.since) && slices.Equal(w.origins, o.origins)
}

// waitingOf is what the index keeps of a job; nil for one that does not wait for its admission.
func waitingOf(j *v1alpha1.FirmwareJob) *waitingJob {
	if j.DeletionTimestamp != nil || j.Ended() || j.Admitted() {
		return nil
	}
	w := &waitingJob{name: j.Name, node: j.Spec.NodeName, since: j.CreationTimestamp}
	if c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted); c != nil {
		w.reason = c.Reason
	}
	for i := range j.Spec.Updates {
		for _, from := range j.Spec.Updates[i].Origin {
			if by := (origin{from.Name, from.UID}); from.Kind == v1alpha1.OriginTemplate && !slices.Contains(w.origins, by) {
				w.origins = append(w.origins, by)
			}
		}
	}
	if len(w.origins) == 0 {
		return nil
	}
	return w
}

// SetJob adds a job or brings what is known of it up to date.
func (ix *Index) SetJob(o *v1alpha1.FirmwareJob) Affected {
	return ix.event(func() { ix.await(o.Name, waitingOf(o)) })
}

// DeleteJob removes a job.
func (ix *Index) DeleteJob(name string) Affected {
	return ix.event(func() { ix.await(name, nil) })
}

// await replaces what is known of a job; nil for one that does not wait.
func (ix *Index) await(name string, next *waitingJob) {
	old := ix.waiting[name]
	if old == next || old != nil && next != nil && old.equal(next) {
		return
	}
	if old != nil {
		delete(ix.waiting, name)
		for _, by := range old.origins {
			ix.waitingOf[by].remove(old.order())
			if len(ix.waitingOf[by].members) == 0 {
				delete(ix.waitingOf, by)
			}
			ix.affectTemplate(by)
		}
	}
	if next != nil {
		ix.waiting[name] = next
		for _, by := range next.origins {
			if ix.waitingOf[by] == nil {
				ix.waitingOf[by] = newFirsts(keptWaiting)
			}
			ix.waitingOf[by].add(next.order())
			ix.affectTemplate(by)
		}
	}
}

func (ix *Index) affectTemplate(by origin) {
	if ix.templates[by.name] != nil {
		ix.affected.templates[by.name] = struct{}{}
	}
}

// affectWaiting notes the templates with waiting jobs: another policy may choose the node of the oldest one.
func (ix *Index) affectWaiting() {
	for by := range maps.Keys(ix.waitingOf) {
		ix.affectTemplate(by)
	}
}

// oldestWaiting is the job of the template that waits longest, or nil.
func (ix *Index) oldestWaiting(t *template) *v1alpha1.WaitingJob {
	jobs := ix.waitingOf[origin{t.name, t.uid}]
	if jobs == nil {
		return nil
	}
	_, name, _ := strings.Cut(jobs.head[0], "/")
	w := ix.waiting[name]
	out := &v1alpha1.WaitingJob{Job: w.name, Node: w.node, Reason: w.reason, Since: w.since}
	if n := ix.nodes[w.node]; n != nil && n.exists {
		out.Policy = ix.pools.Of(n.labels)
	}
	return out
}
