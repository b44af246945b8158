package pci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// adapter is a network adapter with all its settings: those that its driver offers, and those of its functions.
//
// How many virtual functions a port has and how many its firmware lets it have are two things, with names of their own: sriov_numvfs, which
// a boot empties, and whatever the firmware keeps, such as NUM_OF_VFS. The setting of every vendor, numVFs, is both at the same number.
// The firmware is told first, and the virtual functions are made when that is in force: after the activation that Configure then returns,
// it is to be called again.
type adapter struct {
	driver *Driver
	// own is nil when the driver of the adapter offers no settings, or there is none.
	own driver.Configurer
}

// state is what was read of an adapter.
type state struct {
	ports      []port
	requesters []requester
	// own are the parameters that the adapter's driver reads, and all those with the settings of the functions, in order of their names.
	own, all []inventory.Parameter
}

// limit is how many virtual functions the firmware lets the ports have; nil when it keeps no such number.
func (s state) limit() *inventory.Parameter {
	return inventory.FindParameter(s.own, inventory.SettingNumVFs)
}

// most is how many virtual functions each port can have now.
func (s state) most() int {
	most := math.MaxUint16
	for _, p := range s.ports {
		most = min(most, p.TotalVFs)
	}
	return most
}

// waits reports whether the firmware keeps another limit than the one in force. Where it does not say which is in force, the kernel does.
func (s state) waits() bool {
	limit := s.limit()
	switch {
	case limit == nil:
		return false
	case limit.Current.Known || !limit.Next.Known:
		return limit.Pending()
	}
	n := inventory.ParseNumber(limit.Next.Value)
	return n != nil && n.Cmp(big.NewInt(int64(s.most()))) > 0
}

// Parameters reads those of the adapter's driver and those of the functions. An element of sriov_numvfs is the number of one function, in the order of
// their addresses, and sriov_numvfs that of all; so it is with sriov_drivers_autoprobe and readrq.
func (a adapter) Parameters(ctx context.Context, id inventory.Identity, names ...string) ([]inventory.Parameter, error) {
	s, err := a.read(ctx, id, names)
	if err != nil {
		return nil, err
	}
	return inventory.Asked(s.all, names...), nil
}

// isOfPorts reports whether a parameter is one of the functions, and not of what the adapter's driver reads.
func isOfPorts(name string) bool {
	name, _, _ = strings.Cut(name, "[")
	return slices.Contains([]string{numVFs, autoprobe, readRequest, inventory.SettingMaxReadRequestBytes}, name)
}

// read reads all parameters, or at least those of the names.
func (a adapter) read(ctx context.Context, id inventory.Identity, names []string) (s state, err error) {
	ports, requesters, unsupported := a.driver.functions(ctx, id)
	if unsupported != nil && !errors.Is(unsupported, driver.ErrNotSupported) {
		return state{}, fmt.Errorf("read settings of adapter %s: %w", id.UniqueID, unsupported)
	}
	s.ports, s.requesters = ports, requesters
	var ofDriver []string
	for _, name := range names {
		if own, _, _ := strings.Cut(name, "["); own == numVFs {
			name = inventory.SettingNumVFs // the limit decides whether the number can be changed now
		}
		if !isOfPorts(name) && !slices.Contains(ofDriver, name) {
			ofDriver = append(ofDriver, name)
		}
	}
	if a.own != nil && (len(names) == 0 || len(ofDriver) > 0) {
		s.own, err = a.own.Parameters(ctx, id, ofDriver...)
	}
	switch {
	case err != nil && !errors.Is(err, driver.ErrNotSupported):
		return state{}, err
	case unsupported != nil && (err != nil || a.own == nil):
		return state{}, cmp.Or(err, unsupported)
	}
	s.join()
	return s, nil
}

