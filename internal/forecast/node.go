package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/due"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// maxJobs bounds the jobs that are foretold for one node: each brings a device one version further, and no path has as many.
const maxJobs = 200

// machine is a node whose jobs are played one after the other.
type machine struct {
	*play
	facts due.Facts
	// first is the place of its first device in the forecast.
	first int
	node  *Node
	// guessed are the devices whose settings no daemon has compared yet.
	guessed map[string]bool
}

// node foretells the jobs of a node.
func (p *play) node(n *schedule.Node) {
	objects := p.devices[n.Name]
	slices.SortFunc(objects, func(a, b *v1alpha1.NodeDevice) int { return strings.Compare(a.Name, b.Name) })
	m := &machine{play: p, node: &Node{Name: n.Name}, first: len(p.out.Devices), guessed: map[string]bool{}}
	devices := make([]v1alpha1.NodeDevice, len(objects))
	for i, o := range objects {
		devices[i] = *o
		p.out.Devices = append(p.out.Devices, describe(o))
	}
	p.out.Nodes = append(p.out.Nodes, m.node)
	m.facts = p.dueOf(n, devices)
	work := m.facts.HeldBy != ""
	for i := range m.facts.Jobs {
		work = work || !m.facts.Jobs[i].Ended() || m.facts.Jobs[i].Held()
	}
	for i := range devices {
		m.assign(i)
		work = work || m.mayWork(i)
	}
	for i := 0; work && i < maxJobs; i++ {
		job := m.next()
		if job == nil {
			break
		}
		m.play1(job)
	}
	for i := range devices {
		m.stays(i)
	}
}

// assign writes into the spec of a device what the operator does, and what follows from new settings until its daemon has compared them.
func (m *machine) assign(i int) {
	d, out := &m.facts.Devices[i], m.out.Devices[m.first+i]
	decision, known := m.ix.Decision(d.Name)
	if !known {
		return
	}
	d.Spec.Firmware, d.Spec.Configuration, d.Spec.Origin = decision.Firmware.Desired(), decision.Configuration.Desired(), decision.Origin()
	d.Status.Conditions = status.Assignment(decision, slices.Clone(d.Status.Conditions), d.Generation, m.Now)
	d.Status.ObservedGeneration = d.Generation
	if len(out.Jobs) == 0 {
		out.Assigned = decision.Action == match.Keep
		out.By = byOf(d)
	}
	c := d.Spec.Configuration
	if c == nil || d.Status.Configuration != nil && d.Status.Configuration.Digest == c.Digest() {
		return
	}
	observed := &v1alpha1.ObservedConfiguration{Digest: c.Digest(), State: v1alpha1.ConfigurationUpToDate}
	if c.Unlisted == v1alpha1.UnlistedReset || len(changing(d)) > 0 {
		observed.State, m.guessed[d.Name] = v1alpha1.ConfigurationOutOfDate, true
	}
	d.Status.Configuration = observed
}

// changing are the settings that are not known to be in force.
func changing(d *v1alpha1.NodeDevice) (out []Setting) {
	if d.Spec.Configuration == nil {
		return nil
	}
	for _, s := range desired.Configuration(*d.Spec.Configuration).Set {
		is := inventory.Parameter{Name: s.Name}
		for _, p := range d.Status.Parameters {
			if p.Name == s.Name {
				is.Current, is.Next = reading(p.Current), reading(p.Next)
			}
		}
		standing, had := is.Standing(s.Value)
		if standing == inventory.InForce {
			continue
		}
		one := Setting{Name: s.Name, To: s.Value}
		if had.Known {
			one.From = had.Value
		}
		out = append(out, one)
	}
	return out
}

func reading(value *string) inventory.Reading {
	if value == nil {
		return inventory.Reading{}
	}
	return inventory.Read(*value)
}

// mayWork reports whether anything may have to be written to the device, so that who plans jobs has to be asked.
func (m *machine) mayWork(i int) bool {
	d := &m.facts.Devices[i]
	standing := desired.StandingOf(d.Spec.Configuration, d.Spec.Configuration.Digest(), d.Status.Configuration, m.facts.Retry)
	return standing == desired.SettingsDue || plan.Decide(desired.Of(d.Spec.Firmware, m.facts.Retry), match.Facts(d)).Outcome.Due()
}

// next is the job that the node runs next: one that is there, or the one that is made next; nil for none.
func (m *machine) next() *v1alpha1.FirmwareJob {
	for _, begun := range []bool{true, false} {
		for i := range m.facts.Jobs {
			j := &m.facts.Jobs[i]
			if j.Ended() || j.Spec.Task.Type == v1alpha1.JobTypeBackup || j.Admitted() != begun || !begun && (due.IsPlanned(j) || j.Spec.Cancel != nil) {
				continue
			}
			return j
		}
	}
	decided := due.Decide(m.facts)
	for _, over := range decided.Superseded {
		m.facts.Jobs = slices.DeleteFunc(m.facts.Jobs, func(j v1alpha1.FirmwareJob) bool { return j.UID == over.UID })
	}
	if len(decided.Superseded) > 0 {
		decided = due.Decide(m.facts)
	}
	for i := range m.facts.Jobs {
		if j := &m.facts.Jobs[i]; !j.Ended() && due.IsPlanned(j) && j.Spec.Cancel == nil && j.Spec.Task.Type == v1alpha1.JobTypeUpdate {
			return j
		}
	}
	if decided.Job == nil {
		return nil
	}
	decided.Job.UID = types.UID(fmt.Sprintf("foretold %s %d", m.node.Name, len(m.node.Jobs)))
	m.facts.Jobs = append(m.facts.Jobs, *decided.Job)
	return &m.facts.Jobs[len(m.facts.Jobs)-1]
}

