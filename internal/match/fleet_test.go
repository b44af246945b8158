package match

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/baseline"
)

// pool is a fleet whose machines have one card each. It acts on every decision as the controller does. A node with work
// that is due gets one job, and a job reboots its node once.
type pool struct {
	*testing.T
	ix        *Index
	devices   map[string]*v1alpha1.NodeDevice
	pinned    map[string]*v1alpha1.NodeFirmware
	templates map[string]*v1alpha1.FirmwareTemplate
	reboots   map[string]int
	uids      int
}

func newPool(t *testing.T, nodes int) *pool {
	p := &pool{
		T: t, ix: NewIndex(), devices: map[string]*v1alpha1.NodeDevice{}, pinned: map[string]*v1alpha1.NodeFirmware{},
		templates: map[string]*v1alpha1.FirmwareTemplate{}, reboots: map[string]int{},
	}
	p.ix.SetSource(newSource(metav1.ConditionTrue, "1.0", "2.0", "3.0"))
	p.template("t", "1.0")
	for i := range nodes {
		p.join(fmt.Sprintf("n%d", i), "1.0")
	}
	require.Empty(t, p.due())
	return p
}

func (p *pool) uid() types.UID {
	p.uids++
	return types.UID(fmt.Sprintf("uid-%d", p.uids))
}

// join adds a node. A daemon has looked at its card if a version is given.
func (p *pool) join(node, running string) {
	p.ix.SetNode(node, map[string]string{"pool": "gpu"})
	d := &v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-nic", UID: p.uid()}, Spec: v1alpha1.NodeDeviceSpec{NodeName: node},
	}
	p.devices[d.Name] = d
	p.ix.SetDevice(d)
	if running != "" {
		p.report(node, running)
	}
}

// report is what the daemon of the node says.
func (p *pool) report(node, running string) {
	d := p.devices[node+"-nic"].DeepCopy()
	d.Status.Class, d.Status.BoardID = v1alpha1.ClassNIC, "MT_0000000359"
	d.Status.Firmware = &v1alpha1.ObservedFirmware{Running: running, Driver: "mstflint"}
	p.devices[d.Name] = d
	p.ix.SetDevice(d)
}

// template makes or edits a template.
func (p *pool) template(name, version string, change ...func(*v1alpha1.FirmwareTemplate)) {
	o := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if old := p.templates[name]; old != nil {
		o.UID, o.Generation = old.UID, old.Generation+1
	} else {
		o.UID, o.Generation = p.uid(), 1
	}
	o.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}
	o.Spec.Rules = []v1alpha1.FirmwareRule{{
		Name: "r", Version: version, SourceRef: v1alpha1.SourceReference{Name: "s"}, Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC},
	}}
	for _, c := range change {
		c(o)
	}
	p.templates[name] = o
	p.ix.SetTemplate(o)
}

// pin sets the pins of a node to the versions.
func (p *pool) pin(node string, versions ...string) {
	n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: node, UID: p.uid(), Generation: 1}}
	if old := p.pinned[node]; old != nil {
		n.UID, n.Generation = old.UID, old.Generation+1
	}
	for i, v := range versions {
		n.Spec.Pins = append(n.Spec.Pins, v1alpha1.FirmwareRule{
			Name: fmt.Sprintf("p%d", i), Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC}, Version: v, SourceRef: v1alpha1.SourceReference{Name: "s"},
		})
	}
	p.pinned[node] = n
	p.ix.SetNodeFirmware(n)
}

// due lists the nodes with an update that is due, once the decisions are written.
func (p *pool) due() []string {
	var out []string
	for name, d := range p.devices {
		for {
			decision, ok := p.ix.Decision(name)
			if !ok || decision.Action == Keep {
				if decision.Verdict.Outcome.Due() && decision.Conflict == nil && decision.Blocked == nil {
					out = append(out, d.Spec.NodeName)
				}
				break
			}
			d = d.DeepCopy()
			write(d, decision.Firmware)
			p.devices[name] = d
			p.ix.SetDevice(d)
		}
	}
	slices.Sort(out)
	return out
}

