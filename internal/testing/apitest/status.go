package apitest

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RequireStatus requires that kstatus, and with it Helm and Flux, sees the object as want says.
func RequireStatus(t testing.TB, object client.Object, want status.Status) {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	require.NoError(t, err)
	got, err := status.Compute(&unstructured.Unstructured{Object: content})
	require.NoError(t, err)
	require.Equal(t, want, got.Status, "%T %s: %s\nconditions: %v", object, object.GetName(), got.Message, got.Conditions)
}
