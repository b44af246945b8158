package health_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// network answers from the second question on, as a gateway does that nobody talked to for an hour.
type network struct {
	neighbours []health.Neighbour
	asked      int
}

func (n *network) Neighbours(context.Context) ([]health.Neighbour, error) {
	n.asked++
	out := append([]health.Neighbour(nil), n.neighbours...)
	for i := range out {
		out[i].Answers = out[i].Answers && n.asked > 1
	}
	return out, nil
}

func TestIdleGatewayIsRecorded(t *testing.T) {
	card := nic(inventory.LinkUp, "1")
	card.Ports[0].NetDevice = "eth0"
	h := host{devices: []inventory.Device{card}}
	gateway := func(port string, answers bool) *network {
		return &network{neighbours: []health.Neighbour{{Address: "10.0.0.1", Ports: []string{port}, Answers: answers}}}
	}
	for name, c := range map[string]struct {
		network   *network
		unwatched string
	}{
		"idle":            {gateway("eth0", true), ""},
		"silent":          {gateway("eth0", false), "10.0.0.1 did not answer before the job"},
		"behind a bridge": {gateway("br-ex", true), "br-ex leads to no adapter of this node"},
		"none":            {&network{}, "the node has no default gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			checker := health.Checker{Scanner: h, Network: c.network}
			_, err := checker.Before(t.Context())
			require.NoError(t, err)
			b := checker.Take(t.Context(), h.devices)
			assert.Equal(t, c.unwatched, b.Unwatched)
			assert.Equal(t, c.unwatched == "", len(b.Gateways) == 1)
		})
	}
}
