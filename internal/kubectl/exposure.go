package kubectl

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/lifetime"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
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
	// First are the devices that fail first by the limit of an advisory, at most 10.
	First []Failing `json:"first,omitempty"`
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
	// FirstFailure is when the first of the devices has been powered on for as long as the advisory lets it work, if it stays on; absent where
	// the advisory has no limit, another advisory has a lower one for the version, or none of the devices says for how long it was.
	FirstFailure *metav1.Time `json:"firstFailureTime,omitempty"`
}

// Failing is a device that fails by the limit of an advisory if it stays on and its firmware is not updated.
type Failing struct {
	Device   string      `json:"device"`
	Node     string      `json:"node"`
	Advisory string      `json:"advisory"`
	At       metav1.Time `json:"time"`
	// Reached says that it has been on for so long already.
	Reached bool `json:"reached,omitempty"`
	// Policy is the RolloutPolicy of the node; empty for who may not read Nodes. Of one with windows, LastWindow is when the last of them opens before the device fails; absent
	// where none does.
	Policy     string       `json:"policy,omitempty"`
	HasWindows bool         `json:"hasWindows,omitempty"`
	LastWindow *metav1.Time `json:"lastWindowTime,omitempty"`
	isOpen     bool
}

// mostFailing bounds the devices that are listed because they fail first.
const mostFailing = 10

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
			w := bufio.NewWriter(s.Out)
			return cmp.Or(e.names(func(o runtime.Object) error { return p.PrintObj(o, w) }), w.Flush())
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
	_ = reading.Each(c.Context(), api, &v1alpha1.FirmwareCatalogList{}, nil, func(o *v1alpha1.FirmwareCatalog) error {
		for _, component := range o.Status.Components {
			for _, run := range component.Running {
				for _, id := range issuesOf(&run) {
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
	stands, err := explain.ReadStandings(ctx, api)
	if err != nil {
		return nil, err
	}
	quarantines, err := reading.All[*v1alpha1.FirmwareQuarantine](ctx, api, &v1alpha1.FirmwareQuarantineList{}, nil)
	if err != nil {
		return nil, err
	}
	out := &Exposure{TypeMeta: metav1.TypeMeta{APIVersion: resultVersion, Kind: "Exposure"}, Advisories: append([]string{}, advisories...), Exposed: []Exposed{}, Catalogs: askedIn(stands.Catalogs)}
	devices, nodes, failing := map[exposedTo][]string{}, map[exposedTo]map[string]bool{}, map[exposedTo][]Failing{}
	for _, chosen := range f.requests(nil) {
		err := eachBrief(ctx, api, chosen, func(d *v1alpha1.NodeDevice) error {
			if !f.chooses(d, nil) {
				return nil
			}
			out.Devices++
			component, run := stands.Of(d)
			if !stands.TellsAll(d, run) {
				out.Untold++
			}
			if run == nil {
				return nil
			}
			for _, id := range issuesOf(run) {
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
				if run.Limit != nil && run.Limit.Issue == id {
					if at, known := d.Status.Reaches(run.Limit.PowerOnHours); known {
						failing[to] = append(failing[to], Failing{Device: d.Name, Node: d.Spec.NodeName, Advisory: id, At: metav1.NewTime(at)})
					}
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
		slices.SortFunc(failing[to], Failing.compare)
		row := Exposed{Advisory: to.advisory, Class: to.class, Vendor: to.vendor, Model: to.model, PCIID: to.pciID, Running: to.running,
			FixedIn: to.fixedIn, Source: to.source, Quarantine: to.blocked, Devices: names, Nodes: slices.Sorted(maps.Keys(nodes[to]))}
		if of := failing[to]; len(of) > 0 {
			row.FirstFailure = &of[0].At
			out.First = append(out.First, of[:min(len(of), mostFailing)]...)
		}
		out.Exposed = append(out.Exposed, row)
	}
	slices.SortFunc(out.First, Failing.compare)
	out.First = out.First[:min(len(out.First), mostFailing)]
	if err := s.addWindows(ctx, api, out.First); err != nil {
		return nil, err
	}
	slices.SortFunc(out.Exposed, func(a, b Exposed) int {
		return cmp.Or(lifetime.Sooner(a.FirstFailure, b.FirstFailure), cmp.Compare(a.Advisory, b.Advisory), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Model, b.Model), cmp.Compare(a.PCIID, b.PCIID),
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

// issuesOf are the vulnerabilities of a running version that a catalog lists, and that of its limit.
func issuesOf(run *v1alpha1.CatalogRunning) []string {
	if run.Limit == nil || slices.Contains(run.Issues, run.Limit.Issue) {
		return run.Issues
	}
	return append(slices.Clone(run.Issues), run.Limit.Issue)
}

func (f Failing) compare(o Failing) int {
	return cmp.Or(f.At.Compare(o.At.Time), cmp.Compare(f.Device, o.Device))
}

// addWindows says of each device before which window its node has to be updated.
func (s *session) addWindows(ctx context.Context, api client.Reader, all []Failing) error {
	if len(all) == 0 {
		return nil
	}
	var policies v1alpha1.RolloutPolicyList
	if err := api.List(ctx, &policies); err != nil {
		return fmt.Errorf("list RolloutPolicies: %w", err)
	}
	pools := quarantine.NewPools(policies.Items)
	for i := range all {
		f, node := &all[i], &corev1.Node{}
		f.Reached = !f.At.After(s.now())
		switch err := api.Get(ctx, client.ObjectKey{Name: f.Node}, node); {
		case apierrors.IsForbidden(err): // as the product's own roles are; when the device fails is known all the same
			continue
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("get Node %s: %w", f.Node, err)
		}
		f.Policy = pools.Of(node.Labels)
		at := slices.IndexFunc(policies.Items, func(p v1alpha1.RolloutPolicy) bool { return p.Name == f.Policy })
		if at < 0 || len(policies.Items[at].Spec.Windows) == 0 {
			continue
		}
		calendar, err := schedule.CalendarOf(&policies.Items[at].Spec)
		if err != nil {
			continue // the policy says so, and admits nothing
		}
		f.HasWindows = true
		if opens, found := calendar.LastBefore(s.now(), f.At.Time); found {
			f.LastWindow, f.isOpen = &metav1.Time{Time: opens}, !opens.After(s.now())
		}
	}
	return nil
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

// askedIn are the catalogs of machine models, in order of name.
func askedIn(catalogs []*v1alpha1.FirmwareCatalog) []AskedCatalog {
	out := []AskedCatalog{}
	for _, c := range catalogs {
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
		d := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeDevice"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := do(d); err != nil {
			return err
		}
	}
	return nil
}

func (e *Exposure) text(p page) error {
	var rows [][]string
	fails := len(e.First) > 0
	for _, x := range e.Exposed {
		fixed := x.FixedIn
		if x.Quarantine != "" {
			fixed += " (quarantined)"
		}
		row := []string{x.Advisory, x.Model, x.Running, strconv.Itoa(len(x.Devices)), strconv.Itoa(len(x.Nodes)), fixed, x.Source}
		if fails {
			row = append(row, stamp(x.FirstFailure))
		}
		if p.wide {
			row = append(row, string(x.Class), x.PCIID, x.Quarantine, text.Some(x.Nodes, 5))
		}
		rows = append(rows, row)
	}
	header := []string{"ADVISORY", "MODEL", "RUNNING", "DEVICES", "NODES", "FIXED IN", "SOURCE"}
	if fails {
		header = append(header, "FIRST FAILS")
	}
	if p.wide {
		header = append(header, "CLASS", "PCI-ID", "QUARANTINE", "WHICH NODES")
	}
	if len(rows) > 0 {
		if err := p.table(header, rows, 0, 1, 2, 5, 6); err != nil {
			return err
		}
	}
	for _, f := range e.First[:min(len(e.First), 5)] {
		if err := p.line("%s", f.sentence()); err != nil {
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

// sentence says when the device fails, and before which window its node has to be updated.
func (f *Failing) sentence() string {
	if f.Reached {
		return fmt.Sprintf("%s of node %s may fail at any time: it reached the limit of %s at %s.", f.Device, f.Node, f.Advisory, stamp(&f.At))
	}
	out := fmt.Sprintf("%s of node %s fails at %s by %s if it stays on and is not updated", f.Device, f.Node, stamp(&f.At), f.Advisory)
	switch {
	case f.isOpen:
		out += fmt.Sprintf("; the window of policy %s that is open now is the last one before that", f.Policy)
	case f.LastWindow != nil:
		out += fmt.Sprintf("; the last window of policy %s before that opens at %s", f.Policy, stamp(f.LastWindow))
	case f.HasWindows:
		out += fmt.Sprintf("; no window of policy %s opens before that", f.Policy)
	}
	return out + "."
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
