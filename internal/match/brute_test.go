package match

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/baseline"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// brute decides for the whole world by comparing everything with everything, as the requirements say it.
func (w *world) brute() view {
	v := view{map[string]string{}, map[string]Tally{}}
	w.inEffect = map[string][]bool{}
	compiled := map[string]*Template{}
	for name, o := range w.templates {
		tally := Tally{Kind: v1alpha1.OriginTemplate, UID: string(o.UID), Generation: o.Generation, Paused: o.Spec.State == v1alpha1.TemplatePaused}
		c, err := NewTemplate(o)
		if err != nil {
			tally.Invalid, tally.Paused = err.Error(), false
		} else {
			compiled[name] = c
			for node := range w.nodes {
				if w.chosen(c, node) {
					tally.Nodes++
				}
			}
		}
		v.tallies[name] = tally
	}
	for _, name := range slices.Sorted(maps.Keys(w.devices)) {
		w.bruteDevice(v, compiled, w.devices[name])
	}
	for name, c := range compiled {
		w.bruteNodes(v, c, name)
	}
	return v
}

// bruteNodes counts by node what was counted by device, and finds what comes nearest where nothing matches.
func (w *world) bruteNodes(v view, c *Template, name string) {
	t := v.tallies[name]
	for _, node := range slices.Sorted(maps.Keys(w.nodes)) {
		if !w.chosen(c, node) {
			continue
		}
		switch s := w.inEffect[name+"/"+node]; {
		case slices.Contains(s, false):
			t.NodesNotApplied++
		case len(s) > 0:
			t.NodesApplied++
		}
		for _, device := range slices.Sorted(maps.Keys(w.devices)) {
			for _, r := range c.Rules {
				o := w.devices[device]
				if differs := r.Selector.differences(DeviceOf(o)); t.Matched == 0 && o.Spec.NodeName == node && len(differs) > 0 &&
					(t.Nearest == nil || len(differs) < len(t.Nearest.Differs)) {
					t.Nearest = &Near{device, r.Rule, differs}
				}
			}
		}
	}
	w.bruteBaselines(c, &t)
	v.tallies[name] = t
}

// bruteBaselines compares each node with those of its machine model that have the baseline of most, or that of the first node of as many.
func (w *world) bruteBaselines(c *Template, t *Tally) {
	with := map[string]map[string][]string{} // nodes in order by machine model and baseline
	for _, node := range slices.Sorted(maps.Keys(w.nodes)) {
		if f := w.firmwares[node]; f != nil && f.Status.Baseline != "" && w.chosen(c, node) {
			model, _ := w.machine(node)
			if with[model] == nil {
				with[model] = map[string][]string{}
			}
			with[model][f.Status.Baseline] = append(with[model][f.Status.Baseline], node)
		}
	}
	contents := func(node string) (out []baseline.Device) {
		for _, d := range w.devices {
			if d.Spec.NodeName == node {
				out = append(out, baseline.DeviceOf(&d.Status))
			}
		}
		return out
	}
	for _, all := range with {
		t.Baselines = max(t.Baselines, int32(len(all)))
		most := slices.MinFunc(slices.Collect(maps.Values(all)), func(a, b []string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a[0], b[0])) })
		for _, nodes := range all {
			if nodes[0] != most[0] {
				t.NodesUnlike += int32(len(nodes))
				t.Unlike = append(t.Unlike, Unlike{int32(len(nodes)), nodes[0], most[0], baseline.Compare(contents(nodes[0]), contents(most[0]))})
			}
		}
	}
	slices.SortFunc(t.Unlike, func(a, b Unlike) int { return cmp.Compare(a.Node, b.Node) })
}

func (w *world) machine(node string) (model string, known bool) {
	f := w.firmwares[node]
	if f == nil {
		return "", false
	}
	if f.Status.Machine != nil {
		return f.Status.Machine.Model, true
	}
	return "", f.Status.LastScanTime != nil
}

func (w *world) chosen(t *Template, node string) bool {
	l, exists := w.nodes[node]
	model, _ := w.machine(node)
	return exists && t.ChoosesLabels(l) && t.ChoosesMachine("", model)
}

