package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
	"github.com/nodefirmware/node-firmware-operator/internal/lifetime"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// FleetStatus is the fleet at a glance. Versions are those of the catalogs, and counts those of the operator.
type FleetStatus struct {
	metav1.TypeMeta `json:",inline"`
	Nodes           int `json:"nodes"`
	// Listed are the nodes whose devices are in versions: those of machine models with a catalog.
	Listed    int              `json:"listed"`
	Devices   int              `json:"devices"`
	Pools     []PoolStatus     `json:"pools"`
	Templates []TemplateStatus `json:"templates"`
	Versions  []VersionStatus  `json:"versions"`
	Attention []Attention      `json:"attention"`
}

// PoolStatus is how far the nodes of one RolloutPolicy are.
type PoolStatus struct {
	Name  string                `json:"name"`
	State v1alpha1.RolloutState `json:"state"`
	Nodes int                   `json:"nodes"`
	// Updating are the nodes that are admitted and not held.
	Updating int `json:"updating"`
	Held     int `json:"held"`
	Waiting  int `json:"waiting"`
	// Why are the reasons for which nodes wait, with their number.
	Why        []v1alpha1.WaitingNodes `json:"why,omitempty"`
	NextWindow *metav1.Time            `json:"nextWindowTime,omitempty"`
	Estimated  *metav1.Time            `json:"estimatedCompletionTime,omitempty"`
}

// TemplateStatus counts the devices of one FirmwareTemplate or ConfigurationTemplate.
type TemplateStatus struct {
	Kind    string                   `json:"kind"`
	Name    string                   `json:"name"`
	Devices v1alpha1.TemplateDevices `json:"devices"`
	Reason  string                   `json:"reason"`
}

// VersionStatus is how many devices of a model run a version, and how it stands.
type VersionStatus struct {
	Class    v1alpha1.DeviceClass     `json:"class"`
	Model    string                   `json:"model"`
	Running  string                   `json:"running"`
	Devices  int                      `json:"devices"`
	Position v1alpha1.CatalogPosition `json:"position"`
	Newest   string                   `json:"newest,omitempty"`
	Issues   []string                 `json:"issues,omitempty"`
	FixedIn  string                   `json:"fixedIn,omitempty"`
	// Limit is after how many hours of power such a device fails, and when the first does.
	Limit *v1alpha1.CatalogLimit `json:"limit,omitempty"`
}

// Attention is what does not go on, or not as it should, until a person acts.
type Attention struct {
	Kind  string   `json:"kind"`
	Names []string `json:"names"`
	// Reason and Message of the first of them.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Next    string `json:"next"`
}

// DeepCopyObject makes a result printable; nothing changes it.
func (f *FleetStatus) DeepCopyObject() runtime.Object { out := *f; return &out }

func (s *session) statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the fleet at a glance: who runs what, what is updated now, what waits and why, what needs a person",
		Args:  cobra.NoArgs,
	}
	out := outputOf(c, false)
	c.RunE = func(c *cobra.Command, _ []string) error {
		api, err := s.connect()
		if err != nil {
			return err
		}
		f, err := gatherFleet(c.Context(), api)
		if err != nil {
			return err
		}
		return out.print(s.Out, f.status())
	}
	return c
}

// fleet is what the status is made from.
type fleet struct {
	policies    []*v1alpha1.RolloutPolicy
	templates   []*v1alpha1.FirmwareTemplate
	settings    []*v1alpha1.ConfigurationTemplate
	sources     []*v1alpha1.FirmwareSource
	catalogs    []*v1alpha1.FirmwareCatalog
	quarantines []*v1alpha1.FirmwareQuarantine
	// nodes are those that are held or need a person, and count all of them.
	nodes []*v1alpha1.NodeFirmware
	count int
}

func gatherFleet(ctx context.Context, api client.Reader) (f fleet, err error) {
	if f.policies, err = reading.All[*v1alpha1.RolloutPolicy](ctx, api, &v1alpha1.RolloutPolicyList{}, nil); err != nil {
		return f, err
	}
	if f.templates, err = reading.All[*v1alpha1.FirmwareTemplate](ctx, api, &v1alpha1.FirmwareTemplateList{}, nil); err != nil {
		return f, err
	}
	if f.settings, err = reading.All[*v1alpha1.ConfigurationTemplate](ctx, api, &v1alpha1.ConfigurationTemplateList{}, nil); err != nil {
		return f, err
	}
	if f.sources, err = reading.All[*v1alpha1.FirmwareSource](ctx, api, &v1alpha1.FirmwareSourceList{}, nil); err != nil {
		return f, err
	}
	if f.catalogs, err = reading.All[*v1alpha1.FirmwareCatalog](ctx, api, &v1alpha1.FirmwareCatalogList{}, nil); err != nil {
		return f, err
	}
	if f.quarantines, err = reading.All[*v1alpha1.FirmwareQuarantine](ctx, api, &v1alpha1.FirmwareQuarantineList{}, nil); err != nil {
		return f, err
	}
	return f, reading.Each(ctx, api, &v1alpha1.NodeFirmwareList{}, nil, func(n *v1alpha1.NodeFirmware) error {
		f.count++
		if n.Status.HeldBy != "" || explain.Concern(n.Status.Conditions) != nil {
			n.Status.Steps, n.ManagedFields = nil, nil
			f.nodes = append(f.nodes, n)
		}
		return nil
	})
}

