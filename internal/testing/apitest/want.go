package apitest

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Want has a person want the firmware for all devices of the class: by a template and a source of that name.
func Want(t testing.TB, c client.Client, name string, class v1alpha1.DeviceClass, f v1alpha1.DesiredFirmware) {
	t.Helper()
	source := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := controllerutil.CreateOrUpdate(t.Context(), c, source, func() error {
		source.Spec.Files = []v1alpha1.FirmwareFile{{URL: "https://example.com/" + f.Version, Digest: f.Digest, Images: []v1alpha1.ImageDescription{{
			Class: class, Vendor: v1alpha1.AnyVendor, Version: f.Version,
		}}}}
		return nil
	})
	require.NoError(t, err)
	template := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err = controllerutil.CreateOrUpdate(t.Context(), c, template, func() error {
		template.Spec.Rules = []v1alpha1.FirmwareRule{{
			Name: "r", Selector: v1alpha1.DeviceSelector{Class: class, Vendor: v1alpha1.AnyVendor}, Version: f.Version,
			SourceRef: v1alpha1.SourceReference{Name: name}, Policy: f.Policy, Downgrade: f.Downgrade,
		}}
		return nil
	})
	require.NoError(t, err)
}
