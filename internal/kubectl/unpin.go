package kubectl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

func (s *session) unpinCommand() *cobra.Command {
	c := &cobra.Command{
		Use:               "unpin DEVICE",
		Short:             "Remove the pin of a device, so that templates say again what it runs",
		Example:           "  kubectl firmware unpin gpu-017-nic-b83fd2a1c4e0",
		Args:              wantOne("kubectl firmware unpin gpu-017-nic-b83fd2a1c4e0"),
		ValidArgsFunction: s.completeNames("NodeDevice"),
	}
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return s.onDevice(c.Context(), w, args[0], func(_ context.Context, _ client.Reader, f *nodeFacts, d *v1alpha1.NodeDevice) (*write, error) {
			return f.unpin(d)
		})
	}
	return c
}

// unpin decides that the pins that count for a device go.
func (f *nodeFacts) unpin(d *v1alpha1.NodeDevice) (*write, error) {
	pins := match.Pinned(match.PinsOf(f.node), match.DeviceOf(d))
	if len(pins) == 0 {
		return nil, fmt.Errorf("device/%s has no pin. What it is to run: kubectl firmware why %[1]s", d.Name)
	}
	changed := copyOf(f.node)
	var names, others []string
	for _, p := range pins {
		names = append(names, p.Rule)
		changed.Spec.Pins = slices.DeleteFunc(changed.Spec.Pins, func(r v1alpha1.FirmwareRule) bool { return r.Name == p.Rule })
		for _, o := range f.devices {
			if o.Name != d.Name && p.Selector.Matches(match.DeviceOf(o)) && !slices.Contains(others, o.Name) {
				others = append(others, o.Name)
			}
		}
	}
	will := fmt.Sprintf("Pin %s goes, and templates say again what %s is to run, which may be flashed.", strings.Join(names, ", "), d.Name)
	if len(others) > 0 {
		will += fmt.Sprintf(" It is for other devices too: %s.", text.Some(others, 5))
	}
	return &write{old: f.node, changed: changed, will: will, did: "pin " + strings.Join(names, ", ") + " removed", action: "Unpin", reason: v1alpha1.ReasonPending}, nil
}