// status says what the objects say together.
func (f *fleet) status() *FleetStatus {
	out := &FleetStatus{
		TypeMeta: metav1.TypeMeta{APIVersion: resultVersion, Kind: "FleetStatus"}, Nodes: f.count,
		Pools: []PoolStatus{}, Templates: []TemplateStatus{}, Versions: f.versions(), Attention: f.attention(),
	}
	for _, c := range f.catalogs {
		out.Listed += int(c.Status.Nodes)
		out.Devices += int(c.Status.Devices.Total)
	}
	held := map[string]bool{}
	for _, n := range f.nodes {
		held[n.Name] = n.Status.HeldBy != ""
	}
	for _, p := range f.policies {
		pool := PoolStatus{Name: p.Name, State: p.Spec.State, Why: p.Status.Waiting, NextWindow: p.Status.NextWindowTime, Estimated: p.Status.EstimatedCompletionTime}
		if n := p.Status.Nodes; n != nil {
			pool.Nodes, pool.Waiting = int(n.Selected), int(n.Queued+n.Refused)
		}
		for _, a := range p.Status.Admitted {
			if held[a.Node] {
				pool.Held++
			} else {
				pool.Updating++
			}
		}
		out.Pools = append(out.Pools, pool)
	}
	for _, t := range f.templates {
		out.Templates = append(out.Templates, templateStatus("FirmwareTemplate", t.Name, &t.Status))
	}
	for _, t := range f.settings {
		out.Templates = append(out.Templates, templateStatus("ConfigurationTemplate", t.Name, &t.Status))
	}
	return out
}

func templateStatus(kind, name string, s *v1alpha1.TemplateStatus) TemplateStatus {
	row := TemplateStatus{Kind: kind, Name: name, Devices: s.Devices}
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady); c != nil {
		row.Reason = c.Reason
	}
	return row
}

// versions are those that the catalogs list, summed over machine models where they stand alike.
func (f *fleet) versions() []VersionStatus {
	out := []VersionStatus{}
	for _, c := range f.catalogs {
		for i := range c.Status.Components {
			component := &c.Status.Components[i]
			for _, run := range component.Running {
				v := VersionStatus{
					Class: component.Class, Model: cmp.Or(component.Model, component.PCIID, string(component.Class)), Running: run.Version,
					Devices: int(run.Devices), Position: run.Position, Newest: explain.Newest(component), Issues: run.Issues, FixedIn: run.FixedIn,
					Limit: run.Limit.DeepCopy(),
				}
				at := slices.IndexFunc(out, func(o VersionStatus) bool {
					return o.Class == v.Class && o.Model == v.Model && o.Running == v.Running && o.Position == v.Position && o.Newest == v.Newest &&
						o.FixedIn == v.FixedIn && sameLimit(o.Limit, v.Limit) && slices.Equal(o.Issues, v.Issues)
				})
				if at < 0 {
					out = append(out, v)
				} else {
					out[at].Devices += v.Devices
					if l := out[at].Limit; l != nil && lifetime.Sooner(v.Limit.FirstFailureTime, l.FirstFailureTime) < 0 {
						l.FirstFailureTime = v.Limit.FirstFailureTime
					}
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b VersionStatus) int {
		return cmp.Or(lifetime.Sooner(a.firstFailure(), b.firstFailure()), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Model, b.Model), -cmp.Compare(a.Devices, b.Devices), cmp.Compare(a.Running, b.Running))
	})
	return out
}

func sameLimit(a, b *v1alpha1.CatalogLimit) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Issue == b.Issue && a.PowerOnHours == b.PowerOnHours
}

// firstFailure is when the first of the devices fails; nil where none does.
func (v *VersionStatus) firstFailure() *metav1.Time {
	if v.Limit == nil {
		return nil
	}
	return v.Limit.FirstFailureTime
}

