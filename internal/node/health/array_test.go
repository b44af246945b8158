package health_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

type arrays struct {
	found []inventory.Array
	err   error
}

func (a *arrays) Arrays(context.Context) ([]inventory.Array, error) { return a.found, a.err }

func TestAnArrayThatIsWorseThanBeforeIsAComplaint(t *testing.T) {
	whole, degraded := inventory.Array{Name: "md0"}, inventory.Array{Name: "md0", Degraded: true}
	rebuilds := inventory.Array{Name: "md0", Degraded: true, Rebuilds: "recover"}
	for name, c := range map[string]struct {
		before, now []inventory.Array
		want        []string
	}{
		"all is well":                    {[]inventory.Array{whole}, []inventory.Array{whole}, nil},
		"it lost a drive":                {[]inventory.Array{whole}, []inventory.Array{degraded}, []string{"array md0 is degraded: it lost a drive"}},
		"it was degraded before":         {[]inventory.Array{degraded}, []inventory.Array{degraded}, nil},
		"it is being rebuilt":            {[]inventory.Array{whole}, []inventory.Array{rebuilds}, nil},
		"it is gone":                     {[]inventory.Array{whole}, nil, []string{"array md0 is gone"}},
		"a reboot renamed it":            {[]inventory.Array{whole}, []inventory.Array{{Name: "md127"}}, nil},
		"a reboot renamed a broken one":  {[]inventory.Array{whole}, []inventory.Array{{Name: "md127", Degraded: true}}, []string{"array md127 is degraded: it lost a drive"}},
		"there were none":                {nil, []inventory.Array{degraded}, nil},
		"one of two is gone, by no name": {[]inventory.Array{whole, {Name: "md1"}}, []inventory.Array{{Name: "md1"}}, []string{"array md0 is gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &arrays{found: c.before}
			checker := health.Checker{Scanner: host{}, Arrays: a}
			b := checker.Take(t.Context(), nil)
			a.found = c.now
			got, err := checker.Check(t.Context(), b, nil)
			require.NoError(t, err)
			var messages []string
			for _, complaint := range got {
				messages = append(messages, complaint.Message)
			}
			assert.Equal(t, c.want, messages)
		})
	}
	a := &arrays{found: []inventory.Array{whole}}
	checker := health.Checker{Scanner: host{}, Arrays: a}
	b := checker.Take(t.Context(), nil)
	a.err = errors.New("EIO")
	_, err := checker.Check(t.Context(), b, nil)
	require.ErrorIs(t, err, health.ErrUnreadable, "the health is not known then")
}
