package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

var clock = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const (
	node  = "gpu-1"
	image = "registry.example/lenovo:1"
)

func nodeFirmware() *v1alpha1.NodeFirmware {
	return &v1alpha1.NodeFirmware{
		ObjectMeta: metav1.ObjectMeta{Name: node, UID: "firmware-uid"},
		Status:     v1alpha1.NodeFirmwareStatus{Machine: &v1alpha1.Machine{Vendor: "Lenovo", Model: "7X21"}, LastScanTime: ptr.To(metav1.NewTime(clock))},
	}
}

// fwjob is a job of the node; its uid is "uid-" and its name.
func fwjob(name string, with ...func(*v1alpha1.FirmwareJob)) v1alpha1.FirmwareJob {
	j := v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(clock.Add(-time.Hour)), Generation: 1},
		Spec:       v1alpha1.FirmwareJobSpec{NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate}},
		Status:     v1alpha1.FirmwareJobStatus{ObservedGeneration: -1}, // as the API server has it
	}
	for _, f := range with {
		f(&j)
	}
	return j
}

func is(condition string) func(*v1alpha1.FirmwareJob) {
	return func(j *v1alpha1.FirmwareJob) {
		j.Status.Conditions = append(j.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: condition})
	}
}

func admitted(j *v1alpha1.FirmwareJob) { is(v1alpha1.ConditionAdmitted)(j) }
func started(j *v1alpha1.FirmwareJob) {
	j.Status.StartTime = ptr.To(metav1.NewTime(clock.Add(-30 * time.Minute)))
}
func cancelled(j *v1alpha1.FirmwareJob) { j.Spec.Cancel = &v1alpha1.JobCancel{} }

// ended is a job that ended that long ago.
func ended(condition string, ago time.Duration) func(*v1alpha1.FirmwareJob) {
	return func(j *v1alpha1.FirmwareJob) {
		started(j)
		is(condition)(j)
		j.Status.CompletionTime = ptr.To(metav1.NewTime(clock.Add(-ago)))
	}
}

// held is a job that failed ten minutes ago and holds the node.
func held(j *v1alpha1.FirmwareJob) {
	ended(v1alpha1.ConditionFailed, 10*time.Minute)(j)
	is(v1alpha1.ConditionHeld)(j)
}

// pod executes the job and was made that long ago.
func pod(job string, phase corev1.PodPhase, ago time.Duration) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(node, job, "uid-"+job), UID: types.UID("pod-" + job), CreationTimestamp: metav1.NewTime(clock.Add(-ago)),
			Labels: map[string]string{v1alpha1.JobPodLabel: "uid-" + job}},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Image: image}}},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func orphanPod(job string, phase corev1.PodPhase) corev1.Pod {
	p := pod(job, phase, time.Hour)
	p.Name, p.Labels[v1alpha1.JobPodLabel] = podName(node, job, ""), ""
	return p
}

// forgotten is the pod of an earlier job of the same name.
func forgotten(p corev1.Pod) corev1.Pod {
	p.Labels[v1alpha1.JobPodLabel] = "uid-earlier"
	return p
}

func terminating(p corev1.Pod) corev1.Pod {
	p.DeletionTimestamp = ptr.To(metav1.NewTime(clock))
	return p
}

// seenBefore is when this process saw the objects first: its clock is right here, and so are those of the API and the node.
func seenBefore(jobs []v1alpha1.FirmwareJob, pods []corev1.Pod) map[types.UID]time.Time {
	out := map[types.UID]time.Time{}
	for _, j := range jobs {
		if j.Status.CompletionTime != nil {
			out[j.UID] = j.Status.CompletionTime.Time
		}
	}
	for _, p := range pods {
		out[p.UID] = p.CreationTimestamp.Time
	}
	return out
}

