package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// errDiffers ends the command with 2, as a comparison does that found something.
var errDiffers = errors.New("something differs")

func (s *session) diffCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "diff NODE OTHER",
		Short:   "Compare the hardware and the firmware of two nodes",
		Long:    "Compare the hardware and the firmware of two nodes: what differs in what they have, run and should run. The exit code is 0 where nothing differs, and 2 where something does.",
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

// Differs is one thing that is not the same on both nodes; empty for what one does not have.
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
	var facts []map[string]string
	for _, name := range names {
		n, err := object[*v1alpha1.NodeFirmware](ctx, api, "node", name)
		if err != nil {
			return nil, err
		}
		g := &gathering{ctx: ctx, api: api}
		var devices []*v1alpha1.NodeDevice
		g.eachDevice(n.Name, func(d *v1alpha1.NodeDevice) { devices = append(devices, d) })
		if g.err != nil {
			return nil, g.err
		}
		out.Nodes, facts = append(out.Nodes, n.Name), append(facts, inventoryOf(n, devices))
	}
	for what, a := range facts[0] {
		if b := facts[1][what]; a != b {
			out.Rows = append(out.Rows, Differs{what, []string{a, b}})
		}
	}
	for what, b := range facts[1] {
		if _, both := facts[0][what]; !both {
			out.Rows = append(out.Rows, Differs{what, []string{"", b}})
		}
	}
	slices.SortFunc(out.Rows, func(a, b Differs) int { return cmp.Compare(a.What, b.What) })
	return out, nil
}

// inventoryOf is what can be compared of a node: its machine, and each device by its model and, of several of one model, its place in order of
// PCI address.
func inventoryOf(n *v1alpha1.NodeFirmware, devices []*v1alpha1.NodeDevice) map[string]string {
	out := map[string]string{}
	if m := n.Status.Machine; m != nil {
		out["machine"] = m.Vendor + " " + m.Model
	}
	slices.SortFunc(devices, func(a, b *v1alpha1.NodeDevice) int {
		return cmp.Or(cmp.Compare(a.Status.PCIAddress, b.Status.PCIAddress), cmp.Compare(a.Name, b.Name))
	})
	seen := map[string]int{}
	for _, d := range devices {
		what := strings.TrimSpace(fmt.Sprintf("%s %s", d.Status.Class, d.Status.Model))
		if seen[what]++; seen[what] > 1 {
			what = fmt.Sprintf("%s #%d", what, seen[what])
		}
		out[what] = orUnknown(d.Status.Running())
		if f := d.Spec.Firmware; f != nil && f.Version != d.Status.Running() {
			out[what] += ", should run " + f.Version
		}
	}
	return out
}
