package view

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/trim"
)

// thin keeps of an object what the picture is made from. The page of a node asks the API server for the rest.
func thin(o any) (any, error) {
	if o, err := trim.Object(o); err != nil {
		return o, err
	}
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
		m.SetAnnotations(nil)
		m.SetOwnerReferences(nil)
		m.SetFinalizers(nil)
		if _, is := o.(*corev1.Node); !is {
			m.SetLabels(nil)
		}
	}
	switch o := o.(type) {
	case *corev1.Node:
		o.Spec, o.Status = corev1.NodeSpec{}, corev1.NodeStatus{}
	case *v1alpha1.NodeFirmware:
		o.Spec = v1alpha1.NodeFirmwareSpec{}
		o.Status = v1alpha1.NodeFirmwareStatus{Machine: o.Status.Machine, Conditions: o.Status.Conditions, HeldBy: o.Status.HeldBy}
	case *v1alpha1.NodeDevice:
		s := o.Status
		o.Spec = v1alpha1.NodeDeviceSpec{NodeName: o.Spec.NodeName}
		o.Status = v1alpha1.NodeDeviceStatus{Class: s.Class, Vendor: s.Vendor, Model: s.Model, PCIID: s.PCIID, SubsystemID: s.SubsystemID, BoardID: s.BoardID}
		o.Status.Conditions = slices.Clip(slices.DeleteFunc(s.Conditions, func(c metav1.Condition) bool {
			return c.Status != metav1.ConditionTrue || !slices.Contains(ofDevices, c.Type)
		}))
		if s.Firmware != nil {
			o.Status.Firmware = &v1alpha1.ObservedFirmware{Running: s.Firmware.Running}
		}
	case *v1alpha1.FirmwareJob:
		o.Spec.Task = v1alpha1.JobTask{Type: o.Spec.Task.Type}
		o.Status.Verdict, o.Status.Blamed = nil, nil
		for i := range o.Status.Steps {
			s := &o.Status.Steps[i]
			*s = v1alpha1.JobStep{Name: s.Name, Device: s.Device, State: s.State, ProgressPercent: s.ProgressPercent}
		}
		if o.Ended() {
			o.Status.Steps = nil
		}
	case *v1alpha1.FirmwareSource:
		o.Spec = v1alpha1.FirmwareSourceSpec{}
		o.Status = v1alpha1.FirmwareSourceStatus{Conditions: o.Status.Conditions}
	case *v1alpha1.ConfigurationTemplate:
		o.Spec = v1alpha1.ConfigurationTemplateSpec{}
	case *v1alpha1.FirmwareTemplate:
		o.Spec = v1alpha1.FirmwareTemplateSpec{State: o.Spec.State}
	}
	return o, nil
}

// ofDevices are the conditions by which the operator says of a device that somebody is needed. The node says it of all others.
var ofDevices = []string{v1alpha1.ConditionConflict, v1alpha1.ConditionBlocked}

// ofDevice is that condition of a device; nil for none.
func ofDevice(d *v1alpha1.NodeDevice) *metav1.Condition {
	for i := range d.Status.Conditions {
		if c := &d.Status.Conditions[i]; c.Status == metav1.ConditionTrue && slices.Contains(ofDevices, c.Type) {
			return c
		}
	}
	return nil
}
