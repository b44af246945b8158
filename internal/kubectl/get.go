package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// getOptions choose devices. What is given must hold all together.
type getOptions struct {
	class, model, version, node         string
	behind, outOfDate, vulnerable, held bool
	names                               []string
}

func (s *session) getCommand() *cobra.Command {
	var f getOptions
	c := &cobra.Command{
		Use:   "get [devices] [NAME...]",
		Short: "List devices: what they run, what they should, and how they stand",
		Example: "  kubectl firmware get --class NIC --behind\n" +
			"  kubectl firmware get --node gpu-017 -o wide\n" +
			"  kubectl firmware get --model 15b3:101d --version 22.39.1002 -o name",
		ValidArgsFunction: s.completeNames("NodeDevice"),
	}
	s.selectFlags(c, &f)
	c.Flags().BoolVar(&f.outOfDate, "out-of-date", false, "devices that do not run what a template or pin says")
	c.Flags().BoolVar(&f.behind, "behind", false, "devices that run an older version than the newest that a catalog offers")
	c.Flags().BoolVar(&f.vulnerable, "vulnerable", false, "devices whose version has a known vulnerability, as a catalog says")
	c.Flags().BoolVar(&f.held, "held", false, "devices of nodes that a failed job keeps out of service")
	out := outputOf(c, true)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 && args[0] == "devices" {
			args = args[1:]
		}
		f.names = args
		if err := f.checkClass(); err != nil {
			return err
		}
		api, err := s.connect()
		if err != nil {
			return err
		}
		list, err := s.devices(c.Context(), api, f, !out.isText())
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			s.say("No device is like that.")
		}
		if p, err := out.printer(); err != nil {
			return err
		} else if p != nil {
			return printObjects(p, *out.flags.OutputFormat, list.objects(), s.Out)
		}
		if err := list.text(out.page(s.Out)); err != nil || !f.behind && !f.vulnerable {
			return err
		}
		s.say("%s. How they stand is what the catalogs found; to have one look again: docs/kinds/firmwarecatalog.md", text.Quantity(len(list.Items), "device", "devices"))
		return nil
	}
	return c
}

var deviceClasses = []string{string(v1alpha1.ClassBIOS), string(v1alpha1.ClassDisk), string(v1alpha1.ClassNIC), string(v1alpha1.ClassStorageController)}

// selectFlags are those that choose devices by what they are, for every verb about devices.
func (s *session) selectFlags(c *cobra.Command, f *getOptions) {
	c.Flags().StringVar(&f.class, "class", "", "devices of this class: "+strings.Join(deviceClasses, ", "))
	_ = c.RegisterFlagCompletionFunc("class", cobra.FixedCompletions(deviceClasses, cobra.ShellCompDirectiveNoFileComp))
	c.Flags().StringVar(&f.model, "model", "", "devices with these PCI ids, such as 15b3:101d, or with this in the name of their model")
	c.Flags().StringVar(&f.version, "version", "", "devices that run this version")
	c.Flags().StringVar(&f.node, "node", "", "devices of this node")
	_ = c.RegisterFlagCompletionFunc("node", s.completeNames("NodeFirmware"))
}

// checkClass spells the class as the API does.
func (f *getOptions) checkClass() error {
	if f.class == "" {
		return nil
	}
	at := slices.IndexFunc(deviceClasses, func(known string) bool { return strings.EqualFold(known, f.class) })
	if at < 0 {
		return fmt.Errorf("--class %s: there is no such class; there are %s", f.class, strings.Join(deviceClasses, ", "))
	}
	f.class = deviceClasses[at]
	return nil
}

// found are devices with how they stand.
type found struct{ Items []*foundDevice }

// foundDevice is what is kept of a device: the object itself only where it is printed whole.
type foundDevice struct {
	name, node, class, model, pciID, running, desired, state, why, stands string
	object                                                                *v1alpha1.NodeDevice
}

