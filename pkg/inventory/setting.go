package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Setting is a value that a device is told to have.
type Setting struct {
	// Name is one of the names below, which mean the same on every device, or that of a parameter as the device's own tool spells it.
	Name string
	// Value as the tool takes it; of the names below as described there.
	Value string
}

// The settings that mean the same on every device. Their names begin with a lower-case letter, as in the API.
const (
	// SettingNumVFs is how many virtual functions each port of an adapter has: a decimal number. An adapter whose firmware keeps how many it can
	// have is told that number too, before: 0 switches SR-IOV off in its firmware. The virtual functions themselves are lost with each boot
	// and made again.
	SettingNumVFs = "numVFs"
	// SettingMaxReadRequestBytes is the largest read request that each function of an adapter makes: 128, 256, 512, 1024, 2048 or 4096 bytes.
	SettingMaxReadRequestBytes = "maxReadRequestBytes"
	// SettingLinkType is the link layer of all ports of an adapter: Ethernet or InfiniBand.
	SettingLinkType = "linkType"
)

// Parameter is one setting of a device as it was read in this pass. The parameters that a change is about, as they were before it, are
// what it takes to undo the change; see Undo.
type Parameter struct {
	Name string
	// Sets are the names of the device's own parameters that this one stands for; empty for these themselves.
	Sets []string
	// Current is the value in force. Next is the one in force after the activation that Needs names, and equals Current when none
	// waits. Default is what a reset gives. Each may be unknown: a device need not report what it keeps, or what is in force.
	Current, Next, Default Reading
	// ReadOnly says why the value cannot be changed; empty when it can.
	ReadOnly string
	Domain   Domain
	Spelling Spelling
	// Needs is what it costs to bring a changed value into force. Ready is a value that costs nothing nonetheless, because only what needs no
	// activation is missing of it; unknown when there is none.
	Needs Activation
	Ready Reading
	// Disturbs says that a change interrupts what the device does for the node, whatever it costs.
	Disturbs bool
	// Volatile values are lost with the next boot, and are then to be given again.
	Volatile bool
}

// Reading is a value as it was read. The zero value is that of one which is not known, and is not the empty value.
type Reading struct {
	Value string
	Known bool
}

// Read is the reading of a value.
func Read(value string) Reading { return Reading{Value: value, Known: true} }

// String is the value for people.
func (r Reading) String() string {
	if !r.Known {
		return "unknown"
	}
	return r.Value
}

// Domain is what is known of the values that a parameter takes. About the zero value, the device alone decides.
type Domain struct {
	// Values are all that it takes; empty when they are not listed.
	Values []string
	// Number bounds a number; nil when the value is none, or its bounds are not known. Length bounds a text, in bytes.
	Number, Length *Interval
}

// String is the domain for people; empty for an unknown one.
func (d Domain) String() string {
	switch {
	case len(d.Values) > 0:
		return strings.Join(d.Values, ", ")
	case d.Number != nil:
		return "numbers " + d.Number.String()
	case d.Length != nil:
		return "texts with a length " + d.Length.String()
	}
	return ""
}

// Interval holds numbers from Min to Max. Of a Step above 1 it holds those that are Min and a multiple of it.
type Interval struct{ Min, Max, Step int64 }

// Spelling says which spellings of a value are the same value.
type Spelling int

const (
	// SpelledExactly has one spelling for each value.
	SpelledExactly Spelling = iota
	// SpelledAsNumber has those of a number; see ParseNumber.
	SpelledAsNumber
	// SpelledWithCode has a text, a number, or both as in True(1). Those with numbers are the same if the numbers are, because versions of a
	// tool spell texts otherwise; the case of texts is ignored.
	SpelledWithCode
)

// Runs reports whether the value is in force. It is false where that is not known.
func (p Parameter) Runs(value string) bool {
	return p.Current.Known && p.Spelling.Same(p.Current.Value, value)
}

// Stores reports whether the value is in force after the next activation. It is false where that is not known.
func (p Parameter) Stores(value string) bool {
	return p.Next.Known && p.Spelling.Same(p.Next.Value, value)
}

// Standing is how a value stands on a device.
type Standing int

// The standings of a value.
const (
	// Missing: it is neither in force nor known to be stored.
	Missing Standing = iota
	// Waiting: it is stored, and another is in force until the next activation.
	Waiting
	// Leaving: it is in force until the next activation, for which another one is stored.
	Leaving
	// Stored: it is stored, and whether it is in force is not known.
	Stored
	// InForce: it is in force, and no other is known to be stored.
	InForce
)

