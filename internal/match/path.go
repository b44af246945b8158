package match

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Bounds of an UpgradePath, as the API has them.
const (
	maxHops        = 32
	maxHopFrom     = 64
	maxBlockedFrom = 128
)

// Paths are the compiled upgrade paths of a template's rule or of a source. Nil restricts nothing.
type Paths struct {
	of      string
	invalid string

	blocked map[inventory.Version][]inventory.Version
	minimum map[inventory.Version][]inventory.Version
	hops    map[inventory.Version][]hop
}

type hop struct {
	from []inventory.Version
	via  inventory.Version
}

// NewPaths compiles the upgrade paths of what of names, for messages.
func NewPaths(p *v1alpha1.UpgradePaths, of string) *Paths {
	if p == nil || len(p.BlockedEdges)+len(p.Hops)+len(p.MinimumVersions) == 0 {
		return nil
	}
	out := &Paths{
		of: of, blocked: map[inventory.Version][]inventory.Version{}, minimum: map[inventory.Version][]inventory.Version{},
		hops: map[inventory.Version][]hop{},
	}
	for i, e := range p.BlockedEdges {
		to, from := inventory.NormalizeVersion(e.To), normalized(e.From)
		out.refuse(fmt.Sprintf("blockedEdges[%d]", i), from, to)
		out.blocked[to] = append(out.blocked[to], from...)
	}
	for i, h := range p.Hops {
		to, via, from := inventory.NormalizeVersion(h.To), inventory.NormalizeVersion(h.Via), normalized(h.From)
		out.refuse(fmt.Sprintf("hops[%d]", i), from, to, via)
		out.hops[to] = append(out.hops[to], hop{from, via})
	}
	for i, m := range p.MinimumVersions {
		to, version := inventory.NormalizeVersion(m.To), inventory.NormalizeVersion(m.Version)
		if out.invalid == "" && (to == "" || version == "") {
			out.invalid = fmt.Sprintf("minimumVersions[%d] must name two versions", i)
		}
		out.minimum[to] = append(out.minimum[to], version)
	}
	return out
}

// Invalid says what is wrong with the paths themselves; empty when nothing is.
func (p *Paths) Invalid() string {
	if p == nil {
		return ""
	}
	return p.invalid
}

// refuse notes an entry with a version that is empty or named twice. One malformed entry refuses the whole list: what
// its author meant to forbid is not known.
func (p *Paths) refuse(entry string, from []inventory.Version, others ...inventory.Version) {
	all := append(slices.Clone(from), others...)
	slices.Sort(all)
	if p.invalid == "" && (len(from) == 0 || all[0] == "" || len(slices.Compact(all)) != len(from)+len(others)) {
		p.invalid = entry + " must name versions that differ"
	}
}

func normalized(spelled []string) []inventory.Version {
	out := make([]inventory.Version, 0, len(spelled))
	for _, v := range spelled {
		out = append(out, inventory.NormalizeVersion(v))
	}
	return out
}

// Obstacle says why a version cannot be reached as paths and images are.
type Obstacle struct {
	// Reason is a reason of the condition Blocked; Message is set where the reason alone says too little.
	Reason, Message string
	// Version that has no image; empty where that is not the cause.
	Version inventory.Version
}

// Route is what the paths of a rule and of its source mean together for a device that should come to a version. Image
// finds the image of a version on the way, as Resolve does. All paths apply: edges and hops add up, and of two minimum
// versions the newer one counts. Where they cannot be followed there is an obstacle, and nothing may be flashed.
func Route(to inventory.Version, image func(inventory.Version) (v1alpha1.Digest, string), all ...*Paths) (*v1alpha1.UpgradePath, *Obstacle) {
	var g guide
	for _, p := range all {
		if p.Invalid() != "" {
			return nil, astray("upgradePaths of %s: %s", p.of, p.invalid)
		}
		if p != nil {
			g = append(g, p)
		}
	}
	if g == nil {
		return nil, nil
	}
	out := &v1alpha1.UpgradePath{}
	var o *Obstacle
	if out.BlockedFrom, out.MinimumVersion, o = g.restrictions(to); o != nil {
		return nil, o
	}
	if out.Hops, o = g.upgradeHops(to, image); o != nil {
		return nil, o
	}
	if len(out.BlockedFrom)+len(out.Hops) == 0 && out.MinimumVersion == "" {
		return nil, nil
	}
	return out, nil
}

// guide is all paths that apply together.
type guide []*Paths

// restrictions are what must not run, and what must run at least, when a version is flashed.
func (g guide) restrictions(to inventory.Version) (blockedFrom []string, minimum string, o *Obstacle) {
	var least inventory.Version
	for _, p := range g {
		for _, from := range p.blocked[to] {
			blockedFrom = append(blockedFrom, string(from))
		}
		for _, m := range p.minimum[to] {
			if least, o = stricter(to, least, m); o != nil {
				return nil, "", o
			}
		}
	}
	slices.Sort(blockedFrom)
	blockedFrom = slices.Compact(blockedFrom)
	if len(blockedFrom) > maxBlockedFrom {
		return nil, "", astray("%s must not be flashed over %d versions, and at most %d are allowed; take some edges away",
			to, len(blockedFrom), maxBlockedFrom)
	}
	return blockedFrom, string(least), nil
}

