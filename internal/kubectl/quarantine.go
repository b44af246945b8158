package kubectl

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

func (s *session) quarantineCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "quarantine",
		Short:   "List the images that are flashed to no device, confirm that one is at fault, or lift its quarantine",
		Example: "  kubectl firmware quarantine",
		Args:    cobra.NoArgs,
	}
	list := s.quarantineListCommand()
	c.AddCommand(list, s.decideCommand("confirm", "Keep an image from every node, whoever reported it", confirm),
		s.decideCommand("lift", "Have what was reported of an image count no more, so that it may be flashed again", lift))
	c.RunE = func(c *cobra.Command, args []string) error {
		list.SetContext(c.Context())
		return list.RunE(list, args)
	}
	return c
}

// quarantines are listed with what they keep from where.
type quarantines struct {
	v1alpha1.FirmwareQuarantineList
}

func (q *quarantines) text(p page) error {
	if len(q.Items) == 0 {
		return nil
	}
	var rows [][]string
	for i := range q.Items {
		o := &q.Items[i]
		where := "no node"
		switch o.Status.Scope {
		case v1alpha1.QuarantineFleet:
			where = "every node"
		case v1alpha1.QuarantinePolicies:
			where = "nodes of " + text.Some(quarantine.Policies(o), 3)
		case v1alpha1.QuarantineNone:
		}
		reports := 0
		for _, r := range o.Status.Reports {
			if r.State == v1alpha1.ReportCounted {
				reports++
			}
		}
		why := ""
		if quarantine.InForce(o, "") || reports > 0 {
			why = quarantine.Why(o)
		}
		rows = append(rows, []string{o.Name, o.Status.Version, string(o.Spec.State), where, strconv.Itoa(reports), why})
	}
	return p.table([]string{"QUARANTINE", "VERSION", "STATE", "KEPT FROM", "REPORTS", "WHY"}, rows, 0, 5)
}

func (s *session) quarantineListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List quarantines: what is kept from which nodes, and why",
		Example: "  kubectl firmware quarantine list -o name",
		Args:    cobra.NoArgs,
	}
	out := outputOf(c, true)
	c.RunE = func(c *cobra.Command, _ []string) error {
		api, err := s.connect()
		if err != nil {
			return err
		}
		found := &quarantines{}
		found.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "FirmwareQuarantineList"}
		found.Items = []v1alpha1.FirmwareQuarantine{}
		err = reading.Each(c.Context(), api, &v1alpha1.FirmwareQuarantineList{}, nil, func(q *v1alpha1.FirmwareQuarantine) error {
			q.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "FirmwareQuarantine"}
			q.ManagedFields = nil
			found.Items = append(found.Items, *q)
			return nil
		})
		if err != nil {
			return err
		}
		if len(found.Items) == 0 {
			s.say("No image is quarantined.")
		}
		if p, err := out.printer(); err != nil {
			return err
		} else if p != nil {
			return printObjects(p, *out.flags.OutputFormat, runtime.Object(&found.FirmwareQuarantineList), s.Out)
		}
		return found.text(out.page(s.Out))
	}
	return c
}

// decideCommand is a verb that decides about quarantines.
func (s *session) decideCommand(verb, short string, decide func(*v1alpha1.FirmwareQuarantine) (*write, error)) *cobra.Command {
	example := "kubectl firmware quarantine " + verb + " 3b1f1c0fca2d0b5d.15b3.101d"
	c := &cobra.Command{
		Use: verb + " NAME", Short: short, Example: "  " + example, Args: wantOne(example), ValidArgsFunction: s.completeNames("FirmwareQuarantine"),
	}
	w := writingOf(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		api, by, err := s.begin(c.Context(), w)
		if err != nil {
			return err
		}
		decisions := decisionsOf(args, func(ctx context.Context, name string) (*write, error) {
			q, err := object[*v1alpha1.FirmwareQuarantine](ctx, api, "quarantine", name)
			if err != nil {
				return nil, err
			}
			return decide(q)
		})
		return s.do(c.Context(), w, by, decisions)
	}
	return c
}

// confirm decides that no node gets the image.
func confirm(q *v1alpha1.FirmwareQuarantine) (*write, error) {
	if q.Spec.State == v1alpha1.QuarantineConfirmed {
		return nil, fmt.Errorf("quarantine/%s is Confirmed already: no node gets the image", q.Name)
	}
	changed := copyOf(q)
	changed.Spec.State = v1alpha1.QuarantineConfirmed
	return &write{old: q, changed: changed, will: fmt.Sprintf("%s is flashed to no device of model %s, on any node, until the quarantine is lifted. Devices that run it are left alone.",
		image(q), q.Spec.Model), did: "confirmed", action: "Confirm", reason: v1alpha1.ReasonQuarantined}, nil
}

// lift decides that what was reported counts no more. A quarantine that was lifted before, and has a report since, becomes Active first: the
// state has to change for what was reported since to be lifted too.
func lift(q *v1alpha1.FirmwareQuarantine) (*write, error) {
	if q.Spec.State != v1alpha1.QuarantineConfirmed && !quarantine.InForce(q, "") && quarantine.First(q) == nil {
		return nil, fmt.Errorf("quarantine/%s keeps the image from no node, so there is nothing to lift", q.Name)
	}
	changed := copyOf(q)
	changed.Spec.State = v1alpha1.QuarantineLifted
	will := fmt.Sprintf("%s may be flashed to devices of model %s again, on every node, within the budget.", image(q), q.Spec.Model)
	if r := quarantine.First(q); r != nil {
		will += fmt.Sprintf(" It is kept back because %s. Node %s does not try again because of this: kubectl firmware retry %[2]s.", quarantine.Why(q), r.Node)
	}
	out := &write{old: q, changed: changed, will: will, did: "lifted", action: "Lift", reason: v1alpha1.ReasonSucceeded}
	if q.Spec.State == v1alpha1.QuarantineLifted {
		changed.Spec.State = v1alpha1.QuarantineActive
		out.again = func(o client.Object) { o.(*v1alpha1.FirmwareQuarantine).Spec.State = v1alpha1.QuarantineLifted }
	}
	return out, nil
}

// image names the image of a quarantine.
func image(q *v1alpha1.FirmwareQuarantine) string {
	if q.Status.Version != "" {
		return "Version " + q.Status.Version + " (" + string(q.Spec.Digest)[:19] + "…)"
	}
	return "The image " + string(q.Spec.Digest)[:19] + "…"
}
