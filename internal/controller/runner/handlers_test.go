package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// TestTheClosestHandlerIsChosen proves R000-60.
func TestTheClosestHandlerIsChosen(t *testing.T) {
	handlers, err := parseHandlers([]byte(`
handlers:
- {image: any}
- {vendor: Lenovo, image: lenovo}
- {vendor: lenovo, model: " 7x21 ", image: "7x21", args: [--log-level=debug]}
- {vendor: Dell Inc., model: R750, image: r750}
`))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		machine v1alpha1.Machine
		image   string
	}{
		"model":                        {v1alpha1.Machine{Vendor: "LENOVO", Model: "7X21"}, "7x21"},
		"vendor":                       {v1alpha1.Machine{Vendor: "Lenovo", Model: "7Y51"}, "lenovo"},
		"any":                          {v1alpha1.Machine{Vendor: "HPE", Model: "7X21"}, "any"},
		"a model of another vendor":    {v1alpha1.Machine{Vendor: "Dell Inc.", Model: "7X21"}, "any"},
		"a machine that tells nothing": {v1alpha1.Machine{}, "any"},
	} {
		t.Run(name, func(t *testing.T) {
			h, ok := handlers.For(c.machine)
			require.True(t, ok)
			assert.Equal(t, c.image, h.Image)
		})
	}
	_, ok := handlers[2:].For(v1alpha1.Machine{Vendor: "HPE", Model: "DL380"})
	assert.False(t, ok)
}

func TestHandlersThatCannotBeWorkedWithAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ file, refusal string }{
		"empty":                   {"", "it has no handlers"},
		"misspelt":                {"handlers: [{image: a, models: b}]", "models"},
		"without image":           {"handlers: [{vendor: Dell}]", "handlers[0]: image"},
		"model alone":             {"handlers: [{model: 7X21, image: a}]", "needs its vendor"},
		"two for one model":       {"handlers: [{vendor: A, model: B, image: a}, {vendor: C, image: a}, {vendor: a, model: b, image: c}]", "handlers[2] is for the same machines as handlers[0]"},
		"two for a vendor":        {"handlers: [{vendor: A, image: a}, {vendor: A, image: b}]", "handlers[1] is for the same machines"},
		"two for every machine":   {"handlers: [{image: a}, {image: b}]", "handlers[1] is for the same machines"},
		"an argument of words":    {"handlers: [{image: a, args: [--log-level=debug, \"--step-priority=a=1,b=2\"]}]", "handlers[0]: args[1]"},
		"an empty argument":       {"handlers: [{image: a, args: [\"\"]}]", "handlers[0]: args[0]"},
		"something else entirely": {"- a", "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "handlers.yaml")
			require.NoError(t, os.WriteFile(path, []byte(c.file), 0o600))
			_, err := LoadHandlers(path)
			assert.ErrorContains(t, err, c.refusal)
			assert.ErrorContains(t, err, path)
		})
	}
	_, err := LoadHandlers(filepath.Join(t.TempDir(), "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// What is read is never ambiguous.
func FuzzHandlers(f *testing.F) {
	f.Add([]byte("handlers:\n- {vendor: A, model: B, image: c}\n- image: d\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		handlers, err := parseHandlers(raw)
		if err != nil {
			return
		}
		for _, h := range handlers {
			got, ok := handlers.For(v1alpha1.Machine{Vendor: h.Vendor, Model: h.Model})
			require.True(t, ok)
			assert.Equal(t, h, got)
		}
	})
}
