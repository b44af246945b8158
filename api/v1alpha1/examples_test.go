package v1alpha1_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// TestExamples: there is an example of each kind, and the API takes it as it stands, without an unknown field.
func TestExamples(t *testing.T) {
	env := apitest.New(t)
	strict := client.WithFieldValidation(env.Client, metav1.FieldValidationStrict)
	files, err := filepath.Glob("../../docs/examples/*.yaml")
	require.NoError(t, err)
	vendors, err := filepath.Glob("../../docs/examples/vendors/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, vendors)
	kinds := map[string]bool{}
	for _, file := range append(files, vendors...) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for document := range strings.SplitSeq(string(text), "\n---\n") {
				object := &unstructured.Unstructured{}
				require.NoError(t, yaml.Unmarshal([]byte(document), &object.Object))
				require.NoError(t, strict.Create(t.Context(), object))
				kinds[object.GetKind()] = true
			}
		})
	}
	for _, d := range definitions(t) {
		if d.Spec.Names.Kind == "SanitizationCertificate" {
			continue // the operator alone signs them
		}
		assert.True(t, kinds[d.Spec.Names.Kind], "docs/examples has no %s", d.Spec.Names.Kind)
	}
}
