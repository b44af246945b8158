package profile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func (r *reader) settings(n *yaml.Node, path string) *Settings {
	s := &Settings{}
	var unless *yaml.Node
	seen := r.mapping(n, path, fields{
		"activation": func(n *yaml.Node, at string) {
			s.Activation = r.activation(n, at, inventory.ActivateNone, inventory.ActivateDeviceReset, inventory.ActivateDriverReload,
				inventory.ActivateReboot, inventory.ActivatePowerCycle)
		},
		"read": func(n *yaml.Node, at string) {
			r.items(n, at, func(n *yaml.Node, at string) { s.Read = append(s.Read, r.listing(n, at)) })
		},
		"set": func(n *yaml.Node, at string) { s.Set = r.setter(n, at) },
		"commit": func(n *yaml.Node, at string) {
			s.Commit = &Commit{}
			s.Commit.Change, _ = r.changeOfSettings(n, at, []string{"ok", "pending", "retry", "fail"}, fields{
				"unless": func(n *yaml.Node, at string) {
					unless = n
					s.Commit.Unless, _ = r.query(n, at, []string{"ok", "retry", "fail"}, []string{fieldCommitted}, nil, "expect", "fields")
				},
			}, "unless")
		},
	}, "activation", "read", "set")
	tells := func(column string) bool {
		return slices.ContainsFunc(s.Read, func(l Listing) bool { return l.tells(column) })
	}
	switch {
	case !tells(columnCurrent) && !tells(columnNext):
		r.refuse(n, path+".read", "must have current or next: otherwise nobody knows whether a setting has its value")
	case s.Commit != nil && !(tells(columnCurrent) && tells(columnNext)):
		r.refuse(n, path+".read", "must have current and next with commit: otherwise nobody knows whether a value waits for it")
	case unless != nil && !s.Commit.Unless.Fields[fieldCommitted].Optional:
		r.refuse(unless, path+".commit.unless.fields.committed", "is required and optional: it is in the output when what is stored is committed")
	}
	documents := slices.DeleteFunc(slices.Clone(s.Read), func(l Listing) bool { return l.Elements == "" })
	if at := seen["set"]; at != nil && s.Set.takesDocument() && len(documents) != 1 {
		r.refuse(at, path+".set.argv", "{{%s}} needs one command with elements in read: its output is what is edited", settingDocument)
	}
	if name := using(s.templates(), isOfImage); name != "" {
		r.refuse(n, path, "has no image: {{%s}} cannot be used here", name)
	}
	return s
}

// templates are the arguments of all commands.
func (s Settings) templates() []template {
	all := slices.Clone(s.Set.Argv)
	for _, l := range s.Read {
		all = append(all, l.Argv...)
	}
	if s.Commit != nil {
		all = append(append(all, s.Commit.Argv...), s.Commit.Unless.templates()...)
	}
	return all
}

// listing reads a command that lists settings. Each of the three ways to read its output has fields of its own.
func (r *reader) listing(n *yaml.Node, path string) (l Listing) {
	text := func(into *string) func(*yaml.Node, string) {
		return func(n *yaml.Node, at string) { *into = r.text(n, at) }
	}
	texts := func(into *[]string) func(*yaml.Node, string) {
		return func(n *yaml.Node, at string) { *into = r.texts(n, at) }
	}
	r.ofSettings = []string{settingGroup}
	defer func() { r.ofSettings = nil }()
	seen := r.mapping(n, path, fields{
		"argv":    func(n *yaml.Node, at string) { l.Argv = r.argv(n, at) },
		"timeout": func(n *yaml.Node, at string) { l.Timeout = r.duration(n, at) },
		"exits":   func(n *yaml.Node, at string) { l.Exits = r.exits(n, at, []string{"ok", "retry", "fail"}) },
		"groups":  texts(&l.Groups), "from": text(&l.From),
		"line": func(n *yaml.Node, at string) {
			if l.Line = r.expression(n, at); l.Line != nil {
				l.Line = regexp.MustCompile(fmt.Sprintf(wholeLine, l.Line))
			}
		},
		"separator": text(&l.Separator),
		"ignore":    func(n *yaml.Node, at string) { l.Ignore = r.expressions(n, at, wholeLine) },
		"members":   func(n *yaml.Node, at string) { l.Members = r.path(n, at) },
		"are": func(n *yaml.Node, at string) {
			columns := []string{columnCurrent, columnNext, columnDefault}
			l.Are = oneOf(r, n, at, columns, columns)
		},
		"elements": text(&l.Elements), "names": texts(&l.Names), "value": texts(&l.Value), "default": texts(&l.Default), "values": texts(&l.Values),
	}, "argv", "exits")
	ways := map[string][]string{
		"line": {"ignore", "separator", "groups"}, "members": {"are", "groups", "from"}, "elements": {"are", "names", "value", "default", "values", "from"},
	}
	required := map[string][]string{"members": {"are"}, "elements": {"are", "names", "value"}}
	way := ""
	for name := range ways {
		if seen[name] != nil {
			if way != "" {
				r.refuse(n, path, "has %s and %s: give the one that fits the output", min(way, name), max(way, name))
			}
			way = name
		}
	}
	if way == "" {
		r.refuse(n, path, "needs line, members or elements: how the output is read")
		return l
	}
	for name, at := range seen {
		if !slices.Contains(append(ways[way], way, "argv", "timeout", "exits"), name) {
			r.refuse(at, path+"."+name, "cannot be used with %s", way)
		}
	}
	for _, name := range required[way] {
		if seen[name] == nil {
			r.refuse(n, path+"."+name, "is required with %s", way)
		}
	}
	if (len(l.Groups) > 0) != (using(l.Argv, func(name string) bool { return name == settingGroup }) != "") {
		r.refuse(n, path+".groups", "and {{%s}} in argv need each other", settingGroup)
	}
	r.line(seen["line"], path, l)
	return l
}

