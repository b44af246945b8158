package runner

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
)

type facts struct {
	node string
	// firmware is nil while there is none.
	firmware *v1alpha1.NodeFirmware
	// nodeGone is that there is no such Node: a pod for it would be removed by the cluster and made again, over and over.
	nodeGone bool
	jobs     []v1alpha1.FirmwareJob
	// pods are those that execute jobs on the node.
	pods     []corev1.Pod
	handlers Handlers
	now      time.Time
	// seen is when this process first saw the pods, and first saw the jobs ended, by its clock.
	seen map[types.UID]time.Time
}

type work struct {
	// name of the job; uid is empty when its object is gone.
	name, uid string
	handler   Handler
}

type decision struct {
	// unhandled jobs have not begun, and no handler is for the machine.
	unhandled []v1alpha1.FirmwareJob
	// stranded is a job that has begun and whose handler is not configured any more; nil for none.
	stranded *v1alpha1.FirmwareJob
	remove   []corev1.Pod
	create   *work
	// next is how long until something is due by itself; 0 when nothing is.
	next time.Duration
}

const (
	// lingerTime is what a pod gets to end by itself after its job has ended.
	lingerTime = time.Minute
	// againAfter is the least time between two pods of one job.
	againAfter = 10 * time.Second
)

// decide is the policy for the pods of one node: at most one at a time, for the one job that needs a process. A pod is
// removed when it is not needed any more, and never to make room for another one.
func decide(f facts) decision {
	var d decision
	if f.firmware == nil {
		return d
	}
	handler, handled := f.handler()
	due := f.due()
	if !handled && f.machineKnown() {
		d.unhandled = f.waiting()
	}
	occupied := false
	for _, p := range f.pods {
		switch verdict, wait := f.judge(p, due, handler); verdict {
		case discard:
			d.remove = append(d.remove, p)
			occupied = occupied || due != nil && p.Name == podName(f.node, due.name, due.uid) // its name is taken until it is gone
		case occupying:
			occupied = true
			d.next = sooner(d.next, wait)
		case finished:
		}
	}
	switch {
	case due == nil || occupied || f.nodeGone:
	case !handled && due.job != nil && begun(due.job) && f.machineKnown():
		d.stranded = due.job
	case handled:
		d.create = &work{name: due.name, uid: due.uid, handler: handler}
	}
	return d
}

// verdict is what becomes of a pod.
type verdict int

const (
	// discard: it is not needed any more.
	discard verdict = iota
	// occupying: no other pod may be made on the node meanwhile.
	occupying
	// finished: it is kept for its log.
	finished
)

// judge looks at one pod, and says when to look again.
func (f facts) judge(p corev1.Pod, due *need, h Handler) (verdict, time.Duration) {
	job := f.job(p.Labels[v1alpha1.JobPodLabel])
	switch {
	case p.DeletionTimestamp != nil:
		return occupying, 0
	case hasEnded(p) && f.isDue(p, due):
		if wait := f.seen[p.UID].Add(againAfter).Sub(f.now); wait > 0 {
			return occupying, wait
		}
		return discard, 0
	case hasEnded(p) && job == nil:
		return discard, 0
	case hasEnded(p):
		return finished, 0
	case p.Status.Phase == corev1.PodPending && !f.isDue(p, due): // it may never start, and nothing else removes it
		return discard, 0
	case p.Status.Phase == corev1.PodPending && h.Image != "" && !uses(p, h.Image): // its image cannot be had
		return discard, 0
	case job != nil && !f.isDue(p, due) && job.Ended():
		if wait := f.seen[job.UID].Add(lingerTime).Sub(f.now); wait > 0 {
			return occupying, wait
		}
		return discard, 0
	}
	return occupying, 0
}

type need struct {
	name, uid string
	// job is nil when its object is gone.
	job *v1alpha1.FirmwareJob
}

