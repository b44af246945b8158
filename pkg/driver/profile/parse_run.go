package profile

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// interpreters run programs given in their arguments. A profile may use one only for an image that is a script.
var interpreters = []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "csh", "fish", "busybox", "env", "xargs", "find", "awk", "perl",
	"python", "python3", "ruby", "sudo", "su", "nsenter", "chroot", "unshare", "setsid", "nohup", "timeout", "systemd-run"}

func (r *reader) argv(n *yaml.Node, path string) (argv []template) {
	r.items(n, path, func(n *yaml.Node, at string) { argv = append(argv, r.template(n, at)) })
	if len(argv) == 0 {
		return nil
	}
	tool := n.Content[0]
	switch {
	case !toolPattern.MatchString(tool.Value):
		r.refuse(tool, path+"[0]", "%q: want the tool's file name without directory or variables; it is looked up in --tool-path", tool.Value)
	case slices.Contains(interpreters, tool.Value) && (tool.Value != "sh" || len(argv) < 2 || argv[1].text != "{{image.path}}"):
		r.refuse(tool, path+"[0]", "%q runs other programs: name the vendor's tool, or run an image that is a script by sh, {{image.path}}", tool.Value)
	}
	return argv
}

func (r *reader) change(n *yaml.Node, path string, activates bool) *Change {
	c := &Change{}
	var expect *yaml.Node
	classes := []string{"ok", "already", "pending", "rejected", "retry", "fail"}
	known := fields{
		"argv":    func(n *yaml.Node, at string) { c.Argv = r.argv(n, at) },
		"timeout": func(n *yaml.Node, at string) { c.Timeout = r.duration(n, at) },
		"exits":   func(n *yaml.Node, at string) { c.Exits = r.exits(n, at, classes) },
	}
	required := []string{"argv", "exits", "timeout"}
	if activates {
		classes = []string{"ok", "pending", "retry", "fail"}
		required = append(required, "kind")
		known["kind"] = func(n *yaml.Node, at string) {
			c.Kind = r.activation(n, at, inventory.ActivateDeviceReset, inventory.ActivateDriverReload)
		}
	} else {
		known["progress"] = func(n *yaml.Node, at string) { c.Progress = r.pattern(n, at) }
		known["format"] = func(n *yaml.Node, at string) { c.Format = r.format(n, at) }
		known["expect"] = func(n *yaml.Node, _ string) { expect = n }
		known["imageAs"] = func(n *yaml.Node, at string) { c.ImageAs = r.imageAs(n, at) }
	}
	seen := r.mapping(n, path, known, required...)
	switch {
	case (expect == nil) != (c.Format == ""):
		r.refuse(n, path+".expect", "needs format")
	case expect != nil:
		c.Expect = r.expect(expect, path+".expect", c.Format)
	}
	switch {
	case seen["argv"] == nil:
	case activates && using(c.Argv, isOfImage) != "":
		r.refuse(seen["argv"], path+".argv", "has no image: {{image.*}} cannot be used here")
	case !activates && using(c.Argv, isImagePath) == "":
		r.refuse(seen["argv"], path+".argv", "must have {{image.path}}: only that file was verified")
	}
	return c
}

func (r *reader) steps(n *yaml.Node, path string) (steps []Step) {
	r.items(n, path, func(n *yaml.Node, at string) {
		s := r.step(n, at)
		if slices.ContainsFunc(steps, func(o Step) bool { return o.Name == s.Name }) {
			r.refuse(n, at+".name", "%q is already the name of another step of this profile", s.Name)
		}
		steps = append(steps, s)
	})
	return steps
}

func (r *reader) step(n *yaml.Node, path string) (s Step) {
	s.Query, _ = r.query(n, path, []string{"ok", "already", "pending", "retry", "fail"}, []string{fieldResult}, fields{
		"name":     func(n *yaml.Node, at string) { s.Name = r.matching(n, at, namePattern, labelForm) },
		"priority": func(n *yaml.Node, at string) { s.Priority = r.priority(n, at) },
		"changes":  func(n *yaml.Node, at string) { s.Changes = r.truth(n, at) },
	}, "name", "timeout")
	s.Deadline = s.Timeout
	if !s.Changes && len(s.Exits.Already)+len(s.Exits.Pending) > 0 {
		r.refuse(n, path+".exits", "already and pending need changes: true")
	}
	for code, kind := range s.Exits.Pending {
		if kind != inventory.ActivateReboot {
			r.refuse(n, fmt.Sprintf("%s.exits.pending.%d", path, code), "must be Reboot: a job makes nothing else for a step")
		}
	}
	if name := using(s.templates(), isOfImage); name != "" {
		r.refuse(n, path, "has no image: {{%s}} cannot be used here", name)
	}
	return s
}

func (r *reader) exits(n *yaml.Node, path string, classes []string) Exits {
	e := Exits{Pending: map[int]inventory.Activation{}, Fail: map[int]string{}}
	first := map[int]string{}
	code := func(n *yaml.Node, at, class string) int {
		c := r.code(n, at)
		if other, taken := first[c]; taken {
			r.refuse(n, at, "exit code %d is already in %s", c, other)
		}
		first[c] = class
		return c
	}
	list := func(class string, into *[]int) func(*yaml.Node, string) {
		return func(n *yaml.Node, at string) {
			r.items(n, at, func(n *yaml.Node, at string) { *into = append(*into, code(n, at, class)) })
		}
	}
	all := fields{
		"ok": list("ok", &e.OK), "already": list("already", &e.Already),
		"rejected": list("rejected", &e.Rejected), "retry": list("retry", &e.Retry),
		"pending": func(n *yaml.Node, at string) {
			r.pairs(n, at, func(key, value *yaml.Node, at string) {
				e.Pending[code(key, at, "pending")] = r.activation(value, at, inventory.ActivateDeviceReset,
					inventory.ActivateDriverReload, inventory.ActivateReboot, inventory.ActivatePowerCycle)
			})
		},
		"fail": func(n *yaml.Node, at string) {
			r.pairs(n, at, func(key, value *yaml.Node, at string) { e.Fail[code(key, at, "fail")] = r.text(value, at) })
		},
	}
	known := fields{}
	for _, class := range classes {
		known[class] = all[class]
	}
	r.mapping(n, path, known)
	if len(e.OK) == 0 && len(e.Pending) == 0 {
		r.refuse(n, path, "no exit code means success: give ok or pending")
	}
	return e
}
