package view

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Objects are what the picture is made from, each kind but the devices in order of name.
type Objects struct {
	Nodes       []*corev1.Node
	Firmware    []*v1alpha1.NodeFirmware
	Devices     []*v1alpha1.NodeDevice
	Jobs        []*v1alpha1.FirmwareJob
	Policies    []*v1alpha1.RolloutPolicy
	Templates   []*v1alpha1.FirmwareTemplate
	Settings    []*v1alpha1.ConfigurationTemplate
	Sources     []*v1alpha1.FirmwareSource
	Catalogs    []*v1alpha1.FirmwareCatalog
	Quarantines []*v1alpha1.FirmwareQuarantine
}

func (o *Objects) sort() {
	byName(o.Nodes)
	byName(o.Firmware)
	byName(o.Jobs)
	byName(o.Policies)
	byName(o.Templates)
	byName(o.Settings)
	byName(o.Sources)
	byName(o.Catalogs)
	byName(o.Quarantines)
}

func byName[O client.Object](all []O) {
	slices.SortFunc(all, func(a, b O) int { return strings.Compare(a.GetName(), b.GetName()) })
}

// State is how a node is, by what it and its job say.
type State string

// The states, from what needs somebody the most.
const (
	// Held: a failed job keeps the node out of service.
	Held State = "held"
	// Stuck: it says that a person is needed.
	Stuck State = "stuck"
	// Silent: its daemon does not report.
	Silent State = "silent"
	// Updating: a job is at work on it.
	Updating State = "updating"
	// Waiting: a job waits to be admitted.
	Waiting State = "waiting"
	// Pending: something is to be done, and no job is there yet.
	Pending State = "pending"
	// Done: it has all that it is to have.
	Done State = "done"
	// Unknown: nothing has reported on it.
	Unknown State = "unknown"
)

// Picture is what the pages show of the fleet.
type Picture struct {
	// Rows are the nodes by name.
	Rows map[string]*Row
	Summary
	Pools    []Pool
	Versions []Model
	Needs    []Need
	// standings say how the devices of a node stand.
	standings *explain.Standings
}

// Summary is the fleet in numbers.
type Summary struct {
	// Cluster is how a person calls it.
	Cluster string `json:"cluster"`
	Devices int    `json:"devices"`
	// Labels are those by which nodes can be grouped. Rack is the one that budgets use, or else that of the zone; empty where no node has it.
	Labels []string `json:"labels"`
	Rack   string   `json:"rack"`
}

// Row is a node in the grid.
type Row struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Says is what it says, or its job, without commands; empty where it is done.
	Says  string `json:"says,omitempty"`
	Pool  string `json:"pool,omitempty"`
	Model string `json:"model,omitempty"`
	Job   string `json:"job,omitempty"`
	// Steps that are over, of all of those of the job at work.
	Over  int `json:"over,omitempty"`
	Steps int `json:"steps,omitempty"`
	// Version changes with every object of the node, but for the Node itself, of which the page of a node shows nothing.
	Version string `json:"version"`

	labels map[string]string
	at     uint64
}

// Model is what the devices of a model run.
type Model struct {
	Class v1alpha1.DeviceClass `json:"class"`
	Model string               `json:"model"`
	// Newest are the newest versions that are offered, in order: the catalogs of two machine models may offer different ones.
	Newest []string `json:"newest,omitempty"`
	// Running are the versions, the most frequent ones first.
	Running []Running `json:"running"`
}

// Running is how many devices of a model run a version, and how that stands in the catalog of their machines.
type Running struct {
	Version  string                   `json:"version"`
	Devices  int                      `json:"devices"`
	Position v1alpha1.CatalogPosition `json:"position"`
	Issues   []string                 `json:"issues,omitempty"`
	FixedIn  string                   `json:"fixedIn,omitempty"`
	// Nodes counts those that have such devices.
	Nodes int `json:"nodes"`

	names []string
}