// play1 notes what a job does, and that it succeeds.
func (m *machine) play1(j *v1alpha1.FirmwareJob) {
	out := &Job{Node: m.node.Name, Running: j.Admitted(), Took: m.took.Median(&j.Spec), task: j.DeepCopy(), made: j.CreationTimestamp.Time}
	if j.ResourceVersion != "" || j.CreationTimestamp.Unix() > 0 {
		out.Name = j.Name
	}
	place := len(m.node.Jobs)
	m.node.Jobs = append(m.node.Jobs, out)
	needs, unknown := inventory.ActivateNone, m.stepsMayReboot(j)
	for _, u := range j.Spec.Task.Devices {
		at := slices.IndexFunc(m.facts.Devices, func(d v1alpha1.NodeDevice) bool { return d.Name == u.Name })
		if at < 0 {
			continue
		}
		d, device := &m.facts.Devices[at], m.out.Devices[m.first+at]
		need, guess := m.needs(d, &u)
		unknown = unknown || guess
		needs = max(needs, need)
		device.note(place, need, guess)
		out.Devices = append(out.Devices, m.first+at)
		m.succeed(d, device, &u)
	}
	out.Activation, out.Impact = needs.String(), Drained
	switch {
	case needs >= inventory.ActivateReboot:
		out.Impact = Reboots
	case unknown:
		out.Activation, out.Impact = Unknown, MayReboot
	}
	m.end(j)
	for i := range m.facts.Devices {
		m.assign(i)
	}
}

// stepsMayReboot reports whether a job that updates nothing may reboot its node: all but those that only look may.
func (m *machine) stepsMayReboot(j *v1alpha1.FirmwareJob) bool {
	if j.Spec.Task.Type == v1alpha1.JobTypeRestore {
		return true
	}
	return slices.ContainsFunc(j.Spec.Task.Steps, func(s v1alpha1.RequestedStep) bool {
		return !slices.ContainsFunc(plan.Definitions(), func(d plan.Definition) bool { return string(d.Kind) == s.Name && !d.Changes })
	})
}

// needs is what it takes until the device is as the job wants it. Guess says that it is not known, and may be a reboot.
func (m *machine) needs(d *v1alpha1.NodeDevice, u *v1alpha1.TaskDevice) (needs inventory.Activation, guess bool) {
	if f := d.Status.Firmware; u.Version != "" && (f == nil || inventory.NormalizeVersion(f.Running) != inventory.NormalizeVersion(u.Version)) {
		if f == nil || f.Activation == "" {
			return needs, true
		}
		needs = match.Facts(d).Activation
	}
	if c := d.Status.Configuration; u.Configuration != "" && (c == nil || c.State != v1alpha1.ConfigurationUpToDate) {
		if c == nil || c.Activation == "" || m.guessed[d.Name] || c.Digest != u.Configuration {
			return needs, true
		}
		needs = max(needs, match.Activation(c.Activation))
	}
	return needs, false
}

// note adds to a device that a job works on it.
func (d *Device) note(job int, needs inventory.Activation, guess bool) {
	d.Jobs = append(d.Jobs, job)
	has := match.Activation(v1alpha1.ActivationKind(d.Activation))
	switch {
	case guess && max(has, needs) < inventory.ActivateReboot:
		d.Activation = Unknown
	case d.Activation != Unknown || needs >= inventory.ActivateReboot:
		d.Activation = max(has, needs).String()
	}
}

// succeed makes the device as the update wants it.
func (m *machine) succeed(d *v1alpha1.NodeDevice, out *Device, u *v1alpha1.TaskDevice) {
	if u.Version != "" {
		if string(inventory.NormalizeVersion(u.Version)) != out.Path[len(out.Path)-1] {
			out.Path = append(out.Path, string(inventory.NormalizeVersion(u.Version)))
		}
		runs := v1alpha1.ObservedFirmware{}
		if d.Status.Firmware != nil {
			runs = *d.Status.Firmware
		}
		runs.Running, runs.Stored = u.Version, u.Version
		d.Status.Firmware, d.Status.Failure = &runs, nil
	}
	if u.Configuration != "" {
		if d.Status.Configuration == nil || d.Status.Configuration.State != v1alpha1.ConfigurationUpToDate {
			out.Settings = append(out.Settings, changing(d)...)
		}
		d.Status.Configuration = &v1alpha1.ObservedConfiguration{Digest: u.Configuration, State: v1alpha1.ConfigurationUpToDate}
		delete(m.guessed, d.Name)
	}
	seen := *d // the index keeps what it is given
	m.ix.SetDevice(&seen)
}

