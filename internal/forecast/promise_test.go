package forecast_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/due"
	"github.com/nodefirmware/node-firmware-operator/internal/forecast"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

var begin = time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)

// world is a cluster that lives: an operator that looks at everything again and again, and daemons that know what the API does not say.
type world struct {
	forecast.Facts
	dice *rand.Rand
	now  time.Time
	// truth is what settings really need, by device.
	truth map[string]v1alpha1.ActivationKind
	// seen is since when work has been due, by node.
	seen   map[string]map[string]time.Time
	ledger map[string][]schedule.Entry
	plans  map[string]schedule.Plan
	// reboots and drained count, by node; begun are the jobs that began, by name.
	reboots, drained map[string]int
	begun            []string
}

func digestOf(version string) v1alpha1.Digest {
	return v1alpha1.Digest("sha256:" + strings.Repeat("0", 63) + version)
}

func (w *world) one(values ...string) string { return values[w.dice.IntN(len(values))] }
func (w *world) rarely() bool                { return w.dice.IntN(8) == 0 }

func yes(kind, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason}
}

// newWorld draws a cluster.
func newWorld(seed uint64) *world {
	w := &world{dice: rand.New(rand.NewPCG(seed, 0)), now: begin, truth: map[string]v1alpha1.ActivationKind{}, seen: map[string]map[string]time.Time{},
		ledger: map[string][]schedule.Entry{}, plans: map[string]schedule.Plan{}, reboots: map[string]int{}, drained: map[string]int{}}
	w.Now = begin
	w.source()
	for i := range 1 + w.dice.IntN(2) {
		w.template(i)
	}
	if w.dice.IntN(2) == 0 {
		w.settings()
	}
	w.policies()
	for i := range 2 + w.dice.IntN(5) {
		w.node(fmt.Sprintf("n%d", i))
	}
	if w.rarely() {
		w.Quarantines = append(w.Quarantines, v1alpha1.FirmwareQuarantine{ObjectMeta: metav1.ObjectMeta{Name: "q"},
			Spec: v1alpha1.FirmwareQuarantineSpec{Digest: digestOf(w.one("2", "3")), Model: "15b3:101d", State: v1alpha1.QuarantineConfirmed}})
	}
	return w
}

func (w *world) source() {
	s := v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "s", Generation: 1}}
	for _, class := range []v1alpha1.DeviceClass{v1alpha1.ClassNIC, v1alpha1.ClassDisk, v1alpha1.ClassBIOS} {
		for _, v := range []string{"1", "2", "3"} {
			if class != v1alpha1.ClassBIOS || v != "2" {
				s.Status.Images = append(s.Status.Images, v1alpha1.StoredImage{Version: v, Class: class, Vendor: "any", Digest: digestOf(v)})
			}
		}
	}
	switch w.dice.IntN(4) {
	case 0:
		s.Spec.UpgradePaths = []v1alpha1.UpgradePath{{To: "3", From: []string{"1"}, Via: "2"}}
	case 1:
		s.Spec.UpgradePaths = []v1alpha1.UpgradePath{{To: "3", From: []string{"1"}}}
	}
	s.Status.ObservedGeneration = 1
	if !w.rarely() {
		s.Status.Conditions = []metav1.Condition{yes(v1alpha1.ConditionReady, "Succeeded")}
	}
	w.Sources = append(w.Sources, s)
}

func (w *world) class() v1alpha1.DeviceClass {
	return v1alpha1.DeviceClass(w.one("NIC", "NIC", "Disk", "BIOS"))
}

func (w *world) template(i int) {
	t := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("t", i), UID: types.UID(fmt.Sprint("t", i)), Generation: 1}}
	if w.dice.IntN(2) == 0 {
		t.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": w.one("a", "b")}}
	}
	if w.rarely() {
		t.Spec.State = v1alpha1.TemplatePaused
	}
	used := map[v1alpha1.DeviceClass]bool{}
	for r := range 1 + w.dice.IntN(3) {
		class := w.class()
		if used[class] {
			continue
		}
		used[class] = true
		rule := v1alpha1.FirmwareRule{Name: fmt.Sprint("r", r), Selector: v1alpha1.DeviceSelector{Class: class}, Version: w.one("2", "3", "3"), SourceRef: v1alpha1.SourceReference{Name: "s"}}
		if w.rarely() {
			rule.Policy = v1alpha1.PolicyValidate
		}
		if w.rarely() {
			rule.Downgrade = v1alpha1.DowngradeAllow
		}
		t.Spec.Rules = append(t.Spec.Rules, rule)
	}
	w.Templates = append(w.Templates, t)
}