func (w *world) bruteDevice(v view, compiled map[string]*Template, o *v1alpha1.NodeDevice) {
	node := o.Spec.NodeName
	labels, exists := w.nodes[node]
	if !exists || o.Status.Class == "" {
		v.decisions[o.Name] = describe(Decision{}, false)
		return
	}
	facts, readable, current := DeviceOf(o), Facts(o), AssignedTo(o)
	unread := strings.Contains(fmt.Sprint(o.Status.Conditions), v1alpha1.ReasonReadFailed)
	observed := readable
	if unread {
		observed.Unreadable = "no answer"
	}
	_, machineKnown := w.machine(node)

	var pins, rules []*Rule
	var heldPin, heldRule *Party
	heldReason := ""
	if f := w.firmwares[node]; f != nil {
		for _, p := range rulesOf(v1alpha1.OriginPin, f, f.Spec.Pins) {
			mine := originOf(current, 0) == p.Party
			if p.Selector.Matches(facts) {
				pins = append(pins, p)
			} else if unread && mine && p.Selector.MayMatch(facts) {
				heldPin, heldReason = &p.Party, v1alpha1.ReasonReadFailed
			}
		}
		bySerial := func(party Party) bool {
			return slices.ContainsFunc(f.Spec.Pins, func(p v1alpha1.FirmwareRule) bool { return p.Name == party.Rule && len(p.Selector.SerialNumbers) > 0 })
		}
		first := heldPin != nil && bySerial(*heldPin) || slices.ContainsFunc(pins, func(p *Rule) bool { return bySerial(p.Party) })
		if first {
			pins = slices.DeleteFunc(pins, func(p *Rule) bool { return !bySerial(p.Party) })
			if heldPin != nil && !bySerial(*heldPin) {
				heldPin = nil
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(compiled)) {
		c := compiled[name]
		for _, r := range c.Rules {
			if w.chosen(c, node) && r.Selector.Matches(facts) {
				rules = append(rules, r)
			}
		}
	}
	if mine := originOf(current, 0); mine.Kind == v1alpha1.OriginTemplate && w.templates[mine.Name] != nil {
		name := mine.Name
		by := &mine
		matches := func(f func(*Rule) bool) bool { return slices.ContainsFunc(rules, f) }
		switch c := compiled[name]; {
		case c == nil:
			heldRule = by
			if heldPin == nil {
				heldReason = v1alpha1.ReasonInvalidSpec
			}
		case c.Paused:
			if !matches(func(r *Rule) bool { return r.Name == name }) {
				heldRule = by
				if heldPin == nil {
					heldReason = v1alpha1.ReasonPaused
				}
			}
		default:
			for _, r := range c.Rules {
				may := r.Selector.Matches(facts) || unread && r.Selector.MayMatch(facts)
				place := w.chosen(c, node) || !machineKnown && c.ChoosesLabels(labels)
				if r.Party == *by && may && place && !matches(func(o *Rule) bool { return o.Party == *by }) {
					heldRule = by
					if heldPin == nil {
						heldReason = v1alpha1.ReasonReadFailed
					}
				}
			}
		}
	}

	claims, held := rules, heldRule
	if len(pins) > 0 || heldPin != nil {
		claims, held = pins, heldPin
	}
	var all []Party
	for _, r := range claims {
		all = append(all, r.Party)
	}
	if held != nil {
		all = append(all, *held)
	}
	slices.SortFunc(all, Party.compare)

	var goal *Assigned
	var noImage *Block
	kept := ""
	switch {
	case len(all) > 1:
		goal = current
	case len(all) == 1 && held != nil:
		goal, kept = current, heldReason
	case len(all) == 1 && claims[0].Kind == v1alpha1.OriginTemplate && compiled[claims[0].Name].Paused:
		if mine := originOf(current, 0); mine.Kind == v1alpha1.OriginTemplate && mine.Name == claims[0].Name {
			goal, kept = current, v1alpha1.ReasonPaused
		}
	case len(all) == 1:
		r := claims[0]
		goal = &Assigned{
			DesiredFirmware: v1alpha1.DesiredFirmware{Version: string(r.Version), Policy: r.Policy, Downgrade: r.Downgrade},
			Origin: []v1alpha1.Origin{
				{Kind: r.Kind, Name: r.Name, UID: r.UID, Generation: r.Generation, Rule: r.Rule, Hash: v1alpha1.ContentHash(string(r.Version), r.Source)},
				{Kind: v1alpha1.OriginSource, Name: r.Source},
			},
		}
		noImage = w.bruteWay(facts, current, goal)
	}
	var decision Decision
	if len(all) > 1 {
		decision.Conflict = all
	}
	without := func(f *Assigned) string {
		if f == nil {
			return ""
		}
		c := *f
		c.Origin = slices.Clone(c.Origin)
		for i := range c.Origin {
			c.Origin[i].Generation = 0
		}
		return describe(Decision{Firmware: &c}, true)
	}
	switch {
	case without(goal) == without(current):
		decision.Firmware = current
	case goal == nil:
		decision.Action = Remove
	default:
		decision.Action, decision.Firmware = Assign, goal
	}
	var retry plan.Clearance
	if f := w.firmwares[node]; f != nil {
		retry = plan.Clearance(f.Spec.Requests.Retry)
	}
	pin := w.bruteUnmatched(o)
	if len(pins) > 0 || decision.Conflict != nil || originOf(decision.Firmware, 0).Kind != v1alpha1.OriginTemplate {
		pin = nil
	}
	if pin != nil && decision.Action == Assign {
		switch originOf(current, 0).Kind {
		case v1alpha1.OriginTemplate:
			decision = Decision{Firmware: current}
		case v1alpha1.OriginPin:
			decision = Decision{Action: Remove}
		default:
			decision = Decision{}
		}
		decision.Blocked = &Block{Reason: v1alpha1.ReasonNoMatch, By: *pin}
	}
	decision.Verdict = plan.Decide(desired.Of(decision.Firmware.Desired(), retry), readable)
	if pin != nil && decision.Verdict.Outcome.Due() {
		decision.Blocked = &Block{Reason: v1alpha1.ReasonNoMatch, By: *pin}
	}
	if f := decision.Firmware; f != nil && decision.Conflict == nil && decision.Blocked == nil {
		p := decision.Verdict
		b := &Block{
			Reason: string(p.Reason), Message: p.Message, By: originOf(f, 0),
			Source: originOf(f, 1).Name, Version: f.Version, Class: facts.Class, Model: facts.Model, BoardID: facts.BoardID,
		}
		switch string(p.Reason) {
		case v1alpha1.ReasonImageNotFound:
			b.Message = ""
			if noImage != nil {
				b.Reason, b.Message = noImage.Reason, noImage.Message
				if noImage.Version != "" {
					b.Version = noImage.Version
				}
			} else if _, b.Reason = w.resolve(facts, current, b.Source, b.Version); b.Reason == "" {
				b.Reason = kept
			}
			decision.Blocked = b
		case "":
			if p.Outcome.Due() {
				decision.Blocked = w.bruteUnusable(facts, current, f, observed.Running, noImage, *b)
			}
		case v1alpha1.ReasonNotUpdatable, v1alpha1.ReasonDowngradeForbidden, v1alpha1.ReasonPathBlocked,
			v1alpha1.ReasonDeviceUnhealthy:
			decision.Blocked = b
		}
	}
	v.decisions[o.Name] = describe(decision, true)
	w.bruteTallies(v, o, decision, rules, heldRule, plan.Decide(desired.Of(decision.Firmware.Desired(), retry), observed))
}

// bruteUnmatched is the pin that matches no device of the node and may mean this one.
func (w *world) bruteUnmatched(o *v1alpha1.NodeDevice) *Party {
	f := w.firmwares[o.Spec.NodeName]
	if f == nil {
		return nil
	}
	for i, p := range rulesOf(v1alpha1.OriginPin, f, f.Spec.Pins) {
		matches, bears, mine := false, false, false
		for _, other := range w.devices {
			d := DeviceOf(other)
			if other.Spec.NodeName != o.Spec.NodeName || d.Class != v1alpha1.ClassNIC {
				continue
			}
			matches = matches || p.Selector.Matches(d) || Unread(other) && p.Selector.MayMatch(d)
			if serials := f.Spec.Pins[i].Selector.SerialNumbers; len(serials) > 0 && d.SerialNumber == serials[0] {
				bears, mine = true, mine || other.Name == o.Name
			}
		}
		if !matches && bears == mine {
			return &p.Party
		}
	}
	return nil
}

// originOf is the assigner, or the source, of an assignment.
func originOf(a *Assigned, i int) Party {
	if a == nil {
		return Party{}
	}
	return Party{a.Origin[i].Kind, a.Origin[i].Name, a.Origin[i].Rule}
}

// bruteWay adds image and path to the firmware of a rule.
func (w *world) bruteWay(d Device, current, goal *Assigned) *Block {
	source := goal.Origin[1].Name
	resolve := func(v inventory.Version) (v1alpha1.Digest, string) { return w.resolve(d, current, source, string(v)) }
	image, reason := resolve(inventory.Version(goal.Version))
	s := w.sources[source]
	if s != nil {
		goal.Origin[1].UID, goal.Origin[1].Generation = string(s.UID), s.Generation
	}
	if image == "" {
		return &Block{Reason: reason, Version: goal.Version}
	}
	path, o := route(inventory.Version(goal.Version), resolve, SourcePaths(s))
	switch {
	case o == nil:
		goal.Digest, goal.Path = image, path
		goal.Origin[1].Hash = v1alpha1.ImageHash(image)
	case o.Reason == v1alpha1.ReasonSourceNotReady:
		goal.Digest, goal.Path, goal.Origin[1] = image, current.Path, current.Origin[1]
	}
	return o
}

// bruteUnusable follows the way from what runs, and asks of each image on it whether it may be used.
func (w *world) bruteUnusable(d Device, current, f *Assigned, running inventory.Version, noImage *Block, b Block) *Block {
	waiting := noImage != nil && noImage.Reason == v1alpha1.ReasonSourceNotReady
	for arrived := false; !arrived; {
		next, image := f.Version, f.Digest
		for more := true; more; { // a version in between may need one itself
			more = false
			for _, s := range f.Path {
				if s.To == next && s.Via != "" && slices.Contains(s.From, string(running)) {
					next, image, more = s.Via, s.Digest, true
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(w.quarantines)) {
			q, model := w.quarantines[name], v1alpha1.ModelKey(d.VendorID, d.DeviceID, d.Vendor, d.Model)
			concerns := q.Spec.Model == model || q.Spec.Model == v1alpha1.AnyModel || model == v1alpha1.AnyModel
			if q.Spec.Digest == image && concerns && bruteForbids(q) {
				b.Reason, b.Version, b.Message = v1alpha1.ReasonQuarantined, next, quarantined(next, q)
				return &b
			}
		}
		_, reason := w.resolve(d, current, originOf(f, 1).Name, next)
		waiting = waiting || reason == v1alpha1.ReasonSourceNotReady
		arrived, running = next == f.Version, inventory.Version(next)
	}
	if !waiting {
		return nil
	}
	b.Reason = v1alpha1.ReasonSourceNotReady
	return &b
}

// bruteForbids reports whether the image is not flashed on nodes of the policy default, which is that of all.
func bruteForbids(q *v1alpha1.FirmwareQuarantine) bool {
	isLifted := q.Spec.State == v1alpha1.QuarantineLifted && q.Generation != q.Status.ObservedGeneration
	return q.Spec.State == v1alpha1.QuarantineConfirmed ||
		!isLifted && (len(q.Status.Reports) > 1 || q.Status.Reports[0].Policy == v1alpha1.DefaultRolloutPolicy)
}

func (w *world) resolve(d Device, current *Assigned, source, version string) (v1alpha1.Digest, string) {
	s := w.sources[source]
	if s == nil {
		return "", v1alpha1.ReasonSourceNotFound
	}
	found := map[v1alpha1.Digest]bool{}
	for _, i := range s.Status.Images {
		if i.Version == version && (len(i.BoardIDs) == 0 || i.BoardIDs[0] == d.BoardID) {
			found[i.Digest] = true
		}
	}
	if len(s.Status.Conditions) == 0 || s.Status.ObservedGeneration != s.Generation {
		assigned := v1alpha1.Digest("")
		if current != nil && originOf(current, 1).Name == source {
			images := map[string]v1alpha1.Digest{}
			for _, s := range current.Path {
				images[s.Via] = s.Digest
			}
			images[current.Version] = current.Digest
			assigned = images[version]
		}
		if len(found) == 1 && found[assigned] {
			return assigned, ""
		}
		return assigned, v1alpha1.ReasonSourceNotReady
	}
	switch len(found) {
	case 0:
		return "", v1alpha1.ReasonImageNotFound
	case 1:
		return slices.Collect(maps.Keys(found))[0], ""
	}
	return "", v1alpha1.ReasonImageAmbiguous
}

func (w *world) bruteTallies(v view, o *v1alpha1.NodeDevice, d Decision, rules []*Rule, held *Party, p plan.Decision) {
	touched := map[string]bool{}
	for _, r := range rules {
		touched[r.Name] = true
	}
	if held != nil {
		touched[held.Name] = true
	}
	for name := range touched {
		t := v.tallies[name]
		t.Matched++
		var others []string
		list := &others
		conflict := slices.ContainsFunc(d.Conflict, func(p Party) bool { return p.Kind == v1alpha1.OriginTemplate && p.Name == name })
		if conflict {
			t.Conflicting++
			t.Conflicts = append(t.Conflicts, ConflictOn{o.Name, d.Conflict})
		}
		f := d.Firmware
		held, mine := d.Blocked != nil && d.Blocked.Reason == v1alpha1.ReasonNoMatch, originOf(f, 0).Name == name && originOf(f, 0).Kind == v1alpha1.OriginTemplate
		switch {
		case f == nil && d.Conflict == nil && !held:
			t.Unassigned++
		case !mine && !held:
		case p.Outcome == plan.UpToDate && !held:
			list = &t.Devices
			t.Applied++
			if strings.Contains(fmt.Sprint(o.Status.Conditions), v1alpha1.ReasonProgressing) {
				t.Updating++
			}
			w.inEffect[name+"/"+o.Spec.NodeName] = append(w.inEffect[name+"/"+o.Spec.NodeName], true)
		default:
			if mine {
				list = &t.Devices
			} else {
				t.Withheld++
			}
			t.NotApplied++
			w.inEffect[name+"/"+o.Spec.NodeName] = append(w.inEffect[name+"/"+o.Spec.NodeName], false)
			switch {
			case strings.Contains(fmt.Sprint(o.Status.Conditions), v1alpha1.ReasonProgressing):
				t.Updating++
			case conflict:
			case d.Blocked != nil:
				t.Blocked++
				if d.Blocked.Reason == v1alpha1.ReasonSourceNotReady {
					t.Waiting++
				}
			case p.Outcome == plan.Differs:
				t.Mismatched++
			case p.Reason == plan.ReasonUpdateFailed:
				t.Failed++
				t.Failures = append(t.Failures, FailureOn{o.Name, o.Spec.NodeName})
			default:
				t.Pending++
			}
			if d.Blocked != nil && !strings.Contains(fmt.Sprint(o.Status.Conditions), v1alpha1.ReasonProgressing) && !conflict {
				t.Blocks = append(t.Blocks, BlockOn{o.Name, *d.Blocked})
			}
		}
		*list = append(*list, o.Name)
		t.Conflicts, t.Blocks = t.Conflicts[:min(len(t.Conflicts), 3)], t.Blocks[:min(len(t.Blocks), 3)]
		t.Failures = t.Failures[:min(len(t.Failures), 3)]
		v.tallies[name] = t
	}
}