const wholeLine = "^(?:%s)$"

// line checks the groups of the pattern of a line.
func (r *reader) line(n *yaml.Node, path string, l Listing) {
	if l.Line == nil {
		return
	}
	columns := []string{columnName, columnCurrent, columnNext, columnDefault, columnValues, columnReadOnly}
	names := l.Line.SubexpNames()
	for i, name := range names[1:] {
		if !slices.Contains(columns, name) || slices.Contains(names[1:i+1], name) {
			r.refuse(n, path+".line", "has the group %q: each has to be one of (?P<name>...), current, next, default, values and readOnly", name)
		}
	}
	if !slices.Contains(names, columnName) {
		r.refuse(n, path+".line", "needs the group (?P<name>...)")
	}
	if slices.Contains(names, columnValues) != (l.Separator != "") {
		r.refuse(n, path+".separator", "and the group values need each other")
	}
}

func (r *reader) setter(n *yaml.Node, path string) (s Setter) {
	r.ofSettings = []string{settingName, settingValue, settingDocument}
	defer func() { r.ofSettings = nil }()
	var seen map[string]*yaml.Node
	s.Change, seen = r.changeOfSettings(n, path, []string{"ok", "pending", "rejected", "retry", "fail"}, fields{
		"together": func(n *yaml.Node, at string) { s.Together = r.truth(n, at) },
		"rejects":  func(n *yaml.Node, at string) { s.Rejects = r.expressions(n, at, "(?m)^.*(?:%s).*$") },
	})
	uses := func(all []template, name string) bool {
		return using(all, func(n string) bool { return n == name }) != ""
	}
	both := uses(s.Argv, settingName) && uses(s.Argv, settingValue)
	one := slices.ContainsFunc(s.Argv, func(t template) bool {
		return uses([]template{t}, settingName) && uses([]template{t}, settingValue)
	})
	switch at := seen["argv"]; {
	case at == nil:
	case s.takesDocument() && (s.Together || using(s.Argv, isOfSetting) != ""):
		r.refuse(at, path+".argv", "has {{%s}}, which holds all settings: it needs neither their variables nor together", settingDocument)
	case !s.takesDocument() && !both:
		r.refuse(at, path+".argv", "must have {{%s}} and {{%s}}, or {{%s}}", settingName, settingValue, settingDocument)
	case s.Together && !one:
		r.refuse(at, path+".argv", "must have name and value in one argument with together: it is repeated for each setting")
	}
	return s
}

// changeOfSettings reads a command that changes settings.
func (r *reader) changeOfSettings(
	n *yaml.Node, path string, classes []string, own fields, required ...string,
) (c Change, seen map[string]*yaml.Node) {
	var expect *yaml.Node
	known := fields{
		"argv":    func(n *yaml.Node, at string) { c.Argv = r.argv(n, at) },
		"timeout": func(n *yaml.Node, at string) { c.Timeout = r.duration(n, at) },
		"exits":   func(n *yaml.Node, at string) { c.Exits = r.exits(n, at, classes) },
		"format":  func(n *yaml.Node, at string) { c.Format = r.format(n, at) },
		"expect":  func(n *yaml.Node, _ string) { expect = n },
	}
	maps.Copy(known, own)
	seen = r.mapping(n, path, known, append(required, "argv", "exits", "timeout")...)
	switch {
	case (expect == nil) != (c.Format == ""):
		r.refuse(n, path+".expect", "needs format")
	case expect != nil:
		c.Expect = r.expect(expect, path+".expect", c.Format)
	}
	return c, seen
}
