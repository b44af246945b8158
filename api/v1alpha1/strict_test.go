package v1alpha1_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// refused requires that kubectl --validate=strict stores the object in neither way. A creation names each of the fields that is not
// known, an apply by the server the first at each level.
func refused(t *testing.T, env *apitest.Env, o *unstructured.Unstructured, fields ...string) {
	t.Helper()
	strict := client.WithFieldValidation(env.Client, metav1.FieldValidationStrict)
	err := strict.Create(t.Context(), o.DeepCopy())
	for _, field := range fields {
		assert.ErrorContains(t, err, `unknown field "spec.`+field)
	}
	err = strict.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.FieldOwner("kubectl"))
	assert.ErrorContains(t, err, ": field not declared in schema")
	assert.Error(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o), "nothing is stored")
}

// TestUnknownFieldsAreRefused: a typing error in a manifest is not dropped.
func TestUnknownFieldsAreRefused(t *testing.T) {
	env := apitest.New(t)
	for kind, o := range oneOfEach() {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		require.NoError(t, err)
		delete(object, "status")
		u := &unstructured.Unstructured{Object: object}
		u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		require.NoError(t, unstructured.SetNestedField(object, "red", "spec", "colour"))
		t.Run(kind, func(t *testing.T) { refused(t, env, u, "colour") })
	}
}

// TestEarlierShapesAreRefused: a manifest from before the first release says what it must become, field by field.
func TestEarlierShapesAreRefused(t *testing.T) {
	env := apitest.New(t)
	for kind, c := range map[string]struct {
		spec   string
		fields []string
	}{
		"FirmwareTemplate": {
			"{machine: {manufacturer: Lenovo, model: 7X21}, devices: [{name: bios, selector: {class: BIOS}, version: 2.61.1, sourceRef: {name: bios}, updatePolicy: Validate}]}",
			[]string{"devices", "machine.manufacturer"},
		},
		"ConfigurationTemplate": { // what other kinds call the same
			"{pins: [{name: a}], rules: [{name: sriov, selector: {class: NIC, vendor: '15b3'}, settings: {numVfs: 8}, values: [{name: SRIOV_EN, value: '1'}], unlisted: Reset, downgrade: Forbid}]}",
			[]string{"pins", "rules[0].settings.numVfs", "rules[0].values", "rules[0].downgrade"},
		},
		"FirmwareSource": {
			"{verification: {mode: Unsigned}, files: [{url: 'https://firmware.example.com/a.bin', sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, " +
				"format: Zip, images: [{path: a.bin, class: NIC, boardIDs: [MT_0000000359], version: 22.41.1000}]}], liftQuarantine: x, confirmQuarantine: x}",
			[]string{"verification.mode", "files[0].sha256", "files[0].format", "liftQuarantine", "confirmQuarantine"},
		},
		"FirmwareCatalog": {"{manufacturer: dell-inc, model: poweredge-r650, stage: [{source: a, class: NIC, version: '1'}]}", []string{"manufacturer", "model", "stage"}},
		"RolloutPolicy":   {"{rollback: Required, writeProtection: Required, soak: 2h, deadline: 720h, resume: x}", []string{"rollback", "writeProtection", "soak", "deadline", "resume"}},
		"NodeFirmware": {
			"{pins: [{name: a, class: NIC, manufacturer: '15b3', model: 101d, version: 22.39.2048, sourceRef: {name: a}}], retry: again}",
			[]string{"pins[0].manufacturer", "pins[0].class", "retry"},
		},
		"FirmwareJob": {
			"{nodeName: n1, type: Steps, steps: [{name: verify-inventory, expectedDevices: [{class: NIC, vendor: '15b3', count: 2}]}]}",
			[]string{"steps"},
		},
		"NodeDevice": {
			"{nodeName: n1, firmware: {version: 22.41.1000, sourceRef: {name: a}, updatePolicy: Update, downgrade: Forbid, " +
				"origin: {kind: Template, name: t, uid: 6b1a2c54-6a3e-4f0c-9b0e-0c5f3f3a7d11, generation: 5, rule: r}}}",
			[]string{"firmware.updatePolicy"},
		},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "earlier"}}}
		u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		spec := map[string]any{}
		require.NoError(t, yaml.Unmarshal([]byte(c.spec), &spec))
		u.Object["spec"] = spec
		t.Run(kind, func(t *testing.T) { refused(t, env, u, c.fields...) })
	}
}
