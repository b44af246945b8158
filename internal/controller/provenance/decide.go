package provenance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// maxListed bounds both lists in the status, as the API does.
const maxListed = 64

// facts about one node. The objects belong to the cache and must not be changed.
type facts struct {
	// firmware is nil when there is none.
	firmware *v1alpha1.NodeFirmware
	devices  []v1alpha1.NodeDevice
	// objects are those that the devices refer to and that exist.
	objects map[id]object
	now     time.Time
	// quietPeriod is how long what changed must stay the same before it is confirmed to have had no effect, and seen is since when
	// the change has been there that waited for that when the node was last looked at, by its fingerprint.
	quietPeriod time.Duration
	seen        map[string]time.Time
}

// decision is what the NodeFirmware should say. The label belongs to a list that is not empty.
type decision struct {
	// obsolete is the whole list, in order.
	obsolete  []v1alpha1.ObsoleteReference
	confirmed []v1alpha1.ObjectReference
	// pending is the fingerprint of the change that is not confirmed yet; empty when there is none. It is different for different
	// changes.
	pending []string
	// next is how long until the node must be looked at again though nothing changes; 0 for never.
	next time.Duration
}

// decide compares what each device recorded with the objects as they are. A reference is obsolete when the object has another
// uid or generation or is gone.
//
// An edit that changes nothing for a device makes its references obsolete as well: that is seen at once, and whether it has an
// effect is only known when the template controller has decided. When the changes have rested for the quiet period and the image
// that is desired for the device is still the one that it was given, the generations in force are confirmed for the node, and the
// references are obsolete no more. The record of the device stays what it is: what the daemon used.
func decide(f facts) decision {
	var d decision
	if f.firmware == nil {
		return d
	}
	wanted := f.toConfirm()
	d.confirmed = slices.DeleteFunc(slices.Clone(wanted), func(r v1alpha1.ObjectReference) bool {
		return !slices.Contains(f.firmware.Status.Confirmed, r)
	})
	if len(d.confirmed) < len(wanted) {
		change := fmt.Sprint(wanted)
		since, known := f.seen[change]
		if !known {
			since = f.now
		}
		d.pending = []string{change}
		if d.next = f.quietPeriod - f.now.Sub(since); d.next <= 0 {
			d.confirmed, d.pending, d.next = wanted, nil, 0
		}
	}
	d.obsolete = f.obsolete(d.confirmed)
	return d
}

// toConfirm lists, in order, the generations in force that no device of those they concern has on record, although what they
// desire is decided: confirmed, they mean that the change had no effect. It is asked for devices that are still to be updated
// too, because their job records the generations that were in force when their firmware was assigned.
func (f facts) toConfirm() []v1alpha1.ObjectReference {
	all := map[v1alpha1.ObjectReference]struct{}{}
	for i := range f.devices {
		d := &f.devices[i]
		if len(recorded(d)) == 0 && !isDue(d) {
			continue
		}
		unrecorded, known := f.unrecorded(d)
		for _, r := range unrecorded {
			if known {
				all[r] = struct{}{}
			}
		}
	}
	out := slices.SortedFunc(maps.Keys(all), compareReferences)
	return out[:min(len(out), maxListed)]
}

// unrecorded lists the objects in force for a device, in their present generation, which the device has not on record. It
// reports false when what they desire is not decided, so that nothing can be confirmed.
func (f facts) unrecorded(d *v1alpha1.NodeDevice) (out []v1alpha1.ObjectReference, known bool) {
	inForce := assigned(d)
	if len(inForce) == 0 || isContested(d) {
		return nil, false
	}
	record := inForce
	if sameContent(d) {
		record = recorded(d)
	}
	for _, r := range inForce {
		now, exists := f.objects[idOf(r.ObjectReference)]
		if !exists || !now.settled || !now.has(r) {
			return nil, false
		}
		if !slices.ContainsFunc(record, func(r reference) bool { return r.ObjectReference == now.ObjectReference }) {
			out = append(out, now.ObjectReference)
		}
	}
	return out, true
}

// obsolete lists what the devices recorded and what is no longer so.
func (f facts) obsolete(confirmed []v1alpha1.ObjectReference) []v1alpha1.ObsoleteReference {
	devices := map[v1alpha1.ObsoleteReference]int32{}
	for i := range f.devices {
		for _, r := range f.obsoleteOf(&f.devices[i], confirmed) {
			devices[r]++
		}
	}
	var out []v1alpha1.ObsoleteReference
	for r, n := range devices {
		r.Devices = n
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b v1alpha1.ObsoleteReference) int {
		return cmp.Or(compareReferences(a.ObjectReference, b.ObjectReference), cmp.Compare(a.Pin, b.Pin), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

func (f facts) obsoleteOf(d *v1alpha1.NodeDevice, confirmed []v1alpha1.ObjectReference) []v1alpha1.ObsoleteReference {
	record := recorded(d)
	if f.isConfirmed(d, confirmed) {
		return nil
	}
	var out []v1alpha1.ObsoleteReference
	for _, r := range record {
		if reason := f.changed(r); reason != "" {
			out = append(out, v1alpha1.ObsoleteReference{ObjectReference: r.ObjectReference, Pin: r.pin, Reason: reason})
		}
	}
	if len(out) == 0 && len(record) > 0 && isSuperseded(d) {
		r := record[0]
		out = append(out, v1alpha1.ObsoleteReference{ObjectReference: r.ObjectReference, Pin: r.pin, Reason: v1alpha1.ObsoleteSuperseded})
	}
	return out
}

// isConfirmed reports whether nothing that is in force for the device changes its image, though it recorded something else.
func (f facts) isConfirmed(d *v1alpha1.NodeDevice, confirmed []v1alpha1.ObjectReference) bool {
	unrecorded, known := f.unrecorded(d)
	return known && sameContent(d) &&
		!slices.ContainsFunc(unrecorded, func(r v1alpha1.ObjectReference) bool { return !slices.Contains(confirmed, r) })
}

// changed says what became of an object since the firmware of a device came from it; empty when it is as it was.
func (f facts) changed(r reference) v1alpha1.ObsoleteReason {
	now, exists := f.objects[idOf(r.ObjectReference)]
	switch {
	case !exists:
		return v1alpha1.ObsoleteDeleted
	case now.UID != r.UID:
		return v1alpha1.ObsoleteRecreated
	case !now.has(r):
		return v1alpha1.ObsoleteDeleted
	case now.Generation != r.Generation:
		return v1alpha1.ObsoleteUpdated
	}
	return ""
}

// isSuperseded reports whether another template or pin than the recorded one assigns another image now.
func isSuperseded(d *v1alpha1.NodeDevice) bool {
	w, was := d.Spec.Firmware, d.Status.LastApplied.Origin
	if w == nil || w.Digest == "" || sameContent(d) {
		return false
	}
	now := w.Origin
	return now.Kind != was.Kind || now.Name != was.Name || now.Kind == v1alpha1.OriginPin && now.Rule != was.Rule
}
