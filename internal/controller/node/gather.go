package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// facts are the Node and the other objects that bear one node's name.
type facts struct {
	name string
	// joined says that the Node joined while its name was looked at; nothing else is known then.
	joined bool
	// node is nil when the API server says that there is none.
	node *corev1.Node
	// firmware is nil when there is none.
	firmware *v1alpha1.NodeFirmware
	// silence is why the daemon does not report; nil where no report is overdue.
	silence *status.Silence
	// goneSince is when this process first saw that the Node is gone, and retention how long its history is kept then. The
	// devices and jobs are those that are left of it.
	goneSince time.Time
	now       time.Time
	retention time.Duration
	devices   []v1alpha1.NodeDevice
	jobs      []v1alpha1.FirmwareJob
}

// gather reads the cache first: for a Node that exists and has its NodeFirmware that is all.
func (r *Reconciler) gather(ctx context.Context, name string) (facts, error) {
	f, err := read(ctx, r.cached, name)
	if err == nil && f.node == nil {
		f, err = read(ctx, r.direct, name)
	}
	if err != nil {
		return f, err
	}
	f.now, f.retention = r.now(), r.retention
	f.goneSince = r.since(f)
	if f.node != nil {
		if f.firmware != nil && overdue(f.firmware, f.now) >= 0 {
			f.silence, err = r.silence(ctx, f.node, f.firmware)
		}
		return f, err
	}
	ofNode := client.MatchingFields{"spec.nodeName": name}
	var devices v1alpha1.NodeDeviceList
	if err := r.direct.List(ctx, &devices, ofNode); err != nil {
		return f, fmt.Errorf("list node devices of node %s: %w", name, err)
	}
	var jobs v1alpha1.FirmwareJobList
	if err := r.direct.List(ctx, &jobs, ofNode); err != nil {
		return f, fmt.Errorf("list firmware jobs of node %s: %w", name, err)
	}
	// What is listed may be of a Node that joined after it was looked for. Its event brings it here again.
	switch err := r.direct.Get(ctx, client.ObjectKey{Name: name}, &corev1.Node{}); {
	case err == nil:
		return facts{name: name, joined: true}, nil
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("read node %s again: %w", name, err)
	}
	f.devices, f.jobs = devices.Items, jobs.Items
	if f.firmware == nil && len(f.devices) == 0 && len(f.jobs) == 0 {
		r.forget(name)
	}
	return f, nil
}

// since is when this process first saw that the Node is gone; zero while it exists.
func (r *Reconciler) since(f facts) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.node != nil {
		delete(r.gone, f.name)
		return time.Time{}
	}
	if _, known := r.gone[f.name]; !known {
		r.gone[f.name] = f.now
	}
	return r.gone[f.name]
}

// forget drops what is remembered of a Node that is gone, when nothing of it is left: its name may never return.
func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.gone, name)
}

func read(ctx context.Context, from client.Reader, name string) (facts, error) {
	f := facts{name: name, node: &corev1.Node{}, firmware: &v1alpha1.NodeFirmware{}}
	key := client.ObjectKey{Name: name}
	if err := from.Get(ctx, key, f.node); apierrors.IsNotFound(err) {
		f.node = nil
	} else if err != nil {
		return f, fmt.Errorf("read node %s: %w", name, err)
	}
	if err := from.Get(ctx, key, f.firmware); apierrors.IsNotFound(err) {
		f.firmware = nil
	} else if err != nil {
		return f, fmt.Errorf("read node firmware %s: %w", name, err)
	}
	return f, nil
}

const (
	// startsWithin is how long a daemon may take to its first report.
	startsWithin = 10 * time.Minute
	// looksAgain is how often the pod of a daemon that is overdue is looked at.
	looksAgain = 10 * time.Minute
)

// daemonPods are the pods of the DaemonSet.
var daemonPods = client.MatchingLabels{"app.kubernetes.io/name": "node-firmware-operator", "app.kubernetes.io/component": "daemon"}

