package kubectl

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/baseline"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// errDiffers ends the command with 2, as a comparison does that found something.
var errDiffers = errors.New("something differs")

func (s *session) diffCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "diff NODE OTHER",
		Short:   "Compare the hardware, firmware and settings of two nodes",
		Long:    "Compare the hardware, the firmware and the declared settings of two nodes: what differs in what they have, run and should run, whatever the order of equal devices is. What could not be read is unknown, and counts as a difference. The exit code is 0 where nothing differs, and 2 where something does.",
		Example: "  kubectl firmware diff gpu-017 gpu-018",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("name two nodes, such as: kubectl firmware diff gpu-017 gpu-018")
			}
			return nil
		},
		ValidArgsFunction: s.completeNames("NodeFirmware"),
	}
	out := outputOf(c, false)
	c.RunE = func(c *cobra.Command, args []string) error {
		api, err := s.connect()
		if err != nil {
			return err
		}
		d, err := differenceOf(c.Context(), api, args[0], args[1])
		if err != nil {
			return err
		}
		if err := out.print(s.Out, d); err != nil {
			return err
		}
		if len(d.Rows) == 0 {
			s.say("Nothing differs.")
			return nil
		}
		return errDiffers
	}
	return c
}

// Difference is what differs between two nodes.
type Difference struct {
	metav1.TypeMeta `json:",inline"`
	Nodes           []string  `json:"nodes"`
	Rows            []Differs `json:"rows"`
}

// Differs is one thing that is not the same on both nodes, or of which nobody knows that; empty for what one does not have.
type Differs struct {
	What   string   `json:"what"`
	Values []string `json:"values"`
}

// DeepCopyObject makes a result printable; nothing changes it.
func (d *Difference) DeepCopyObject() runtime.Object { out := *d; return &out }

func (d *Difference) text(p page) error {
	if len(d.Rows) == 0 {
		return nil
	}
	var rows [][]string
	for _, r := range d.Rows {
		rows = append(rows, append([]string{r.What}, r.Values...))
	}
	return p.table(append([]string{"WHAT"}, d.Nodes...), rows, 0, 1, 2)
}

func differenceOf(ctx context.Context, api client.Reader, names ...string) (*Difference, error) {
	out := &Difference{TypeMeta: metav1.TypeMeta{APIVersion: resultVersion, Kind: "Difference"}, Rows: []Differs{}}
	var machines, absent []string
	var contents [][]baseline.Device
	for _, name := range names {
		n, err := object[*v1alpha1.NodeFirmware](ctx, api, "node", name)
		if err != nil {
			return nil, err
		}
		g := &explain.Gathering{Ctx: ctx, API: api}
		var devices []baseline.Device
		g.EachDevice(n.Name, func(d *v1alpha1.NodeDevice) { devices = append(devices, contentsOf(d)) })
		if g.Err != nil {
			return nil, g.Err
		}
		machine, without := "", ""
		if n.Status.LastScanTime == nil && n.Status.Machine == nil { // what nobody has looked for is not missing
			machine, without = unknown, unknown
		}
		if m := n.Status.Machine; m != nil {
			machine = m.Vendor + " " + m.Model
		}
		out.Nodes, machines, absent, contents = append(out.Nodes, n.Name), append(machines, machine), append(absent, without), append(contents, devices)
	}
	for _, d := range baseline.Compare(contents[0], contents[1]) {
		out.Rows = append(out.Rows, Differs{d.What, []string{cmp.Or(d.Has, absent[0]), cmp.Or(d.Other, absent[1])}})
	}
	if machines[0] != machines[1] {
		out.Rows = append(out.Rows, Differs{"machine", machines})
	}
	return out, nil
}

const unknown = "unknown"

// contentsOf is what counts of a device, with what is to be said of its firmware. Versions are the same where they are for the operator.
func contentsOf(d *v1alpha1.NodeDevice) baseline.Device {
	out := baseline.DeviceOf(&d.Status)
	runs := out.Firmware
	switch {
	case runs == "":
		out.Unknown, out.Firmware = true, unknown
	case match.Unread(d):
		out.Unknown, out.Firmware = true, "unknown, was "+runs
	}
	if f := d.Spec.Firmware; f != nil && string(inventory.NormalizeVersion(f.Version)) != runs {
		out.Firmware += ", should run " + string(inventory.NormalizeVersion(f.Version))
	}
	return out
}
