package v1alpha1_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/internal/sourcefile"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// What firmware-daemon source writes is taken as it stands, also where a person has to fill in something.
func TestTakesDescribedSources(t *testing.T) {
	env := apitest.New(t)
	strict := client.WithFieldValidation(env.Client, metav1.FieldValidationStrict)
	raw := filepath.Join(t.TempDir(), "Drive's firmware\n(1).bin")
	require.NoError(t, os.WriteFile(raw, []byte("FIRMWARE"), 0o600))
	images := "../../pkg/imageinfo/testdata/"
	for _, file := range []string{raw, images + "fs3.bin", images + "fwupd.cab", images + "nic.pldm", images + "bios.cap"} {
		options := sourcefile.Options{}
		if file == raw {
			options.Class = "Disk"
		}
		text, err := sourcefile.Describe(t.Context(), []string{file}, options)
		require.ErrorIs(t, err, sourcefile.ErrFillIn, "the URL at least")
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.UnmarshalStrict(text, &object.Object), "%s", text)
		require.NoError(t, strict.Create(t.Context(), object, client.DryRunAll), "%s", text)
	}
}