func (w *world) settings() {
	t := &v1alpha1.ConfigurationTemplate{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c", Generation: 1}}
	rule := v1alpha1.ConfigurationRule{Name: "r", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC}}
	rule.Settings.NumVFs = ptr.To(int32(8))
	if w.rarely() {
		rule.Unlisted = v1alpha1.UnlistedReset
	}
	t.Spec.Rules = append(t.Spec.Rules, rule)
	w.Configurations = append(w.Configurations, t)
}

func (w *world) policies() {
	add := func(name string, selector *metav1.LabelSelector) {
		p := v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}}
		p.Spec.NodeSelector, p.Spec.State = selector, v1alpha1.RolloutActive
		budget := intstr.FromInt(1 + w.dice.IntN(3))
		p.Spec.MaxUnavailable = &budget
		switch w.dice.IntN(7) {
		case 0:
			p.Spec.State = v1alpha1.RolloutPaused
		case 1:
			p.Spec.State = v1alpha1.RolloutAborted
		case 2:
			p.Spec.Windows = []v1alpha1.RolloutWindow{{Name: "w", Effect: v1alpha1.WindowAllow, Schedule: "0 22 * * 6", Duration: "4h", TimeZone: "UTC"}}
		case 3, 4:
			p.Spec.Waves = []v1alpha1.RolloutWave{{Name: "canary", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}, Soak: "1h"}}
		}
		w.Policies = append(w.Policies, p)
	}
	add(v1alpha1.DefaultRolloutPolicy, nil)
	if w.dice.IntN(2) == 0 {
		add("a", &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}})
	}
}

func (w *world) node(name string) {
	labels := map[string]string{"pool": w.one("a", "b")}
	if w.dice.IntN(2) == 0 {
		labels["canary"] = "true"
	}
	w.Nodes = append(w.Nodes, schedule.Node{Name: name, Labels: labels, Ready: !w.rarely(), Scanned: true})
	n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}}
	n.Status.LastScanTime = &metav1.Time{Time: begin}
	if w.rarely() {
		n.Spec.Pins = []v1alpha1.FirmwareRule{{Name: "p", Selector: v1alpha1.DeviceSelector{Class: w.class()}, Version: w.one("1", "2", "3"), SourceRef: v1alpha1.SourceReference{Name: "s"}}}
	}
	w.Firmware = append(w.Firmware, n)
	for i := range 1 + w.dice.IntN(4) {
		w.device(name, i)
	}
	if w.rarely() {
		w.heldJob(n)
	}
}

func (w *world) device(node string, i int) {
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-d%d", node, i), UID: types.UID(fmt.Sprintf("%s-d%d", node, i)), Generation: 1}}
	d.Spec.NodeName = node
	d.Status = v1alpha1.NodeDeviceStatus{ObservedGeneration: 1, Class: w.class(), UniqueID: d.Name, PCIID: "15b3:101d", Model: "M", SerialNumber: d.Name,
		Firmware: &v1alpha1.ObservedFirmware{Running: w.one("1", "1", "2", "3"), Driver: "sim", VersionFormat: v1alpha1.VersionFormatDotted,
			Activation: v1alpha1.ActivationKind(w.one("None", "DeviceReset", "DriverReload", "Reboot", "Reboot", "PowerCycle"))},
		Conditions: []metav1.Condition{yes(v1alpha1.ConditionInspected, "Succeeded")}}
	if d.Status.Class == v1alpha1.ClassDisk && w.dice.IntN(2) == 0 {
		d.Status.Arrays = []string{"md0"}
	}
	w.truth[d.Name] = v1alpha1.ActivationKind(w.one("None", "DeviceReset", "Reboot"))
	if value := w.one("", "4", "8"); value != "" {
		d.Status.Parameters = []v1alpha1.ObservedParameter{{Name: "numVFs", Current: &value, Next: &value}}
	}
	switch w.dice.IntN(12) {
	case 0:
		d.Status.Firmware.Access = v1alpha1.AccessReadOnly
	case 1:
		d.Status.Failure = &v1alpha1.DeviceFailure{Reason: v1alpha1.ReasonUnhealthy, Job: "j"}
	case 2:
		d.Status.Failure = &v1alpha1.DeviceFailure{Reason: v1alpha1.ReasonWriteFailed, Digest: digestOf("3"), Job: "j"}
	case 3:
		d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionInspected, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReadFailed}}
	case 4:
		d.Status.Firmware.Stored = "3"
	}
	w.Devices = append(w.Devices, d)
}