// join makes one list of what the driver of the adapter and the kernel say.
func (s *state) join() {
	s.all = slices.Clone(s.own)
	if len(s.ports) > 0 {
		counts, probes := []inventory.Parameter{}, []inventory.Parameter{}
		for _, p := range s.ports {
			counts = append(counts, p.count(s.limit() != nil))
			if p.Autoprobe != nil {
				probes = append(probes, p.probe())
			}
		}
		count := together(inventory.SettingNumVFs, counts)
		s.all = slices.Concat(slices.DeleteFunc(s.all, func(p inventory.Parameter) bool { return p.Name == count.Name }), counts, probes)
		s.all = append(s.all, together(numVFs, counts), s.withLimit(count))
		if len(probes) > 0 {
			s.all = append(s.all, together(autoprobe, probes))
		}
	}
	if len(s.requesters) > 0 {
		var sizes []inventory.Parameter
		for _, r := range s.requesters {
			sizes = append(sizes, r.size())
		}
		s.all = append(append(s.all, sizes...), together(readRequest, sizes), together(inventory.SettingMaxReadRequestBytes, sizes))
	}
	slices.SortFunc(s.all, func(a, b inventory.Parameter) int { return strings.Compare(a.Name, b.Name) })
}

// size is how much the function reads at once. What it is after a boot, the system firmware and the kernel driver decide.
func (r requester) size() inventory.Parameter {
	now := inventory.Read(strconv.Itoa(r.Bytes))
	var sizes []string
	for _, size := range sysfs.ReadRequestSizes {
		sizes = append(sizes, strconv.Itoa(size))
	}
	return inventory.Parameter{
		Name: element(readRequest, r.index), Current: now, Next: now, ReadOnly: r.refusal, Spelling: inventory.SpelledAsNumber,
		Domain: inventory.Domain{Values: sizes}, Volatile: true,
	}
}

// count is how many virtual functions the port has. Where the firmware keeps a limit that may change, the one in force is no bound.
func (p port) count(limited bool) inventory.Parameter {
	n := inventory.Read(strconv.Itoa(p.NumVFs))
	most := int64(p.TotalVFs)
	if limited {
		most = math.MaxUint16
	}
	return inventory.Parameter{
		Name: element(numVFs, p.index), Current: n, Next: n, Default: inventory.Read("0"), ReadOnly: p.refusal, Spelling: inventory.SpelledAsNumber,
		Domain: inventory.Domain{Number: &inventory.Interval{Max: most}}, Volatile: true,
		Disturbs: !slices.Contains(quiet, p.Driver),
	}
}

// quiet are the kernel drivers whose ports go on working while virtual functions come and go. Others reset them (i40e, ixgbe), close and open their
// interface (igb), or are not known.
var quiet = []string{"mlx5_core", "ice"}

// probe is whether virtual functions that come into being get a driver.
func (p port) probe() inventory.Parameter {
	on := inventory.Read(strconv.Itoa(*p.Autoprobe))
	return inventory.Parameter{
		Name: element(autoprobe, p.index), Current: on, Next: on, Default: inventory.Read("1"), ReadOnly: p.refusal, Spelling: inventory.SpelledAsNumber,
		Domain: inventory.Domain{Values: []string{"0", "1"}}, Volatile: true,
	}
}

func element(name string, index int) string { return fmt.Sprintf("%s[%d]", name, index) }

// together is the setting of all ports, whose values it has in their order where they differ.
func together(name string, parts []inventory.Parameter) inventory.Parameter {
	out := parts[0]
	out.Name, out.Sets = name, nil
	var values []string
	for _, part := range parts {
		out.Sets = append(out.Sets, part.Name)
		out.ReadOnly = cmp.Or(out.ReadOnly, part.ReadOnly)
		out.Disturbs = out.Disturbs || part.Disturbs
		values = append(values, part.Current.Value)
		if n := part.Domain.Number; n != nil && n.Max < out.Domain.Number.Max {
			out.Domain = part.Domain
		}
	}
	if all := slices.Compact(slices.Clone(values)); len(all) == 1 {
		values = all
	}
	out.Current = inventory.Read(strings.Join(values, ","))
	out.Next = out.Current
	return out
}