// overdue is for how long a report of the node's daemon is overdue; negative is how long it still has. What keeps it is in the pod of the
// daemon.
func overdue(o *v1alpha1.NodeFirmware, now time.Time) time.Duration {
	last := v1alpha1.ReportedAt(o)
	if last == nil {
		return now.Sub(o.CreationTimestamp.Time) - startsWithin
	}
	within := max(v1alpha1.ReportsWithin, o.Spec.ScanThreshold.Duration(0)+startsWithin)
	return now.Sub(last.Time) - within
}

// silence says why the daemon of a node whose report is overdue says nothing. It reads the pods of this node only: thousands of them are
// no part of the operator's memory.
func (r *Reconciler) silence(ctx context.Context, n *corev1.Node, o *v1alpha1.NodeFirmware) (*status.Silence, error) {
	out := &status.Silence{Since: v1alpha1.ReportedAt(o), Namespace: r.namespace}
	ready := func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	if !slices.ContainsFunc(n.Status.Conditions, ready) {
		out.NodeNotReady = true
		return out, nil
	}
	for _, on := range []string{n.Name, ""} { // a pod that cannot be scheduled is on no node yet
		var pods corev1.PodList
		if err := r.direct.List(ctx, &pods, client.InNamespace(r.namespace), daemonPods, client.MatchingFields{"spec.nodeName": on}); err != nil {
			return nil, fmt.Errorf("list pods of the daemon of node %s: %w", n.Name, err)
		}
		for i := range pods.Items {
			if p := &pods.Items[i]; on != "" || isFor(p, n.Name) {
				out.Pod = p.Name
				if out.Trouble, out.Ended = trouble(p, out.Since); out.Trouble == "" {
					return out, nil
				}
			}
		}
		if out.Pod != "" {
			return out, nil
		}
	}
	return out, nil
}

// isFor reports whether the controller of DaemonSets made a pod for the node.
func isFor(p *corev1.Pod, node string) bool {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil || p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchFields, func(f corev1.NodeSelectorRequirement) bool {
			return f.Key == "metadata.name" && slices.Contains(f.Values, node)
		})
	})
}

// trouble says what keeps a pod from being ready, or how a container of it ended since the daemon reported last; empty for neither. Ended
// says that there is a log of one that ended. What changes with each attempt is left out.
func trouble(p *corev1.Pod, since *metav1.Time) (said string, ended bool) {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		waits, end := s.State.Waiting, cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated)
		late := end != nil && (end.ExitCode != 0 || s.State.Terminated == nil) && (since == nil || end.FinishedAt.After(since.Time))
		switch {
		case waits != nil && waits.Reason == "CrashLoopBackOff" && end != nil:
			return waits.Reason + "; " + ending(end), true
		case waits != nil:
			return strings.TrimSuffix(waits.Reason+": "+waits.Message, ": "), false
		case late:
			return ending(end), true
		}
	}
	if p.Status.Reason != "" {
		return p.Status.Reason + ": " + p.Status.Message, false
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			return "", false
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			return c.Reason + ": " + c.Message, false
		}
	}
	return fmt.Sprintf("it is %s and not ready", cmp.Or(p.Status.Phase, corev1.PodPending)), false
}

func ending(end *corev1.ContainerStateTerminated) string {
	out := fmt.Sprintf("it ended with exit code %d", end.ExitCode)
	if end.Reason != "" && end.Reason != "Error" {
		out += " (" + end.Reason + ")"
	}
	return strings.TrimSuffix(out+": "+strings.TrimSpace(end.Message), ": ")
}

// isSilent reports whether the object says that the daemon does not report.
func isSilent(o *v1alpha1.NodeFirmware) bool {
	c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionDaemonReady)
	return c != nil && c.Reason != v1alpha1.ReasonSucceeded
}