// heldJob is a failed job that holds the node; a person may have asked for a retry.
func (w *world) heldJob(n *v1alpha1.NodeFirmware) {
	d := w.Devices[len(w.Devices)-1]
	j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: n.Name + "-held", UID: types.UID(n.Name + "-held"), CreationTimestamp: metav1.NewTime(begin.Add(-time.Hour)),
		Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldOwnerOperator}}}
	j.Spec.NodeName = n.Name
	j.Spec.Task = v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Turn: 1, Request: ptr.To(""), Devices: []v1alpha1.TaskDevice{{Name: d.Name, UniqueID: d.Status.UniqueID, Model: "15b3:101d",
		FromVersion: d.Status.Firmware.Running, Version: "3", Digest: digestOf("3")}}}
	j.Status.Conditions = []metav1.Condition{yes(v1alpha1.ConditionAdmitted, "Admitted"), yes(v1alpha1.ConditionFailed, v1alpha1.ReasonWriteFailed), yes(v1alpha1.ConditionHeld, v1alpha1.ReasonWriteFailed)}
	j.Status.Steps = []v1alpha1.JobStep{{Name: "flash", Device: d.Name, State: v1alpha1.StepFailed}}
	n.Status.HeldBy = j.Name
	if w.dice.IntN(2) == 0 {
		n.Spec.Requests.Retry = "again"
	}
	w.Jobs = append(w.Jobs, j)
	policy := schedule.SettingsOf(w.Policies, w.Nodes[len(w.Nodes)-1].Labels).Pool
	w.ledger[policy] = append(w.ledger[policy], schedule.Entry{Node: n.Name, Job: j.Name, UID: string(j.UID)})
	for i := range w.Policies {
		if p := &w.Policies[i]; p.Name == policy {
			p.Status.Admitted = append(p.Status.Admitted, v1alpha1.AdmittedNode{Node: n.Name, Job: j.Name, JobUID: string(j.UID)})
		}
	}
}

// copied are the facts, for who changes them.
func (w *world) copied() forecast.Facts {
	out := w.Facts
	out.Nodes = slices.Clone(w.Nodes)
	out.Policies = slices.Clone(w.Policies)
	out.Devices, out.Jobs, out.Firmware = nil, nil, nil
	for _, d := range w.Devices {
		out.Devices = append(out.Devices, d.DeepCopy())
	}
	for _, j := range w.Jobs {
		out.Jobs = append(out.Jobs, j.DeepCopy())
	}
	for _, n := range w.Firmware {
		out.Firmware = append(out.Firmware, n.DeepCopy())
	}
	return out
}

// lives lets the cluster live until nothing more happens.
func (w *world) lives() {
	for quiet := 0; quiet < 3 && w.now.Sub(begin) < 60*24*time.Hour; {
		before := fmt.Sprint(len(w.begun), len(w.Jobs))
		w.assigns()
		w.observes()
		for i := range w.Nodes {
			w.plans1(&w.Nodes[i])
		}
		next := w.admits()
		w.runs()
		switch {
		case fmt.Sprint(len(w.begun), len(w.Jobs)) != before:
			quiet = 0
			w.now = w.now.Add(2 * time.Minute)
		case !next.IsZero():
			w.now = next.Add(time.Second)
		default:
			quiet++
			w.now = w.now.Add(2 * time.Minute)
		}
	}
}

// assigns is the operator that matches.
func (w *world) assigns() {
	ix := match.NewIndex()
	w.dice.Shuffle(len(w.Devices), func(i, j int) { w.Devices[i], w.Devices[j] = w.Devices[j], w.Devices[i] })
	for _, d := range w.Devices {
		ix.SetDevice(d.DeepCopy())
	}
	for i := range w.Nodes {
		ix.SetNode(w.Nodes[i].Name, w.Nodes[i].Labels)
	}
	for _, n := range w.Firmware {
		ix.SetNodeFirmware(n)
	}
	for i := range w.Policies {
		ix.SetPolicy(&w.Policies[i])
	}
	for i := range w.Sources {
		ix.SetSource(&w.Sources[i])
	}
	for i := range w.Quarantines {
		ix.SetQuarantine(&w.Quarantines[i])
	}
	for _, t := range w.Templates {
		ix.SetTemplate(t)
	}
	for _, t := range w.Configurations {
		ix.SetConfigurationTemplate(t)
	}
	for _, d := range w.Devices {
		decision, known := ix.Decision(d.Name)
		if !known {
			continue
		}
		if !decision.Done(d) {
			d.Spec.Firmware, d.Spec.Configuration, d.Spec.Origin = decision.Firmware.Desired(), decision.Configuration.Desired(), decision.Origin()
			d.Generation++
		}
		d.Status.Conditions = status.Assignment(decision, d.Status.Conditions, d.Generation, w.now)
	}
}

