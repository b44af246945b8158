package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

const (
	// reportWait is how long after its first pass the operator counts nodes that do not report. A daemon whose status was replaced
	// by an older one writes it again as soon as it sees that.
	reportWait = 15 * time.Minute
	// listenAgain is how often the operator looks for reports meanwhile.
	listenAgain = 10 * time.Second
	// reportsAtOnce is how many NodeFirmwares are read in one request.
	reportsAtOnce = 500
)

// unheard are the nodes whose daemons reported before, and had not done so for ReportsWithin when this process made its first
// pass. Either their daemons are gone, or the API server was restored from a backup, and then a node may be at work on a job of
// which the API knows nothing. Ages are by the API server's clock alone.
type unheard struct {
	known bool
	until time.Time
	// nodes are those that have not reported since, with the time of the last scan that each had reported before.
	nodes map[string]*metav1.Time
}

func (u *unheard) is(node string) bool {
	_, is := u.nodes[node]
	return is
}

func (u *unheard) waits() bool { return len(u.nodes) > 0 }

// maxLogged bounds the nodes that the log names.
const maxLogged = 5

// first are the first of the nodes, in order of name.
func (u *unheard) first() []string {
	names := slices.Sorted(maps.Keys(u.nodes))
	return names[:min(len(names), maxLogged)]
}

// listen finds the unheard nodes in the first pass, and drops in each pass those that have reported since. The reports are those of
// a cache, read before this call.
func (u *unheard) listen(ctx context.Context, r *Reconciler, reports map[string]*v1alpha1.NodeFirmware) error {
	if !u.known {
		overdue, err := r.overdue(ctx)
		if err != nil {
			return err
		}
		u.known, u.until, u.nodes = true, r.now().Add(reportWait), map[string]*metav1.Time{}
		for _, name := range overdue {
			if n := reports[name]; n != nil {
				u.nodes[name] = n.Status.LastScanTime
			}
		}
		if u.waits() {
			log.FromContext(ctx).Info("Nodes have not reported for long, and count as disturbed until they do; the API server may have been "+
				"restored from a backup that does not know of their jobs", "nodes", len(u.nodes), "first", u.first(), "until", u.until)
		}
	}
	if u.waits() && !r.now().Before(u.until) {
		log.FromContext(ctx).Info("Nodes that have not reported are no longer waited for; look at their daemons, and delete the "+
			"NodeFirmware of a node that has none", "nodes", len(u.nodes), "first", u.first())
		u.nodes = nil
	}
	maps.DeleteFunc(u.nodes, func(name string, before *metav1.Time) bool {
		return reports[name] == nil || !reports[name].Status.LastScanTime.Equal(before)
	})
	return nil
}

// overdue lists the NodeFirmwares whose daemon reported last before ReportsWithin, by the API server itself. It lists none where
// the API server does not tell the operator its time.
func (r *Reconciler) overdue(ctx context.Context) ([]string, error) {
	review := &authenticationv1.SelfSubjectReview{} // the one answer with the time that any account is given
	switch err := r.client.Create(ctx, review); {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		log.FromContext(ctx).Error(err, "The API server has no SelfSubjectReview in authentication.k8s.io/v1, which Kubernetes has since 1.28, and so does not "+
			"tell its time: nodes which have not reported since a restore are not waited for; update the API server")
		return nil, nil
	case apierrors.IsForbidden(err):
		log.FromContext(ctx).Error(err, "The API server does not tell its time, so that nodes which have not reported since a restore are not waited for; "+
			"allow the operator to create selfsubjectreviews, as the ClusterRole system:basic-user does")
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("ask the API server for its time: %w", err)
	}
	var out []string
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeFirmwareList"))
	for more := true; more; more = list.Continue != "" {
		if err := r.direct.List(ctx, list, client.Limit(reportsAtOnce), client.Continue(list.Continue)); err != nil {
			return nil, fmt.Errorf("list the last reports of the nodes: %w", err)
		}
		for i := range list.Items {
			last := v1alpha1.ReportedAt(&list.Items[i])
			if last != nil && review.CreationTimestamp.Sub(last.Time) > v1alpha1.ReportsWithin {
				out = append(out, list.Items[i].Name)
			}
		}
	}
	return out, nil
}

// lostAfter is how long a node may report a job that the API does not have before people are told its name. A daemon reports the end
// of its job in the NodeFirmware seconds after it wrote it to the job.
const lostAfter = 5 * time.Minute

// lost remembers since when nodes report jobs that the API does not have, or has as ended. Such a node is at work on a job that a
// restored API server lost or a person deleted by force, or its daemon is gone and its report will never change.
type lost struct{ since map[string]time.Time }

// note finds the nodes that report such a job.
func (l *lost) note(f facts, now time.Time) {
	entered := map[string]bool{}
	for _, p := range f.policies {
		for _, e := range p.Status.Admitted {
			if f.jobs[e.JobUID] != nil {
				entered[e.Node] = true
			}
		}
	}
	since := map[string]time.Time{}
	for name, report := range f.reports {
		if runs(report) == "" && heldBy(report) == "" || entered[name] {
			continue
		}
		since[name] = now
		if before, known := l.since[name]; known {
			since[name] = before
		}
	}
	l.since = since
}

// is reports whether the node has reported such a job for long.
func (l *lost) is(node string, now time.Time) bool {
	since, known := l.since[node]
	return known && now.Sub(since) >= lostAfter
}

// next is how long until another node has reported such a job for long; 0 for none.
func (l *lost) next(now time.Time) time.Duration {
	var out time.Duration
	for _, since := range l.since {
		if left := lostAfter - now.Sub(since); left > 0 && (out == 0 || left < out) {
			out = left
		}
	}
	return out
}