// Need is what does not go on until a person acts.
type Need struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
	Says   string `json:"says"`
	// Since is when it began to say so.
	Since metav1.Time `json:"since"`
	// Next are the commands, by purpose.
	Next []Command `json:"next"`
	// Same are others of which the same is said, commands and all, each with its own name.
	Same []string `json:"same,omitempty"`
	// Others are, with the first of a kind with a reason, those for which there is no room: each says something of its own.
	Others []string `json:"others,omitempty"`
}

// Command is what a person types, and what for.
type Command struct {
	Purpose string `json:"purpose"`
	Typed   string `json:"typed"`
}

// mostNeeds bounds what is listed in full of one kind with one reason. Of the others there are the names.
const mostNeeds = 50

// Draw makes the picture of the objects. They are not changed.
func Draw(o *Objects, now time.Time) *Picture {
	p := &Picture{Rows: make(map[string]*Row, len(o.Nodes)), standings: explain.StandingsIn(o.Catalogs)}
	p.Devices = len(o.Devices)
	row := func(name string) *Row {
		if p.Rows[name] == nil {
			p.Rows[name] = &Row{Name: name, State: Unknown}
		}
		return p.Rows[name]
	}
	policies := make([]schedule.Policy, len(o.Policies))
	for i := range o.Policies {
		policies[i] = schedule.PoolOf(o.Policies[i])
	}
	for _, n := range o.Nodes {
		r := row(n.Name)
		r.labels = n.Labels
		if chosen := schedule.Chosen(policies, n.Labels); len(chosen) > 0 {
			r.Pool = slices.Min(chosen)
		}
	}
	jobs := map[string][]*v1alpha1.FirmwareJob{}
	for _, j := range o.Jobs {
		row(j.Spec.NodeName).note(j.Name, j.ResourceVersion)
		if !j.Ended() {
			jobs[j.Spec.NodeName] = append(jobs[j.Spec.NodeName], j)
		}
	}
	for _, n := range o.Firmware {
		r := row(n.Name)
		r.note(n.Name, n.ResourceVersion)
		p.standings.Know(n)
		r.describe(n, explain.Unended(jobs[n.Name]))
	}
	for _, d := range o.Devices {
		row(d.Spec.NodeName).note(d.Name, d.ResourceVersion)
	}
	for _, r := range p.Rows {
		r.Version = strconv.FormatUint(r.at, 36)
	}
	p.chooseLabels(o)
	p.Pools = drawPools(o.Policies, p.Rows, now)
	p.Versions = drawVersions(o.Devices, p.standings)
	p.Needs = drawNeeds(o, p.Pools)
	return p
}

var seed = maphash.MakeSeed()

// note makes the version of the row another one with each version of an object, in whatever order they come.
func (r *Row) note(name, version string) {
	r.at += maphash.Comparable(seed, [2]string{name, version})
}

// describe says how the node is. Job is the one that has not ended.
func (r *Row) describe(n *v1alpha1.NodeFirmware, job *v1alpha1.FirmwareJob) {
	if m := n.Status.Machine; m != nil {
		r.Model = strings.TrimSpace(m.Vendor + " " + m.Model)
	}
	c := explain.Deciding(n.Status.Conditions)
	r.State = stateOf(n, job)
	if r.State == Updating || r.State == Waiting {
		c, r.Job = explain.DecidingOf(job), job.Name
	}
	if r.State == Updating {
		for _, s := range job.Status.Steps {
			r.Steps++
			if s.State != v1alpha1.StepPending && s.State != v1alpha1.StepRunning {
				r.Over++
			}
		}
	}
	r.Reason = c.Reason
	if r.State != Done {
		r.Says, _ = wayout.Ways(c.Message)
	}
}

func stateOf(n *v1alpha1.NodeFirmware, job *v1alpha1.FirmwareJob) State {
	ready := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady)
	concern := explain.Concern(n.Status.Conditions)
	switch {
	case n.Status.HeldBy != "" || concern != nil && concern.Type == v1alpha1.ConditionHeld:
		return Held
	case concern != nil && concern.Type == v1alpha1.ConditionDaemonReady:
		return Silent
	case job != nil && job.MayBegin():
		return Updating
	case concern != nil:
		return Stuck
	case job != nil:
		return Waiting
	case ready == nil:
		return Unknown
	case ready.Status == metav1.ConditionTrue:
		return Done
	}
	return Pending
}

