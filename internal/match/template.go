package match

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Template is a compiled FirmwareTemplate or ConfigurationTemplate. It is read-only once it is made.
type Template struct {
	Name, UID  string
	Generation int64
	Paused     bool
	Rules      []*Rule

	nodes         labels.Selector
	vendor, model string // slugs; empty matches any machine
}

// Rule is one compiled rule of a template, or one pin of a node.
type Rule struct {
	// Party names the rule and the object it is part of.
	Party
	UID        string
	Generation int64
	// Hash of the content that matters for what runs: the version and the source.
	Hash string
	// Version that should run, without surrounding blanks.
	Version   inventory.Version
	Source    string
	Policy    v1alpha1.Policy
	Downgrade v1alpha1.DowngradePolicy
	// Configuration is what a rule of a ConfigurationTemplate tells devices, which has no version, and Digest that of it; nil for any other.
	Configuration *v1alpha1.DesiredConfiguration
	Digest        v1alpha1.Digest
	Selector      *Selector
}

// Party names a rule of a template or a pin of a node that claims a device.
type Party struct {
	Kind       v1alpha1.OriginKind
	Name, Rule string
}

// Ref names a template.
type Ref struct {
	Kind v1alpha1.OriginKind
	Name string
}

func (p Party) ref() Ref { return Ref{p.Kind, p.Name} }

// String names the party in messages.
func (p Party) String() string {
	if p.Kind == v1alpha1.OriginPin {
		return fmt.Sprintf("pin %q of NodeFirmware %q", p.Rule, p.Name)
	}
	return fmt.Sprintf("rule %q of %s %q", p.Rule, p.Kind, p.Name)
}

func (p Party) compare(o Party) int {
	for _, c := range []int{
		strings.Compare(string(p.Kind), string(o.Kind)), strings.Compare(p.Name, o.Name), strings.Compare(p.Rule, o.Rule),
	} {
		if c != 0 {
			return c
		}
	}
	return 0
}

// NewTemplate compiles a template. The error names the field of the spec that is invalid.
func NewTemplate(t *v1alpha1.FirmwareTemplate) (*Template, error) {
	out, err := newTemplate(t, t.Spec.State, t.Spec.NodeSelector, t.Spec.Machine)
	if err == nil {
		out.Rules = rulesOf(v1alpha1.OriginTemplate, t, t.Spec.Rules)
	}
	return out, err
}

// NewConfigurationTemplate is NewTemplate for settings.
func NewConfigurationTemplate(o *v1alpha1.ConfigurationTemplate) (*Template, error) {
	out, err := newTemplate(o, o.Spec.State, o.Spec.NodeSelector, o.Spec.Machine)
	if err != nil {
		return nil, err
	}
	for _, r := range o.Spec.Rules {
		c := r.DesiredConfiguration
		c.Policy, c.Unlisted = cmp.Or(c.Policy, v1alpha1.PolicyApply), cmp.Or(c.Unlisted, v1alpha1.UnlistedKeep)
		digest := c.Digest()
		out.Rules = append(out.Rules, &Rule{
			Party: Party{Kind: v1alpha1.OriginConfiguration, Name: out.Name, Rule: r.Name},
			UID:   out.UID, Generation: out.Generation, Policy: c.Policy, Hash: v1alpha1.ImageHash(digest),
			Configuration: &c, Digest: digest, Selector: NewSelector(r.Selector),
		})
	}
	return out, nil
}

// newTemplate compiles what all templates have.
func newTemplate(o metav1.Object, state v1alpha1.TemplateState, nodes *metav1.LabelSelector, machine *v1alpha1.MachineSelector) (*Template, error) {
	out := &Template{
		Name: o.GetName(), UID: string(o.GetUID()), Generation: o.GetGeneration(),
		Paused: state == v1alpha1.TemplatePaused, nodes: labels.Everything(),
	}
	if nodes != nil {
		selector, err := metav1.LabelSelectorAsSelector(nodes)
		if err != nil {
			return nil, fmt.Errorf("spec.nodeSelector: %w", err)
		}
		out.nodes = selector
	}
	if machine != nil {
		out.vendor, out.model = text.Slug(machine.Vendor), text.Slug(machine.Model)
	}
	return out, nil
}

// rulesOf compiles the rules of a template, or the pins of a node.
func rulesOf(kind v1alpha1.OriginKind, of metav1.Object, rules []v1alpha1.FirmwareRule) []*Rule {
	var out []*Rule
	for _, r := range rules {
		out = append(out, &Rule{
			Party: Party{Kind: kind, Name: of.GetName(), Rule: r.Name},
			UID:   string(of.GetUID()), Generation: of.GetGeneration(), Hash: hashOf(r),
			Version: inventory.NormalizeVersion(r.Version), Source: r.SourceRef.Name,
			Policy:    cmp.Or(r.Policy, v1alpha1.PolicyApply),
			Downgrade: cmp.Or(r.Downgrade, v1alpha1.DowngradeForbid),
			Selector:  NewSelector(r.Selector),
		})
	}
	return out
}

// PinsOf compiles the pins of a node.
func PinsOf(n *v1alpha1.NodeFirmware) []*Rule { return rulesOf(v1alpha1.OriginPin, n, n.Spec.Pins) }

// hashOf is the hash of a rule or pin: whom it selects, and how it is rolled out, is no part of what runs.
func hashOf(r v1alpha1.FirmwareRule) string {
	return v1alpha1.ContentHash(string(inventory.NormalizeVersion(r.Version)), r.SourceRef.Name)
}

// HashesOf are the hashes of the rules of a template, or of the pins of a node, by name, as in the origin of what they assign.
func HashesOf(rules []v1alpha1.FirmwareRule) map[string]string {
	out := make(map[string]string, len(rules))
	for _, r := range rules {
		out[r.Name] = hashOf(r)
	}
	return out
}

// ChoosesLabels reports whether the template's nodeSelector chooses a node with these labels.
func (t *Template) ChoosesLabels(l map[string]string) bool { return t.nodes.Matches(labels.Set(l)) }

// ChoosesMachine reports whether the template is for this machine model. An empty vendor or model is not known, and fails any
// restriction on it.
func (t *Template) ChoosesMachine(vendor, model string) bool {
	return (t.vendor == "" || t.vendor == text.Slug(vendor)) && (t.model == "" || t.model == text.Slug(model))
}

// Match returns the rules whose selector matches the device; more than one is a conflict.
func (t *Template) Match(d Device) []*Rule {
	var out []*Rule
	for _, r := range t.Rules {
		if r.Selector.Matches(d) {
			out = append(out, r)
		}
	}
	return out
}

// MayMatch reports whether a rule matches, or may match, a device that cannot be read now: a fact that is not known may
// have any value.
func (t *Template) MayMatch(d Device) bool {
	return slices.ContainsFunc(t.Rules, func(r *Rule) bool { return r.Selector.MayMatch(d) })
}