// observes is the daemon that scans: it compares settings with what the device really has.
func (w *world) observes() {
	for _, d := range w.Devices {
		d.Status.ObservedGeneration = d.Generation
		c := d.Spec.Configuration
		if c == nil {
			d.Status.Configuration = nil
			continue
		}
		if o := d.Status.Configuration; o != nil && o.Digest == c.Digest() {
			continue
		}
		o := &v1alpha1.ObservedConfiguration{Digest: c.Digest(), State: v1alpha1.ConfigurationOutOfDate, Activation: w.truth[d.Name]}
		if len(d.Status.Parameters) > 0 && *d.Status.Parameters[0].Current == "8" && c.Unlisted != v1alpha1.UnlistedReset {
			o.State, o.Activation = v1alpha1.ConfigurationUpToDate, ""
		}
		d.Status.Configuration = o
	}
}

// plans1 is the operator that queues jobs, for a node.
func (w *world) plans1(n *schedule.Node) {
	f := due.Facts{Name: n.Name, Now: w.now, NodeUID: "n", QuietPeriod: time.Minute, Seen: w.seen[n.Name], Settings: schedule.SettingsOf(w.Policies, n.Labels),
		Sources: w.Sources, Quarantines: w.Quarantines, Bad: w.bad()}
	for _, o := range w.Firmware {
		if o.Name == n.Name {
			f.Retry, f.HeldBy = desired.Retry(o), o.Status.HeldBy
		}
	}
	for _, d := range w.Devices {
		if d.Spec.NodeName == n.Name {
			f.Devices = append(f.Devices, *d.DeepCopy())
		}
	}
	slices.SortFunc(f.Devices, func(a, b v1alpha1.NodeDevice) int { return strings.Compare(a.Name, b.Name) })
	for _, j := range w.Jobs {
		if j.Spec.NodeName == n.Name {
			f.Jobs = append(f.Jobs, *j.DeepCopy())
		}
	}
	desired.SortJobs(f.Jobs)
	d := due.Decide(f)
	seen := map[string]time.Time{}
	for _, fingerprint := range d.Due {
		seen[fingerprint] = w.now
		if since, known := w.seen[n.Name][fingerprint]; known {
			seen[fingerprint] = since
		}
	}
	w.seen[n.Name] = seen
	for _, over := range d.Superseded {
		w.Jobs = slices.DeleteFunc(w.Jobs, func(j *v1alpha1.FirmwareJob) bool { return j.Name == over.Name })
	}
	if d.Job != nil {
		d.Job.UID, d.Job.CreationTimestamp = types.UID(fmt.Sprintf("u%d", len(w.begun)*1000+len(w.Jobs))), metav1.NewTime(w.now)
		w.Jobs = append(w.Jobs, d.Job)
	}
}

func (w *world) bad() quarantine.Set {
	pools := quarantine.NewPools(w.Policies)
	return quarantine.Compute(quarantine.Facts{Jobs: w.Jobs, Quarantines: w.Quarantines, Now: w.now, Pool: func(string) string { return pools.Of(nil) }})
}

// admits is the operator that admits.
func (w *world) admits() time.Time {
	f := schedule.Facts{Now: w.now, Nodes: slices.Clone(w.Nodes)}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for _, o := range w.Firmware {
			if o.Name != n.Name {
				continue
			}
			n.HeldBy = o.Status.HeldBy
			for _, d := range w.Devices {
				if d.Spec.NodeName == n.Name && d.Status.IsUnhealthy() && !desired.Retry(o).Clears(&d.Status.Failure.Request) {
					n.Unhealthy = append(n.Unhealthy, schedule.UnhealthyDevice{Name: d.Name, Job: d.Status.Failure.Job})
				}
			}
		}
	}
	for i := range w.Policies {
		p := schedule.PolicyOf(&w.Policies[i], schedule.DefaultExpected)
		p.Ledger = w.ledger[p.Name]
		if plan, known := w.plans[p.Name]; known {
			p.Plan = plan
		}
		f.Policies = append(f.Policies, p)
	}
	for _, j := range w.Jobs {
		out := schedule.Job{Name: j.Name, UID: string(j.UID), Node: j.Spec.NodeName, Created: j.CreationTimestamp.Time, State: schedule.StateOf(j), Planned: true, Follows: j.Spec.Task.Follows}
		for _, u := range j.Spec.Task.Devices {
			out.Devices = append(out.Devices, u.Name)
		}
		out.Edges, _ = schedule.EdgesOf(j, nil)
		f.Jobs = append(f.Jobs, out)
	}
	d := schedule.Decide(f)
	for i, o := range d.Policies {
		at := slices.IndexFunc(f.Policies, func(p schedule.Policy) bool { return p.Name == o.Name })
		w.ledger[o.Name] = d.Policies[i].Ledger
		plan := f.Policies[at].Plan
		plan.Rollouts, plan.Resumed, plan.Judged, plan.Edited = nil, o.Resumed, o.Judged, false
		for _, state := range o.Rollouts {
			plan.Rollouts = append(plan.Rollouts, state.Rollout)
		}
		w.plans[o.Name] = plan
	}
	for _, a := range d.Admit {
		for _, j := range w.Jobs {
			if string(j.UID) == a.Entry.UID && !j.Admitted() {
				meta.SetStatusCondition(&j.Status.Conditions, yes(v1alpha1.ConditionAdmitted, "Admitted"))
			}
		}
	}
	return d.Next
}

