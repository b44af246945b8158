package match

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Index holds the facts about the fleet and the decision for each device. It keeps the decisions up to date; the work of
// an event is in proportion to what the event can affect. It is not safe for concurrent use. The objects passed to it must
// not be changed afterwards.
//
// The decisions depend on the facts alone, never on the order in which the facts arrived.
type Index struct {
	nodes     map[string]*node
	templates map[Ref]*template
	sources   map[string]*source
	devices   map[string]*device
	// left finds the node whose crowd a device is left out with.
	left map[string]*node

	// rules finds the rules a device may match by its facts.
	rules map[bucket][]*Rule
	// byTemplate finds the devices whose assignment names a template, whether or not the template exists.
	byTemplate map[Ref]map[*device]struct{}
	// bySource finds the devices whose decision depends on a source, whether or not the source exists.
	bySource map[string]map[*device]struct{}

	// named finds the nodes with a pin that names a serial number, which a card of another node may bear.
	named map[string]map[*node]struct{}

	// policies are the RolloutPolicies by name, and pools the nodes they choose: an image may be quarantined for some only.
	policies map[string]v1alpha1.RolloutPolicy
	pools    quarantine.Pools

	// quarantines are the FirmwareQuarantines by name, and bad is what follows from them.
	quarantines map[string]v1alpha1.FirmwareQuarantine
	bad         quarantine.Set

	affected *affected
}

// Affected is what an event calls for.
type Affected struct {
	// Devices are the names, in no order, of the devices whose object may differ from their decision.
	Devices []string
	// Templates are those, in no order, of which the tally changed.
	Templates []Ref
	// Nodes are the names, in no order, of the nodes of which other pins may match no device, or other devices come nearest to them.
	Nodes []string
	// Crowded is the name of a node of which a device was left out for the first time; usually empty.
	Crowded string
}

type affected struct {
	devices, nodes map[string]struct{}
	templates      map[Ref]struct{}
}

type node struct {
	name string
	// exists is false for a name that only devices or a NodeFirmware mention.
	exists bool
	labels map[string]string

	firmware           bool // a NodeFirmware of this name exists
	firmwareUID        string
	firmwareGeneration int64
	machineKnown       bool
	vendor, model      string
	// baseline is empty where it is not known.
	baseline string
	pins     []*Rule
	// met says for each of the pins how many of the devices it concerns.
	met []met
	// scanned says that the daemon has reported a complete scan.
	scanned bool
	// found is what the object says about pins that match nothing.
	found finding
	// otherMachine says that the pins are for another machine, which had this name; empty when they are not.
	otherMachine string
	retry        plan.Clearance

	devices map[string]*device
	// left are the devices that are left out because there are too many.
	left crowd
}

type template struct {
	ref        Ref
	uid        string
	generation int64
	// compiled is nil when the spec is invalid; invalid says why.
	compiled *Template
	invalid  string

	nodes  map[*node]struct{}
	counts Counts
	// perNode counts the devices that what the template says is in effect for, on each node that has any.
	perNode map[*node]inEffect
	// compared says that the last tally names what nodes have and others have not.
	compared bool

	matched, assigned, conflicting, blocked, failed, restored *firsts
}

// inEffect counts devices that have what the template assigns to them, and those that do not.
type inEffect struct{ applied, notApplied int32 }

type device struct {
	name, uid string
	node      *node

	facts   Device
	current *Assigned
	// configured are the settings that are assigned; nil for none.
	configured *Configured
	observed   observed
	parameters []v1alpha1.ObservedParameter
	findings   [2]finding

	rules    []*Rule // of FirmwareTemplates that choose the node, in order
	settings []*Rule // of ConfigurationTemplates
	pins     []*Rule
	bonds    []bond // with each pin of the node
	decision Decision
	known    bool
	tallied  []contribution
	source   string
}

// finding is a condition of the operator as the object has it.
type finding struct{ reason, message string }

// NewIndex makes an empty index.
func NewIndex() *Index {
	return &Index{
		nodes: map[string]*node{}, templates: map[Ref]*template{}, sources: map[string]*source{},
		devices: map[string]*device{}, left: map[string]*node{}, rules: map[bucket][]*Rule{},
		byTemplate: map[Ref]map[*device]struct{}{}, bySource: map[string]map[*device]struct{}{},
		named:    map[string]map[*node]struct{}{},
		policies: map[string]v1alpha1.RolloutPolicy{}, quarantines: map[string]v1alpha1.FirmwareQuarantine{},
	}
}

