package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Exposure is which devices run a version that an advisory names, by what the catalogs found.
type Exposure struct {
	metav1.TypeMeta `json:",inline"`
	// Advisories are those that were asked about; empty for all.
	Advisories []string  `json:"advisories"`
	Exposed    []Exposed `json:"exposed"`
	// Devices are all that were looked at, and Untold those of which no catalog tells all vulnerabilities.
	Devices int `json:"devices"`
	Untold  int `json:"untold"`
	// Catalogs are what was asked.
	Catalogs []AskedCatalog `json:"catalogs"`
}

// Exposed are the devices of one model that run one version which an advisory names.
type Exposed struct {
	Advisory string               `json:"advisory"`
	Class    v1alpha1.DeviceClass `json:"class"`
	Vendor   string               `json:"vendor,omitempty"`
	Model    string               `json:"model"`
	PCIID    string               `json:"pciID,omitempty"`
	Running  string               `json:"running"`
	// FixedIn is the nearest version that fixes everything which is known of the running one and to which an update leads; empty for none.
	FixedIn string `json:"fixedIn,omitempty"`
	// Source is a FirmwareSource that has that version; empty for none.
	Source string `json:"source,omitempty"`
	// Quarantine keeps that version from devices of the model; empty for none.
	Quarantine string   `json:"quarantine,omitempty"`
	Devices    []string `json:"devices"`
	Nodes      []string `json:"nodes"`
}

// AskedCatalog is how old what a catalog says is.
type AskedCatalog struct {
	Name      string          `json:"name"`
	Providers []AskedProvider `json:"providers"`
	// Message is what the catalog says of itself, such as what its status has no room for.
	Message string `json:"message,omitempty"`
}

// AskedProvider is when a provider answered last. Reason is why it did not since.
type AskedProvider struct {
	Name     string       `json:"name"`
	Answered *metav1.Time `json:"lastDiscoveryTime,omitempty"`
	Reason   string       `json:"reason,omitempty"`
}

// DeepCopyObject makes a result printable; nothing changes it.
func (e *Exposure) DeepCopyObject() runtime.Object { out := *e; return &out }

func (s *session) exposureCommand() *cobra.Command {
	var f getOptions
	everything := false
	c := &cobra.Command{
		Use:   "exposure ADVISORY... | --all",
		Short: "Say who runs firmware that an advisory names, and which version mends it",
		Long: "Say who runs firmware that an advisory names, by what the catalogs found: model, version, how many devices and nodes, and the nearest version that mends " +
			"everything which is known of the running one and to which an update leads. That nobody is exposed is said with what was asked, and when.",
		Example: "  kubectl firmware exposure CVE-2026-1234\n" +
			"  kubectl firmware exposure --all --class BIOS -o wide\n" +
			"  kubectl firmware exposure CVE-2026-1234 -o name",
		ValidArgsFunction: s.completeAdvisories,
	}
	c.Flags().BoolVar(&everything, "all", false, "every advisory that the catalogs know somebody to be exposed to")
	s.selectFlags(c, &f)
	out := outputOf(c, true)
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case everything && len(args) > 0:
			return errors.New("give advisories or --all, not both")
		case !everything && len(args) == 0:
			return errors.New("name an advisory, such as: kubectl firmware exposure CVE-2026-1234; or every one that is known: kubectl firmware exposure --all")
		}
		if err := f.checkClass(); err != nil {
			return err
		}
		p, err := out.printer()
		if err != nil {
			return err
		}
		api, err := s.connect()
		if err != nil {
			return err
		}
		e, err := s.exposure(c.Context(), api, f, args)
		switch {
		case err != nil:
			return err
		case *out.flags.OutputFormat == "name":
			if len(e.Exposed) == 0 && e.Devices > 0 {
				s.say("No device runs firmware that %s names, as far as the catalogs say.", text.Some(e.unexposed(), 5))
			}
			if untold := e.untold(); untold != "" {
				s.say("%s", untold)
			}
			return e.names(func(o runtime.Object) error { return p.PrintObj(o, s.Out) })
		}
		return out.print(s.Out, e)
	}
	return c
}

