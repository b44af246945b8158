package trim

import (
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/neighbour"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// Object is the transform of the operator's cache. It drops what no reconciler reads, and keeps one copy of the texts that
// thousands of objects have in common. Nothing may be written back from a trimmed object but parts that are whole in it: a
// patch of what differs, or an apply of the operator's own fields. The daemon's statuses are written from objects that were read
// from the API server.
func Object(o any) (any, error) {
	if m, err := meta.Accessor(o); err == nil {
		reported := v1alpha1.ReportedAt(m)
		m.SetManagedFields(nil)
		if n, ok := o.(*v1alpha1.NodeFirmware); ok && reported != nil {
			n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: v1alpha1.FieldOwnerDaemon, Time: reported}}
		}
	}
	switch o := o.(type) {
	case *corev1.Node:
		node(o)
	case *v1alpha1.NodeDevice:
		device(o)
	case *v1alpha1.NodeFirmware:
		firmware(o)
	case *v1alpha1.FirmwareJob:
		job(o)
	}
	return o, nil
}

// node keeps labels, whether the node is schedulable, its Ready condition and the product's own ones, and what says who has it.
func node(o *corev1.Node) {
	o.Spec = corev1.NodeSpec{Unschedulable: o.Spec.Unschedulable, Taints: o.Spec.Taints}
	neighbour.Trim(o)
	o.Status = corev1.NodeStatus{Conditions: slices.DeleteFunc(o.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type != corev1.NodeReady && !slices.Contains(status.OnNodeTypes, c.Type)
	})}
	for i := range o.Status.Conditions {
		share(&o.Status.Conditions[i].Reason, &o.Status.Conditions[i].Message)
	}
	for k, v := range o.Labels {
		delete(o.Labels, k)
		o.Labels[shared(k)] = shared(v)
	}
}

// device drops what a port is besides its address, and the values of its parameters that are stored besides those in force.
func device(o *v1alpha1.NodeDevice) {
	s := &o.Status
	for i := range s.Parameters {
		parameter(&s.Parameters[i])
	}
	for i := range s.Ports {
		s.Ports[i] = v1alpha1.DevicePort{PCIAddress: s.Ports[i].PCIAddress}
	}
	share(&o.Spec.NodeName, &s.Vendor, &s.PCIID, &s.SubsystemID, &s.Model, &s.BoardID)
	conditions(s.Conditions)
	if f := s.Firmware; f != nil {
		share(&f.Running, &f.Stored, &f.Driver)
		for i := range f.Notes {
			share(&f.Notes[i])
		}
	}
	if f := o.Spec.Firmware; f != nil {
		f.Digest = v1alpha1.Digest(shared(string(f.Digest)))
		share(&f.Version)
	}
	if c := o.Spec.Configuration; c != nil {
		for i := range c.Parameters {
			share(&c.Parameters[i].Name, &c.Parameters[i].Value)
		}
	}
	origins(o.Spec.Origin)
	if a := s.Applied; a != nil {
		a.Digest = v1alpha1.Digest(shared(string(a.Digest)))
		share(&a.BootID)
		origins(a.Origin)
	}
}

// parameter keeps the value that counts when nodes are compared. Of what stays there are as many copies as texts, and not as devices.
func parameter(p *v1alpha1.ObservedParameter) {
	if p.Current != nil {
		p.Next = nil
	}
	for _, value := range []*string{&p.Name, p.Current, p.Next, p.Was} {
		if value != nil {
			share(value)
		}
	}
}

// firmware drops the lists that the daemon keeps for people. When it reported last is all that is kept of the managed fields.
func firmware(o *v1alpha1.NodeFirmware) {
	o.Status.Steps = nil
	share(&o.Status.Baseline)
	conditions(o.Status.Conditions)
}

// job drops what the steps of a job that succeeded say.
func job(o *v1alpha1.FirmwareJob) {
	isOver := o.Ended() && !o.Failed()
	for i := range o.Status.Steps {
		s := &o.Status.Steps[i]
		if isOver {
			s.Message, s.ProgressPercent = "", nil
		}
		share(&s.Name, &s.Device)
	}
	conditions(o.Status.Conditions)
	share(&o.Spec.NodeName)
	for i := range o.Spec.Task.Devices {
		u := &o.Spec.Task.Devices[i]
		share((*string)(&u.Digest), (*string)(&u.RollbackDigest), (*string)(&u.Configuration))
		share(&u.Name, &u.Model, &u.FromVersion, &u.Version, &u.RollbackSource)
	}
}

func origins(all []v1alpha1.Origin) {
	for i := range all {
		o := &all[i]
		share((*string)(&o.Kind), &o.Name, &o.UID, &o.Rule, &o.Hash)
	}
}

func conditions(all []metav1.Condition) {
	for i := range all {
		share(&all[i].Type, &all[i].Reason, &all[i].Message)
	}
}

func share(texts ...*string) {
	for _, t := range texts {
		*t = shared(*t)
	}
}

// shared is the one copy of a text.
func shared(text string) string {
	if text == "" {
		return ""
	}
	return unique.Make(text).Value()
}