// roll runs the jobs of the nodes that are due, and lists these.
func (p *pool) roll() []string {
	out := p.due()
	for _, node := range out {
		decision, _ := p.ix.Decision(node + "-nic")
		p.reboots[node]++
		p.report(node, string(decision.Verdict.Version))
	}
	require.Empty(p, p.due(), "one job brings a node to what is desired")
	return out
}

func (p *pool) runs(node string) string { return p.devices[node+"-nic"].Status.Firmware.Running }

func (p *pool) all() []string {
	var out []string
	for _, d := range p.devices {
		out = append(out, d.Spec.NodeName)
	}
	slices.Sort(out)
	return out
}

// R003-3: the template counts baselines, and says in what the few nodes that differ do.
func TestATemplateNamesTheNodesThatDiffer(t *testing.T) {
	p := newPool(t, 500)
	machine := func(i int, model, baseline string) Affected {
		name := fmt.Sprintf("n%d", i)
		return p.ix.SetNodeFirmware(&v1alpha1.NodeFirmware{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("nfw-" + name), Generation: 1},
			Status:     v1alpha1.NodeFirmwareStatus{Machine: &v1alpha1.Machine{Vendor: "Lenovo", Model: model}, Baseline: baseline},
		})
	}
	tally := func() Tally {
		out, _ := p.ix.Tally(Ref{v1alpha1.OriginTemplate, "t"})
		return out
	}
	assert.Zero(t, tally().Baselines, "nobody has reported one")
	for i := range 400 {
		machine(i, "7X21", "a")
	}
	for i := 400; i < 500; i++ {
		machine(i, "R650", "b")
	}
	assert.Equal(t, int32(1), tally().Baselines, "nodes of one model are equal")
	assert.Zero(t, tally().NodesUnlike)

	machine(17, "7X21", "c")
	machine(18, "7X21", "c")
	p.report("n17", "2.0")
	p.report("n18", "2.0")
	machine(450, "R650", "d")
	got := tally()
	assert.Equal(t, int32(2), got.Baselines)
	assert.Equal(t, int32(3), got.NodesUnlike)
	assert.Equal(t, []Unlike{
		{2, "n17", "n0", []baseline.Difference{{What: "NIC", Has: "2.0", Other: "1.0"}}}, {1, "n450", "n400", nil},
	}, got.Unlike)

	numVFs := "4"
	d := p.devices["n450-nic"].DeepCopy()
	d.Status.Parameters = []v1alpha1.ObservedParameter{{Name: "numVFs", Current: &numVFs}}
	template := Ref{v1alpha1.OriginTemplate, "t"}
	assert.Equal(t, []Ref{template}, p.ix.SetDevice(d).Templates, "the device is seen after the baseline")
	assert.Equal(t, []baseline.Difference{{What: "NIC", Has: "1.0 [numVFs=4]", Other: "1.0"}}, tally().Unlike[1].Differs)

	for _, i := range []int{17, 18} {
		assert.Equal(t, []Ref{template}, machine(i, "7X21", "").Templates)
	}
	assert.Equal(t, int32(1), tally().NodesUnlike, "what is not known is not unlike")
	assert.Equal(t, []Ref{template}, p.ix.DeleteNodeFirmware("n450").Templates)
	assert.Equal(t, int32(1), tally().Baselines)
	assert.Empty(t, p.ix.SetDevice(p.devices["n450-nic"]).Templates, "nobody is compared")
}

// R004-1, R004-3: in a fleet of 500 that is up to date the 501st node is the only one with work, and it reboots once.
func TestANodeThatJoinsIsTheOnlyOneThatIsRebooted(t *testing.T) {
	p := newPool(t, 500)
	p.join("late", "0.9")
	assert.Equal(t, []string{"late"}, p.roll())
	assert.Equal(t, map[string]int{"late": 1}, p.reboots)
}