// runs are the daemons that do what is admitted.
func (w *world) runs() {
	for _, j := range w.Jobs {
		if !j.Admitted() || j.Ended() {
			continue
		}
		reboot := false
		for _, u := range j.Spec.Task.Devices {
			at := slices.IndexFunc(w.Devices, func(d *v1alpha1.NodeDevice) bool { return d.Name == u.Name })
			d := w.Devices[at]
			if u.Version != "" && d.Status.Firmware.Running != u.Version {
				reboot = reboot || d.Status.Firmware.Activation == v1alpha1.ActivationReboot
				d.Status.Firmware.Running, d.Status.Firmware.Stored, d.Status.Failure = u.Version, u.Version, nil
			}
			if o := d.Status.Configuration; u.Configuration != "" && o != nil {
				reboot = reboot || o.State == v1alpha1.ConfigurationOutOfDate && w.truth[d.Name] == v1alpha1.ActivationReboot
				d.Status.Configuration = &v1alpha1.ObservedConfiguration{Digest: o.Digest, State: v1alpha1.ConfigurationUpToDate}
			}
		}
		w.begun = append(w.begun, j.Name)
		w.drained[j.Spec.NodeName]++
		if reboot {
			w.reboots[j.Spec.NodeName]++
		}
		meta.SetStatusCondition(&j.Status.Conditions, yes(v1alpha1.ConditionComplete, "Succeeded"))
		for i := range w.Nodes {
			w.Nodes[i].Ready = w.Nodes[i].Ready || w.Nodes[i].Name == j.Spec.NodeName
		}
		for _, o := range w.Jobs {
			if o.Spec.NodeName == j.Spec.NodeName && o.Held() {
				meta.RemoveStatusCondition(&o.Status.Conditions, v1alpha1.ConditionHeld)
			}
		}
		for _, n := range w.Firmware {
			if n.Name == j.Spec.NodeName {
				n.Status.HeldBy = ""
			}
		}
	}
}

// TestEveryRebootWasForetold: no node reboots, or reboots more often, than was foretold, none that stays in service is touched, and what was said to reboot does.
func TestEveryRebootWasForetold(t *testing.T) {
	reboots, maybe, drained, untouched, held := 0, 0, 0, 0, 0
	for seed := range uint64(400) {
		w := newWorld(seed)
		out := forecast.Make(w.copied())
		w.lives()
		for _, n := range out.Nodes {
			say := fmt.Sprintf("seed %d, node %s: foretold %s (%d), rebooted %d, drained %d", seed, n.Name, n.Impact, n.Reboots, w.reboots[n.Name], w.drained[n.Name])
			require.LessOrEqual(t, w.reboots[n.Name], n.Reboots, say)
			switch n.Impact {
			case forecast.InService:
				require.Zero(t, w.drained[n.Name], say)
				untouched++
			case forecast.Drained:
				require.NotZero(t, w.drained[n.Name], say)
				drained++
			case forecast.MayReboot:
				require.NotZero(t, w.drained[n.Name], say)
				maybe++
			case forecast.Reboots:
				require.NotZero(t, w.reboots[n.Name], say)
				reboots++
			}
			for _, j := range n.Jobs {
				if !j.Goes() {
					held++
				}
			}
		}
	}
	for _, n := range []int{reboots, maybe, drained, untouched, held} {
		require.Greater(t, n, 20, "the fleets show too little: %d %d %d %d %d", reboots, maybe, drained, untouched, held)
	}
	t.Logf("nodes: %d rebooted, %d maybe, %d drained, %d untouched, %d jobs that wait", reboots, maybe, drained, untouched, held)
}