// Decision returns what was decided for a device when its facts last changed. It reports false when there is no decision:
// the device or its Node is not known, or the device was not inspected yet. Nothing may be written then.
func (ix *Index) Decision(device string) (Decision, bool) {
	d := ix.devices[device]
	if d == nil {
		return Decision{}, false
	}
	return d.decision, d.known
}

// SetNode adds a Node or brings its labels up to date.
func (ix *Index) SetNode(name string, labels map[string]string) Affected {
	return ix.event(func() {
		n := ix.node(name)
		if n.exists && maps.Equal(n.labels, labels) {
			return
		}
		n.exists, n.labels = true, maps.Clone(labels)
		ix.refreshNode(n)
	})
}

// DeleteNode removes a Node. Its devices are left as they are.
func (ix *Index) DeleteNode(name string) Affected {
	return ix.event(func() {
		n := ix.nodes[name]
		if n == nil || !n.exists {
			return
		}
		n.exists, n.labels = false, nil
		ix.refreshNode(n)
		ix.forget(n)
	})
}

// SetNodeFirmware adds a NodeFirmware or brings its pins, its machine and its request to retry up to date.
func (ix *Index) SetNodeFirmware(o *v1alpha1.NodeFirmware) Affected {
	return ix.event(func() {
		n := ix.node(o.Name)
		next := *n
		next.firmware, next.firmwareUID, next.firmwareGeneration = true, string(o.UID), o.Generation
		next.vendor, next.model = "", ""
		if m := o.Status.Machine; m != nil {
			next.vendor, next.model = m.Vendor, m.Model
		}
		next.baseline = o.Status.Baseline
		next.scanned = o.Status.LastScanTime != nil
		next.machineKnown = o.Status.Machine != nil || next.scanned
		next.found = findingOf(o.Status.Conditions, v1alpha1.ConditionPinsUnmatched)
		next.retry = desired.Retry(o)
		spec := !n.firmware || next.firmwareUID != n.firmwareUID || next.firmwareGeneration != n.firmwareGeneration
		next.otherMachine = OtherMachine(o)
		machine := next.machineKnown != n.machineKnown || next.otherMachine != n.otherMachine || next.vendor != n.vendor || next.model != n.model
		if (spec || next.scanned != n.scanned || next.found != n.found) && (len(o.Spec.Pins) > 0 || next.found != finding{}) {
			ix.affectPins(n)
		}
		if spec {
			next.pins = PinsOf(o)
			ix.rename(n, next.pins)
		}
		if next.baseline != n.baseline || next.vendor != n.vendor || next.model != n.model {
			ix.affectChoosing(n, every)
		}
		*n = next
		if spec || machine {
			ix.refreshNode(n)
		}
	})
}

// OtherMachine says which machine the pins are for and which one the node is, when that is not the same; empty when it is. A
// machine that reports no serial number is not known to be the same.
func OtherMachine(o *v1alpha1.NodeFirmware) string {
	present := ""
	if m := o.Status.Machine; m != nil {
		present = m.SerialNumber
	}
	if pinned := o.Status.PinnedMachine; len(o.Spec.Pins) == 0 || pinned == "" || pinned == present {
		return ""
	}
	now := "one with the serial number " + present
	if present == "" {
		now = "one that reports no serial number"
	}
	return fmt.Sprintf("the pins of nodefirmware/%s are for the machine with the serial number %s, and this is %s. Nothing is flashed to it. "+
		"If they are not for this machine either, remove the pins. If they are: %s", o.Name, o.Status.PinnedMachine, now, wayout.Request("nfw", o.Name, "adopt"))
}

// DeleteNodeFirmware removes a NodeFirmware and its pins.
func (ix *Index) DeleteNodeFirmware(name string) Affected {
	return ix.event(func() {
		n := ix.nodes[name]
		if n == nil || !n.firmware {
			return
		}
		ix.rename(n, nil)
		ix.affectChoosing(n, every)
		*n = node{name: n.name, exists: n.exists, labels: n.labels, devices: n.devices, left: n.left}
		ix.refreshNode(n)
		ix.forget(n)
	})
}

