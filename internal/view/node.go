package view

import (
	"cmp"
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

// Node is the page of a node.
type Node struct {
	Name    string            `json:"name"`
	Machine *v1alpha1.Machine `json:"machine,omitempty"`
	// Scanned is when its hardware was read last, and Pins are the rules for it alone.
	Scanned *metav1.Time `json:"scanned,omitempty"`
	Pins    []string     `json:"pins,omitempty"`
	Reason  string       `json:"reason"`
	Says    string       `json:"says"`
	Chain   []Link       `json:"chain"`
	Next    []Command    `json:"next"`
	Devices []Device     `json:"devices"`
	// Jobs are those that are kept, the newest first.
	Jobs []Job `json:"jobs"`
	// Job is the one that is at work, waits or holds the node: its place in Jobs; -1 for none.
	Job int `json:"job"`
}

// Link is what led there.
type Link struct {
	Of     string `json:"of"`
	Reason string `json:"reason,omitempty"`
	Says   string `json:"says"`
}

// Device is a device of the node.
type Device struct {
	Name     string                   `json:"name"`
	Class    v1alpha1.DeviceClass     `json:"class"`
	Vendor   string                   `json:"vendor,omitempty"`
	Model    string                   `json:"model,omitempty"`
	Address  string                   `json:"address,omitempty"`
	Running  string                   `json:"running,omitempty"`
	Stored   string                   `json:"stored,omitempty"`
	Desired  string                   `json:"desired,omitempty"`
	By       string                   `json:"by,omitempty"`
	Position v1alpha1.CatalogPosition `json:"position"`
	Newest   string                   `json:"newest,omitempty"`
	Issues   []string                 `json:"issues,omitempty"`
	FixedIn  string                   `json:"fixedIn,omitempty"`
	Ready    bool                     `json:"ready"`
	Reason   string                   `json:"reason"`
	Says     string                   `json:"says"`
	Notes    []string                 `json:"notes,omitempty"`
}

// Job is a job of the node.
type Job struct {
	Name   string             `json:"name"`
	Type   v1alpha1.JobType   `json:"type"`
	Made   metav1.Time        `json:"made"`
	Start  *metav1.Time       `json:"start,omitempty"`
	End    *metav1.Time       `json:"end,omitempty"`
	Failed bool               `json:"failed"`
	Reason string             `json:"reason"`
	Says   string             `json:"says"`
	Steps  []v1alpha1.JobStep `json:"steps"`
	Reboot int32              `json:"reboots"`
	// Updates are what it brings devices to.
	Updates []Update `json:"updates,omitempty"`
}

// Update is what a job does to a device.
type Update struct {
	Device string `json:"device"`
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
}

// readNode asks the API server for all of a node of the picture.
func readNode(ctx context.Context, api client.Reader, name string, p *Picture) (*Node, error) {
	n := &v1alpha1.NodeFirmware{}
	switch err := api.Get(ctx, client.ObjectKey{Name: name}, n); {
	case apierrors.IsNotFound(err) && p.Rows[name] != nil:
		return unseen(name), nil
	case err != nil:
		return nil, err
	}
	g := &explain.Gathering{Ctx: ctx, API: api}
	var devices []*v1alpha1.NodeDevice
	g.EachDevice(name, func(d *v1alpha1.NodeDevice) { devices = append(devices, d) })
	jobs, why := g.JobsOf(name), g.Explain(n)
	if g.Err != nil {
		return nil, g.Err
	}
	return drawNode(n, devices, jobs, why, p.standings), nil
}

// unseen is the page of a node of the cluster that has no NodeFirmware.
func unseen(name string) *Node {
	return &Node{
		Name: name, Reason: explain.Deciding(nil).Reason, Chain: []Link{}, Devices: []Device{}, Jobs: []Job{}, Job: -1,
		Says: "Nothing has looked at this node yet. Where no pod of the daemon is on it, the DaemonSet does not want it: look at its node selector and tolerations.",
		Next: []Command{{"To see whether the DaemonSet has a pod there", wayout.DaemonPod(name)}},
	}
}

func drawNode(n *v1alpha1.NodeFirmware, devices []*v1alpha1.NodeDevice, jobs []*v1alpha1.FirmwareJob, why *explain.Explanation, standings *explain.Standings) *Node {
	out := &Node{
		Name: n.Name, Machine: n.Status.Machine, Scanned: n.Status.LastScanTime, Reason: why.Reason, Says: why.Sentence, Chain: []Link{}, Next: []Command{}, Devices: []Device{}, Jobs: []Job{}, Job: -1,
	}
	for _, p := range n.Spec.Pins {
		out.Pins = append(out.Pins, strings.TrimSpace(p.Name+" "+p.Version))
	}
	for _, l := range why.Chain {
		out.Chain = append(out.Chain, Link{l.Of, l.Reason, l.Says})
	}
	for _, w := range why.Next {
		out.Next = append(out.Next, Command{cmp.Or(w.Purpose, "To change it"), w.Typed()})
	}
	byName(devices)
	for _, d := range devices {
		out.Devices = append(out.Devices, drawDevice(d, standings))
	}
	for _, j := range jobs {
		out.Jobs = append(out.Jobs, drawJob(j))
	}
	held := func(j *v1alpha1.FirmwareJob) bool { return j.Name == n.Status.HeldBy }
	if out.Job = slices.IndexFunc(jobs, held); out.Job < 0 {
		if next := explain.Unended(jobs); next != nil {
			out.Job = slices.Index(jobs, next)
		}
	}
	return out
}

func drawDevice(d *v1alpha1.NodeDevice, standings *explain.Standings) Device {
	s := &d.Status
	c := explain.Deciding(s.Conditions)
	if of := ofDevice(d); of != nil {
		c = *of
	}
	out := Device{
		Name: d.Name, Class: s.Class, Vendor: s.Vendor, Model: s.Model, Address: s.PCIAddress, Running: s.Running(), Position: v1alpha1.PositionUnknown,
		Ready: c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionTrue, Reason: c.Reason,
	}
	out.Says, _ = wayout.Ways(c.Message)
	if f := s.Firmware; f != nil {
		out.Stored, out.Notes = f.Stored, f.Notes
	}
	if f := d.Spec.Firmware; f != nil {
		out.Desired = f.Version
	}
	if by := v1alpha1.AssignedBy(d.Spec.Origin); by != nil {
		out.By = strings.Trim(by.Name+"/"+by.Rule, "/")
	}
	component, stands := standings.Of(d)
	out.Newest = explain.Newest(component)
	if stands != nil {
		out.Position, out.Issues, out.FixedIn = cmp.Or(stands.Position, v1alpha1.PositionUnknown), stands.Issues, stands.FixedIn
	}
	return out
}

func drawJob(j *v1alpha1.FirmwareJob) Job {
	c := explain.DecidingOf(j)
	out := Job{
		Name: j.Name, Type: j.Spec.Task.Type, Made: j.CreationTimestamp, Start: j.Status.StartTime, End: j.Status.CompletionTime, Failed: j.Failed(), Reason: c.Reason,
		Steps: append([]v1alpha1.JobStep{}, j.Status.Steps...), Reboot: j.Status.Reboots,
	}
	out.Says, _ = wayout.Ways(c.Message)
	for _, u := range j.Spec.Task.Devices {
		out.Updates = append(out.Updates, Update{u.Name, u.FromVersion, u.Version})
	}
	return out
}
