package realnode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
)

// An overlay that kustomize refuses, or that misses what it patches, would be noticed only when the machine runs.
func TestOverlayPatchesManifests(t *testing.T) {
	for _, v := range []variant{{}, {quick: true}, {pods: true, quick: true}} {
		t.Run(fmt.Sprintf("%+v", v), func(t *testing.T) {
			s := &scene{
				dir: t.TempDir(), checkout: controlplane.ModuleRoot(),
				operatorImage: image{"registry.example/operator", "v1"}, daemonImage: image{"registry.example/daemon", "v2"},
			}
			at, err := s.writeSite(v)
			require.NoError(t, err)
			made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), at)
			require.NoError(t, err)
			raw, err := made.AsYaml()
			require.NoError(t, err)
			text := string(raw)
			for _, want := range []string{
				"image: registry.example/operator:v1", "image: registry.example/daemon:v2", "--tool-path=", "--allow-source-networks=10.0.5.0/24", "imagePullPolicy: Never",
				"name: node-firmware-profiles", "argv: [labflash, -d, \"{{device.serialNumber}}\", -i, \"{{image.path}}\", -a, write]",
			} {
				assert.Contains(t, text, want)
			}
			assert.Equal(t, v.quick, strings.Contains(text, "- --nvme-transports=pcie,tcp\n"))
			assert.Equal(t, v.quick, strings.Contains(text, "- --quiet-period=2s\n"))
			assert.Equal(t, v.pods, strings.Contains(text, "- image: registry.example/daemon:v2"), "the file of handlers")
			assert.NotContains(t, text, "hostAliases")
		})
	}
}
