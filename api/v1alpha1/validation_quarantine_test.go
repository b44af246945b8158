package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
)

func validQuarantine() *v1alpha1.FirmwareQuarantine {
	return &v1alpha1.FirmwareQuarantine{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.QuarantineName(digest, "15b3:101d")},
		Spec:       v1alpha1.FirmwareQuarantineSpec{Digest: digest, Model: "15b3:101d"},
	}
}

// R002-26: An image that failed is quarantined: once for each model, by the name that both have, whatever a device reports.
func TestQuarantineNames(t *testing.T) {
	env := apitest.New(t)
	for _, model := range []string{
		"15b3:101d", v1alpha1.AnyModel, v1alpha1.ModelKey("", "", "Dell Inc.", "BIOS"),
		v1alpha1.ModelKey("", "", strings.Repeat("v", 128), strings.Repeat("m-", 64)),
	} {
		q := validQuarantine()
		q.Name, q.Spec.Model = v1alpha1.QuarantineName(digest, model), model
		require.NoError(t, env.Client.Create(t.Context(), q), model)
		assert.Equal(t, v1alpha1.QuarantineActive, q.Spec.State, "the default")
	}
	for _, c := range [][2]string{
		{string(digest), ""}, {string(digest), "15b3"}, {string(digest), "15B3:101D"}, {string(digest), "a:b:c"}, {string(digest), "a:b-"},
		{string(digest), "a:" + strings.Repeat("b", 224)}, {"sha256:12", "a:b"}, {"", "a:b"},
	} {
		assert.Empty(t, v1alpha1.QuarantineName(v1alpha1.Digest(c[0]), c[1]), "%v", c)
	}
}

func TestQuarantineSpecs(t *testing.T) {
	type change = validation[*v1alpha1.FirmwareQuarantine]
	const name = "the name must be the first 16 digits of the digest and the model, joined by dots, such as 3b1f1c0fca2d0b5d.15b3.101d; there is one quarantine for an image and a model"
	set := func(state v1alpha1.QuarantineState) func(*v1alpha1.FirmwareQuarantine) {
		return func(o *v1alpha1.FirmwareQuarantine) { o.Spec.State = state }
	}
	t.Run("create", func(t *testing.T) {
		checkCreate(t, validQuarantine, []change{
			{name: "an image and a model", change: func(*v1alpha1.FirmwareQuarantine) {}},
			{name: "forbidden beforehand", change: set(v1alpha1.QuarantineConfirmed)},
			{name: "another state", change: set("Paused"), field: "spec.state", message: "supported values"},
			{name: "another name", change: func(o *v1alpha1.FirmwareQuarantine) { o.Name = "bad" }, field: "<nil>", message: name},
			{name: "the name of another image", change: func(o *v1alpha1.FirmwareQuarantine) { o.Name = strings.Repeat("0", 16) + ".15b3.101d" }, field: "<nil>", message: name},
			{name: "the name of another model", change: func(o *v1alpha1.FirmwareQuarantine) { o.Spec.Model = "15b3:101f" }, field: "<nil>", message: name},
			{name: "no image", change: func(o *v1alpha1.FirmwareQuarantine) { o.Spec.Digest = "" }, field: "spec.digest", message: "Required"},
			{name: "half a digest", change: func(o *v1alpha1.FirmwareQuarantine) { o.Spec.Digest = "sha256:3b1f" }, field: "spec.digest", message: "should match"},
			{name: "no model", change: func(o *v1alpha1.FirmwareQuarantine) { o.Spec.Model = "" }, field: "spec.model", message: "Required"},
			{name: "a name of a model", change: func(o *v1alpha1.FirmwareQuarantine) { o.Spec.Model = "Dell Inc.:BIOS" }, field: "spec.model", message: "should match"},
			{name: "a vendor alone", change: func(o *v1alpha1.FirmwareQuarantine) { o.Spec.Model = "15b3" }, field: "spec.model", message: "should match"},
			{name: "three parts", change: func(o *v1alpha1.FirmwareQuarantine) { o.Spec.Model = "15b3:101d:2" }, field: "spec.model", message: "should match"},
		})
	})
	for _, from := range []v1alpha1.QuarantineState{v1alpha1.QuarantineActive, v1alpha1.QuarantineConfirmed, v1alpha1.QuarantineLifted} {
		t.Run("from "+string(from), func(t *testing.T) {
			existing := validQuarantine()
			existing.Spec.State = from
			checkUpdate(t, existing, []change{
				{name: "Active", change: set(v1alpha1.QuarantineActive)},
				{name: "Confirmed", change: set(v1alpha1.QuarantineConfirmed)},
				{name: "Lifted", change: set(v1alpha1.QuarantineLifted)},
				{name: "another model", change: func(o *v1alpha1.FirmwareQuarantine) { o.Spec.Model = "15b3:101f" },
					field: "spec.model", message: "model is immutable; create another quarantine"},
				{name: "another image with the same name", change: func(o *v1alpha1.FirmwareQuarantine) { o.Spec.Digest = o.Spec.Digest[:70] + "0" },
					field: "spec.digest", message: "digest is immutable; create another quarantine"},
			})
		})
	}
}