// devices finds those that the options choose, in order of name. Whole keeps the objects.
func (s *session) devices(ctx context.Context, api client.Reader, f getOptions, whole bool) (*found, error) {
	var stands *explain.Standings
	var err error
	if f.behind || f.vulnerable {
		if stands, err = explain.ReadStandings(ctx, api); err != nil {
			return nil, err
		}
	}
	var held map[string]bool
	if f.held {
		if held, err = heldNodes(ctx, api); err != nil {
			return nil, err
		}
	}
	out, list := &found{}, eachBrief
	if whole {
		list = eachDevice
	}
	for _, chosen := range f.requests(held) {
		err := list(ctx, api, chosen, func(d *v1alpha1.NodeDevice) error {
			if !f.chooses(d, held) {
				return nil
			}
			standing := ""
			if stands != nil {
				c, run := stands.Of(d)
				behind := run != nil && run.Position == v1alpha1.PositionBehind
				vulnerable := run != nil && len(issuesOf(run)) > 0
				if f.behind && !behind || f.vulnerable && !vulnerable {
					return nil
				}
				standing = standingOf(explain.Newest(c), run)
				if run != nil && run.Limit != nil {
					if at, known := d.Status.Reaches(run.Limit.PowerOnHours); known {
						standing += fmt.Sprintf("; fails at %s by %s", stamp(&metav1.Time{Time: at}), run.Limit.Issue)
					}
				}
			}
			out.Items = append(out.Items, foundOf(d, standing, whole))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if err := s.missed(ctx, api, f, out); err != nil {
		return nil, err
	}
	slices.SortFunc(out.Items, func(a, b *foundDevice) int { return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.name, b.name)) })
	return out, nil
}

// requests are the selections by which the API server is asked: what it can select itself, it need not send. Few held nodes are asked for one
// by one.
func (f *getOptions) requests(held map[string]bool) []fields.Set {
	base := fields.Set{}
	for field, value := range map[string]string{"spec.nodeName": f.node, "status.class": f.class, "status.firmware.running": f.version} {
		if value != "" {
			base[field] = value
		}
	}
	if isPCIID(f.model) {
		base["status.pciID"] = strings.ToLower(f.model)
	}
	var out []fields.Set
	switch {
	case len(f.names) > 0 && len(f.names) <= 20:
		for _, name := range f.names {
			one := fields.Set{"metadata.name": name}
			for k, v := range base {
				one[k] = v
			}
			out = append(out, one)
		}
	case f.held && len(held) <= 20 && f.node == "":
		for node := range held {
			one := fields.Set{"spec.nodeName": node}
			for k, v := range base {
				one[k] = v
			}
			out = append(out, one)
		}
	default:
		out = append(out, base)
	}
	return out
}

// isPCIID reports whether a model is given by its PCI ids.
func isPCIID(model string) bool {
	vendor, device, both := strings.Cut(model, ":")
	hex := func(s string) bool { return len(s) == 4 && strings.Trim(strings.ToLower(s), "0123456789abcdef") == "" }
	return both && hex(vendor) && hex(device)
}

// chooses reports whether what the API server could not select itself holds.
func (f *getOptions) chooses(d *v1alpha1.NodeDevice, held map[string]bool) bool {
	switch {
	case len(f.names) > 0 && !slices.Contains(f.names, d.Name):
		return false
	case f.model != "" && !isPCIID(f.model) && !strings.Contains(strings.ToLower(d.Status.Model), strings.ToLower(f.model)):
		return false
	case f.outOfDate && (d.Spec.Firmware == nil || is(d.Status.Conditions, v1alpha1.ConditionReady)):
		return false
	case f.held && !held[d.Spec.NodeName]:
		return false
	}
	return true
}

// missed refuses a name of no device, or a node that is none, and says which one may be meant.
func (s *session) missed(ctx context.Context, api client.Reader, f getOptions, out *found) error {
	for _, name := range f.names {
		if slices.ContainsFunc(out.Items, func(d *foundDevice) bool { return d.name == name }) {
			continue
		}
		names, err := namesOf(ctx, api, "NodeDevice")
		if err != nil {
			return err
		}
		if !slices.Contains(names, name) {
			return noSuch("device", "ndev", name, names)
		}
	}
	if f.node != "" && len(out.Items) == 0 {
		names, err := namesOf(ctx, api, "NodeFirmware")
		if err != nil {
			return err
		}
		if !slices.Contains(names, f.node) {
			return noSuch("node", "nfw", f.node, names)
		}
	}
	return nil
}

// heldNodes are the nodes that a failed job keeps out of service.
func heldNodes(ctx context.Context, api client.Reader) (map[string]bool, error) {
	out := map[string]bool{}
	return out, reading.Each(ctx, api, &v1alpha1.NodeFirmwareList{}, nil, func(n *v1alpha1.NodeFirmware) error {
		if n.Status.HeldBy != "" {
			out[n.Name] = true
		}
		return nil
	})
}

func foundOf(d *v1alpha1.NodeDevice, standing string, whole bool) *foundDevice {
	out := &foundDevice{name: d.Name, node: d.Spec.NodeName, class: string(d.Status.Class), model: d.Status.Model, pciID: d.Status.PCIID,
		running: d.Status.Running(), stands: standing}
	if d.Spec.Firmware != nil {
		out.desired = d.Spec.Firmware.Version
	}
	if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		out.state, out.why = c.Reason, c.Message
	}
	if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionBlocked); c != nil {
		out.state, out.why = c.Reason, c.Message
	}
	if whole {
		d.ManagedFields = nil
		out.object = d
	}
	return out
}

// standingOf says how a version stands to what is offered, and what it is vulnerable to.
func standingOf(newest string, run *v1alpha1.CatalogRunning) string {
	if run == nil {
		return ""
	}
	out := strings.ToLower(string(run.Position))
	if run.Position == v1alpha1.PositionBehind && newest != "" {
		out += " " + newest
	}
	issues := issuesOf(run)
	if len(issues) == 0 {
		return out
	}
	out += "; " + issues[0]
	if more := len(issues) - 1; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	if run.FixedIn != "" {
		out += ", fixed in " + run.FixedIn
	}
	return out
}

// objects is the list for programs.
func (f *found) objects() runtime.Object {
	list := &v1alpha1.NodeDeviceList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeDeviceList"}, Items: []v1alpha1.NodeDevice{}}
	for _, d := range f.Items {
		d.object.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeDevice"}
		list.Items = append(list.Items, *d.object)
	}
	return list
}

func (f *found) text(p page) error {
	if len(f.Items) == 0 {
		return nil
	}
	header := []string{"DEVICE", "CLASS", "RUNNING", "DESIRED", "STATE"}
	stands := f.Items[0].stands != ""
	if stands {
		header = append(header, "STANDS")
	}
	if p.wide {
		header = append(header, "NODE", "MODEL", "PCI-ID", "STATUS")
	}
	var rows [][]string
	for _, d := range f.Items {
		row := []string{d.name, d.class, d.running, d.desired, d.state}
		if stands {
			row = append(row, d.stands)
		}
		if p.wide {
			row = append(row, d.node, d.model, d.pciID, d.why)
		}
		rows = append(rows, row)
	}
	return p.table(header, rows, 0, 2, 3, len(header)-1)
}
