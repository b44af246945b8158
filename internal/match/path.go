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
	// maxPathSize bounds a path in bytes, so that the NodeDevice stays under 256 KiB: the API server notes some of it twice.
	maxPathSize = 96 << 10
)

// sizeOf is about how many bytes of JSON a path takes.
func sizeOf(p *v1alpha1.UpgradePath) int {
	const each, quotes = 200, 3 // of a hop, and of a version in a list
	list := func(versions []string) (n int) {
		for _, v := range versions {
			n += len(v) + quotes
		}
		return n
	}
	n := list(p.BlockedFrom)
	for _, h := range p.Hops {
		n += each + len(h.Version) + len(h.MinimumVersion) + list(h.From) + list(h.BlockedFrom)
	}
	return n
}

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

// NewPaths compiles upgrade paths. Messages call them those of what of names.
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
		out.check(fmt.Sprintf("blockedEdges[%d]", i), from, to)
		out.blocked[to] = append(out.blocked[to], from...)
	}
	for i, h := range p.Hops {
		to, via, from := inventory.NormalizeVersion(h.To), inventory.NormalizeVersion(h.Via), normalized(h.From)
		out.check(fmt.Sprintf("hops[%d]", i), from, to, via)
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

// check notes an entry with a version that is empty or named twice. One malformed entry invalidates the whole list,
// because what its author meant to forbid is not known.
func (p *Paths) check(entry string, from []inventory.Version, others ...inventory.Version) {
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

// route is what the upgrade paths of a rule and of its source mean together for a device that should run a version. Image
// finds the image of a version on the way, as Resolve does. All paths apply: edges and hops add up, and of two minimum
// versions the newer one counts. Where they cannot be followed, nothing may be flashed, and the Block says why in Reason
// and Message, or in Reason and Version where it is the image of that version that is missing.
func route(to inventory.Version, image func(inventory.Version) (v1alpha1.Digest, string), all ...*Paths) (*v1alpha1.UpgradePath, *Block) {
	var g allPaths
	for _, p := range all {
		if p.Invalid() != "" {
			return nil, invalidPath("upgradePaths of %s: %s", p.of, p.invalid)
		}
		if p != nil {
			g = append(g, p)
		}
	}
	if g == nil {
		return nil, nil
	}
	out := &v1alpha1.UpgradePath{}
	var wrong *Block
	if out.BlockedFrom, out.MinimumVersion, wrong = g.restrictions(to); wrong != nil {
		return nil, wrong
	}
	if out.Hops, wrong = g.upgradeHops(to, image); wrong != nil {
		return nil, wrong
	}
	if len(out.BlockedFrom)+len(out.Hops) == 0 && out.MinimumVersion == "" {
		return nil, nil
	}
	if n := sizeOf(out); n > maxPathSize {
		return nil, invalidPath("the way to %s takes %d KiB, and at most %d KiB are allowed; remove hops or blocked edges", to, (n+1023)>>10, maxPathSize>>10)
	}
	return out, nil
}

// allPaths are the upgrade paths that apply together.
type allPaths []*Paths

// restrictions are the versions that must not run when a version is flashed, and the oldest one that may.
func (g allPaths) restrictions(to inventory.Version) (blockedFrom []string, minimum string, wrong *Block) {
	var least inventory.Version
	for _, p := range g {
		for _, from := range p.blocked[to] {
			blockedFrom = append(blockedFrom, string(from))
		}
		for _, m := range p.minimum[to] {
			if least, wrong = stricter(to, least, m); wrong != nil {
				return nil, "", wrong
			}
		}
	}
	slices.Sort(blockedFrom)
	blockedFrom = slices.Compact(blockedFrom)
	if len(blockedFrom) > maxBlockedFrom {
		return nil, "", invalidPath("%s must not be flashed over %d versions, and at most %d are allowed; remove some edges",
			to, len(blockedFrom), maxBlockedFrom)
	}
	return blockedFrom, string(least), nil
}

// stricter is the one of two minimum versions that allows less.
func stricter(to, a, b inventory.Version) (inventory.Version, *Block) {
	if a == "" {
		return b, nil
	}
	switch a.Compare(b, inventory.FormatDotted) {
	case inventory.Older:
		return b, nil
	case inventory.Incomparable:
		return "", invalidPath("minimumVersions says that %s needs at least %s and at least %s, which cannot be ordered; keep one of them", to, a, b)
	}
	return a, nil
}

// upgradeHops lists what to flash first over each running version from which a hop to the desired one is declared.
func (g allPaths) upgradeHops(to inventory.Version, image func(inventory.Version) (v1alpha1.Digest, string)) ([]v1alpha1.UpgradeHop, *Block) {
	first, wrong := g.firstSteps(to)
	if wrong != nil {
		return nil, wrong
	}
	from := map[inventory.Version][]string{}
	for _, running := range slices.Sorted(maps.Keys(first)) {
		from[first[running]] = append(from[first[running]], string(running))
	}
	var out []v1alpha1.UpgradeHop
	for _, via := range slices.Sorted(maps.Keys(from)) {
		digest, reason := image(via)
		if digest == "" {
			return nil, &Block{Reason: reason, Version: string(via)}
		}
		h := v1alpha1.UpgradeHop{Version: string(via), Digest: digest}
		if h.BlockedFrom, h.MinimumVersion, wrong = g.restrictions(via); wrong != nil {
			return nil, wrong
		}
		for part := range slices.Chunk(from[via], maxHopFrom) {
			h.From = part
			out = append(out, h)
		}
	}
	if len(out) > maxHops {
		return nil, invalidPath("the way to %s has %d hops, and at most %d are allowed; remove some", to, len(out), maxHops)
	}
	return out, nil
}

// firstSteps maps each version from which the desired one cannot be reached directly to the version to flash first. Each
// chain of first steps ends at the desired version.
func (g allPaths) firstSteps(to inventory.Version) (map[inventory.Version]inventory.Version, *Block) {
	first := map[inventory.Version]inventory.Version{}
	for _, p := range g {
		for _, h := range p.hops[to] {
			for _, running := range h.from {
				step, wrong := g.firstStep(running, to)
				if wrong != nil {
					return nil, wrong
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

// firstStep is what to flash over the running version so that the desired one can follow: a hop may itself need a hop.
func (g allPaths) firstStep(running, to inventory.Version) (inventory.Version, *Block) {
	way := []inventory.Version{to}
	for {
		at := way[len(way)-1]
		via, wrong := g.via(running, at)
		switch {
		case wrong != nil || via == "":
			return at, wrong
		case slices.Contains(way, via):
			slices.Reverse(way)
			return "", circle(to, append([]inventory.Version{via}, way...))
		}
		way = append(way, via)
	}
}

// via is the version to flash before another one can be flashed; empty when that can be flashed at once.
func (g allPaths) via(running, to inventory.Version) (inventory.Version, *Block) {
	var via inventory.Version
	by := ""
	for _, p := range g {
		for _, h := range p.hops[to] {
			if !slices.Contains(h.from, running) || h.via == via {
				continue
			}
			if via != "" {
				return "", invalidPath("hops from %s to %s contradict each other: %s says via %s, %s says via %s; keep one of them",
					running, to, by, via, p.of, h.via)
			}
			via, by = h.via, p.of
		}
	}
	return via, nil
}

func circle(to inventory.Version, way []inventory.Version) *Block {
	names := make([]string, 0, len(way))
	for _, v := range way {
		names = append(names, string(v))
	}
	return invalidPath("the hops to %s lead in a circle (%s); remove one of them", to, strings.Join(names, ", "))
}

func invalidPath(format string, args ...any) *Block {
	return &Block{Reason: v1alpha1.ReasonInvalidUpgradePath, Message: fmt.Sprintf(format, args...)}
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
