package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// errDiffers ends the command with 2, as a comparison does that found something.
var errDiffers = errors.New("something differs")

func (s *session) diffCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "diff NODE OTHER",
		Short:   "Compare the hardware and the firmware of two nodes",
		Long:    "Compare the hardware and the firmware of two nodes: what differs in what they have, run and should run. What could not be read is unknown, and counts as a difference. The exit code is 0 where nothing differs, and 2 where something does.",
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
	var facts []map[string]compared
	var absent []compared
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
		without := compared{}
		if n.Status.LastScanTime == nil && n.Status.Machine == nil { // what nobody has looked for is not missing
			without = unknown
		}
		out.Nodes, facts, absent = append(out.Nodes, n.Name), append(facts, inventoryOf(n, devices)), append(absent, without)
	}
	all := maps.Clone(facts[0])
	maps.Copy(all, facts[1])
	for what := range all {
		a, has := facts[0][what]
		if !has {
			a = absent[0]
		}
		b, has := facts[1][what]
		if !has {
			b = absent[1]
		}
		if a.says != b.says || a.unknown || b.unknown {
			out.Rows = append(out.Rows, Differs{what, []string{a.says, b.says}})
		}
	}
	slices.SortFunc(out.Rows, func(a, b Differs) int { return cmp.Compare(a.What, b.What) })
	return out, nil
}

// compared is what one node has of something.
type compared struct {
	says string
	// unknown says that it could not be read, so that nobody knows whether it is the same.
	unknown bool
}

var unknown = compared{"unknown", true}

// inventoryOf is what can be compared of a node: its machine, and each device by its model and, of several of one model, its place in order of
// PCI address. Versions are the same where they are for the operator.
func inventoryOf(n *v1alpha1.NodeFirmware, devices []*v1alpha1.NodeDevice) map[string]compared {
	out := map[string]compared{}
	if m := n.Status.Machine; m != nil {
		out["machine"] = compared{says: m.Vendor + " " + m.Model}
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
		runs := inventory.NormalizeVersion(d.Status.Running())
		is := compared{says: string(runs)}
		switch {
		case runs == "":
			is = unknown
		case match.Unread(d):
			is = compared{"unknown, was " + string(runs), true}
		}
		if f := d.Spec.Firmware; f != nil && inventory.NormalizeVersion(f.Version) != runs {
			is.says += ", should run " + string(inventory.NormalizeVersion(f.Version))
		}
		out[what] = is
	}
	return out
}
