package match

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// maxPathSize bounds the path of a device in bytes, so that the NodeDevice stays under 256 KiB: the API server notes some of it twice.
const maxPathSize = 96 << 10

// sizeOf is about how many bytes of JSON a path takes.
func sizeOf(path []v1alpha1.UpgradeStep) (n int) {
	const each, quotes = 200, 3 // of a step, and of a version in a list
	for _, e := range path {
		n += each + len(e.To) + len(e.Below) + len(e.Via)
		for _, v := range e.From {
			n += len(v) + quotes
		}
	}
	return n
}

// Paths are the compiled upgrade paths of a source. Nil restricts nothing. They are not safe for concurrent use.
type Paths struct {
	of, invalid string
	edges       plan.Path
	// courses are those that were asked for, because to find one takes long and each device of the model needs it.
	courses map[inventory.Version]course
}

// course is what the paths mean for the devices that should run a version: the steps, still without their images, or what is wrong with
// them.
type course struct {
	steps []v1alpha1.UpgradeStep
	wrong *Block
}

// NewPaths compiles upgrade paths. Messages call them those of what of names. One malformed entry invalidates the whole list, because what
// its author meant to forbid is not known.
func NewPaths(list []v1alpha1.UpgradePath, of string) *Paths {
	if len(list) == 0 {
		return nil
	}
	out := &Paths{of: of, courses: map[inventory.Version]course{}}
	for i, p := range list {
		e := plan.Edge{
			To: inventory.NormalizeVersion(p.To), From: normalized(p.From),
			Below: inventory.NormalizeVersion(p.Below), Via: inventory.NormalizeVersion(p.Via),
		}
		if wrong := malformed(e, p.Via != ""); out.invalid == "" && wrong != "" {
			out.invalid = fmt.Sprintf("upgradePaths[%d] %s", i, wrong)
		}
		out.edges = append(out.edges, e)
	}
	if out.invalid == "" {
		out.invalid = contradiction(out.edges)
	}
	return out
}

// Reach reports whether the paths lead from the running version to another one, by one update or several.
func (p *Paths) Reach(to, running inventory.Version, format inventory.VersionFormat) bool {
	if p == nil {
		return true
	}
	for range len(p.edges) + 1 {
		next, err := p.edges.Next(plan.Image{Version: to}, running, format)
		if err != nil || next.Version == to {
			return err == nil && p.invalid == ""
		}
		running = next.Version
	}
	return false
}

// malformed says what is wrong with one edge alone. Named says that it names a version in between.
func malformed(e plan.Edge, named bool) string {
	all := append(slices.Clone(e.From), e.To)
	if named {
		all = append(all, e.Via)
	}
	slices.Sort(all)
	switch {
	case (len(e.From) == 0) == (e.Below == ""):
		return "needs either from or below"
	case all[0] == "", len(slices.Compact(slices.Clone(all))) != len(all):
		return "must name versions that differ"
	case named && e.Below != "" && !isAtLeast(e.Via, e.Below):
		return fmt.Sprintf("goes via %s, which is not %s or newer", e.Via, e.Below)
	}
	return ""
}

func isAtLeast(v, least inventory.Version) bool {
	order := v.Compare(least, inventory.FormatDotted)
	return order == inventory.Same || order == inventory.Newer
}

// contradiction finds two edges that lead different ways from the same running version, or that cannot be told apart.
func contradiction(edges plan.Path) string {
	for i, a := range edges {
		for _, b := range edges[:i] {
			if a.To != b.To || (a.Below == "") != (b.Below == "") {
				continue
			}
			differ := a.Via != "" && b.Via != "" && a.Via != b.Via
			for _, running := range a.From {
				if differ && slices.Contains(b.From, running) {
					return fmt.Sprintf("from %s to %s contradict each other: one says via %s, one says via %s; keep one of them", running, a.To, b.Via, a.Via)
				}
			}
			if a.Below == "" {
				continue
			}
			switch a.Below.Compare(b.Below, inventory.FormatDotted) {
			case inventory.Incomparable:
				return fmt.Sprintf("to %s from below %s and from below %s cannot be ordered; keep one of them", a.To, b.Below, a.Below)
			case inventory.Same:
				if differ {
					return fmt.Sprintf("from below %s to %s contradict each other: one says via %s, one says via %s; keep one of them", a.Below, a.To, b.Via, a.Via)
				}
			}
		}
	}
	return ""
}

