package job

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// wishes are what people wrote about the devices of a job that is to begin. The operator cannot write them, so that one which was taken over
// flashes nothing that nobody asked for. The zero wishes are that nobody asks for anything.
type wishes struct {
	node      v1alpha1.NodeFirmware
	labels    map[string]string
	templates map[string]v1alpha1.FirmwareTemplate
	sources   map[string]v1alpha1.FirmwareSource
	// configurations are the templates of settings.
	configurations map[string]v1alpha1.ConfigurationTemplate
}

// gatherWishes reads past the cache, once for a job: the templates that the assignments name, and the sources that these
// and the job name.
func (r *Reconciler) gatherWishes(ctx context.Context, f state) (wishes, error) {
	var node corev1.Node
	w := wishes{
		templates: map[string]v1alpha1.FirmwareTemplate{}, sources: map[string]v1alpha1.FirmwareSource{},
		configurations: map[string]v1alpha1.ConfigurationTemplate{},
	}
	if _, err := r.ask(ctx, r.NodeName, &node); err != nil {
		return w, err
	}
	if _, err := r.ask(ctx, r.NodeName, &w.node); err != nil {
		return w, err
	}
	w.labels = node.Labels
	for _, u := range f.object.Spec.Task.Devices {
		d := f.devices[u.Name]
		if by := v1alpha1.ConfiguredBy(d.Spec.Origin); by != nil && u.Configuration != "" {
			if err := fill(ctx, r, w.configurations, by.Name); err != nil {
				return w, err
			}
		}
		if u.SettingsOnly() {
			continue
		}
		if by := v1alpha1.AssignedBy(d.Spec.Origin); by != nil && by.Kind == v1alpha1.OriginTemplate {
			if err := fill(ctx, r, w.templates, by.Name); err != nil {
				return w, err
			}
		}
		names := []string{u.RollbackSource}
		for _, rule := range w.rules(d) {
			names = append(names, rule.Source)
		}
		for _, name := range names {
			if name == "" {
				continue
			}
			if err := fill(ctx, r, w.sources, name); err != nil {
				return w, err
			}
		}
	}
	return w, nil
}

// fill adds the object of that name, unless there is none or it is there already.
func fill[T any, P interface {
	*T
	client.Object
}](ctx context.Context, r *Reconciler, known map[string]T, name string) error {
	if _, is := known[name]; is {
		return nil
	}
	o, err := find[T, P](ctx, r, name)
	if o != nil {
		known[name] = *o
	}
	return err
}

// find reads the object of that name; nil where there is none.
func find[T any, P interface {
	*T
	client.Object
}](ctx context.Context, r *Reconciler, name string) (*T, error) {
	var o T
	found, err := r.ask(ctx, name, P(&o))
	if !found {
		return nil, err
	}
	return &o, nil
}

// ask reads an object from the API server, and reports whether there is one.
func (r *Reconciler) ask(ctx context.Context, name string, o client.Object) (bool, error) {
	err := r.Reader.Get(ctx, client.ObjectKey{Name: name}, o)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("see what people want for job: %w", err)
	}
	return err == nil, nil
}

// rules are those that count for the device: the pins of the node that match it, or else the rules of the template that it is assigned by.
func (w wishes) rules(d v1alpha1.NodeDevice) []*match.Rule {
	facts := match.DeviceOf(&d)
	if pins := match.Pinned(match.PinsOf(&w.node), facts); len(pins) > 0 {
		return pins
	}
	by := v1alpha1.AssignedBy(d.Spec.Origin)
	if by == nil || by.Kind != v1alpha1.OriginTemplate {
		return nil
	}
	template, there := w.templates[by.Name]
	t, err := match.NewTemplate(&template)
	if !there || template.DeletionTimestamp != nil || err != nil || !w.chooses(t) {
		return nil
	}
	return t.Match(facts)
}

// chooses reports whether the template is for the node.
func (w wishes) chooses(t *match.Template) bool {
	var m v1alpha1.Machine
	if w.node.Status.Machine != nil {
		m = *w.node.Status.Machine
	}
	return t.ChoosesLabels(w.labels) && t.ChoosesMachine(m.Vendor, m.Model)
}

// unconfigured says why nobody asks for the settings that are assigned to the device; empty where somebody does.
func (w wishes) unconfigured(d v1alpha1.NodeDevice) string {
	const why = "no rule of the ConfigurationTemplate that they were assigned by is for it now"
	by := v1alpha1.ConfiguredBy(d.Spec.Origin)
	if by == nil {
		return why
	}
	template, there := w.configurations[by.Name]
	t, err := match.NewConfigurationTemplate(&template)
	if !there || template.DeletionTimestamp != nil || err != nil || !w.chooses(t) {
		return why
	}
	differs := why
	for _, r := range t.Match(match.DeviceOf(&d)) {
		switch {
		case r.Digest != d.Spec.Configuration.Digest():
			differs = fmt.Sprintf("%s declares others", r)
		case r.Policy != v1alpha1.PolicyApply:
			differs = fmt.Sprintf("the policy of %s is %s", r, r.Policy)
		default:
			return ""
		}
	}
	return differs
}