// Standing returns how the value stands, and what the device has in its place: what is in force, or else what is stored.
func (p Parameter) Standing(value string) (s Standing, has Reading) {
	switch {
	case p.Runs(value) && p.Next.Known && !p.Stores(value):
		return Leaving, p.Next
	case p.Runs(value):
		return InForce, p.Current
	case !p.Current.Known && p.Stores(value):
		return Stored, p.Next
	case p.Stores(value):
		return Waiting, p.Current
	case p.Current.Known:
		return Missing, p.Current
	}
	return Missing, p.Next
}

// NeedsFor is what it costs to bring the value into force once it is stored.
func (p Parameter) NeedsFor(value string) Activation {
	if p.isReady(value) {
		return ActivateNone
	}
	return p.Needs
}

func (p Parameter) isReady(value string) bool {
	return p.Ready.Known && p.Spelling.Same(p.Ready.Value, value)
}

// Pending reports whether another value than the one in force waits for an activation.
func (p Parameter) Pending() bool { return p.Next.Known && p.Current.Known && !p.Runs(p.Next.Value) }

// Same reports whether both are spellings of one value.
func (s Spelling) Same(a, b string) bool {
	switch s {
	case SpelledExactly:
	case SpelledAsNumber:
		x, y := ParseNumber(a), ParseNumber(b)
		if x != nil && y != nil {
			return x.Cmp(y) == 0
		}
	case SpelledWithCode:
		aText, x := coded(a)
		bText, y := coded(b)
		if x != nil && y != nil {
			return x.Cmp(y) == 0
		}
		bare := x != nil && aText == "" || y != nil && bText == "" // a number alone has no text to compare
		return !bare && strings.EqualFold(aText, bText)
	}
	return a == b
}

// FindParameter returns the parameter of that name, or nil.
func FindParameter(all []Parameter, name string) *Parameter {
	i := slices.IndexFunc(all, func(p Parameter) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Asked returns the parameters of the names and those that they set, or all where none is named.
func Asked(all []Parameter, names ...string) []Parameter {
	asked := slices.Clone(names)
	for _, name := range names {
		if p := FindParameter(all, name); p != nil {
			asked = append(asked, p.Sets...)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p Parameter) bool { return len(names) > 0 && !slices.Contains(asked, p.Name) })
}

// Unlisted returns the settings that give all parameters their defaults which are not declared, in their order: those that no declared
// setting sets, that can be changed, and whose default is known and another value than the one stored. Volatile parameters are left to
// whoever set them.
func Unlisted(declared []Setting, all []Parameter) []Setting {
	kept := map[string]bool{}
	for _, s := range declared {
		kept[s.Name] = true
		if p := FindParameter(all, s.Name); p != nil {
			for _, name := range p.Sets {
				kept[name] = true
			}
		}
	}
	var out []Setting
	for _, p := range all {
		if kept[p.Name] || len(p.Sets) > 0 || p.ReadOnly != "" || p.Volatile || !p.Default.Known || p.Stores(p.Default.Value) {
			continue
		}
		out = append(out, Setting{Name: p.Name, Value: p.Default.Value})
	}
	return out
}

// Undo returns the settings that make a device with these parameters store again what they say, after the declared settings changed it: the
// device's own parameters, because one that stands for several may leave some of them alone. What was not known cannot be undone.
func Undo(declared []Setting, before []Parameter) []Setting {
	var out []Setting
	for _, s := range declared {
		p := FindParameter(before, s.Name)
		if p == nil {
			continue
		}
		names := p.Sets
		if len(names) == 0 {
			names = []string{p.Name}
		}
		for _, name := range names {
			if own := FindParameter(before, name); own != nil && own.Next.Known && own.ReadOnly == "" {
				out = append(out, Setting{Name: name, Value: own.Next.Value})
			}
		}
	}
	return out
}

// Differing returns the settings that the device does not store, as far as is known, in their order: those that are to be written.
func Differing(declared []Setting, all []Parameter) []Setting {
	return slices.DeleteFunc(slices.Clone(declared), func(s Setting) bool {
		p := FindParameter(all, s.Name)
		return p != nil && p.Stores(s.Value)
	})
}

// Changed returns those of the settings which the device is known to store otherwise, in their order.
func Changed(was []Setting, all []Parameter) []Setting {
	return slices.DeleteFunc(slices.Clone(was), func(s Setting) bool {
		p := FindParameter(all, s.Name)
		return p == nil || !p.Next.Known || p.Stores(s.Value)
	})
}

// Covers reports whether one of the names is that of the setting, or of one that stands for it.
func Covers(names []string, setting string, all []Parameter) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		p := FindParameter(all, name)
		return name == setting || p != nil && slices.Contains(p.Sets, setting)
	})
}