// SetTemplate adds a template or brings its spec up to date. A template that is being deleted counts as deleted.
func (ix *Index) SetTemplate(o *v1alpha1.FirmwareTemplate) Affected {
	return ix.setTemplate(Ref{v1alpha1.OriginTemplate, o.Name}, o, func() (*Template, error) { return NewTemplate(o) })
}

// SetConfigurationTemplate is SetTemplate for settings.
func (ix *Index) SetConfigurationTemplate(o *v1alpha1.ConfigurationTemplate) Affected {
	return ix.setTemplate(Ref{v1alpha1.OriginConfiguration, o.Name}, o, func() (*Template, error) { return NewConfigurationTemplate(o) })
}

func (ix *Index) setTemplate(ref Ref, o metav1.Object, compile func() (*Template, error)) Affected {
	if o.GetDeletionTimestamp() != nil {
		return ix.deleteTemplate(ref)
	}
	return ix.event(func() {
		t := ix.templates[ref]
		if t != nil && t.uid == string(o.GetUID()) && t.generation == o.GetGeneration() {
			return
		}
		if t == nil {
			t = &template{
				ref: ref, perNode: map[*node]inEffect{}, matched: newFirsts(listedDevices),
				assigned:    newFirsts(listedDevices),
				conflicting: newFirsts(namedDevices), blocked: newFirsts(namedDevices), failed: newFirsts(namedDevices), restored: newFirsts(namedDevices),
			}
			ix.templates[ref] = t
		}
		touched := ix.removeRules(t)
		t.uid, t.generation, t.invalid = string(o.GetUID()), o.GetGeneration(), ""
		compiled, err := compile()
		if err != nil {
			t.invalid = err.Error()
		}
		t.compiled = compiled
		ix.addRules(t, touched)
		for d := range touched {
			ix.refresh(d)
		}
		ix.affected.templates[ref] = struct{}{}
	})
}

// DeleteTemplate removes a FirmwareTemplate.
func (ix *Index) DeleteTemplate(name string) Affected {
	return ix.deleteTemplate(Ref{v1alpha1.OriginTemplate, name})
}

// DeleteConfigurationTemplate removes a ConfigurationTemplate.
func (ix *Index) DeleteConfigurationTemplate(name string) Affected {
	return ix.deleteTemplate(Ref{v1alpha1.OriginConfiguration, name})
}

func (ix *Index) deleteTemplate(ref Ref) Affected {
	return ix.event(func() {
		t := ix.templates[ref]
		if t == nil {
			return
		}
		touched := ix.removeRules(t)
		delete(ix.templates, ref)
		for d := range touched {
			ix.refresh(d)
		}
		delete(ix.affected.templates, ref)
	})
}

// SetPolicy adds a RolloutPolicy or brings the nodes that it chooses up to date.
func (ix *Index) SetPolicy(o *v1alpha1.RolloutPolicy) Affected {
	return ix.event(func() {
		if old, known := ix.policies[o.Name]; known && old.UID == o.UID && old.Generation == o.Generation {
			return
		}
		ix.policies[o.Name] = v1alpha1.RolloutPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, Generation: o.Generation},
			Spec:       v1alpha1.RolloutPolicySpec{NodeSelector: o.Spec.NodeSelector},
		}
		ix.repool()
	})
}

// DeletePolicy removes a RolloutPolicy.
func (ix *Index) DeletePolicy(name string) Affected {
	return ix.event(func() {
		delete(ix.policies, name)
		ix.repool()
	})
}

// repool decides again for the devices that are to get a quarantined image.
func (ix *Index) repool() {
	ix.pools = quarantine.NewPools(slices.Collect(maps.Values(ix.policies)))
	for _, q := range ix.quarantines {
		if quarantine.InForce(&q, "") {
			ix.refreshTakers(q.Spec.Digest)
		}
	}
}

// SetQuarantine adds a FirmwareQuarantine or brings it up to date.
func (ix *Index) SetQuarantine(o *v1alpha1.FirmwareQuarantine) Affected {
	return ix.event(func() {
		next := v1alpha1.FirmwareQuarantine{
			ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, Generation: o.Generation}, Spec: o.Spec, Status: o.Status,
		}
		next.Status.Conditions = nil
		if was, is := ix.quarantines[o.Name]; is && reflect.DeepEqual(was, next) {
			return
		}
		ix.quarantines[o.Name] = next
		ix.judge(o.Spec.Digest)
	})
}

