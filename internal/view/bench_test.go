package view_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
	"github.com/nodefirmware/node-firmware-operator/internal/view"
)

func TestBenchmarks(t *testing.T) { bench.Once(t) }

// BenchmarkDraw5000 makes a picture of 5,000 nodes with 40,000 devices.
func BenchmarkDraw5000(b *testing.B) {
	o := held(fleet(time.Now(), bench.Size(5000, 96)))
	for b.Loop() {
		view.Draw(o, time.Now())
	}
}

// held are the objects by kind, as the view holds them.
func held(objects []client.Object) *view.Objects {
	out := &view.Objects{}
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Node:
			out.Nodes = append(out.Nodes, o)
		case *v1alpha1.NodeFirmware:
			out.Firmware = append(out.Firmware, o)
		case *v1alpha1.NodeDevice:
			out.Devices = append(out.Devices, o)
		case *v1alpha1.FirmwareJob:
			out.Jobs = append(out.Jobs, o)
		case *v1alpha1.RolloutPolicy:
			out.Policies = append(out.Policies, o)
		case *v1alpha1.FirmwareTemplate:
			out.Templates = append(out.Templates, o)
		case *v1alpha1.ConfigurationTemplate:
			out.Settings = append(out.Settings, o)
		case *v1alpha1.FirmwareSource:
			out.Sources = append(out.Sources, o)
		case *v1alpha1.FirmwareCatalog:
			out.Catalogs = append(out.Catalogs, o)
		case *v1alpha1.FirmwareQuarantine:
			out.Quarantines = append(out.Quarantines, o)
		}
	}
	return out
}