// attention lists what needs a person, nodes together that say the same.
func (f *fleet) attention() []Attention {
	out := []Attention{}
	needs := explain.Fleet{Policies: f.policies, Quarantines: f.quarantines, Nodes: f.nodes, Sources: f.sources, Templates: f.templates, Settings: f.settings, Catalogs: f.catalogs}
	for _, n := range needs.Needs() {
		at := slices.IndexFunc(out, func(a Attention) bool { return a.Kind == n.Kind && n.Kind == "node" && a.Reason == n.Reason })
		if at >= 0 {
			out[at].Names = append(out[at].Names, n.Name)
			continue
		}
		asked := n.Kind + "/" + n.Name
		if n.Kind == "node" {
			asked = n.Name
		}
		out = append(out, Attention{Kind: n.Kind, Names: []string{n.Name}, Reason: n.Reason, Message: n.Message, Next: "kubectl firmware why " + asked})
	}
	return out
}

func (f *FleetStatus) text(p page) error {
	var updating, held, waiting int
	for _, pool := range f.Pools {
		updating, held, waiting = updating+pool.Updating, held+pool.Held, waiting+pool.Waiting
	}
	if err := p.line("%s, %s: %d updating, %d held, %d waiting.", text.Quantity(f.Nodes, "node", "nodes"), text.Quantity(f.Devices, "device", "devices"),
		updating, held, waiting); err != nil {
		return err
	}
	for _, section := range []func(page) error{f.pools, f.templates, f.versionTable, f.needs} {
		if err := section(p); err != nil {
			return err
		}
	}
	return nil
}

// section prints a table after an empty line, where there is anything in it.
func section(p page, header []string, rows [][]string, givesWay ...int) error {
	if len(rows) == 0 {
		return nil
	}
	if err := p.line(""); err != nil {
		return err
	}
	return p.table(header, rows, givesWay...)
}

func (f *FleetStatus) pools(p page) error {
	var rows [][]string
	for _, pool := range f.Pools {
		var why []string
		for _, w := range pool.Why {
			why = append(why, fmt.Sprintf("%s (%d)", w.Reason, w.Nodes))
		}
		until := ""
		switch {
		case pool.Estimated != nil:
			until = "done by " + stamp(pool.Estimated)
		case pool.NextWindow != nil && pool.Waiting > 0:
			until = "window opens " + stamp(pool.NextWindow)
		}
		if until != "" {
			why = append(why, until)
		}
		rows = append(rows, []string{pool.Name, string(pool.State), strconv.Itoa(pool.Nodes), strconv.Itoa(pool.Updating), strconv.Itoa(pool.Held),
			strconv.Itoa(pool.Waiting), strings.Join(why, ", ")})
	}
	return section(p, []string{"POOL", "STATE", "NODES", "UPDATING", "HELD", "WAITING", "WHY"}, rows, 0, 6)
}

func (f *FleetStatus) templates(p page) error {
	var rows [][]string
	for _, t := range f.Templates {
		d, name := t.Devices, t.Name
		if t.Kind == "ConfigurationTemplate" {
			name = "settings/" + name
		}
		rows = append(rows, []string{name, strconv.Itoa(int(d.Matched)), strconv.Itoa(int(d.UpToDate)), strconv.Itoa(int(d.OutOfDate)), strconv.Itoa(int(d.Failed)),
			strconv.Itoa(int(d.Blocked)), t.Reason})
	}
	return section(p, []string{"TEMPLATE", "DEVICES", "DONE", "TO DO", "FAILED", "BLOCKED", "STATE"}, rows, 0, 6)
}

func (f *FleetStatus) versionTable(p page) error {
	var rows [][]string
	for _, v := range f.Versions {
		stands := standingOf(v.Newest, &v1alpha1.CatalogRunning{Position: v.Position, Issues: v.Issues, FixedIn: v.FixedIn, Limit: v.Limit})
		if at := v.firstFailure(); at != nil {
			stands += fmt.Sprintf("; the first fails at %s by %s", stamp(at), v.Limit.Issue)
		}
		rows = append(rows, []string{v.Model, v.Running, strconv.Itoa(v.Devices), stands})
	}
	if err := section(p, []string{"MODEL", "RUNNING", "DEVICES", "STANDS"}, rows, 0, 1, 3); err != nil {
		return err
	}
	if others := f.Nodes - f.Listed; others > 0 {
		return p.line("Without %s whose machine model is not known yet, or has no catalog.", text.Quantity(others, "node", "nodes"))
	}
	return nil
}

func (f *FleetStatus) needs(p page) error {
	var rows [][]string
	for _, a := range f.Attention {
		name := a.Kind + " " + a.Names[0]
		if more := len(a.Names) - 1; more > 0 {
			name += fmt.Sprintf(" and %d more", more)
		}
		row := []string{name, a.Reason, a.Next}
		if p.wide {
			row = append(row, a.Message)
		}
		rows = append(rows, row)
	}
	header := []string{"NEEDS A PERSON", "REASON", "TO SEE MORE"}
	if p.wide {
		header = append(header, "MESSAGE")
	}
	return section(p, header, rows, 0, 1)
}

// stamp is a time for people, in their own zone; empty for none.
func stamp(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04")
}
