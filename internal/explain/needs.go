package explain

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
)

// Fleet is what may need a person.
type Fleet struct {
	Policies    []*v1alpha1.RolloutPolicy
	Quarantines []*v1alpha1.FirmwareQuarantine
	Nodes       []*v1alpha1.NodeFirmware
	Sources     []*v1alpha1.FirmwareSource
	Templates   []*v1alpha1.FirmwareTemplate
	Settings    []*v1alpha1.ConfigurationTemplate
	Catalogs    []*v1alpha1.FirmwareCatalog
}

// Need is an object that does not go on, or not as it should, until a person acts, and the condition by which it says so.
type Need struct {
	Kind, Name string
	metav1.Condition
}

// Needs lists what needs a person: pools before nodes, because a pool that stands still is why nodes wait.
func (f *Fleet) Needs() (out []Need) {
	add := func(kind, name string, c *metav1.Condition) {
		if c != nil {
			out = append(out, Need{kind, name, *c})
		}
	}
	for _, p := range f.Policies {
		add("policy", p.Name, Concern(p.Status.Conditions))
	}
	for _, q := range f.Quarantines {
		if quarantine.InForce(q, "") {
			add("quarantine", q.Name, meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionReady))
		}
	}
	for _, n := range f.Nodes {
		add("node", n.Name, Concern(n.Status.Conditions))
	}
	for _, o := range f.Sources {
		add("source", o.Name, Concern(o.Status.Conditions))
	}
	for _, t := range f.Templates {
		add("template", t.Name, Concern(t.Status.Conditions))
	}
	for _, t := range f.Settings {
		add("settings", t.Name, Concern(t.Status.Conditions))
	}
	for _, c := range f.Catalogs {
		add("catalog", c.Name, Concern(c.Status.Conditions))
	}
	return out
}