// unwanted says why nobody asks for what is assigned to the device; empty where somebody does. While the pins are for another machine, nobody
// knows what is wanted on this one.
func (w wishes) unwanted(d v1alpha1.NodeDevice) string {
	if match.OtherMachine(&w.node) != "" {
		return "the pins of the node are for another machine"
	}
	why := "no pin of the node and no rule of the template that it was assigned by is for it now"
	for _, r := range w.rules(d) {
		if why = w.differs(r, d); why == "" {
			break
		}
	}
	return why
}

// differs says how the assignment of the device differs from what a rule or pin says of it; empty where it does not.
func (w wishes) differs(r *match.Rule, d v1alpha1.NodeDevice) string {
	source, there := w.sources[r.Source]
	if !there {
		return fmt.Sprintf("FirmwareSource %q, which %s names, is gone", r.Source, r)
	}
	facts, is := match.DeviceOf(&d), *d.Spec.Firmware
	want, block := r.Firmware(func(v inventory.Version) (v1alpha1.Digest, string) {
		digest := assignedTo(is, v)
		if !offers(source, facts, v, digest) {
			return "", v1alpha1.ReasonImageNotFound
		}
		return digest, ""
	}, match.SourcePaths(&source))
	switch {
	case !match.SameWish(want.DesiredFirmware, is):
		return fmt.Sprintf("%s says version %s (downgrade: %s, policy: %s), and assigned is version %s (downgrade: %s, policy: %s)",
			r, r.Version, r.Downgrade, r.Policy, is.Version, is.Downgrade, is.Policy)
	case block != nil && block.Message != "":
		return block.Message
	case block != nil:
		return fmt.Sprintf("FirmwareSource %q has no such image of version %s for it", r.Source, block.Version)
	case !match.SameFirmware(want.DesiredFirmware, is):
		return fmt.Sprintf("its upgrade path to version %s is not that of FirmwareSource %q", is.Version, r.Source)
	}
	return ""
}

// assignedTo is the image of the version in an assignment; empty where it has none.
func assignedTo(f v1alpha1.DesiredFirmware, v inventory.Version) v1alpha1.Digest {
	if inventory.NormalizeVersion(f.Version) == v {
		return f.Digest
	}
	for _, s := range f.Path {
		if inventory.NormalizeVersion(s.Via) == v {
			return s.Digest
		}
	}
	return ""
}

// goesBack reports whether somebody else than the operator says that the image to which a job rolls back is what runs now: the record of the
// node, which flashed it, or what a person wrote into a source.
func (w wishes) goesBack(u v1alpha1.TaskDevice, d v1alpha1.NodeDevice, known journal.Device) bool {
	from := inventory.NormalizeVersion(u.FromVersion)
	if last := known.LastApplied; last != nil && inventory.NormalizeVersion(last.Version) == from && last.Digest == string(u.RollbackDigest) {
		return true
	}
	facts := match.DeviceOf(&d)
	named := append(w.rules(d), &match.Rule{Source: u.RollbackSource})
	return slices.ContainsFunc(named, func(r *match.Rule) bool {
		source, there := w.sources[r.Source]
		return there && offers(source, facts, from, u.RollbackDigest)
	})
}

// offers reports whether a person wrote into the source that the image is of the version and for the device.
func offers(source v1alpha1.FirmwareSource, d match.Device, v inventory.Version, digest v1alpha1.Digest) bool {
	for _, f := range source.Spec.Files {
		for _, i := range f.Images {
			is := match.NewImage(v1alpha1.StoredImage{Version: i.Version, Class: i.Class, Vendor: i.Vendor, Models: i.Models, BoardIDs: i.BoardIDs})
			if is.For(d, v) && digest != "" && has(f, i, digest) {
				return true
			}
		}
	}
	return false
}

// has reports whether what a person described may have the digest. Of a member of an archive, and of what a registry has under a tag, a
// source need not say one.
func has(f v1alpha1.FirmwareFile, i v1alpha1.ImageDescription, digest v1alpha1.Digest) bool {
	if i.Digest == "" && i.Path == "" && f.Digest != "" {
		return f.Digest == digest
	}
	return i.Digest == "" || i.Digest == digest
}