func TestOnePodPerNodeForItsJob(t *testing.T) {
	releasedNow := func(n *v1alpha1.NodeFirmware) { n.Spec.Requests.Release = "as it is" }
	inJob := func(name string) func(*v1alpha1.NodeFirmware) {
		return func(n *v1alpha1.NodeFirmware) { n.Status.CurrentStep = &v1alpha1.CurrentStep{Job: name, Name: "flash"} }
	}
	heldBy := func(name string, more func(*v1alpha1.NodeFirmware)) func(*v1alpha1.NodeFirmware) {
		return func(n *v1alpha1.NodeFirmware) {
			n.Status.HeldBy, n.Status.Requests.Release = name, "for the last one"
			if more != nil {
				more(n)
			}
		}
	}
	for name, c := range map[string]struct {
		jobs   []v1alpha1.FirmwareJob
		pods   []corev1.Pod
		node   func(*v1alpha1.NodeFirmware)
		create string
		remove []string
		next   time.Duration
	}{
		"nothing for a job that is not admitted":       {jobs: []v1alpha1.FirmwareJob{fwjob("a")}},
		"nothing for a job that has ended":             {jobs: []v1alpha1.FirmwareJob{fwjob("a", admitted, ended(v1alpha1.ConditionComplete, time.Hour))}},
		"an admitted job":                              {jobs: []v1alpha1.FirmwareJob{fwjob("b"), fwjob("a", admitted)}, create: "a"},
		"a job that was cancelled, to be journalled":   {jobs: []v1alpha1.FirmwareJob{fwjob("a", cancelled)}, create: "a"},
		"what has begun goes before what was admitted": {jobs: []v1alpha1.FirmwareJob{fwjob("a", admitted), fwjob("b", admitted, started)}, create: "b"},
		"no second pod":                                {jobs: []v1alpha1.FirmwareJob{fwjob("a", admitted)}, pods: []corev1.Pod{pod("a", corev1.PodRunning, time.Hour)}},
		"no pod beside that of another job": {
			jobs: []v1alpha1.FirmwareJob{fwjob("a", admitted)}, pods: []corev1.Pod{pod("gone", corev1.PodRunning, time.Hour)}},
		"no pod beside one that is ending": {
			jobs: []v1alpha1.FirmwareJob{fwjob("a", admitted)}, pods: []corev1.Pod{terminating(pod("a", corev1.PodFailed, time.Hour))}},
		"a pod that ended before its job is made again": {
			jobs: []v1alpha1.FirmwareJob{fwjob("a", admitted, started)}, pods: []corev1.Pod{pod("a", corev1.PodFailed, time.Hour)}, remove: []string{"firmware-job-a"}},
		"but not at once": {
			jobs: []v1alpha1.FirmwareJob{fwjob("a", admitted, started)}, pods: []corev1.Pod{pod("a", corev1.PodSucceeded, 4*time.Second)}, next: 6 * time.Second},
		"a pod that vanished is made again": {jobs: []v1alpha1.FirmwareJob{fwjob("a", admitted, started)}, create: "a"},
		"the pod of a job that ended is kept for its log": {
			jobs: []v1alpha1.FirmwareJob{fwjob("a", ended(v1alpha1.ConditionComplete, time.Hour))}, pods: []corev1.Pod{pod("a", corev1.PodSucceeded, time.Hour)}},
		"until the job is forgotten": {pods: []corev1.Pod{pod("a", corev1.PodSucceeded, time.Hour)}, remove: []string{"firmware-job-a"}},
		"a pod may end by itself when its job has": {
			jobs: []v1alpha1.FirmwareJob{fwjob("a", ended(v1alpha1.ConditionComplete, 20*time.Second))},
			pods: []corev1.Pod{pod("a", corev1.PodRunning, time.Hour)}, next: 40 * time.Second},
		"and is removed when it does not, as where a daemon executed the job": {
			jobs: []v1alpha1.FirmwareJob{fwjob("a", ended(v1alpha1.ConditionComplete, 2*time.Minute))},
			pods: []corev1.Pod{pod("a", corev1.PodRunning, time.Hour)}, remove: []string{"firmware-job-a"}},
		"a held node is left alone":          {jobs: []v1alpha1.FirmwareJob{fwjob("a", held)}},
		"a held node is released by its job": {jobs: []v1alpha1.FirmwareJob{fwjob("a", held)}, node: heldBy("a", releasedNow), create: "a"},
		"a running job goes on without its object": {
			node: inJob("a"), create: "a"},
		"and before another one": {jobs: []v1alpha1.FirmwareJob{fwjob("b", admitted)}, node: inJob("a"), create: "a"},
		"its pod is made again too": {
			node: inJob("a"), pods: []corev1.Pod{orphanPod("a", corev1.PodFailed)}, remove: []string{"firmware-job-a.gpu-1"}},
		"a pod that never started goes with its job": {
			pods: []corev1.Pod{pod("gone", corev1.PodPending, time.Hour)}, remove: []string{"firmware-job-gone"}},
		"and is in the way of none that comes after it": {
			jobs: []v1alpha1.FirmwareJob{fwjob("a", admitted)}, pods: []corev1.Pod{pod("gone", corev1.PodPending, time.Hour)},
			create: "a", remove: []string{"firmware-job-gone"}},
		"a pod that is about to start is left alone": {
			jobs: []v1alpha1.FirmwareJob{fwjob("a", admitted)}, pods: []corev1.Pod{pod("a", corev1.PodPending, time.Hour)}},
		"a node that a deleted job holds is left alone":          {node: heldBy("gone", nil)},
		"a node that a deleted job holds is released by its pod": {node: heldBy("gone", releasedNow), create: "gone"},
		"and before another one begins": {
			jobs: []v1alpha1.FirmwareJob{fwjob("a", admitted)}, node: heldBy("gone", releasedNow), create: "gone"},
		"not by a request from before it failed": {node: heldBy("gone", func(n *v1alpha1.NodeFirmware) {
			n.Spec.Requests.Release = "for the last one"
		})},
		"not while another job runs": {
			jobs: []v1alpha1.FirmwareJob{fwjob("b", admitted, started)}, node: heldBy("gone", releasedNow), create: "b"},
		"a job that holds the node is not taken for a deleted one": {
			jobs: []v1alpha1.FirmwareJob{fwjob("a", held)}, node: heldBy("gone", releasedNow)},
		"a name that a forgotten job still has is waited for": {
			jobs: []v1alpha1.FirmwareJob{fwjob("a", admitted)}, pods: []corev1.Pod{forgotten(pod("a", corev1.PodSucceeded, time.Hour))}, remove: []string{"firmware-job-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts{node: node, firmware: nodeFirmware(), jobs: c.jobs, pods: c.pods, handlers: Handlers{{Image: image}}, now: clock, seen: seenBefore(c.jobs, c.pods)}
			if c.node != nil {
				c.node(f.firmware)
			}
			d := decide(f)
			var create string
			if d.create != nil {
				create = d.create.name
			}
			var remove []string
			for _, p := range d.remove {
				remove = append(remove, p.Name)
			}
			assert.Equal(t, c.create, create)
			assert.Equal(t, c.remove, remove)
			assert.Equal(t, c.next, d.next)
			assert.Empty(t, d.unhandled)
		})
	}
}