// completeAdvisories offers those that the catalogs know somebody to be exposed to.
func (s *session) completeAdvisories(c *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	api, err := s.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	known := map[string]bool{}
	_ = each(c.Context(), api, &v1alpha1.FirmwareCatalogList{}, nil, func(o *v1alpha1.FirmwareCatalog) error {
		for _, component := range o.Status.Components {
			for _, run := range component.Running {
				for _, id := range run.Issues {
					known[id] = strings.HasPrefix(id, toComplete) && !slices.Contains(args, id)
				}
			}
		}
		return nil
	})
	maps.DeleteFunc(known, func(_ string, offered bool) bool { return !offered })
	ids := slices.Sorted(maps.Keys(known))
	return ids[:min(len(ids), mostCompletions)], cobra.ShellCompDirectiveNoFileComp
}

// exposedTo is what a row is about; rows of several machine models that say the same are one.
type exposedTo struct {
	advisory                          string
	class                             v1alpha1.DeviceClass
	vendor, model, pciID              string
	running, fixedIn, source, blocked string
}

// exposure finds the devices that the options choose and that run what the advisories name, or any does where there are none.
func (s *session) exposure(ctx context.Context, api client.Reader, f getOptions, advisories []string) (*Exposure, error) {
	stands, err := standingsOf(ctx, api)
	if err != nil {
		return nil, err
	}
	quarantines, err := all[*v1alpha1.FirmwareQuarantine](ctx, api, &v1alpha1.FirmwareQuarantineList{}, nil)
	if err != nil {
		return nil, err
	}
	out := &Exposure{TypeMeta: metav1.TypeMeta{APIVersion: resultVersion, Kind: "Exposure"}, Advisories: append([]string{}, advisories...), Exposed: []Exposed{}, Catalogs: stands.asked()}
	devices, nodes := map[exposedTo][]string{}, map[exposedTo]map[string]bool{}
	for _, chosen := range f.requests(nil) {
		err := eachBrief(ctx, api, chosen, func(d *v1alpha1.NodeDevice) error {
			if !f.chooses(d, nil) {
				return nil
			}
			out.Devices++
			component, run := stands.of(d)
			if !stands.tellsAll(d, run) {
				out.Untold++
			}
			if run == nil {
				return nil
			}
			for _, id := range run.Issues {
				if len(advisories) > 0 && !slices.ContainsFunc(advisories, func(a string) bool { return strings.EqualFold(a, id) }) {
					continue
				}
				to := exposedTo{
					advisory: id, class: component.Class, vendor: component.Vendor, model: cmp.Or(component.Model, component.PCIID, string(component.Class)), pciID: component.PCIID,
					running: run.Version, fixedIn: run.FixedIn, source: sourceOf(component, run.FixedIn), blocked: blocks(quarantines, d.Status.ModelKey(), run.FixedIn),
				}
				if nodes[to] == nil {
					nodes[to] = map[string]bool{}
				}
				devices[to] = append(devices[to], d.Name)
				nodes[to][d.Spec.NodeName] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if f.node != "" && out.Devices == 0 {
		if err := s.missed(ctx, api, f, &found{}); err != nil {
			return nil, err
		}
	}
	for to, names := range devices {
		slices.Sort(names)
		out.Exposed = append(out.Exposed, Exposed{Advisory: to.advisory, Class: to.class, Vendor: to.vendor, Model: to.model, PCIID: to.pciID, Running: to.running,
			FixedIn: to.fixedIn, Source: to.source, Quarantine: to.blocked, Devices: names, Nodes: slices.Sorted(maps.Keys(nodes[to]))})
	}
	slices.SortFunc(out.Exposed, func(a, b Exposed) int {
		return cmp.Or(cmp.Compare(a.Advisory, b.Advisory), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Model, b.Model), cmp.Compare(a.PCIID, b.PCIID),
			cmp.Compare(len(b.Devices), len(a.Devices)), cmp.Compare(a.Running, b.Running), cmp.Compare(a.FixedIn, b.FixedIn), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Vendor, b.Vendor))
	})
	return out, nil
}

// sourceOf is the FirmwareSource that has a version, as the catalog says; empty for none.
func sourceOf(c *v1alpha1.CatalogComponent, version string) string {
	for _, v := range c.Versions {
		if version != "" && v.Version == version {
			return v.Source
		}
	}
	return ""
}

// blocks is the quarantine that keeps a version from devices of a model somewhere; empty for none.
func blocks(all []*v1alpha1.FirmwareQuarantine, model, version string) string {
	for _, q := range all {
		if version != "" && q.Spec.Model == model && q.Status.Version == version && quarantine.InForce(q, "") {
			return q.Name
		}
	}
	return ""
}

// asked are the catalogs of machine models, in order of name.
func (s *standings) asked() []AskedCatalog {
	out := []AskedCatalog{}
	for _, c := range s.catalogs {
		if c.Name == v1alpha1.DefaultCatalog {
			continue
		}
		a := AskedCatalog{Name: c.Name, Providers: []AskedProvider{}}
		for _, p := range c.Status.Providers {
			a.Providers = append(a.Providers, AskedProvider{p.Name, p.LastDiscoveryTime, p.Reason})
		}
		if ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
			a.Message = ready.Message
		}
		out = append(out, a)
	}
	return out
}

// names does something with each device that is exposed, once.
func (e *Exposure) names(do func(runtime.Object) error) error {
	once := map[string]bool{}
	for _, row := range e.Exposed {
		for _, name := range row.Devices {
			once[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(once)) {
		d := &v1alpha1.NodeDevice{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeDevice"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := do(d); err != nil {
			return err
		}
	}
	return nil
}

func (e *Exposure) text(p page) error {
	var rows [][]string
	for _, x := range e.Exposed {
		fixed := x.FixedIn
		if x.Quarantine != "" {
			fixed += " (quarantined)"
		}
		row := []string{x.Advisory, x.Model, x.Running, strconv.Itoa(len(x.Devices)), strconv.Itoa(len(x.Nodes)), fixed, x.Source}
		if p.wide {
			row = append(row, string(x.Class), x.PCIID, x.Quarantine, text.Some(x.Nodes, 5))
		}
		rows = append(rows, row)
	}
	header := []string{"ADVISORY", "MODEL", "RUNNING", "DEVICES", "NODES", "FIXED IN", "SOURCE"}
	if p.wide {
		header = append(header, "CLASS", "PCI-ID", "QUARANTINE", "WHICH NODES")
	}
	if len(rows) > 0 {
		if err := p.table(header, rows, 0, 1, 2, 5, 6); err != nil {
			return err
		}
	}
	for _, id := range e.unexposed() {
		if e.Devices == 0 {
			break
		}
		if err := p.line("No device runs firmware that %s names, as far as the catalogs say.", id); err != nil {
			return err
		}
	}
	if untold := e.untold(); untold != "" {
		if err := p.line("%s", untold); err != nil {
			return err
		}
	}
	switch {
	case len(e.Catalogs) == 0:
		return p.line("There is no catalog yet, so that nothing is known.")
	case len(e.unexposed()) == 0 && !p.wide:
		return nil
	}
	return e.catalogs(p)
}

// untold says for how many devices the answer is not known; empty where it is for all.
func (e *Exposure) untold() string {
	switch {
	case e.Devices == 0:
		return "No device is like that, so that nothing was looked at."
	case e.Untold > 0:
		return fmt.Sprintf("No catalog tells all vulnerabilities of %d of %s.", e.Untold, text.Quantity(e.Devices, "device", "devices"))
	}
	return ""
}

// unexposed are the advisories that were asked about and name what nobody runs; without any that was, a word for all where there are none.
func (e *Exposure) unexposed() (out []string) {
	for _, id := range e.Advisories {
		if !slices.ContainsFunc(e.Exposed, func(x Exposed) bool { return strings.EqualFold(x.Advisory, id) }) {
			out = append(out, id)
		}
	}
	if len(e.Advisories)+len(e.Exposed) == 0 {
		out = append(out, "any advisory")
	}
	return out
}

func (e *Exposure) catalogs(p page) error {
	var rows [][]string
	for _, c := range e.Catalogs {
		for _, provider := range c.Providers {
			answered := "never"
			if provider.Answered != nil {
				answered = stamp(provider.Answered)
			}
			rows = append(rows, []string{c.Name, provider.Name, answered, provider.Reason, c.Message})
		}
		if len(c.Providers) == 0 {
			rows = append(rows, []string{c.Name, "", "never", "", c.Message})
		}
	}
	return section(p, []string{"CATALOG", "PROVIDER", "LAST ANSWER", "FAILS WITH", "SAYS"}, rows, 0, 4)
}
