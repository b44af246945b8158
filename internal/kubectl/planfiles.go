package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/document"
	"github.com/nodefirmware/node-firmware-operator/internal/reading"
	"github.com/nodefirmware/node-firmware-operator/internal/sourcefile"
)

// plannable are the kinds of objects that may be in a file for plan.
var plannable = map[string]func() client.Object{
	"FirmwareTemplate":      func() client.Object { return &v1alpha1.FirmwareTemplate{} },
	"ConfigurationTemplate": func() client.Object { return &v1alpha1.ConfigurationTemplate{} },
	"RolloutPolicy":         func() client.Object { return &v1alpha1.RolloutPolicy{} },
	"FirmwareSource":        func() client.Object { return &v1alpha1.FirmwareSource{} },
	"NodeFirmware":          func() client.Object { return &v1alpha1.NodeFirmware{} },
}

// proposal is an object of a file.
type proposal struct {
	client.Object
	kind, file string
}

func (p proposal) named() string { return p.kind + " " + p.GetName() }

// readProposals reads the objects of files and directories; "-" is the input. Every problem is reported with its file and line.
func (s *session) readProposals(names []string) ([]proposal, error) {
	files, err := filesOf(names)
	if err != nil {
		return nil, err
	}
	var out []proposal
	var errs []error
	for _, file := range files {
		var text []byte
		if file == "-" {
			text, err = io.ReadAll(s.In)
		} else {
			text, err = os.ReadFile(file)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read file: %w", err))
			continue
		}
		if file == "-" {
			file = "standard input"
		}
		before := len(out)
		wrong := document.Each(file, text, func(h document.Header, raw []byte) []document.Problem {
			return document.Items(h, raw, func(h document.Header, raw []byte) []document.Problem {
				o, problems := proposed(h, raw)
				if o != nil && len(problems) == 0 {
					out = append(out, proposal{o, h.Kind, file})
				}
				return problems
			})
		})
		if errs = append(errs, wrong...); len(out) == before && len(wrong) == 0 {
			errs = append(errs, fmt.Errorf("%s: there is no object in the file", file))
		}
	}
	seen := map[string]string{}
	for _, p := range out {
		if first, is := seen[p.named()]; is {
			errs = append(errs, fmt.Errorf("%s is given twice, in %s and %s", p.named(), first, p.file))
		}
		seen[p.named()] = p.file
	}
	return out, errors.Join(errs...)
}

// filesOf are the files that are meant: those of a directory by the endings that kubectl takes.
func filesOf(names []string) (out []string, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case name == "-":
			out = append(out, name)
			continue
		case err != nil:
			return nil, fmt.Errorf("-f %s: %w", name, err)
		case !info.IsDir():
			out = append(out, name)
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, fmt.Errorf("-f %s: %w", name, err)
		}
		before := len(out)
		for _, e := range entries {
			if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
				out = append(out, filepath.Join(name, e.Name()))
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("-f %s: there is no file with the ending .yaml, .yml or .json in the directory", name)
		}
	}
	return out, nil
}

func proposed(h document.Header, raw []byte) (client.Object, []document.Problem) {
	kinds := make([]string, 0, len(plannable))
	for kind := range plannable {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	empty := plannable[h.Kind]
	if problems := h.CheckVersion(); len(problems) > 0 {
		return nil, problems
	}
	if empty == nil {
		return nil, []document.Problem{{Path: "kind", Text: fmt.Sprintf("kind is %q, want %s", h.Kind, strings.Join(kinds, ", "))}}
	}
	o := empty()
	problems := document.Strict(raw, o)
	o.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(h.Kind)) // as which it is sent
	if o.GetName() == "" && len(problems) == 0 {
		problems = append(problems, document.Problem{Path: "metadata.name", Text: h.Kind + ": metadata.name is missing"})
	}
	return o, problems
}

// asApplied are the objects as the cluster would have them: the API server checks each, fills in what it defaults, and writes nothing. Of a kind that the
// person may not write the object is taken as it is in the file, and unchecked names it. The errors are those of the objects that are invalid.
func asApplied(ctx context.Context, api client.Client, all []proposal) (out []client.Object, unchecked []string, err error) {
	var errs []error
	for _, p := range all {
		o, checked, err := applied(ctx, api, p)
		switch {
		case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
			errs = append(errs, fmt.Errorf("%s: %w", p.file, err))
			continue
		case err != nil:
			return nil, nil, err
		case !checked:
			unchecked = append(unchecked, p.named())
		}
		out = append(out, o)
	}
	return out, unchecked, errors.Join(errs...)
}

