package match

import "github.com/nodefirmware/node-firmware-operator/api/v1alpha1"

// MaxDevices bounds the devices of one node. A node that reports more lies or is broken, and must not cost the others the
// operator's memory and time. No machine has a tenth of it.
const MaxDevices = 512

// crowd are the devices of a node that are left out, as they were last seen: the cache holds these objects in any case. The zero
// value is empty.
type crowd struct {
	names   *firsts
	objects map[string]*v1alpha1.NodeDevice
}

// leaveOut leaves a device of a crowded node out until there is room. It returns the name of the node for the first one.
func (ix *Index) leaveOut(n *node, o *v1alpha1.NodeDevice) (crowded string) {
	if before := ix.left[o.Name]; before != n {
		ix.takeIn(o.Name)
	}
	if len(n.left.objects) == 0 {
		n.left, crowded = crowd{newFirsts(MaxDevices), map[string]*v1alpha1.NodeDevice{}}, n.name
	}
	n.left.names.add(o.Name)
	n.left.objects[o.Name], ix.left[o.Name] = o, n
	return crowded
}

// takeIn ends that a device is left out, if it is.
func (ix *Index) takeIn(name string) {
	n := ix.left[name]
	if n == nil {
		return
	}
	n.left.names.remove(name)
	delete(n.left.objects, name)
	delete(ix.left, name)
}

// admit adds those devices of a node that were left out, in order of name, for which there is room now.
func (ix *Index) admit(n *node) {
	for n != nil && len(n.devices) < MaxDevices && len(n.left.objects) > 0 {
		ix.set(nil, n.left.objects[n.left.names.head[0]])
	}
}
