package operator

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// R002-68: an operator that runs while the definitions of a release are applied has every object stored anew, of each kind, and so does one that
// starts afterwards.
func TestAnUpgradeStoresObjectsAnew(t *testing.T) {
	env := apitest.New(t)
	p := startQuick(t, env)
	p.template("1")
	p.eventually("it is ready", func() bool { return p.probe("/readyz") == 200 })
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		for _, resource := range resources {
			require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
				definition := p.definition(resource)
				for i := range definition.Spec.Versions {
					definition.Spec.Versions[i].Storage = definition.Spec.Versions[i].Name == version
				}
				return env.Client.Update(context.Background(), definition)
			}))
		}
		p.eventually("every definition has one stored version", func() bool {
			return !slices.ContainsFunc(resources, func(resource string) bool {
				return !slices.Equal(p.definition(resource).Status.StoredVersions, []string{version})
			})
		})
		text, err := env.ControlPlane.Stored(t.Context(), "nodefirmware.io/firmwaretemplates/bios")
		require.NoError(t, err)
		assert.Contains(t, string(text), `"apiVersion":"nodefirmware.io/`+version+`"`)
	}
	p.stop()
	select {
	case err := <-p.done:
		require.NoError(t, err)
	case <-time.After(5 * time.Minute):
		require.Fail(t, "the operator does not end")
	}
}

func (p *process) definition(resource string) *apiextensionsv1.CustomResourceDefinition {
	p.t.Helper()
	d := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(p.t, p.env.Client.Get(context.Background(), client.ObjectKey{Name: resource + "." + v1alpha1.GroupName}, d))
	return d
}