// NeededFor is the most disruptive activation that the declared settings need on a device with these parameters, as they are before the settings
// are written: of those that are known not to be in force, and, where that is not known, of those that are to be written.
func NeededFor(declared []Setting, all []Parameter) Activation {
	needs := ActivateNone
	for _, s := range declared {
		p := FindParameter(all, s.Name)
		if p != nil && !p.isReady(s.Value) && !p.Runs(s.Value) && (p.Current.Known || !p.Stores(s.Value)) {
			needs = max(needs, p.Needs)
		}
	}
	return needs
}

// CheckSettings returns why a device with these parameters cannot have the settings, naming all that is wrong, or nil when nothing is
// known to be. A read-only parameter may be told the value that it has.
func CheckSettings(declared []Setting, all []Parameter) error {
	var problems []string
	setBy := map[string]string{}
	for _, s := range declared {
		p := FindParameter(all, s.Name)
		if p == nil {
			problems = append(problems, unknownName(s.Name, all))
			continue
		}
		if why := p.refuses(s.Value); why != "" {
			problems = append(problems, why)
		}
		for _, own := range append([]string{p.Name}, p.Sets...) {
			switch other, twice := setBy[own]; {
			case twice && other == s.Name:
				problems = append(problems, s.Name+" is named twice: name it once")
			case twice:
				problems = append(problems, fmt.Sprintf("%s is what both %s and %s set: name one of them", own, other, s.Name))
			}
			setBy[own] = s.Name
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(problems, "; "))
}

func unknownName(name string, all []Parameter) string {
	if len(all) == 0 {
		return "the device has no parameter " + name + ", and no other"
	}
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name
	}
	return fmt.Sprintf("the device has no parameter %s: the nearest are %s", name, strings.Join(nearest(name, names), ", "))
}

// refuses says why the parameter cannot have the value; empty when it can, as far as is known.
func (p Parameter) refuses(value string) string {
	switch {
	case p.ReadOnly != "" && p.Stores(value):
		return ""
	case p.ReadOnly != "":
		return fmt.Sprintf("%s is %s and cannot be changed to %s: %s", p.Name, p.Next, quoted(value), p.ReadOnly)
	}
	if takes := p.Domain.refuses(p.Spelling, value); takes != "" {
		return fmt.Sprintf("%s cannot be %s: it takes %s", p.Name, quoted(value), takes)
	}
	return ""
}

// refuses says what is taken instead of the value; empty when the value is.
func (d Domain) refuses(s Spelling, value string) string {
	if len(d.Values) > 0 && !slices.ContainsFunc(d.Values, func(v string) bool { return s.Same(v, value) }) {
		return strings.Join(nearest(value, d.Values), ", ") + more(len(d.Values)-few)
	}
	if d.Number != nil {
		n := ParseNumber(value)
		if s == SpelledWithCode {
			_, n = coded(value)
		}
		if n == nil || !d.Number.holds(n) {
			return d.String()
		}
	}
	if d.Length != nil && !d.Length.holds(big.NewInt(int64(len(value)))) {
		return d.String()
	}
	return ""
}

func (i Interval) holds(n *big.Int) bool {
	if n.Cmp(big.NewInt(i.Min)) < 0 || n.Cmp(big.NewInt(i.Max)) > 0 {
		return false
	}
	rest := new(big.Int).Sub(n, big.NewInt(i.Min))
	return i.Step <= 1 || rest.Mod(rest, big.NewInt(i.Step)).Sign() == 0
}

// String is the interval for people.
func (i Interval) String() string {
	s := fmt.Sprintf("from %d to %d", i.Min, i.Max)
	if i.Step > 1 {
		s += fmt.Sprintf(" in steps of %d", i.Step)
	}
	return s
}

// few is how many names or values are suggested.
const few = 3

// nearest returns the few candidates that differ least from what was written, the nearest first.
func nearest(written string, candidates []string) []string {
	distance := map[string]int{}
	for _, c := range candidates {
		distance[c] = levenshtein.ComputeDistance(strings.ToLower(written), strings.ToLower(c))
	}
	sorted := slices.Clone(candidates)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(distance[a], distance[b]) })
	return sorted[:min(few, len(sorted))]
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// quoted is a value for people, who must see an empty one and blanks.
func quoted(value string) string {
	if value == "" || strings.ContainsAny(value, " \t") {
		return strconv.Quote(value)
	}
	return value
}