// end makes the job one that has succeeded, and that has taken over the node from the failed job which held it.
func (m *machine) end(j *v1alpha1.FirmwareJob) {
	ended := metav1.Condition{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded}
	j.Status.Conditions = append(slices.Clone(j.Status.Conditions), ended)
	for i := range m.facts.Jobs {
		if o := &m.facts.Jobs[i]; o.Held() {
			o.Status.Conditions = slices.Clone(o.Status.Conditions)
			meta.RemoveStatusCondition(&o.Status.Conditions, v1alpha1.ConditionHeld)
		}
	}
	m.facts.HeldBy = ""
}

// stays says why a device without a job stays as it is.
func (m *machine) stays(i int) {
	d, out := &m.facts.Devices[i], m.out.Devices[m.first+i]
	decision, known := m.ix.Decision(d.Name)
	if out.Changes() {
		return
	}
	say := func(reason, format string, args ...any) {
		out.Reason, out.Message = reason, fmt.Sprintf(format, args...)
	}
	verdict := plan.Decide(desired.Of(d.Spec.Firmware, m.facts.Retry), match.Facts(d))
	standing := desired.StandingOf(d.Spec.Configuration, d.Spec.Configuration.Digest(), d.Status.Configuration, m.facts.Retry)
	condition := func(kind string) *metav1.Condition { return meta.FindStatusCondition(d.Status.Conditions, kind) }
	switch {
	case !known:
		say(v1alpha1.ReasonPending, "Its daemon has not said yet what it is.")
	case isTrue(d, v1alpha1.ConditionConflict):
		say(v1alpha1.ReasonConflict, "%s", condition(v1alpha1.ConditionConflict).Message)
	case isTrue(d, v1alpha1.ConditionBlocked):
		say(condition(v1alpha1.ConditionBlocked).Reason, "%s", condition(v1alpha1.ConditionBlocked).Message)
	case decision.Firmware == nil && decision.Configuration == nil:
		say(v1alpha1.ReasonNotAssigned, "No active template and no pin matches.")
	case match.Unread(d) && (verdict.Outcome.Due() || standing == desired.SettingsDue):
		say(v1alpha1.ReasonReadFailed, "It cannot be read, and nothing is written to it until it can.")
	case verdict.Outcome.Due() || standing == desired.SettingsDue:
		m.staysThoughDue(say)
	case verdict.Outcome == plan.Blocked:
		say(string(verdict.Reason), "%s", verdict.Message)
	case standing == desired.SettingsInvalid:
		say(v1alpha1.ReasonParameterInvalid, "It does not take the settings.")
	case standing == desired.SettingsFailed:
		say(v1alpha1.ReasonUpdateFailed, "The settings failed, and wait for a retry.")
	case verdict.Outcome == plan.Differs || standing == desired.SettingsDiffer:
		say(v1alpha1.ReasonOutOfDate, "It differs, and the policy is Validate.")
	default:
		say(v1alpha1.ReasonUpToDate, "It is as desired.")
	}
}

// staysThoughDue says why an update that is due gets no job.
func (m *machine) staysThoughDue(say func(reason, format string, args ...any)) {
	held := slices.IndexFunc(m.facts.Jobs, func(j v1alpha1.FirmwareJob) bool { return j.Held() })
	switch {
	case m.facts.Settings.Aborted:
		say(v1alpha1.ReasonAborted, "The rollout policy of node %s is aborted.", m.node.Name)
	case held >= 0 || m.facts.HeldBy != "":
		say(v1alpha1.ConditionHeld, "A failed job holds node %s: kubectl firmware why %[1]s", m.node.Name)
	default:
		say(v1alpha1.ReasonUpdateFailed, "It failed before, or is quarantined: kubectl firmware why %s", m.node.Name)
	}
}

func describe(d *v1alpha1.NodeDevice) *Device {
	return &Device{
		Name: d.Name, Node: d.Spec.NodeName, Class: d.Status.Class, Model: cmp.Or(d.Status.Model, d.Status.ModelKey()),
		Path: []string{string(inventory.NormalizeVersion(d.Status.Running()))},
	}
}

// byOf names what wants the device to change.
func byOf(d *v1alpha1.NodeDevice) string {
	var out []string
	for _, o := range []*v1alpha1.Origin{v1alpha1.AssignedBy(d.Spec.Origin), v1alpha1.ConfiguredBy(d.Spec.Origin)} {
		if o == nil {
			continue
		}
		kind := map[v1alpha1.OriginKind]string{v1alpha1.OriginTemplate: "template", v1alpha1.OriginConfiguration: "settings", v1alpha1.OriginPin: "pin"}[o.Kind]
		out = append(out, kind+"/"+o.Name+"/"+o.Rule)
	}
	return strings.Join(out, ", ")
}