func TestAPodWhoseImageWasReplacedBeforeItStartedIsMadeAgain(t *testing.T) {
	f := facts{node: node, firmware: nodeFirmware(), jobs: []v1alpha1.FirmwareJob{fwjob("a", admitted)}, handlers: Handlers{{Image: "registry.example/lenovo:2"}}, now: clock}
	f.pods = []corev1.Pod{pod("a", corev1.PodPending, time.Hour)}
	assert.Len(t, decide(f).remove, 1)
	f.pods = []corev1.Pod{pod("a", corev1.PodRunning, time.Hour)}
	assert.Empty(t, decide(f).remove, "what runs is left alone")
}

// TestAMachineWithoutAHandler proves R000-60.
func TestAMachineWithoutAHandler(t *testing.T) {
	f := facts{node: node, firmware: nodeFirmware(), handlers: Handlers{{Vendor: "Dell", Image: image}}, now: clock,
		jobs: []v1alpha1.FirmwareJob{fwjob("queued"), fwjob("admitted", admitted), fwjob("ended", ended(v1alpha1.ConditionFailed, time.Hour))}}
	d := decide(f)
	assert.Nil(t, d.create)
	assert.Nil(t, d.stranded)
	var refused []string
	for _, j := range d.unhandled {
		refused = append(refused, j.Name)
	}
	assert.Equal(t, []string{"queued", "admitted"}, refused)

	f.jobs = []v1alpha1.FirmwareJob{fwjob("begun", admitted, started)}
	d = decide(f)
	assert.Empty(t, d.unhandled, "only its own process knows what it did to the machine")
	assert.Equal(t, "begun", d.stranded.Name)

	f.firmware.Status = v1alpha1.NodeFirmwareStatus{}
	f.jobs = []v1alpha1.FirmwareJob{fwjob("queued"), fwjob("admitted", admitted)}
	assert.Equal(t, decision{}, decide(f), "before the first scan it is not known what the machine is")
}
