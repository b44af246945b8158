package rollout

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

const (
	// minSamples is how many jobs must have succeeded before their durations count, and maxSamples how many of the last ones do.
	minSamples = 3
	maxSamples = 100
	// longest bounds what is expected, as the API does.
	longest = 24 * time.Hour
)

// Durations is how long jobs took, by what they did. It is learned from the finished jobs that the planner keeps, ten of each
// type for each node, so a new process learns it anew from the API and nothing has to be stored.
type Durations struct {
	// known are the jobs that were looked at, with what they did.
	known map[string]string
	// kinds are the durations of the last jobs that did the same.
	kinds map[string]*took
}

type took struct {
	samples  []sample // the last one first
	expected time.Duration
}

type sample struct {
	ended time.Time
	took  time.Duration
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
			d.add(d.known[uid], sample{s.CompletionTime.Time, s.CompletionTime.Sub(s.StartTime.Time)})
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
	at, _ := slices.BinarySearchFunc(t.samples, s, func(a, b sample) int { return b.ended.Compare(a.ended) })
	t.samples = slices.Insert(t.samples, at, s)
	t.samples = t.samples[:min(len(t.samples), maxSamples)]
	t.expected = 0
}

// Expect is how long a job is expected to take: as long as or longer than 95 of 100 of the last ones that did the same. It is 0
// when too little is known.
func (d *Durations) Expect(spec *v1alpha1.FirmwareJobSpec) time.Duration {
	t := d.kinds[kindOf(spec)]
	if t == nil || len(t.samples) < minSamples {
		return 0
	}
	if t.expected == 0 {
		all := make([]time.Duration, len(t.samples))
		for i, s := range t.samples {
			all[i] = s.took
		}
		slices.Sort(all)
		t.expected = min(max(all[int(math.Ceil(0.95*float64(len(all))))-1], time.Second), longest)
	}
	return t.expected
}

// kindOf is the same for jobs that do the same: updates of as many devices of the same models, or the same steps.
func kindOf(spec *v1alpha1.FirmwareJobSpec) string {
	out := make([]string, 0, len(spec.Updates)+len(spec.Steps))
	for i := range spec.Updates {
		out = append(out, spec.Updates[i].Model)
	}
	slices.Sort(out) // the steps of an update have an order of their own
	for i := range spec.Steps {
		out = append(out, spec.Steps[i].Name)
	}
	return string(spec.Type) + "\n" + strings.Join(out, "\n")
}
