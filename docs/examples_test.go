package docs_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Who went through the quickstart and applies an example afterwards, or two examples, gets what each of them says.
func TestNoTwoExamplesHaveOneName(t *testing.T) {
	type object struct{ kind, name string }
	in := map[object]string{}
	add := func(o object, file string) {
		assert.Empty(t, in[o], "%s has the %s %s of that file too", file, o.kind, o.name)
		in[o] = file
	}
	script, err := os.ReadFile("examples/lab/sources.sh")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^\s*source_of (\S+)`).FindAllSubmatch(script, -1) {
		add(object{"FirmwareSource", string(m[1])}, "examples/lab/sources.sh")
	}
	require.NotEmpty(t, in)
	lab, err := filepath.Glob("examples/lab/*.yaml")
	require.NoError(t, err)
	files, err := filepath.Glob("examples/*.yaml")
	require.NoError(t, err)
	for _, file := range append(lab, files...) {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			var d struct {
				Kind     string
				Metadata struct{ Name string }
			}
			err := documents.Decode(&d)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, file)
			if d.Metadata.Name != "" {
				add(object{d.Kind, d.Metadata.Name}, file)
			}
		}
	}
}