// Invalid says what is wrong with the paths themselves; empty when nothing is.
func (p *Paths) Invalid() string {
	if p == nil {
		return ""
	}
	return p.invalid
}

func normalized(spelled []string) []inventory.Version {
	out := make([]inventory.Version, 0, len(spelled))
	for _, v := range spelled {
		out = append(out, inventory.NormalizeVersion(v))
	}
	return out
}

// route is what the upgrade paths of a source mean for a device that should run a version: those that are about it or about a version on
// the way to it. Image finds the image of a version on the way, as Resolve does. Where they cannot be followed, nothing may be flashed, and
// the Block says why in Reason and Message, or in Reason and Version where it is the image of that version that is missing.
func route(to inventory.Version, image func(inventory.Version) (v1alpha1.Digest, string), p *Paths) ([]v1alpha1.UpgradeStep, *Block) {
	if p == nil {
		return nil, nil
	}
	if p.invalid != "" {
		return nil, invalidPath("upgradePaths of %s: %s", p.of, p.invalid)
	}
	c := p.course(to)
	if c.wrong != nil {
		return nil, c.wrong
	}
	out := slices.Clone(c.steps)
	for i, step := range out {
		if step.Via != "" {
			var reason string
			if out[i].Digest, reason = image(inventory.Version(step.Via)); out[i].Digest == "" {
				return nil, &Block{Reason: reason, Version: step.Via}
			}
		}
	}
	return out, nil
}

func (p *Paths) course(to inventory.Version) course {
	c, ok := p.courses[to]
	if !ok {
		c = newCourse(to, about(p.edges, to))
		p.courses[to] = c
	}
	return c
}

func newCourse(to inventory.Version, edges plan.Path) (c course) {
	for _, e := range edges {
		step := v1alpha1.UpgradeStep{UpgradePath: v1alpha1.UpgradePath{To: string(e.To), Below: string(e.Below), Via: string(e.Via)}}
		for _, v := range e.From {
			step.From = append(step.From, string(v))
		}
		c.steps = append(c.steps, step)
	}
	if n := sizeOf(c.steps); n > maxPathSize {
		c.wrong = invalidPath("the upgrade paths to %s take %d KiB, more than the allowed %d KiB; remove some of them", to, (n+1023)>>10, maxPathSize>>10)
	} else {
		c.wrong = circle(to, edges)
	}
	return c
}

// about are the edges to the version, to those on the way to it, and so on, in the order in which the source has them.
func about(edges plan.Path, to inventory.Version) plan.Path {
	matter := map[inventory.Version]bool{to: true}
	for range edges { // each round finds at least one more version, or the last was found
		for _, e := range edges {
			if matter[e.To] && e.Via != "" {
				matter[e.Via] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(edges), func(e plan.Edge) bool { return !matter[e.To] })
}

// circle finds a running version from which the edges lead nowhere. Between two bounds of below all versions are alike, so the bounds
// stand for them, and a version older than all for what is below the oldest.
func circle(to inventory.Version, edges plan.Path) *Block {
	starts := []inventory.Version{"0"}
	for _, e := range edges {
		starts = append(append(starts, e.From...), e.Below, e.Via)
	}
	for _, start := range starts {
		way := []inventory.Version{start}
		for at := start; at != to && at != ""; {
			next, err := edges.Next(plan.Image{Version: to}, at, inventory.FormatDotted)
			if errors.Is(err, plan.ErrCircle) || err == nil && slices.Contains(way, next.Version) {
				return inCircle(to, append(way, next.Version))
			}
			if err != nil {
				break
			}
			way, at = append(way, next.Version), next.Version
		}
	}
	return nil
}

func inCircle(to inventory.Version, way []inventory.Version) *Block {
	names := make([]string, 0, len(way))
	for _, v := range way {
		names = append(names, string(v))
	}
	return invalidPath("the upgrade paths to %s lead in a circle (%s); remove one of them", to, strings.Join(names, ", "))
}

func invalidPath(format string, args ...any) *Block {
	return &Block{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(format, args...)}
}

// equalPath ignores the order within the lists that are sets: the API server may keep another one.
func equalPath(a, b []v1alpha1.UpgradeStep) bool {
	return slices.EqualFunc(a, b, func(x, y v1alpha1.UpgradeStep) bool {
		return x.To == y.To && equalSet(x.From, y.From) && x.Below == y.Below && x.Via == y.Via && x.Digest == y.Digest
	})
}

func equalSet(a, b []string) bool {
	return slices.Equal(a, b) || len(a) == len(b) && slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
