package match

import (
	"slices"
	"sort"
)

// firsts is a set of names that knows its first few members in order. Adding and removing cost the same for any size
// of the set, except for one pass over the set after keep of the first members were removed.
type firsts struct {
	keep    int
	members map[string]struct{}
	// head holds the smallest members in order: all of them, or at least keep and at most 2*keep.
	head []string
}

func newFirsts(keep int) *firsts { return &firsts{keep: keep, members: map[string]struct{}{}} }

func (f *firsts) add(name string) {
	if _, ok := f.members[name]; ok {
		return
	}
	complete := len(f.head) == len(f.members)
	f.members[name] = struct{}{}
	at := sort.SearchStrings(f.head, name)
	if at == len(f.head) && !complete {
		return
	}
	f.head = slices.Insert(f.head, at, name)
	if len(f.head) > 2*f.keep {
		f.head = f.head[:2*f.keep]
	}
}

func (f *firsts) remove(name string) {
	if _, ok := f.members[name]; !ok {
		return
	}
	delete(f.members, name)
	at, ok := slices.BinarySearch(f.head, name)
	if !ok {
		return
	}
	f.head = slices.Delete(f.head, at, at+1)
	if len(f.head) < f.keep && len(f.head) < len(f.members) {
		f.refill()
	}
}

func (f *firsts) refill() {
	all := make([]string, 0, len(f.members))
	for name := range f.members {
		all = append(all, name)
	}
	slices.Sort(all)
	f.head = slices.Clone(all[:min(len(all), 2*f.keep)])
}

// first returns the first members in order, at most keep.
func (f *firsts) first() []string { return slices.Clone(f.head[:min(len(f.head), f.keep)]) }