// stricter is the one of two minimum versions that allows less.
func stricter(to, a, b inventory.Version) (inventory.Version, *Obstacle) {
	if a == "" {
		return b, nil
	}
	switch a.Compare(b, inventory.FormatDotted) {
	case inventory.Older:
		return b, nil
	case inventory.Incomparable:
		return "", astray("minimumVersions says that %s needs at least %s and at least %s, which cannot be ordered; keep one of them", to, a, b)
	}
	return a, nil
}

// upgradeHops says for each running version that a hop to the wanted one is declared from what to flash first.
func (g guide) upgradeHops(to inventory.Version, image func(inventory.Version) (v1alpha1.Digest, string)) ([]v1alpha1.UpgradeHop, *Obstacle) {
	first, o := g.firstSteps(to)
	if o != nil {
		return nil, o
	}
	from := map[inventory.Version][]string{}
	for _, running := range slices.Sorted(maps.Keys(first)) {
		from[first[running]] = append(from[first[running]], string(running))
	}
	var out []v1alpha1.UpgradeHop
	for _, via := range slices.Sorted(maps.Keys(from)) {
		digest, reason := image(via)
		if digest == "" {
			return nil, &Obstacle{Reason: reason, Version: via}
		}
		h := v1alpha1.UpgradeHop{Version: string(via), Digest: digest}
		if h.BlockedFrom, h.MinimumVersion, o = g.restrictions(via); o != nil {
			return nil, o
		}
		for part := range slices.Chunk(from[via], maxHopFrom) {
			h.From = part
			out = append(out, h)
		}
	}
	if len(out) > maxHops {
		return nil, astray("the way to %s has %d hops, and at most %d are allowed; take some away", to, len(out), maxHops)
	}
	return out, nil
}

// firstSteps maps each version from which the wanted one cannot be reached directly to the version to flash first. Each
// of them leads to the wanted version in the end.
func (g guide) firstSteps(to inventory.Version) (map[inventory.Version]inventory.Version, *Obstacle) {
	first := map[inventory.Version]inventory.Version{}
	for _, p := range g {
		for _, h := range p.hops[to] {
			for _, running := range h.from {
				step, o := g.firstStep(running, to)
				if o != nil {
					return nil, o
				}
				first[running] = step
			}
		}
	}
	for _, start := range slices.Sorted(maps.Keys(first)) {
		way := []inventory.Version{start}
		for at, more := first[start]; more; at, more = first[at] {
			if slices.Contains(way, at) {
				return nil, circle(to, append(way, at))
			}
			way = append(way, at)
		}
	}
	return first, nil
}

// firstStep is what to flash over the running version so that the wanted one can follow: a version in between may need
// one itself.
func (g guide) firstStep(running, to inventory.Version) (inventory.Version, *Obstacle) {
	way := []inventory.Version{to}
	for {
		at := way[len(way)-1]
		via, o := g.via(running, at)
		switch {
		case o != nil || via == "":
			return at, o
		case slices.Contains(way, via):
			slices.Reverse(way)
			return "", circle(to, append([]inventory.Version{via}, way...))
		}
		way = append(way, via)
	}
}

// via is the version to flash before another one can be flashed; empty when that can be flashed at once.
func (g guide) via(running, to inventory.Version) (inventory.Version, *Obstacle) {
	var via inventory.Version
	by := ""
	for _, p := range g {
		for _, h := range p.hops[to] {
			if !slices.Contains(h.from, running) || h.via == via {
				continue
			}
			if via != "" {
				return "", astray("hops from %s to %s contradict each other: %s says via %s, %s says via %s; keep one of them",
					running, to, by, via, p.of, h.via)
			}
			via, by = h.via, p.of
		}
	}
	return via, nil
}

func circle(to inventory.Version, way []inventory.Version) *Obstacle {
	names := make([]string, 0, len(way))
	for _, v := range way {
		names = append(names, string(v))
	}
	return astray("the hops to %s lead in a circle (%s); take one of them away", to, strings.Join(names, ", "))
}

func astray(format string, args ...any) *Obstacle {
	return &Obstacle{Reason: v1alpha1.ReasonInvalidUpgradePath, Message: fmt.Sprintf(format, args...)}
}

// equalPath ignores the order within the lists that are sets: the API server may keep another one.
func equalPath(a, b *v1alpha1.UpgradePath) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	return equalSet(a.BlockedFrom, b.BlockedFrom) && a.MinimumVersion == b.MinimumVersion &&
		slices.EqualFunc(a.Hops, b.Hops, func(x, y v1alpha1.UpgradeHop) bool {
			return equalSet(x.From, y.From) && x.Version == y.Version && x.Digest == y.Digest &&
				equalSet(x.BlockedFrom, y.BlockedFrom) && x.MinimumVersion == y.MinimumVersion
		})
}

func equalSet(a, b []string) bool {
	return slices.Equal(a, b) || len(a) == len(b) && slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
