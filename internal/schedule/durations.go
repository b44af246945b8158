package schedule

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

const (
	// minSamples is how many jobs must have succeeded, beside those of the slowest node, before their durations count, and maxSamples
	// how many of the last ones do.
	minSamples = 3
	maxSamples = 100
	// longest bounds what is expected, as the API does.
	longest = 24 * time.Hour
)

// Durations is how long jobs took, by what they did. It is learned from the finished jobs that the planner keeps, ten of each
// type for each node, so a new process learns it anew from the API and nothing has to be stored.
//
// A node states by its own clock how long its job took, and that clock may jump in a BIOS update. Two things follow: jobs are ordered
// by their creation, which the API server states, and the jobs of the node that states the longest do not count, so that no node
// alone keeps the others out of the windows.
type Durations struct {
	// known are the jobs that were looked at, with what they did.
	known map[string]string
	// kinds are the durations of the last jobs that did the same.
	kinds map[string]*took
}

type took struct {
	samples []sample // the last one first
	// expected is what follows from them, 0 where they are too few; known says that it was computed.
	expected time.Duration
	known    bool
}

type sample struct {
	created   time.Time
	uid, node string
	took      time.Duration
}

// newer orders samples, the last one first. Jobs that were created in one second have an order too.
func (s sample) newer(o sample) int {
	return cmp.Or(o.created.Compare(s.created), strings.Compare(s.uid, o.uid))
}

// Learn adds the jobs that have ended since, and forgets what no job that is left did.
func (d *Durations) Learn(jobs map[string]*v1alpha1.FirmwareJob) {
	if d.known == nil {
		d.known, d.kinds = map[string]string{}, map[string]*took{}
	}
	finished := 0
	for uid, j := range jobs {
		s := &j.Status
		if s.StartTime == nil || s.CompletionTime == nil || !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionComplete) {
			continue
		}
		finished++
		if _, is := d.known[uid]; !is {
			d.known[uid] = kindOf(&j.Spec)
			d.add(d.known[uid], sample{j.CreationTimestamp.Time, uid, j.Spec.NodeName, s.CompletionTime.Sub(s.StartTime.Time)})
		}
	}
	if finished == len(d.known) {
		return
	}
	maps.DeleteFunc(d.known, func(uid, _ string) bool { return jobs[uid] == nil })
	left := map[string]bool{}
	for _, kind := range d.known {
		left[kind] = true
	}
	maps.DeleteFunc(d.kinds, func(kind string, _ *took) bool { return !left[kind] })
}

func (d *Durations) add(kind string, s sample) {
	t := d.kinds[kind]
	if t == nil {
		t = &took{}
		d.kinds[kind] = t
	}
	at, _ := slices.BinarySearchFunc(t.samples, s, sample.newer)
	t.samples = slices.Insert(t.samples, at, s)
	t.samples = t.samples[:min(len(t.samples), maxSamples)]
	t.known = false
}

// Expect is how long a job is expected to take: as long as or longer than 95 of 100 of the last ones that did the same, without
// those of the node that states the longest. It is 0 when too little is known.
func (d *Durations) Expect(spec *v1alpha1.FirmwareJobSpec) time.Duration {
	t := d.kinds[kindOf(spec)]
	if t == nil {
		return 0
	}
	if !t.known {
		t.expected, t.known = t.expect(), true
	}
	return t.expected
}

// Median is how long jobs that did the same took in the middle. Where there is none, it is that of the
// model of its devices which takes longest, by jobs that updated nothing else. It is 0 where a model is not known.
func (d *Durations) Median(spec *v1alpha1.FirmwareJobSpec) time.Duration {
	if out := d.kinds[kindOf(spec)].median(); out > 0 || len(spec.Task.Devices) < 2 {
		return out
	}
	longest := time.Duration(0)
	for i := range spec.Task.Devices {
		alone := v1alpha1.FirmwareJobSpec{Task: v1alpha1.JobTask{Type: spec.Task.Type, Devices: spec.Task.Devices[i : i+1]}}
		took := d.kinds[kindOf(&alone)].median()
		if took == 0 {
			return 0
		}
		longest = max(longest, took)
	}
	return longest
}

func (t *took) median() time.Duration {
	if t == nil {
		return 0
	}
	all := make([]time.Duration, len(t.samples))
	for i, s := range t.samples {
		all[i] = max(s.took, time.Second)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func (t *took) expect() time.Duration {
	slowest := slices.MaxFunc(t.samples, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.took, b.took), strings.Compare(a.node, b.node))
	})
	all := make([]time.Duration, 0, len(t.samples))
	for _, s := range t.samples {
		if s.node != slowest.node {
			all = append(all, s.took)
		}
	}
	if len(all) < minSamples {
		return 0
	}
	slices.Sort(all)
	return min(max(all[int(math.Ceil(0.95*float64(len(all))))-1], time.Second), longest)
}

// kindOf is the same for jobs that do the same: updates of as many devices of the same models, or the same steps.
func kindOf(spec *v1alpha1.FirmwareJobSpec) string {
	task := &spec.Task
	out := make([]string, 0, len(task.Devices)+len(task.Steps))
	for i := range task.Devices {
		out = append(out, task.Devices[i].Model)
	}
	slices.Sort(out) // the steps of an update have an order of their own
	for i := range task.Steps {
		out = append(out, task.Steps[i].Name)
	}
	return string(task.Type) + "\n" + strings.Join(out, "\n")
}
