package catalog

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
)

// machineChanged passes what changes the model of a node.
var machineChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, okWas := e.ObjectOld.(*v1alpha1.NodeFirmware)
	is, okIs := e.ObjectNew.(*v1alpha1.NodeFirmware)
	return okWas && okIs && nameOf(was) != nameOf(is)
}}

// deviceChanged passes what changes the kind of a device or what it runs.
var deviceChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, okWas := e.ObjectOld.(*v1alpha1.NodeDevice)
	is, okIs := e.ObjectNew.(*v1alpha1.NodeDevice)
	return okWas && okIs && !slices.Equal(toldBy(was), toldBy(is))
}}

func toldBy(d *v1alpha1.NodeDevice) []string {
	s := &d.Status
	out := []string{string(s.Class), s.Vendor, s.PCIID, s.Model, s.BoardID}
	if f := s.Firmware; f != nil {
		out = append(out, f.Running, string(f.VersionFormat))
	}
	return out
}

// imagesChanged passes what changes the images that a source offers, and how they are reached.
var imagesChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, okWas := e.ObjectOld.(*v1alpha1.FirmwareSource)
	is, okIs := e.ObjectNew.(*v1alpha1.FirmwareSource)
	return okWas && okIs && !(equality.Semantic.DeepEqual(was.Status.Images, is.Status.Images) &&
		equality.Semantic.DeepEqual(was.Spec.UpgradePaths, is.Spec.UpgradePaths))
}}

// scopeChanged passes what changes whether an image is quarantined on every node.
var scopeChanged = watch.Changed(func(a, b *v1alpha1.FirmwareQuarantine) bool {
	return a.Status.Scope != b.Status.Scope || a.Spec.State != b.Spec.State
})