// withLimit is numVFs of an adapter: the number of virtual functions and, where the firmware keeps one, the limit. Where these differ, the value has
// both, as in "0 of 8", and equals no number.
func (s *state) withLimit(count inventory.Parameter) inventory.Parameter {
	limit := s.limit()
	if limit == nil {
		return count
	}
	out := *limit
	out.Sets = slices.Concat(limit.Sets, count.Sets)
	out.ReadOnly = cmp.Or(limit.ReadOnly, count.ReadOnly)
	out.Volatile, out.Disturbs = true, count.Disturbs
	inForce := limit.Current
	if !inForce.Known && !s.waits() { // the kernel has room for it
		inForce = limit.Next
	}
	out.Current = both(count.Current, inForce)
	if !s.waits() {
		out.Next, out.Ready = both(count.Next, limit.Next), limit.Next
	}
	if !limit.Default.Known || !count.Spelling.Same(limit.Default.Value, count.Default.Value) {
		out.Default = inventory.Reading{}
	}
	return out
}

func both(count, limit inventory.Reading) inventory.Reading {
	if !limit.Known || inventory.SpelledAsNumber.Same(count.Value, limit.Value) {
		return count
	}
	return inventory.Read(count.Value + " of " + limit.Value)
}

// change is what a configuration means for an adapter.
type change struct {
	state
	// own is the part of the adapter's driver.
	own driver.Configuration
	// counts, probes and sizes are the values of the functions, by their index.
	counts, probes, sizes map[int]string
}

// resolve reads what the configuration is about, and what it means.
func (a adapter) resolve(ctx context.Context, id inventory.Identity, c driver.Configuration) (change, error) {
	names := c.Names()
	if len(names) == 0 {
		_, _, err := a.driver.functions(ctx, id)
		if errors.Is(err, driver.ErrNotSupported) && a.own != nil {
			err = a.own.CheckConfiguration(ctx, id, c)
		}
		return change{}, err
	}
	s, err := a.read(ctx, id, names)
	if err == nil && slices.ContainsFunc(names, func(name string) bool { return inventory.FindParameter(s.all, name) == nil }) {
		s, err = a.read(ctx, id, nil) // the nearest names are said
	}
	if err != nil {
		return change{}, err
	}
	if err := c.Check(s.all); err != nil {
		return change{}, err
	}
	isOwn := func(name string) bool { return inventory.FindParameter(s.own, name) != nil }
	out := change{state: s, counts: map[int]string{}, probes: map[int]string{}, sizes: map[int]string{}}
	for _, setting := range c.Set {
		if isOwn(setting.Name) {
			out.own.Set = append(out.own.Set, setting)
		}
	}
	for _, setting := range c.Set {
		for _, r := range s.requesters {
			switch setting.Name {
			case inventory.SettingMaxReadRequestBytes, readRequest, element(readRequest, r.index):
				out.sizes[r.index] = setting.Value
			}
		}
		for _, p := range s.ports {
			switch setting.Name {
			case inventory.SettingNumVFs, numVFs, element(numVFs, p.index):
				out.counts[p.index] = setting.Value
			case autoprobe, element(autoprobe, p.index):
				out.probes[p.index] = setting.Value
			}
		}
	}
	return out, out.judge()
}

// isOwn reports whether the adapter's driver has something to do.
func (c change) isOwn() bool { return len(c.own.Set) > 0 }

// defers reports whether a port gets its number of virtual functions after the activation of the limit that the firmware is told: all ports do in
// a change that is about more than the ports, because virtual functions would hinder that activation or be lost with it.
func (c change) defers(limitWaits bool, p port, n int) bool {
	return limitWaits && (c.isOwn() || n > p.TotalVFs)
}

// willWait reports whether the limit waits once the firmware was told its part.
func (c change) willWait() bool {
	return c.waits() || inventory.NeededFor(c.own.Set, c.state.own) != inventory.ActivateNone
}