// chooseLabels finds the labels that divide the fleet: neither one value for all, nor another one for each node.
func (p *Picture) chooseLabels(o *Objects) {
	values, nodes := map[string]map[string]bool{}, map[string]int{}
	for _, n := range o.Nodes {
		for k, v := range n.Labels {
			if values[k] == nil {
				values[k] = map[string]bool{}
			}
			values[k][v] = true
			nodes[k]++
		}
	}
	wanted := []string{}
	for _, policy := range o.Policies {
		for _, b := range policy.Spec.TopologyBudgets {
			wanted = append(wanted, b.TopologyKey)
		}
	}
	for _, k := range append(wanted, corev1.LabelTopologyZone) {
		if values[k] != nil {
			p.Rack = k
			break
		}
	}
	p.Labels = []string{}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if k == p.Rack || len(values[k]) > 1 && len(values[k]) < nodes[k] {
			p.Labels = append(p.Labels, k)
		}
	}
}

// drawVersions counts the devices of each model by what they run.
func drawVersions(devices []*v1alpha1.NodeDevice, standings *explain.Standings) []Model {
	type key struct {
		class v1alpha1.DeviceClass
		model string
	}
	type running struct {
		key
		version string
		stands  *v1alpha1.CatalogRunning
	}
	counts, nodes, newest := map[running]int{}, map[running][]string{}, map[key][]string{}
	for _, d := range devices {
		component, stands := standings.Of(d)
		k := key{d.Status.Class, cmp.Or(d.Status.Model, d.Status.PCIID, string(d.Status.Class))}
		if v := explain.Newest(component); v != "" && !slices.Contains(newest[k], v) {
			newest[k] = append(newest[k], v)
		}
		r := running{k, cmp.Or(d.Status.Running(), v1alpha1.UnknownVersion), stands}
		counts[r]++
		if all := nodes[r]; len(all) == 0 || all[len(all)-1] != d.Spec.NodeName {
			nodes[r] = append(all, d.Spec.NodeName)
		}
	}
	models := map[key]*Model{}
	for r, n := range counts {
		if models[r.key] == nil {
			models[r.key] = &Model{Class: r.class, Model: r.model, Newest: slices.Sorted(slices.Values(newest[r.key]))}
		}
		models[r.key].count(r.version, r.stands, n, nodes[r])
	}
	out := []Model{}
	for _, m := range models {
		for i := range m.Running {
			r := &m.Running[i]
			slices.Sort(r.names)
			r.names = slices.Compact(r.names)
			r.Nodes = len(r.names)
		}
		slices.SortFunc(m.Running, func(a, b Running) int {
			return cmp.Or(cmp.Compare(b.Devices, a.Devices), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Position, b.Position), slices.Compare(a.Issues, b.Issues), cmp.Compare(a.FixedIn, b.FixedIn))
		})
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b Model) int { return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Model, b.Model)) })
	return out
}

// count adds devices. Machine models in whose catalogs the version stands alike are one.
func (m *Model) count(version string, stands *v1alpha1.CatalogRunning, devices int, nodes []string) {
	r := Running{Version: version, Position: v1alpha1.PositionUnknown}
	if stands != nil {
		r.Position, r.Issues, r.FixedIn = cmp.Or(stands.Position, v1alpha1.PositionUnknown), stands.Issues, stands.FixedIn
	}
	at := slices.IndexFunc(m.Running, func(o Running) bool {
		return o.Version == r.Version && o.Position == r.Position && o.FixedIn == r.FixedIn && slices.Equal(o.Issues, r.Issues)
	})
	if at < 0 {
		at, m.Running = len(m.Running), append(m.Running, r)
	}
	m.Running[at].Devices += devices
	m.Running[at].names = append(m.Running[at].names, nodes...)
}

