package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// labelForm describes namePattern.
const labelForm = "lower-case letters, digits and dashes, at most 63"

// maxFile bounds a profile in bytes.
const maxFile = 256 << 10

var (
	namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	toolPattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._+-]*$`)
	hexPattern  = regexp.MustCompile(`^[0-9a-f]{4}$`)
)

// Parse parses and checks a profile. The file's name is for messages: every problem is reported as "file:line: field:
// problem".
func Parse(file string, text []byte) (Profile, error) {
	r := &reader{file: file}
	if len(text) > maxFile {
		return Profile{}, fmt.Errorf("%s: has more than %d bytes", file, maxFile)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	err := decoder.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0:
		return Profile{}, fmt.Errorf("%s: is empty", file)
	case err != nil:
		return Profile{}, fmt.Errorf("%s: %w", file, err)
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return Profile{}, fmt.Errorf("%s: has more than one document: put each in a file of its own", file)
	}
	if r.plain(&doc); len(r.problems) > 0 {
		return Profile{}, r.err()
	}
	p := r.profile(doc.Content[0])
	if err := r.err(); err != nil {
		return Profile{}, err
	}
	return p, nil
}

func (r *reader) profile(n *yaml.Node) Profile {
	p := Profile{}
	seen := r.mapping(n, "", fields{
		"name": func(n *yaml.Node, at string) {
			p.Name = r.matching(n, at, namePattern, labelForm)
		},
		"version": func(n *yaml.Node, at string) { p.Version = r.matching(n, at, word, "letters, digits, dots and dashes") },
		"match":   func(n *yaml.Node, at string) { p.Match = r.match(n, at) },
		"inspect": func(n *yaml.Node, at string) { p.Inspect = r.inspect(n, at) },
		"check":   func(n *yaml.Node, at string) { p.Check = r.check(n, at) },
		"write":   func(n *yaml.Node, at string) { p.Write = r.change(n, at, false) },
		"activate": func(n *yaml.Node, at string) {
			p.Activate = r.change(n, at, true)
		},
		"activation": func(n *yaml.Node, at string) {
			p.Activation = r.activation(n, at, inventory.ActivateNone, inventory.ActivateDeviceReset, inventory.ActivateDriverReload,
				inventory.ActivateReboot, inventory.ActivatePowerCycle)
		},
		"versionFormat": func(n *yaml.Node, at string) {
			p.Format = oneOf(r, n, at, []string{"Plain", "Dotted"}, []inventory.VersionFormat{inventory.FormatPlain, inventory.FormatDotted})
		},
		"rollback": func(n *yaml.Node, at string) {
			p.Rollback = oneOf(r, n, at, []string{"None", "Image"}, []inventory.Rollback{inventory.RollbackNone, inventory.RollbackImage})
		},
		"readOnly": func(n *yaml.Node, at string) { p.ReadOnly = r.text(n, at) },
		"steps":    func(n *yaml.Node, at string) { p.Steps = r.steps(n, at) },
		"settings": func(n *yaml.Node, at string) { p.Settings = r.settings(n, at) },
	}, "name", "version", "match", "inspect")
	r.whole(n, p, seen)
	return p
}

// whole checks the rules that concern several fields.
func (r *reader) whole(n *yaml.Node, p Profile, seen map[string]*yaml.Node) {
	switch {
	case (seen["write"] == nil) == (seen["readOnly"] == nil):
		r.refuse(n, "write", "give either write, or readOnly with the reason why there is no write")
	case seen["write"] == nil && (seen["check"] != nil || seen["activate"] != nil || p.Rollback != inventory.RollbackNone):
		r.refuse(n, "write", "is required with check, activate and rollback")
	case seen["write"] != nil && seen["activation"] == nil:
		r.refuse(n, "activation", "is required with write")
	}
	byTool := func(kind inventory.Activation) bool {
		return kind == inventory.ActivateDeviceReset || kind == inventory.ActivateDriverReload
	}
	lacks := func(kind inventory.Activation) bool {
		return byTool(kind) && (p.Activate == nil || p.Activate.Kind != kind)
	}
	if at := seen["activation"]; at != nil && lacks(p.Activation) {
		r.refuse(at, "activation", "%s needs an activate of that kind", p.Activation)
	}
	if p.Write != nil {
		for code, kind := range p.Write.Exits.Pending {
			if lacks(kind) {
				r.refuse(seen["write"], fmt.Sprintf("write.exits.pending.%d", code), "%s needs an activate of that kind", kind)
			}
		}
	}
	if at := seen["settings"]; at != nil && lacks(p.Settings.Activation) {
		r.refuse(at, "settings.activation", "%s needs an activate of that kind", p.Settings.Activation)
	}
	if at := seen["activate"]; at != nil {
		if _, declared := p.Inspect.Fields[fieldStored]; !declared {
			r.refuse(at, "activate", "needs inspect.fields.stored: without it nobody knows whether anything is staged")
		}
		for code, kind := range p.Activate.Exits.Pending {
			if kind <= p.Activate.Kind {
				r.refuse(at, fmt.Sprintf("activate.exits.pending.%d", code), "must be more disruptive than %s", p.Activate.Kind)
			}
		}
	}
	if _, declared := p.Inspect.Fields[fieldNumber]; !declared {
		for _, name := range []string{"check", "write", "activate"} {
			if using(p.argv(name), isNumber) != "" {
				r.refuse(seen[name], name+".argv", "{{%s}} needs inspect.fields.number", numberVariable)
			}
		}
		if p.Settings != nil && using(p.Settings.templates(), isNumber) != "" {
			r.refuse(seen["settings"], "settings", "{{%s}} needs inspect.fields.number", numberVariable)
		}
		for i, s := range p.Steps {
			if using(s.templates(), isNumber) != "" {
				r.refuse(seen["steps"], fmt.Sprintf("steps[%d]", i), "{{%s}} needs inspect.fields.number", numberVariable)
			}
		}
	}
	if p.Check != nil {
		_, compares := p.Check.Fields[fieldBoardID]
		if _, declared := p.Inspect.Fields[fieldBoardID]; compares && !declared {
			r.refuse(seen["check"], "check.fields.boardID", "needs inspect.fields.boardID to compare it with")
		}
	}
}

// argv are the arguments of the commands that run after inspect.
func (p Profile) argv(name string) []template {
	switch {
	case name == "check" && p.Check != nil:
		return p.Check.Argv
	case name == "write" && p.Write != nil:
		return p.Write.Argv
	case name == "activate" && p.Activate != nil:
		return p.Activate.Argv
	}
	return nil
}

func (r *reader) match(n *yaml.Node, path string) driver.Match {
	m := driver.Match{}
	hex := func(into *[]string) func(*yaml.Node, string) {
		return func(n *yaml.Node, at string) {
			r.items(n, at, func(n *yaml.Node, at string) {
				*into = append(*into, r.matching(n, at, hexPattern, "four lower-case hexadecimal digits in quotes"))
			})
		}
	}
	seen := r.mapping(n, path, fields{
		"class": func(n *yaml.Node, at string) {
			var names []string
			for _, c := range inventory.Classes() {
				names = append(names, string(c))
			}
			m.Class = oneOf(r, n, at, names, inventory.Classes())
		},
		"support": func(n *yaml.Node, at string) {
			m.Support = oneOf(r, n, at, []string{"Generic", "Mainline", "Vendor"},
				[]driver.Support{driver.SupportGeneric, driver.SupportMainline, driver.SupportVendor})
		},
		"vendors":            func(n *yaml.Node, at string) { m.Vendors = r.texts(n, at) },
		"models":             func(n *yaml.Node, at string) { m.Models = r.texts(n, at) },
		"vendorIDs":          hex(&m.VendorIDs),
		"deviceIDs":          hex(&m.DeviceIDs),
		"subsystemVendorIDs": hex(&m.SubsystemVendorIDs),
		"transport": func(n *yaml.Node, at string) {
			transports := []string{"nvme", "sas", "sata", "usb", "virtio"}
			m.Transports = []string{oneOf(r, n, at, transports, transports)}
		},
	}, "class", "support")
	if seen["vendors"] == nil && seen["vendorIDs"] == nil && seen["models"] == nil {
		r.refuse(n, path, "select devices by at least one of vendors, vendorIDs and models")
	}
	if seen["deviceIDs"] != nil && seen["vendorIDs"] == nil {
		r.refuse(n, path+".deviceIDs", "need vendorIDs")
	}
	if seen["subsystemVendorIDs"] != nil && m.Class != inventory.StorageController {
		r.refuse(n, path+".subsystemVendorIDs", "are known only for the class StorageController")
	}
	return m
}

func (r *reader) inspect(n *yaml.Node, path string) Query {
	q, at := r.query(n, path, []string{"ok", "retry", "fail"},
		[]string{fieldRunning, fieldStored, fieldBoardID, fieldModel, fieldPartNumber, fieldSerialNumber, fieldUniqueID, fieldNumber}, nil)
	if f, ok := q.Fields[fieldRunning]; !ok || f.Optional {
		r.refuse(n, path+".fields.running", "is required and not optional: it decides whether an update succeeded")
	}
	if f, ok := q.Fields[fieldUniqueID]; ok && f.Optional {
		r.refuse(n, path+".fields.uniqueID", "must not be optional: it is the identity of the device")
	}
	if f, ok := q.Fields[fieldNumber]; ok && f.Optional {
		r.refuse(n, path+".fields.number", "must not be optional: it selects the device to write")
	}
	completed := func(name string) bool {
		field := strings.TrimPrefix(name, "device.")
		_, reads := q.Fields[field]
		return name == "device.boardID" || name == numberVariable || variables[name].ofImage || reads ||
			name == "device.macHex" && q.Fields[fieldUniqueID].given()
	}
	if name := using(q.templates(), completed); name != "" {
		r.refuse(at, path, "{{%s}} is not known before inspect", name)
	}
	return q
}

func (f Field) given() bool { return f.Path != nil || f.Pattern != nil }

// templates are the arguments, and the values by which items are selected.
func (q Query) templates() []template {
	all := slices.Clone(q.Argv)
	var walk func(path []step)
	walk = func(path []step) {
		for _, s := range path {
			if s.where != nil {
				all = append(all, s.is)
				walk(s.where)
			}
		}
	}
	for _, f := range q.Fields {
		walk(f.Path)
	}
	for _, e := range q.Expect {
		walk(e.Path)
	}
	return all
}

func (r *reader) check(n *yaml.Node, path string) *Query {
	var as ImageAs
	q, _ := r.query(n, path, []string{"ok", "rejected", "retry", "fail"}, []string{fieldVersion, fieldBoardID}, fields{
		"imageAs": func(n *yaml.Node, at string) { as = r.imageAs(n, at) },
	})
	q.ImageAs = as
	if using(q.Argv, isImagePath) == "" {
		r.refuse(n, path+".argv", "must have {{image.path}}: it is the image to check")
	}
	return &q
}

// query reads a query, with the fields that only this kind of query has. Those that are required are named.
func (r *reader) query(n *yaml.Node, path string, classes, names []string, own fields, required ...string) (q Query, argv *yaml.Node) {
	var values, expect *yaml.Node
	known := fields{
		"argv":    func(n *yaml.Node, at string) { q.Argv = r.argv(n, at) },
		"timeout": func(n *yaml.Node, at string) { q.Timeout = r.duration(n, at) },
		"exits":   func(n *yaml.Node, at string) { q.Exits = r.exits(n, at, classes) },
		"format":  func(n *yaml.Node, at string) { q.Format = r.format(n, at) },
		"fields":  func(n *yaml.Node, _ string) { values = n },
		"expect":  func(n *yaml.Node, _ string) { expect = n },
	}
	maps.Copy(known, own)
	seen := r.mapping(n, path, known, append(required, "argv", "exits")...)
	if (values != nil || expect != nil) && q.Format == "" {
		r.refuse(n, path+".format", "is required with fields and expect")
	}
	if q.Format != "" && values == nil && expect == nil {
		r.refuse(n, path+".fields", "is required with format")
	}
	if values != nil {
		q.Fields = map[string]Field{}
		known := fields{}
		for _, name := range names {
			known[name] = func(n *yaml.Node, at string) { q.Fields[name], _ = r.field(n, at, q.Format, false) }
		}
		r.mapping(values, path+".fields", known)
	}
	if expect != nil {
		q.Expect = r.expect(expect, path+".expect", q.Format)
	}
	if argv = seen["argv"]; argv == nil {
		argv = n
	}
	return q, argv
}

func (r *reader) format(n *yaml.Node, path string) Format {
	return oneOf(r, n, path, []string{"json", "xml", "regex"}, []Format{JSON, XML, Regex})
}

func (r *reader) imageAs(n *yaml.Node, path string) ImageAs {
	return oneOf(r, n, path, []string{string(AsDescriptor), string(AsFile)}, []ImageAs{AsDescriptor, AsFile})
}

func (r *reader) expect(n *yaml.Node, path string, format Format) (out []Expectation) {
	r.items(n, path, func(n *yaml.Node, at string) {
		f, is := r.field(n, at, format, true)
		out = append(out, Expectation{f, is})
	})
	return out
}

func (r *reader) field(n *yaml.Node, path string, format Format, expects bool) (f Field, is []string) {
	known := fields{
		"path":    func(n *yaml.Node, at string) { f.Path = r.path(n, at) },
		"pattern": func(n *yaml.Node, at string) { f.Pattern = r.pattern(n, at) },
	}
	if expects {
		known["is"] = func(n *yaml.Node, at string) { is = r.texts(n, at) }
	} else {
		known["optional"] = func(n *yaml.Node, at string) { f.Optional = r.truth(n, at) }
	}
	seen := r.mapping(n, path, known)
	switch {
	case format == Regex && (seen["path"] != nil || seen["pattern"] == nil):
		r.refuse(n, path, "want a pattern and no path in the format regex")
	case format != Regex && seen["path"] == nil:
		r.refuse(n, path+".path", "is required in the format %s", format)
	case expects && seen["is"] == nil:
		r.refuse(n, path+".is", "is required")
	}
	return f, is
}

func (r *reader) path(n *yaml.Node, path string) (steps []step) {
	r.items(n, path, func(n *yaml.Node, at string) {
		switch {
		case n.Kind == yaml.MappingNode:
			s := step{}
			r.mapping(n, at, fields{
				"where": func(n *yaml.Node, at string) { s.where = r.path(n, at) },
				"is":    func(n *yaml.Node, at string) { s.is = r.template(n, at) },
			}, "where", "is")
			steps = append(steps, s)
		case n.Tag == "!!int":
			steps = append(steps, step{index: r.number(n, at)})
		default:
			steps = append(steps, step{name: r.text(n, at)})
		}
	})
	return steps
}
