package v1beta1_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/api/v1beta1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// R002-70: who applied an object in one version and applies it in the other keeps what is theirs, and gives up what is not in the manifest any
// more. kubectl shows the later version.
func TestAManifestChangesItsVersion(t *testing.T) {
	env := apitest.New(t)
	apply := func(version schema.GroupVersion, spec map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "gpu"}, "spec": spec}}
		o.SetGroupVersionKind(version.WithKind("RolloutPolicy"))
		require.NoError(t, env.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("gitops")))
		return o
	}
	apply(v1alpha1.GroupVersion, map[string]any{"maxUnavailable": int64(2), "healthyFor": "5m"})
	o := apply(v1beta1.GroupVersion, map[string]any{"maxUnavailable": int64(3)})
	require.Len(t, o.GetManagedFields(), 1)
	assert.Equal(t, v1beta1.GroupVersion.String(), o.GetManagedFields()[0].APIVersion)

	var p v1alpha1.RolloutPolicy
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: "gpu"}, &p))
	assert.Equal(t, "3", p.Spec.MaxUnavailable.String())
	assert.NotEqual(t, v1alpha1.Duration("5m"), p.Spec.HealthyFor, "it is the default again")

	api, err := discovery.NewDiscoveryClientForConfig(env.Config)
	require.NoError(t, err)
	groups, err := api.ServerGroups()
	require.NoError(t, err)
	for _, g := range groups.Groups {
		if g.Name == v1alpha1.GroupName {
			assert.Equal(t, "v1beta1", g.PreferredVersion.Version)
		}
	}
}
