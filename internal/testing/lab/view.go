package lab

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// picture is the fleet at one moment.
type picture struct {
	rows          []row
	inMaintenance int
	// running counts the jobs that have begun and not ended.
	running int
	// templatesReady says so of the template of firmware and of that of settings.
	templatesReady bool
	waves          []v1alpha1.RolloutStatus
	failure        string
}

// row is one node of the picture.
type row struct {
	node, state, step string
	// current of the wanted devices run their target, and inForce of the settled ones have their settings.
	current, wanted, inForce, settled int
}

// undone is what is left until every device runs what it should and every node is back in service.
func (p *picture) undone() []string {
	out := append(p.offTarget(), p.unfinished()...)
	if len(out) == 0 && !p.templatesReady {
		out = append(out, "the templates to be Ready")
	}
	return out
}

func newRow(n corev1.Node, jobs []v1alpha1.FirmwareJob, devices []v1alpha1.NodeDevice) row {
	r := row{node: n.Name, state: "NotReady", step: "-"}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			r.state = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		r.state += ",SchedulingDisabled"
	}
	for _, d := range devices {
		if d.Spec.NodeName == n.Name && d.Spec.Firmware != nil {
			r.wanted++
			if d.Status.Firmware != nil && d.Status.Firmware.Running == d.Spec.Firmware.Version {
				r.current++
			}
		}
		if c, is := d.Spec.Configuration, d.Status.Configuration; d.Spec.NodeName == n.Name && c != nil {
			r.settled++
			if is != nil && is.Digest == c.Digest() && is.State == v1alpha1.ConfigurationUpToDate {
				r.inForce++
			}
		}
	}
	if j := newest(n.Name, jobs); j != nil {
		r.step = jobStep(j)
	}
	return r
}

// newest is the last created job of the node.
func newest(node string, jobs []v1alpha1.FirmwareJob) *v1alpha1.FirmwareJob {
	var out *v1alpha1.FirmwareJob
	for i := range jobs {
		j := &jobs[i]
		if j.Spec.NodeName == node && (out == nil || !j.CreationTimestamp.Before(&out.CreationTimestamp)) {
			out = j
		}
	}
	return out
}

// jobStep describes the state of a job in a few words.
func jobStep(j *v1alpha1.FirmwareJob) (step string) {
	next := ""
	for _, s := range j.Status.Steps {
		if s.State == v1alpha1.StepPending && next == "" {
			next = s.Name // between two steps, show the next one
		}
		if s.State == v1alpha1.StepRunning {
			step = s.Name
			if s.Part == v1alpha1.PartRollback {
				step = "rollback: " + step
			}
			if s.Device != "" {
				step += " " + strings.TrimPrefix(s.Device, j.Spec.NodeName+"-")
			}
			if s.ProgressPercent != nil {
				step += fmt.Sprintf(" %d%%", *s.ProgressPercent)
			}
		}
	}
	admitted := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted)
	switch {
	case meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionComplete):
		step = "complete"
	case meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionRolledBack):
		step = "rolled back"
	case j.Failed():
		step = "failed"
	case step != "":
	case next != "":
		step = next
	case admitted == nil:
		step = "queued"
	case admitted.Status == "True":
		step = "admitted"
	default:
		step = "waits: " + admitted.Reason
	}
	return step
}

// view shows pictures: on a Screen as they are now, elsewhere what changes in them, in lines.
type view struct {
	out   io.Writer
	began time.Time
	last  map[string]string
}

func newView(out io.Writer, began time.Time) *view {
	return &view{out: out, began: began, last: map[string]string{}}
}

func (v *view) show(p *picture) {
	elapsed := time.Since(v.began).Truncate(time.Second)
	if screen, is := v.out.(*Screen); is {
		screen.draw(p.lines(elapsed))
		return
	}
	line := func(of, changes, text string) {
		if v.last[of] != changes {
			v.last[of] = changes
			fmt.Fprintf(v.out, "%6s  %s\n", elapsed, text)
		}
	}
	for _, r := range p.rows {
		text := fmt.Sprintf("%-8s %-25s %-34s firmware %d/%d  settings %d/%d", r.node, r.state, r.step, r.current, r.wanted, r.inForce, r.settled)
		line(r.node, text, text)
	}
	for _, w := range p.waves { // how many nodes of a wave are done is seen in their lines
		halted := ""
		if w.HaltedTime != nil {
			halted = w.Message
		}
		line(w.Model+" "+w.Version, w.Wave+halted, waveLine(w))
	}
}

// lines are the picture of a moment: one of the whole fleet, one of each node, one of each update under way.
func (p *picture) lines(elapsed time.Duration) []string {
	const width = 20
	all := row{}
	inService := 0
	for _, r := range p.rows {
		all.current, all.wanted, all.inForce, all.settled = all.current+r.current, all.wanted+r.wanted, all.inForce+r.inForce, all.settled+r.settled
		if r.state == "Ready" {
			inService++
		}
	}
	out := []string{"", fmt.Sprintf("%-8s %s  firmware %d/%d  settings %d/%d  %d of %d nodes in service", elapsed,
		bar(all.current+all.inForce, all.wanted+all.settled, width), all.current, all.wanted, all.inForce, all.settled, inService, len(p.rows))}
	for _, r := range p.rows {
		out = append(out, fmt.Sprintf("%-8s %s  %-34s %s", r.node, bar(r.current+r.inForce, r.wanted+r.settled, width), r.step, r.state))
	}
	for _, w := range p.waves {
		if w.Wave != "" {
			out = append(out, waveLine(w))
		}
	}
	return out
}

// compareNatural orders node-2 before node-10.
func compareNatural(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }
