package apitest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
)

// ApplyStatus writes the status of an object as a field manager that a test stands in for, whatever version the object is in.
func ApplyStatus(t testing.TB, c client.Client, owner client.FieldOwner, o client.Object) {
	t.Helper()
	body, err := fieldset.Configuration(c, o)
	require.NoError(t, err)
	require.NoError(t, c.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(body), owner, client.ForceOwnership))
}

// TypeConverter tells a fake client how to merge the product's kinds, as their definitions do.
func TypeConverter(t testing.TB) managedfields.TypeConverter {
	t.Helper()
	objects, err := deploy.Objects(deploy.CRDs)
	require.NoError(t, err)
	schemas := map[string]*spec.Schema{}
	for _, o := range objects {
		var d apiextensionsv1.CustomResourceDefinition
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d))
		text, err := json.Marshal(d.Spec.Versions[0].Schema.OpenAPIV3Schema)
		require.NoError(t, err)
		schema := &spec.Schema{}
		require.NoError(t, json.Unmarshal(text, schema))
		schema.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{
			"group": d.Spec.Group, "version": d.Spec.Versions[0].Name, "kind": d.Spec.Names.Kind,
		}})
		schemas[d.Name] = schema
	}
	out, err := managedfields.NewTypeConverter(schemas, true)
	require.NoError(t, err)
	return out
}
