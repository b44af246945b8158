package kubectl_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// The API server checks what is planned, and nothing is written.
func TestPlanAgainstTheAPIServer(t *testing.T) {
	env := apitest.New(t)
	fleet(t, env.Client)
	access := env.ControlPlane.KubeconfigPath()
	before := read(t, env, "gpu", &v1alpha1.FirmwareTemplate{})
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "o.yaml")
		require.NoError(t, os.WriteFile(name, []byte("apiVersion: nodefirmware.io/v1alpha1\n"+text), 0o600))
		return name
	}
	template := "kind: FirmwareTemplate\nmetadata: {name: gpu}\nspec:\n  rules:\n  - {name: cx6dx, selector: {class: NIC, vendor: '15b3'}, version: 22.42.1000, sourceRef: {name: fresh}}\n"
	source := "kind: FirmwareSource\nmetadata: {name: fresh}\nspec:\n  files:\n  - url: https://firmware.example.com/c.bin\n    digest: sha256:4242424242424242424242424242424242424242424242424242424242424242\n" +
		"    images: [{class: NIC, vendor: '15b3', models: [101d], version: 22.42.1000}]\n"

	out, said, code := shell(t, access, "plan", "-f", file(template), "-f", file(source), "-o", "json")
	assert.Equal(t, 2, code, said)
	assert.Contains(t, out, `"kind": "Plan"`)
	assert.Contains(t, said, "Source fresh is planned as if its files were fetched and verified.")
	assert.Equal(t, before, read(t, env, "gpu", &v1alpha1.FirmwareTemplate{}))
	err := env.Client.Get(t.Context(), types.NamespacedName{Name: "fresh"}, &v1alpha1.FirmwareSource{})
	assert.True(t, apierrors.IsNotFound(err), err)

	invalid := file("kind: RolloutPolicy\nmetadata: {name: x}\nspec: {maxUnavailable: 300%}\n")
	out, said, code = shell(t, access, "plan", "-f", invalid)
	assert.Equal(t, 1, code)
	assert.Empty(t, out)
	assert.Contains(t, said, invalid+": RolloutPolicy.nodefirmware.io \"x\" is invalid: ")

	_, said, code = shell(t, viewer(t, env, "node-firmware-viewer"), "plan", "-f", file(template))
	assert.Equal(t, 1, code)
	assert.Contains(t, said, "may not list nodes. No role of the product has that right; who administers the cluster gives it with: kubectl create clusterrole node-reader")
}
