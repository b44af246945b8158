package chaos

import (
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// boots is what the judge knows of the speed of the host's boots.
type boots struct {
	// before is the boot that a job compares with, by UID, and last that of the job that was saved last.
	before map[string]step.BootTime
	last   step.BootTime
	// slow is the boot for whose speed a job reboots, and repeated those under which it asked for that.
	slow     map[string]string
	repeated map[string][]string
	// asked is the boot under which the last reboot was asked for, now the running one, wanted says that it was asked for, and kexec that
	// it reset nothing.
	asked, now    string
	wanted, kexec bool
}

func newBoots() boots {
	return boots{before: map[string]step.BootTime{}, slow: map[string]string{}, repeated: map[string][]string{}}
}

func (b *boots) booted(e Event) {
	b.wanted, b.kexec = b.asked != "" && b.asked == b.now, e.Detail == byKexec
	b.now = e.Boot
}

// compares notes with which boot a job compares: that of its baseline, or of the job that held the node.
func (b *boots) compares(e Event, known bool) {
	uid := e.Job.UID
	if b.now = e.Boot; e.Job.Baseline == nil {
		return
	}
	if _, has := b.before[uid]; !has {
		if b.before[uid] = e.Took; !known && b.last != (step.BootTime{}) {
			b.before[uid] = b.last
		}
	}
	b.last = b.before[uid]
}

// slow reports whether a boot took more than twice as long as another one and half a minute longer, by the clocks that both have.
func slow(boot, before step.BootTime) bool {
	took, was := boot.System, before.System
	if boot.By == before.By {
		took, was = took+boot.Firmware, was+before.Firmware
	}
	return took > 2*was && took >= was+30*time.Second
}

// again judges a reboot that is only to see whether the host boots slowly again. A boot that reset nothing says nothing.
func (j *judge) again(e Event) {
	uid := e.Job.UID
	j.boots.asked = e.Boot
	if !e.Job.Record.SlowBoot || e.Job.Record.Failure != nil || j.boots.kexec || slices.Contains(j.boots.repeated[uid], e.Boot) {
		return
	}
	if j.boots.repeated[uid] = append(j.boots.repeated[uid], e.Boot); len(j.boots.repeated[uid]) > 1 {
		j.violate("Slow", "a boot is repeated for its speed under %v", j.boots.repeated[uid])
	}
}

// slow judges what a job says of the speed of boots.
func (j *judge) slow(e Event, was step.Record) {
	uid, r := e.Job.UID, e.Job.Record
	is := slow(e.Took, j.boots.before[uid])
	if r.SlowBoot && !was.SlowBoot {
		if j.boots.slow[uid] = e.Boot; !is {
			j.violate("Slow", "the host reboots because %+v is slow", e.Took)
		}
	}
	if r.Verdict == nil || same(was.Verdict, r.Verdict) || !r.Verdict.Healthy || r.Failure != nil || e.Detail != "" {
		return
	}
	first := j.boots.slow[uid]
	again := first != "" && first != e.Boot
	told := slices.ContainsFunc(r.Verdict.Complaints, func(c step.Complaint) bool { return c.Subject.Kind == step.BootSubject })
	leftOut := slices.ContainsFunc(r.Steps, func(s step.Step) bool {
		return s.Kind == plan.Reboot && s.State == step.Skipped && strings.Contains(s.Message, "slowly again is not known")
	})
	switch {
	case told && (!is || !again):
		j.violate("Slow", "a boot is told to be slow: %+v", e.Took)
	case is && again && j.boots.wanted && !j.boots.kexec && !told:
		j.violate("Slow", "nobody is told of a second slow boot: %+v", e.Took)
	case is && first == e.Boot && !leftOut:
		j.violate("Slow", "the host was not booted again after a slow boot, and nobody is told: %+v", e.Took)
	}
}