// judge returns a *RejectedError about a number of virtual functions that the port cannot have now, and will not after an activation.
func (c change) judge() error {
	limit := c.limit()
	if limit == nil {
		return nil
	}
	var problems []error
	for _, p := range c.ports {
		n, set := number(c.counts, p.index)
		if set && n > p.TotalVFs && !c.defers(c.willWait(), p, n) {
			problems = append(problems, fmt.Errorf("%s cannot be %d: %s can have %d virtual functions: its firmware is told how many by %s",
				element(numVFs, p.index), n, p.address, p.TotalVFs, strings.Join(limit.Sets, " and ")))
		}
	}
	if len(problems) > 0 {
		return driver.RejectSettingsf("%w", errors.Join(problems...))
	}
	return nil
}

// number is the value that a function gets.
func number(values map[int]string, index int) (n int, set bool) {
	value, set := values[index]
	if parsed := inventory.ParseNumber(value); set && parsed != nil { // as is known, for the values were checked
		n = int(parsed.Int64())
	}
	return n, set
}

// CheckConfiguration has the adapter's driver judge its part, and looks at what uses virtual functions that would be removed.
func (a adapter) CheckConfiguration(ctx context.Context, id inventory.Identity, c driver.Configuration) error {
	todo, err := a.resolve(ctx, id, c)
	if err != nil {
		return fmt.Errorf("check settings of adapter %s: %w", id.UniqueID, err)
	}
	if todo.isOwn() {
		if err := a.own.CheckConfiguration(ctx, id, todo.own); err != nil {
			return err
		}
	}
	var used []error
	drains := true
	for _, p := range todo.ports {
		n, set := number(todo.counts, p.index)
		if !set || n == p.NumVFs || p.NumVFs == 0 || todo.defers(todo.willWait(), p, n) {
			continue
		}
		users, movable, err := uses(a.driver.host, p.address)
		if err != nil {
			return fmt.Errorf("check settings of adapter %s: %w", id.UniqueID, err)
		}
		if users != "" {
			used, drains = append(used, inUse(p.address, p.NumVFs, users)), drains && movable
		}
	}
	if len(used) > 0 {
		return fmt.Errorf("check settings of adapter %s: %w", id.UniqueID,
			&driver.RejectedError{Of: "settings", Reason: strings.ReplaceAll(errors.Join(used...).Error(), "\n", "; "), InUse: drains})
	}
	return nil
}

// Configure has the adapter's driver store its part, and the kernel set up the ports. Where a limit is not in force yet, the number of virtual
// functions is left until then.
func (a adapter) Configure(ctx context.Context, id inventory.Identity, c driver.Configuration) (inventory.Activation, error) {
	todo, err := a.resolve(ctx, id, c)
	if err != nil {
		return 0, fmt.Errorf("set settings of adapter %s: %w", id.UniqueID, err)
	}
	needs := inventory.ActivateNone
	now := todo.state
	if todo.isOwn() {
		if needs, err = a.own.Configure(ctx, id, todo.own); err != nil {
			return 0, err
		}
		if len(todo.counts) > 0 && todo.limit() != nil {
			if now.own, err = a.own.Parameters(ctx, id, inventory.SettingNumVFs); err != nil {
				return 0, err
			}
		}
	}
	for _, r := range todo.requesters {
		if size, set := number(todo.sizes, r.index); set && size != r.Bytes {
			if err := a.driver.set(ctx, id, r.address, readRequest, strconv.Itoa(size)); err != nil {
				return 0, fmt.Errorf("set settings of adapter %s: %w", id.UniqueID, err)
			}
		}
	}
	for _, p := range todo.ports {
		if on, set := number(todo.probes, p.index); set && p.Autoprobe != nil && on != *p.Autoprobe {
			if err := a.driver.set(ctx, id, p.address, autoprobe, strconv.Itoa(on)); err != nil {
				return 0, fmt.Errorf("set settings of adapter %s: %w", id.UniqueID, err)
			}
		}
		n, set := number(todo.counts, p.index)
		switch {
		case !set || n == p.NumVFs:
		case todo.defers(now.waits(), p, n):
			needs = max(needs, now.limit().Needs)
		default:
			if err := a.driver.set(ctx, id, p.address, numVFs, strconv.Itoa(n)); err != nil {
				return 0, fmt.Errorf("set settings of adapter %s: %w", id.UniqueID, err)
			}
		}
	}
	return needs, nil
}
