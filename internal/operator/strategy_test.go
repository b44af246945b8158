package operator

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

type other struct{}

func (other) Name() string                           { return "other" }
func (other) SetupWithManager(manager.Manager) error { return nil }

// TestExactlyOneStrategyIsChosen proves R000-39.
func TestExactlyOneStrategyIsChosen(t *testing.T) {
	known := []Strategy{Daemon{}, other{}}
	for name, c := range map[string]struct {
		named   []string
		refusal string
	}{
		"none":           {nil, "--update-strategy is missing: name exactly one of daemon, other"},
		"two":            {[]string{"daemon", "other"}, "names 2 strategies (daemon, other): name exactly one"},
		"the same twice": {[]string{"daemon", "daemon"}, "names 2 strategies"},
		"unknown":        {[]string{"ansible"}, `"ansible" is not known: name exactly one of daemon, other`},
		"empty":          {[]string{""}, `"" is not known`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := choose(c.named, known)
			assert.ErrorContains(t, err, c.refusal)
		})
	}
	for _, want := range known {
		got, err := choose([]string{want.Name()}, known)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}
