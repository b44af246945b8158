package v1alpha1_test

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
)

func validCertificate() *v1alpha1.SanitizationCertificate {
	return &v1alpha1.SanitizationCertificate{
		ObjectMeta: metav1.ObjectMeta{Name: "storage-004-erase-3f1c9a7be25d0846"},
		Spec: v1alpha1.SanitizationCertificateSpec{
			Record: v1alpha1.SanitizationRecord{
				Sanitization: v1alpha1.Sanitization{
					StartTime:    someTime,
					SerialNumber: "S64HNE0T000042", Vendor: "Samsung", Model: "PM9A3", SizeBytes: 1920383410176, Method: "NVMe sanitize, block erase",
					Log: "log page 81h: SPROG FFFFh, SSTAT 0101h, SCDW10 0000000Ah", Samples: 64, HeldData: 41, Seed: "0x3c1f136139113f34", Version: "v0.1.0",
				},
				Term: v1alpha1.TermPurge, NodeName: "storage-004", Device: "storage-004-disk-eui36344830545000a1", Job: "storage-004-erase", JobUID: "6f0e",
				ConsentedBy: "alice@example.com", CompletionTime: someTime, Remains: "Firmware and logs.",
			},
			Signature: []byte("signature"), PublicKey: "key",
		},
	}
}

func TestCertificateSpecs(t *testing.T) {
	type change = validation[*v1alpha1.SanitizationCertificate]
	record := func(change func(*v1alpha1.SanitizationRecord)) func(*v1alpha1.SanitizationCertificate) {
		return func(o *v1alpha1.SanitizationCertificate) { change(&o.Spec.Record) }
	}
	t.Run("create", func(t *testing.T) {
		checkCreate(t, validCertificate, []change{
			{name: "a record and its signature", change: func(*v1alpha1.SanitizationCertificate) {}},
			{name: "of nobody who consented", change: record(func(r *v1alpha1.SanitizationRecord) { r.ConsentedBy = "" })},
			{name: "of no drive", change: record(func(r *v1alpha1.SanitizationRecord) { r.SerialNumber = "" }), field: "spec.record.serialNumber", message: "Required"},
			{name: "another term", change: record(func(r *v1alpha1.SanitizationRecord) { r.Term = "Clear" }), field: "spec.record.term", message: "supported values"},
			{name: "no signature", change: func(o *v1alpha1.SanitizationCertificate) { o.Spec.Signature = nil }, field: "spec.signature", message: "Required"},
		})
	})
	t.Run("update", func(t *testing.T) {
		checkUpdate(t, validCertificate(), []change{
			{name: "a label", change: func(o *v1alpha1.SanitizationCertificate) { o.Labels = map[string]string{"rack": "r1"} }},
			{name: "another drive", change: record(func(r *v1alpha1.SanitizationRecord) { r.SerialNumber = "S2" }), field: "spec", message: "a certificate is never changed"},
			{name: "another signature", change: func(o *v1alpha1.SanitizationCertificate) { o.Spec.Signature = []byte("x") }, field: "spec", message: "a certificate is never changed"},
		})
	})
}

// TestCertificateIsDone: it is a record, complete when it is made, as Helm and Flux see it too, and kubectl get shows whose it is.
func TestCertificateIsDone(t *testing.T) {
	env := apitest.New(t)
	o := validCertificate()
	require.NoError(t, env.Client.Create(t.Context(), o))
	apitest.RequireStatus(t, o, status.CurrentStatus)
	gvk := v1alpha1.GroupVersion.WithKind("SanitizationCertificate")
	golden.Equal(t, "testdata/get-sanitizationcertificate.golden", "$ kubectl get scert\n"+env.Table(t, gvk, apitest.ColumnsDefault)+
		"\n$ kubectl get scert -o wide\n"+env.Table(t, gvk, apitest.ColumnsWide))
	mapping, err := env.Client.RESTMapper().RESTMapping(gvk.GroupKind(), "v1alpha1")
	require.NoError(t, err)
	assert.Equal(t, "sanitizationcertificates", mapping.Resource.Resource)
}