// drawNeeds lists what needs a person: what status lists, the pools that a person stopped though nodes wait, the devices that get nothing, and the
// jobs that wait for somebody.
func drawNeeds(o *Objects, pools []Pool) []Need {
	l := &needs{all: []Need{}, first: map[string]int{}, alike: map[string]int{}, of: map[[2]string]int{}, listed: map[[2]string]int{}}
	for i, policy := range o.Policies {
		if c := stoppedBy(policy); c != nil && pools[i].Counts[Waiting]+pools[i].Counts[Pending] > 0 {
			l.add("policy", policy.Name, *c, mostNeeds)
		}
	}
	fleet := explain.Fleet{Policies: o.Policies, Quarantines: o.Quarantines, Nodes: o.Firmware, Sources: o.Sources, Templates: o.Templates, Settings: o.Settings, Catalogs: o.Catalogs}
	for _, n := range fleet.Needs() {
		l.add(n.Kind, n.Name, n.Condition, mostNeeds)
	}
	for _, j := range o.Jobs {
		c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted)
		if c != nil && !j.Ended() && !j.MayBegin() && !schedule.Reason(c.Reason).GoesOn() {
			l.add("job", j.Name, *c, 1)
		}
	}
	var concerned []*v1alpha1.NodeDevice
	for _, d := range o.Devices {
		if ofDevice(d) != nil {
			concerned = append(concerned, d)
		}
	}
	byName(concerned)
	for _, d := range concerned {
		l.add("device", d.Name, *ofDevice(d), 1)
	}
	return l.all
}

// needs is the list as it grows.
type needs struct {
	all []Need
	// first is the place of the first of which something is said, and alike counts all of them.
	first, alike map[string]int
	// of is the place of the first of a kind with a reason, and listed counts those that are listed in full.
	of, listed map[[2]string]int
}

// add lists an object. Of those of which the same is said, but for their own names, so many are listed in full.
func (l *needs) add(kind, name string, c metav1.Condition, most int) {
	key, of := strings.Join([]string{kind, c.Reason, strings.ReplaceAll(c.Message, name, "\x00")}, "\x00"), [2]string{kind, c.Reason}
	l.alike[key]++
	at, has := l.first[key]
	switch {
	case has && l.alike[key] > most:
		l.all[at].Same = append(l.all[at].Same, name)
		return
	case l.listed[of] == mostNeeds:
		l.all[l.of[of]].Others = append(l.all[l.of[of]].Others, name)
		return
	}
	if !has {
		l.first[key] = len(l.all)
	}
	if l.listed[of]++; l.listed[of] == 1 {
		l.of[of] = len(l.all)
	}
	n := Need{Kind: kind, Name: name, Reason: c.Reason, Since: c.LastTransitionTime}
	n.Says, n.Next = said(c.Message)
	n.Next = append(n.Next, Command{"To see what led there", "kubectl firmware why " + kind + "/" + name})
	l.all = append(l.all, n)
}

// stoppedBy is the condition by which a policy says that a person paused or aborted it; nil where it says something else, or needs a person anyway.
func stoppedBy(p *v1alpha1.RolloutPolicy) *metav1.Condition {
	ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || p.Spec.State == v1alpha1.RolloutActive || explain.Concern(p.Status.Conditions) != nil {
		return nil
	}
	if ready.Reason != v1alpha1.ReasonPaused && ready.Reason != v1alpha1.ReasonAborted {
		return nil
	}
	return ready
}

// said is what a message says, and the commands that it names.
func said(message string) (says string, next []Command) {
	says, ways := wayout.Ways(message)
	next = []Command{}
	for _, w := range ways {
		next = append(next, Command{cmp.Or(w.Purpose, "To change it"), w.Typed()})
	}
	return text.Clip(says, 2000), next
}

// aim leads all commands to the cluster of the picture.
func (p *Picture) aim(flags string) {
	for _, pool := range p.Pools {
		aim(pool.Next, flags)
		for _, r := range pool.Rollouts {
			aim(r.Next, flags)
		}
	}
	for _, n := range p.Needs {
		aim(n.Next, flags)
	}
}

func aim(commands []Command, flags string) {
	for i := range commands {
		commands[i].Typed = wayout.At(flags, commands[i].Typed)
	}
}