func TestQuarantineStatus(t *testing.T) {
	type change = validation[*v1alpha1.FirmwareQuarantine]
	first := func(change func(*v1alpha1.QuarantineReport)) func(*v1alpha1.FirmwareQuarantine) {
		return func(o *v1alpha1.FirmwareQuarantine) { change(&o.Status.Reports[0]) }
	}
	checkStatus(t, validQuarantine(), func(o *v1alpha1.FirmwareQuarantine) { o.Status = reported().Status }, []change{
		{name: "a report", change: func(*v1alpha1.FirmwareQuarantine) {}},
		{name: "a job twice", change: func(o *v1alpha1.FirmwareQuarantine) { o.Status.Reports = append(o.Status.Reports, o.Status.Reports[0]) },
			field: "status.reports[1]", message: "Duplicate"},
		{name: "17 jobs", change: func(o *v1alpha1.FirmwareQuarantine) {
			for i := range 16 {
				r := o.Status.Reports[0]
				r.Job = strings.Repeat("j", i+1)
				o.Status.Reports = append(o.Status.Reports, r)
			}
		}, field: "status.reports", message: "at most 16"},
		{name: "no job", change: first(func(r *v1alpha1.QuarantineReport) { r.Job = "" }), field: "status.reports[0].job", message: "Required"},
		{name: "no node", change: first(func(r *v1alpha1.QuarantineReport) { r.Node = "" }), field: "status.reports[0].node", message: "Required"},
		{name: "no state", change: first(func(r *v1alpha1.QuarantineReport) { r.State = "" }), field: "status.reports[0].state", message: "Required"},
		{name: "another scope", change: func(o *v1alpha1.FirmwareQuarantine) { o.Status.Scope = "Reported" }, field: "status.scope", message: "supported values"},
	})
}

// reported is a quarantine that one node brought about.
func reported() *v1alpha1.FirmwareQuarantine {
	q := validQuarantine()
	q.Generation = 1
	q.Spec.State = v1alpha1.QuarantineActive
	q.Status = v1alpha1.FirmwareQuarantineStatus{
		ObservedGeneration: 1, Version: "22.41.1000", Scope: v1alpha1.QuarantinePolicies, Reports: []v1alpha1.QuarantineReport{{
			Job: "gpu-017-1a2b3c4d", Node: "gpu-017", Policy: "gpu", Evidence: v1alpha1.EvidenceDevice, Time: someTime,
			Message: "link of port 1 is down and was up before", State: v1alpha1.ReportCounted,
		}},
	}
	q.Status.Conditions = status.Quarantine(q, someTime.Time)
	return q
}

// TestKubectlDescribeQuarantineGolden: what `kubectl describe` prints of a quarantine, with the conditions that the operator writes.
func TestKubectlDescribeQuarantineGolden(t *testing.T) {
	env := apitest.New(t)
	q := reported()
	written := q.Status
	require.NoError(t, env.Client.Create(t.Context(), q))
	q.Status = written
	require.NoError(t, env.Client.Status().Update(t.Context(), q))
	golden.Equal(t, "testdata/describe-firmwarequarantine.golden",
		"$ kubectl describe firmwarequarantine "+q.Name+"\n"+env.Describe(t, v1alpha1.GroupVersion.WithKind("FirmwareQuarantine"), q.Name))
}