// due is the job that needs a process now, nil when none does. What has begun goes first, then what a person requested for
// the node, with or without their objects; then what is admitted.
func (f facts) due() *need {
	var first *v1alpha1.FirmwareJob
	for i := range f.jobs {
		if j := &f.jobs[i]; f.rank(j) > 0 && (first == nil || f.rank(j) > f.rank(first)) {
			first = j
		}
	}
	if orphan := f.orphan(); orphan != "" && (first == nil || !begun(first)) {
		return &need{name: orphan}
	}
	if gone := f.releasedOrphan(); gone != "" && (first == nil || !begun(first)) {
		return &need{name: gone}
	}
	if first == nil {
		return nil
	}
	return &need{name: first.Name, uid: string(first.UID), job: first}
}

// rank orders the jobs by how urgently they need a process; 0 means that a job needs none.
func (f facts) rank(j *v1alpha1.FirmwareJob) int {
	switch {
	case j.Ended():
		if j.Held() && f.releases(j.Name) {
			return 3
		}
		return 0
	case begun(j):
		return 4
	case j.MayBegin():
		return 2
	case j.Spec.Cancel != nil: // its cancellation is to be journalled
		return 1
	}
	return 0
}

// orphan is the job that the journal of the node is in the middle of and whose object is gone; empty for none.
func (f facts) orphan() string {
	s := f.firmware.Status.CurrentStep
	if s == nil || slices.ContainsFunc(f.jobs, func(j v1alpha1.FirmwareJob) bool { return j.Name == s.Job }) {
		return ""
	}
	return s.Job
}

// releases reports whether a person asked to return the node to service that the job of that name holds. A hold that the
// daemon has not reported is released by nobody: what it followed is not known.
func (f facts) releases(job string) bool {
	s := &f.firmware.Status
	return s.HeldBy == job && job != "" && desired.Release(f.firmware).Clears(&s.Requests.Release)
}

// releasedOrphan is the job that holds the node, whose object is gone, and whose release a person requested; empty for none.
func (f facts) releasedOrphan() string {
	held := f.firmware.Status.HeldBy
	exists := func(j v1alpha1.FirmwareJob) bool { return j.Held() || j.Name == held }
	if !f.releases(held) || slices.ContainsFunc(f.jobs, exists) {
		return ""
	}
	return held
}

// waiting lists the jobs that need a process to begin.
func (f facts) waiting() []v1alpha1.FirmwareJob {
	var out []v1alpha1.FirmwareJob
	for _, j := range f.jobs {
		if !j.Ended() && !begun(&j) {
			out = append(out, j)
		}
	}
	return out
}

// machineKnown reports whether the daemon has reported what the machine is, as far as it can find out.
func (f facts) machineKnown() bool {
	return f.firmware.Status.Machine != nil || f.firmware.Status.LastScanTime != nil
}

func (f facts) handler() (Handler, bool) {
	var m v1alpha1.Machine
	if f.firmware.Status.Machine != nil {
		m = *f.firmware.Status.Machine
	}
	if !f.machineKnown() {
		return Handler{}, false
	}
	return f.handlers.For(m)
}

// job finds a job by its uid; nil when there is none.
func (f facts) job(uid string) *v1alpha1.FirmwareJob {
	for i := range f.jobs {
		if string(f.jobs[i].UID) == uid {
			return &f.jobs[i]
		}
	}
	return nil
}

func begun(j *v1alpha1.FirmwareJob) bool { return j.Status.StartTime != nil }

func hasEnded(p corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func uses(p corev1.Pod, image string) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Image == image })
}

// isDue reports whether the pod is that of the job that needs one.
func (f facts) isDue(p corev1.Pod, due *need) bool {
	return due != nil && p.Name == podName(f.node, due.name, due.uid) && p.Labels[v1alpha1.JobPodLabel] == due.uid
}

func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return cmp.Or(a, b)
	}
	return min(a, b)
}
