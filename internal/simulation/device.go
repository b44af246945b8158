package simulation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Device is one device of a node that the rollout updates.
type Device struct {
	// Name is empty for one that is made up.
	Name string
	// Model and Version are what its firmware is for, and what it runs before the rollout.
	Model, Version string
	// To is the version that it is updated to, and Digest the image; empty for Work.Version and an image that is made up.
	To     string
	Digest v1alpha1.Digest
	// Then are the updates after that one, on an upgrade path.
	Then []Image
}

// Image is a version that a device is updated to.
type Image struct {
	Version string
	Digest  v1alpha1.Digest
}

// LoadDevices reads the output of kubectl get nodedevices -o json, and gives each node of the fleet its devices that are to be
// updated now: those with desired firmware that they do not run. It counts those that are not updated all the same, and refuses a list
// in which no node of the fleet has a device.
func LoadDevices(file string, fleet []Node) (NotDue, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read devices: %w", err)
	}
	var list v1alpha1.NodeDeviceList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: not the output of kubectl get nodedevices -o json: %w", file, err)
	}
	if list.Kind == "NodeDevice" {
		return nil, fmt.Errorf("%s: kind is NodeDevice, want a list: kubectl get nodedevices -o json without a name", file)
	}
	nodes := make(map[string]*Node, len(fleet))
	for i := range fleet {
		nodes[fleet[i].Name], fleet[i].Devices = &fleet[i], nil
	}
	var errs []error
	known, left := false, NotDue{}
	for i := range list.Items {
		d := &list.Items[i]
		if d.Kind != "" && d.Kind != "NodeDevice" {
			errs = append(errs, fmt.Errorf("%s: items[%d].kind is %q, want NodeDevice", file, i, d.Kind))
			continue
		}
		n := nodes[d.Spec.NodeName]
		known = known || n != nil
		if n == nil {
			continue
		}
		due, now := updatesOf(d)
		if len(due) == 0 {
			left.add(d, now)
			continue
		}
		n.Devices = append(n.Devices, Device{
			Name: d.Name, Model: d.Status.ModelKey(), Version: d.Status.Firmware.Running, To: due[0].Version, Digest: due[0].Digest, Then: due[1:],
		})
	}
	if len(errs) == 0 && !known {
		errs = append(errs, fmt.Errorf("%s: items: no device belongs to a node of the fleet; take nodes and devices from the same cluster", file))
	}
	return left, errors.Join(errs...)
}

// updatesOf are the updates that the operator makes of a device, one after the other: what package plan decides about it now, and then
// about one that runs what was flashed. Whether a person asked to try a failed one again is not known.
func updatesOf(d *v1alpha1.NodeDevice) (out []Image, now plan.Decision) {
	want, facts := desired.Of(d.Spec.Firmware, ""), match.Facts(d)
	now = plan.Decide(want, facts)
	if meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionBlocked) || meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionConflict) {
		return nil, now
	}
	next := now
	for range len(want.Path) + 1 {
		if !next.Outcome.Due() {
			break
		}
		out = append(out, Image{Version: string(next.Version), Digest: v1alpha1.Digest(next.Digest.String())})
		facts.Running = next.Version
		next = plan.Decide(want, facts)
	}
	return out, now
}

// device is one device on its way.
type device struct {
	Device
	done bool
}

// devicesOf are the devices of a node, with what their specification leaves out.
func devicesOf(n Node, version string) []device {
	out := make([]device, len(n.Devices))
	for i, d := range n.Devices {
		if d.Name == "" {
			d.Name = fmt.Sprintf("%s-device-%d", n.Name, i)
		}
		d.To = cmp.Or(d.To, version)
		d.Digest = cmp.Or(d.Digest, imageOf(d.Model, d.To))
		out[i].Device = d
	}
	return out
}

// updated notes that the device runs what it was updated to.
func (d *device) updated() {
	if len(d.Then) == 0 {
		d.done = true
		return
	}
	next := d.Then[0]
	d.Version, d.To, d.Then = d.To, next.Version, d.Then[1:]
	d.Digest = cmp.Or(next.Digest, imageOf(d.Model, d.To))
}

// edge is the update of a device.
func (d device) edge() schedule.Edge {
	return schedule.EdgeOf(d.Model, d.Version, d.To, d.Digest)
}

// fill says what a queued job updates: the devices that are not done. One whose image is quarantined keeps the others not waiting,
// because the planner leaves it out.
func (r *run) fill(n *node, j *schedule.Job) {
	var due, blocked []int
	j.Quarantined = nil
	for i := range n.devices {
		if n.devices[i].done {
			continue
		}
		q := r.bad.blocks(n, n.devices[i])
		if q == nil {
			due = append(due, i)
			continue
		}
		blocked = append(blocked, i)
		if j.Quarantined == nil {
			j.Quarantined = q
		}
	}
	if len(due) > 0 {
		j.Quarantined = nil
	} else {
		due = blocked
	}
	n.updates, n.models, j.Devices, j.Edges = due, "", nil, nil
	for at, i := range due {
		if at > 0 {
			n.models += "+"
		}
		n.models += n.devices[i].Model
		j.Devices = append(j.Devices, n.devices[i].Name)
		j.Edges = schedule.WithEdge(j.Edges, schedule.JobEdge{Edge: n.devices[i].edge()})
	}
}

// edgesDue are the updates that a node is to get now.
func (r *run) edgesDue(n *node) (out []schedule.Edge) {
	for _, d := range n.devices {
		if d.done || r.bad.blocks(n, d) != nil {
			continue
		}
		if at, found := slices.BinarySearchFunc(out, d.edge(), schedule.Edge.Compare); !found {
			out = slices.Insert(out, at, d.edge())
		}
	}
	return out
}

// due says which nodes of a part are to get updates and have no job, because the queue is full or they wait for another try.
func (r *run) due(s *part) {
	for _, n := range s.nodes {
		waits := !n.done && len(n.jobs) == 0
		if waits {
			s.facts.Due[n.Name] = r.edgesDue(n)
		} else if n.due {
			s.facts.Due[n.Name] = nil
		}
		n.due = waits
	}
}