// DeleteQuarantine removes a FirmwareQuarantine.
func (ix *Index) DeleteQuarantine(name string) Affected {
	return ix.event(func() {
		if q, is := ix.quarantines[name]; is {
			delete(ix.quarantines, name)
			ix.judge(q.Spec.Digest)
		}
	})
}

// judge takes over what follows from the quarantines after one of this image changed.
func (ix *Index) judge(image v1alpha1.Digest) {
	ix.bad = quarantine.Compute(quarantine.Facts{Quarantines: slices.Collect(maps.Values(ix.quarantines))})
	ix.refreshTakers(image)
}

// SetSource adds a source or brings its images and its paths up to date. It counts as ready only when
// its status was observed at its present generation.
func (ix *Index) SetSource(o *v1alpha1.FirmwareSource) Affected {
	return ix.event(func() {
		if s := ix.sources[o.Name]; s != nil && s.same(o) {
			return
		}
		ix.sources[o.Name] = compileSource(o)
		ix.refreshUsers(o.Name)
	})
}

// DeleteSource removes a source.
func (ix *Index) DeleteSource(name string) Affected {
	return ix.event(func() {
		if ix.sources[name] != nil {
			delete(ix.sources, name)
			ix.refreshUsers(name)
		}
	})
}

// SetDevice adds a device or brings its facts up to date. A device that is being deleted counts as deleted. Of a node with
// more than MaxDevices the others are left out until there is room: no decision is made about them. A device that has desired
// firmware or settings is never left out, so that a new operator looks at the same ones as its predecessor; no daemon can write that.
func (ix *Index) SetDevice(o *v1alpha1.NodeDevice) Affected {
	if o.DeletionTimestamp != nil {
		return ix.DeleteDevice(o.Name)
	}
	var crowded string
	affected := ix.event(func() {
		var freed *node
		d := ix.devices[o.Name]
		if d != nil && (d.uid != string(o.UID) || d.node.name != o.Spec.NodeName) {
			freed = d.node
			ix.drop(d)
			d = nil
		}
		if n := ix.node(o.Spec.NodeName); d == nil && len(n.devices) >= MaxDevices && o.Spec.Firmware == nil && o.Spec.Configuration == nil {
			crowded = ix.leaveOut(n, o)
		} else {
			ix.set(d, o)
		}
		ix.admit(freed)
	})
	affected.Crowded = crowded
	return affected
}

// set adds the device where it is nil, and takes over what the object says.
func (ix *Index) set(d *device, o *v1alpha1.NodeDevice) {
	added := d == nil
	if added {
		ix.takeIn(o.Name)
		d = &device{name: o.Name, uid: string(o.UID), node: ix.node(o.Spec.NodeName)}
		ix.devices[o.Name], d.node.devices[o.Name] = d, d
	}
	ix.update(d, o, added)
}

// DeleteDevice removes a device.
func (ix *Index) DeleteDevice(name string) Affected {
	return ix.event(func() {
		ix.takeIn(name)
		if d := ix.devices[name]; d != nil {
			ix.drop(d)
			ix.admit(d.node)
		}
	})
}

func (ix *Index) event(f func()) Affected {
	ix.affected = &affected{devices: map[string]struct{}{}, templates: map[Ref]struct{}{}}
	f()
	return Affected{Devices: keys(ix.affected.devices), Templates: slices.Collect(maps.Keys(ix.affected.templates)), Nodes: keys(ix.affected.nodes)}
}

// keys are in order, so that the devices of a node, whose names begin with that of the node, follow each other.
func keys(m map[string]struct{}) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

func (ix *Index) node(name string) *node {
	n := ix.nodes[name]
	if n == nil {
		n = &node{name: name, devices: map[string]*device{}}
		ix.nodes[name] = n
	}
	return n
}

// forget drops a node that no object mentions any more.
func (ix *Index) forget(n *node) {
	if !n.exists && !n.firmware && len(n.devices) == 0 {
		delete(ix.nodes, n.name)
	}
}