func applied(ctx context.Context, api client.Client, p proposal) (o client.Object, checked bool, err error) {
	old := plannable[p.kind]()
	err = api.Get(ctx, client.ObjectKey{Name: p.GetName()}, old)
	switch {
	case apierrors.IsNotFound(err) && !reading.IsMissingKind(err) && p.kind == "NodeFirmware":
		names, err := namesOf(ctx, api, "NodeFirmware")
		if err != nil {
			return nil, false, err
		}
		return nil, false, noSuch("node", "nfw", p.GetName(), names)
	case apierrors.IsNotFound(err) && !reading.IsMissingKind(err):
		fresh := p.DeepCopyObject().(client.Object)
		fresh.SetGeneration(1)
		fresh.SetUID("")
		err = api.Create(ctx, fresh, client.DryRunAll, client.FieldOwner(writer))
		if apierrors.IsForbidden(err) {
			return p.asWritten(nil), false, nil
		}
		return expect(fresh, nil), true, err
	case err != nil:
		return nil, false, err
	}
	changed := old.DeepCopyObject().(client.Object)
	specOf(changed, p.Object)
	err = api.Update(ctx, changed, client.DryRunAll, client.FieldOwner(writer))
	if apierrors.IsForbidden(err) {
		return p.asWritten(old), false, nil
	}
	return expect(changed, old), true, err
}

// asWritten is the object of the file in place of the old one, which is nil where there is none.
func (p proposal) asWritten(old client.Object) client.Object {
	if old == nil {
		out := p.DeepCopyObject().(client.Object)
		out.SetGeneration(1)
		return expect(out, nil)
	}
	out := old.DeepCopyObject().(client.Object)
	specOf(out, p.Object)
	out.SetGeneration(old.GetGeneration() + 1)
	return expect(out, old)
}

// specOf gives an object the spec of the one in the file. Requests that a file does not name stay: they are no part of what is declared.
func specOf(o, from client.Object) {
	switch o := o.(type) {
	case *v1alpha1.FirmwareTemplate:
		o.Spec = from.(*v1alpha1.FirmwareTemplate).Spec
	case *v1alpha1.ConfigurationTemplate:
		o.Spec = from.(*v1alpha1.ConfigurationTemplate).Spec
	case *v1alpha1.RolloutPolicy:
		o.Spec = from.(*v1alpha1.RolloutPolicy).Spec
	case *v1alpha1.FirmwareSource:
		o.Spec = from.(*v1alpha1.FirmwareSource).Spec
	case *v1alpha1.NodeFirmware:
		requests := o.Spec.Requests
		if o.Spec = from.(*v1alpha1.NodeFirmware).Spec; o.Spec.Requests == (v1alpha1.NodeRequests{}) {
			o.Spec.Requests = requests
		}
	}
}

// expect makes a source that is new or changed one whose files were fetched and are what they are said to be.
func expect(o, old client.Object) client.Object {
	source, is := o.(*v1alpha1.FirmwareSource)
	if !is || old != nil && old.GetGeneration() == o.GetGeneration() {
		return o
	}
	stored := source.Status.Images
	source.Status = v1alpha1.FirmwareSourceStatus{ObservedGeneration: source.Generation, Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded},
	}}
	for _, f := range source.Spec.Files {
		for _, i := range f.Images {
			image := sourcefile.Expected(f, i)
			for _, known := range stored { // what is in store already has its true digest
				if i.Digest == "" && (i.Path != "" || f.Digest == "") && sameDescription(known, image) {
					image.Digest = known.Digest
				}
			}
			source.Status.Images = append(source.Status.Images, image)
		}
	}
	return source
}

func sameDescription(a, b v1alpha1.StoredImage) bool {
	return a.Version == b.Version && a.Class == b.Class && a.Vendor == b.Vendor && slices.Equal(a.Models, b.Models) && slices.Equal(a.BoardIDs, b.BoardIDs)
}
