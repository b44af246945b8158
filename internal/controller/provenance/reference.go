package provenance

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// id names an object, whichever one has that name at present.
type id struct {
	kind v1alpha1.ReferenceKind
	name string
}

func idOf(r v1alpha1.ObjectReference) id { return id{r.Kind, r.Name} }

// reference is an object that firmware came from, as it was then, and the pin in it.
type reference struct {
	v1alpha1.ObjectReference
	pin string
}

// object is an object as it is now.
type object struct {
	v1alpha1.ObjectReference
	// pins are the names of the pins of a NodeFirmware.
	pins []string
	// settled says that what the object assigns or provides in its present generation has been decided.
	settled bool
}

// referencesOf lists what an origin names: the template or pin first, then the source. What has no uid or generation cannot be
// compared: a job that a person made need not say where its update comes from.
func referencesOf(o v1alpha1.Origin) []reference {
	var out []reference
	if o.UID != "" && o.Generation != nil {
		r := reference{ObjectReference: v1alpha1.ObjectReference{
			Kind: v1alpha1.ReferenceTemplate, Name: o.Name, UID: o.UID, Generation: *o.Generation,
		}}
		if o.Kind == v1alpha1.OriginPin {
			r.Kind, r.pin = v1alpha1.ReferencePins, o.Rule
		}
		out = append(out, r)
	}
	if s := o.Source; s != nil {
		out = append(out, reference{ObjectReference: v1alpha1.ObjectReference{
			Kind: v1alpha1.ReferenceSource, Name: s.Name, UID: s.UID, Generation: s.Generation,
		}})
	}
	return out
}

// recorded lists what the firmware that a device runs came from, as the daemon recorded it. It is empty where the product put
// nothing on the device, and where the device runs what is desired and that is not what the product put on it: nobody knows
// where that came from.
func recorded(d *v1alpha1.NodeDevice) []reference {
	applied := d.Status.LastApplied
	if applied == nil || replaced(d) {
		return nil
	}
	return referencesOf(applied.Origin)
}

// replaced reports whether somebody else put the desired firmware on the device since the product updated it. While a job works
// on the device, what runs and what is recorded differ too; the device is not Ready then.
func replaced(d *v1alpha1.NodeDevice) bool {
	return d.Status.Firmware != nil && meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionReady) &&
		inventory.NormalizeVersion(d.Status.Firmware.Running) != inventory.NormalizeVersion(d.Status.LastApplied.Version)
}

// assigned lists what the desired firmware of a device comes from.
func assigned(d *v1alpha1.NodeDevice) []reference {
	if d.Spec.Firmware == nil {
		return nil
	}
	return referencesOf(d.Spec.Firmware.Origin)
}

// sameContent reports whether the image that is desired is the one that the product put on the device.
func sameContent(d *v1alpha1.NodeDevice) bool {
	w, applied := d.Spec.Firmware, d.Status.LastApplied
	return w != nil && applied != nil && w.Digest != "" && w.Digest == applied.Digest
}

// isDue reports whether another version is desired than the one that runs.
func isDue(d *v1alpha1.NodeDevice) bool {
	w, f := d.Spec.Firmware, d.Status.Firmware
	return w != nil && f != nil && inventory.NormalizeVersion(w.Version) != inventory.NormalizeVersion(f.Running)
}

// isContested reports whether the assignment of a device stays as it is although its objects may say otherwise.
func isContested(d *v1alpha1.NodeDevice) bool {
	return meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionConflict) ||
		meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionBlocked)
}

func templateObject(o *v1alpha1.FirmwareTemplate) object {
	return object{
		ObjectReference: referTo(v1alpha1.ReferenceTemplate, &o.ObjectMeta),
		settled: o.Status.ObservedGeneration >= o.Generation && o.Spec.State != v1alpha1.TemplatePaused &&
			!hasReason(o.Status.Conditions, v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec),
	}
}

func pinsObject(o *v1alpha1.NodeFirmware) object {
	out := object{ObjectReference: referTo(v1alpha1.ReferencePins, &o.ObjectMeta), settled: true}
	for _, p := range o.Spec.Pins {
		out.pins = append(out.pins, p.Name)
	}
	return out
}

func sourceObject(o *v1alpha1.FirmwareSource) object {
	return object{
		ObjectReference: referTo(v1alpha1.ReferenceSource, &o.ObjectMeta),
		settled: o.Status.ObservedGeneration >= o.Generation &&
			meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady),
	}
}

func referTo(kind v1alpha1.ReferenceKind, o *metav1.ObjectMeta) v1alpha1.ObjectReference {
	return v1alpha1.ObjectReference{Kind: kind, Name: o.Name, UID: string(o.UID), Generation: o.Generation}
}

func hasReason(conditions []metav1.Condition, kind, reason string) bool {
	c := meta.FindStatusCondition(conditions, kind)
	return c != nil && c.Reason == reason
}

// has reports whether the pin of a reference is still there; a template or source has none.
func (o object) has(r reference) bool { return r.pin == "" || slices.Contains(o.pins, r.pin) }

func compareReferences(a, b v1alpha1.ObjectReference) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.UID, b.UID))
}