// R004-8, R004-17, R004-18: what changes no content of a node makes no work for it: an edit of the template that says the
// same, one that does not match the node, and a template that is made anew.
func TestAnEditThatChangesNoContentRebootsNobody(t *testing.T) {
	p := newPool(t, 20)
	digestOf := func(node string) v1alpha1.Digest { return p.devices[node+"-nic"].Spec.Firmware.Digest }
	before := digestOf("n0")
	p.template("t", "1.0", func(o *v1alpha1.FirmwareTemplate) { o.Spec.Machine = nil })
	assert.Empty(t, p.due())
	p.template("t", "1.0", func(o *v1alpha1.FirmwareTemplate) {
		o.Spec.Rules = append(o.Spec.Rules, v1alpha1.FirmwareRule{
			Name: "disks", Version: "9.0", SourceRef: v1alpha1.SourceReference{Name: "s"}, Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk},
		})
	})
	assert.Empty(t, p.due())
	p.ix.DeleteTemplate("t")
	delete(p.templates, "t")
	assert.Empty(t, p.due(), "nothing is desired")
	p.template("t", "1.0")
	assert.Empty(t, p.due())
	assert.Equal(t, before, digestOf("n0"), "the same content has the same digest")
	p.template("t", "2.0", func(o *v1alpha1.FirmwareTemplate) { o.Spec.NodeSelector.MatchLabels["pool"] = "cpu" })
	assert.Empty(t, p.due(), "a new version that matches nobody")
	assert.Empty(t, p.reboots)
}

// R004-3, R004-15, R004-19, R004-30, R004-33, R004-35, R004-38: pins that are added, changed and removed one by one reboot
// their own node once and no other, and the template does not reboot a node whose pin is current.
func TestAPinRebootsItsOwnNodeOnly(t *testing.T) {
	p := newPool(t, 20)
	for _, node := range []string{"n3", "n7"} {
		p.pin(node, "2.0")
		assert.Equal(t, []string{node}, p.roll())
	}
	p.pin("n3", "3.0")
	assert.Equal(t, []string{"n3"}, p.roll(), "the pin changed")
	assert.Equal(t, "3.0", p.runs("n3"))

	p.template("t", "2.0")
	rolled := p.roll()
	assert.Len(t, rolled, 18)
	assert.NotContains(t, rolled, "n3", "its pin is current")
	assert.NotContains(t, rolled, "n7", "it runs that already")

	p.pin("n3")
	assert.Equal(t, []string{"n3"}, p.roll(), "the pin is gone")
	assert.Equal(t, "2.0", p.runs("n3"), "and the template counts")
	assert.Equal(t, 3, p.reboots["n3"])
	assert.Equal(t, 1, p.reboots["n7"])
}

// R004-39 in part, R004-21: a new version for all is one reboot of each, and the result is what the template says.
func TestNewVersionIsOneRebootEach(t *testing.T) {
	p := newPool(t, 20)
	p.template("t", "3.0")
	assert.Equal(t, p.all(), p.roll())
	for _, node := range p.all() {
		assert.Equal(t, 1, p.reboots[node])
		assert.Equal(t, "3.0", p.runs(node))
	}
}

// R004-34: a pin without an image reboots nobody until it is corrected.
func TestAnInvalidPinRebootsNobodyUntilItIsCorrected(t *testing.T) {
	p := newPool(t, 5)
	p.pin("n1", "7.0")
	assert.Empty(t, p.due())
	decision, _ := p.ix.Decision("n1-nic")
	require.NotNil(t, decision.Blocked)
	assert.Equal(t, v1alpha1.ReasonImageNotFound, decision.Blocked.Reason)
	p.template("t", "1.0")
	assert.Empty(t, p.due())
	p.pin("n1", "2.0")
	assert.Equal(t, []string{"n1"}, p.roll())
}

// R004-36: two pins for one device are an error that changes nothing, in whatever order they are listed, until one is left.
func TestRivalPinsChangeNothing(t *testing.T) {
	p := newPool(t, 5)
	for _, versions := range [][]string{{"2.0", "3.0"}, {"3.0", "2.0"}, {"3.0", "2.0", "1.0"}} {
		p.pin("n1", versions...)
		assert.Empty(t, p.due())
		decision, _ := p.ix.Decision("n1-nic")
		assert.Len(t, decision.Conflict, len(versions))
		assert.Equal(t, "1.0", decision.Firmware.Version, "the last assignment stays")
	}
	p.pin("n1", "3.0")
	assert.Equal(t, []string{"n1"}, p.roll())
}

// R004-20: a node of which no daemon has reported anything gets the latest content as soon as one does, and what changed
// in the meantime costs it nothing.
func TestANodeWithoutAReportGetsTheLatestContent(t *testing.T) {
	p := newPool(t, 3)
	p.join("silent", "")
	p.template("t", "2.0")
	assert.NotContains(t, p.roll(), "silent")
	p.template("t", "3.0")
	assert.NotContains(t, p.roll(), "silent")
	p.report("silent", "1.0")
	assert.Equal(t, []string{"silent"}, p.roll())
	assert.Equal(t, "3.0", p.runs("silent"))
	assert.Equal(t, 1, p.reboots["silent"])
}

// R001-12: a template lists no more devices than its status holds, and counts them all.
func TestATemplateListsSomeOfItsDevicesAndCountsAll(t *testing.T) {
	p := newPool(t, 120)
	p.template("t", "2.0")
	require.Len(t, p.due(), 120)
	tally, ok := p.ix.Tally(Ref{v1alpha1.OriginTemplate, "t"})
	require.True(t, ok)
	assert.EqualValues(t, 120, tally.Matched)
	assert.EqualValues(t, 120, tally.NotApplied)
	require.Len(t, tally.Devices, 50)
	assert.True(t, slices.IsSorted(tally.Devices))
}

// R004-9, R004-10: what is assigned names the template or pin it came from, and the source of its image, by kind, name, uid and
// generation, from the first assignment on. An edit that changes nothing for the device leaves that as it is.
func TestAssignmentNamesOrigin(t *testing.T) {
	p := newPool(t, 2)
	p.template("t", "2.0")
	p.pin("n1", "3.0")
	p.due()
	origin := func(node string) []v1alpha1.Origin { return p.devices[node+"-nic"].Spec.Origin }
	template, pins := p.templates["t"], p.pinned["n1"]
	from := func(n int) v1alpha1.Origin {
		return v1alpha1.Origin{Kind: v1alpha1.OriginSource, Name: "s", UID: "uid-of-s", Generation: 4, Hash: v1alpha1.ImageHash(digest(n))}
	}
	want := []v1alpha1.Origin{
		{Kind: v1alpha1.OriginTemplate, Name: "t", UID: string(template.UID), Generation: template.Generation, Rule: "r", Hash: v1alpha1.ContentHash("2.0", "s")},
		from(2),
	}
	assert.Equal(t, want, origin("n0"))
	assert.Equal(t, []v1alpha1.Origin{
		{Kind: v1alpha1.OriginPin, Name: "n1", UID: string(pins.UID), Generation: pins.Generation, Rule: "p0", Hash: v1alpha1.ContentHash("3.0", "s")},
		from(3),
	}, origin("n1"))

	edited := newSource(metav1.ConditionTrue, "1.0", "2.0", "3.0")
	edited.Generation, edited.Status.ObservedGeneration = 5, 5
	p.ix.SetSource(edited)
	p.template("t", "2.0")
	p.due()
	assert.Equal(t, want, origin("n0"))

	edited = edited.DeepCopy()
	edited.UID = "uid-of-another"
	p.ix.SetSource(edited)
	p.due()
	anew := from(2)
	anew.UID, anew.Generation = "uid-of-another", 5
	assert.Equal(t, anew, origin("n0")[1], "it was made anew")
}
