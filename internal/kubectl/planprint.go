package kubectl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nodefirmware/node-firmware-operator/internal/forecast"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

func (p *Plan) text(at page) error {
	if err := at.line("%s", wrapped(p.Summary.headline(), cmp.Or(at.width, 80))); err != nil {
		return err
	}
	changes := p.groups
	if p.perDevice || at.wide {
		changes = p.each
	}
	if err := changes(at); err != nil {
		return err
	}
	var rows [][]string
	for _, s := range p.Stays {
		row := []string{s.Reason, strconv.Itoa(s.Devices), s.First}
		if at.wide {
			row = append(row, s.Message)
		}
		rows = append(rows, row)
	}
	header := []string{"STAYS AS IT IS", "DEVICES", "FIRST"}
	if at.wide {
		header = append(header, "WHY")
	}
	return section(at, header, rows, 2)
}

// wrapped breaks a text into lines of that many characters.
func wrapped(s string, width int) string {
	var out strings.Builder
	line := 0
	for _, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		switch {
		case line == 0:
		case line+1+n > width:
			out.WriteByte('\n')
			line = 0
		default:
			out.WriteByte(' ')
			line++
		}
		out.WriteString(word)
		line += n
	}
	return out.String()
}

// headline is the answer in a sentence or two.
func (s PlanSummary) headline() string {
	if !s.Changes() {
		return "Nothing would change: every node stays in service."
	}
	be := func(n int) string { return text.Quantity(n, "node would be", "nodes would be") }
	var nodes, what []string
	switch {
	case s.Reboots > 0 && s.Reboots == s.RebootsOnce:
		nodes = append(nodes, be(s.Reboots)+" rebooted once")
	case s.Reboots > 0:
		nodes = append(nodes, fmt.Sprintf("%s rebooted (%d once, %d more often)", be(s.Reboots), s.RebootsOnce, s.Reboots-s.RebootsOnce))
	default:
		nodes = append(nodes, "no node would surely be rebooted")
	}
	if s.MayReboot > 0 {
		nodes = append(nodes, fmt.Sprintf("%d may be", s.MayReboot))
	} else if s.Reboots == 0 {
		nodes[0] = "No node would be rebooted"
	}
	if s.Drained > 0 {
		nodes = append(nodes, fmt.Sprintf("%d drained without a reboot", s.Drained))
	}
	stay := "stay"
	if s.InService == 1 {
		stay = "stays"
	}
	nodes = append(nodes, fmt.Sprintf("%d %s in service", s.InService, stay))
	if s.Firmware > 0 {
		what = append(what, text.Quantity(s.Firmware, "device gets firmware", "devices get firmware"))
	}
	if s.Settings > 0 {
		what = append(what, text.Quantity(s.Settings, "device gets settings", "devices get settings"))
	}
	if s.Waiting > 0 {
		what = append(what, text.Quantity(s.Waiting, "device waits for a person", "devices wait for a person"))
	}
	out := strings.ToUpper(nodes[0][:1]) + nodes[0][1:]
	out = strings.Join(append([]string{out}, nodes[1:]...), ", ")
	if len(what) > 0 {
		out += "; " + strings.Join(what, ", ")
	}
	if s.Took != "" {
		out += "; about " + s.Took
		if s.Waves > 1 {
			out += fmt.Sprintf(" in %d waves", s.Waves)
		}
	}
	if s.NextWindow != nil {
		out += ", next window " + s.NextWindow.Local().Format("Mon 2006-01-02 15:04")
	}
	out += "."
	if s.Assigned > 0 {
		out += " " + text.Quantity(s.Assigned, "device is", "devices are") + " to change already, as the cluster is."
	}
	if s.Assumed > 0 {
		out += " How long is a guess for " + text.Quantity(s.Assumed, "job", "jobs") + " without history."
	}
	if s.Rough != "" {
		out += " It is rough: " + s.Rough + "."
	}
	return out
}

// change is what becomes of a device, in short.
func (d *PlanDevice) change() string {
	var out []string
	if len(d.Path) > 1 {
		path := slices.Clone(d.Path)
		path[0] = cmp.Or(path[0], "unknown")
		out = append(out, strings.Join(path, " -> "))
	}
	for _, s := range d.Settings {
		out = append(out, fmt.Sprintf("%s %s -> %s", s.Name, cmp.Or(s.From, "?"), s.To))
	}
	if len(out) == 0 {
		return "is judged again"
	}
	return strings.Join(out, ", ")
}

// starts is when a device gets its turn, or why it does not.
func (d *PlanDevice) starts(now time.Time) string {
	switch {
	case d.Starts == nil:
		return cmp.Or(d.Reason, "waits")
	case !d.Starts.After(now):
		return "now"
	}
	return d.Starts.Local().Format("01-02 15:04")
}

// group are devices of one model with one change.
type group struct {
	devices      int
	nodes, waves map[string]bool
	// first of them that gets its turn.
	first *PlanDevice
}

// groups are the changes of each model: how many devices on how many nodes.
func (p *Plan) groups(at page) error {
	all := map[string]map[string]*group{}
	for i := range p.Devices {
		d := &p.Devices[i]
		if all[d.Model] == nil {
			all[d.Model] = map[string]*group{}
		}
		key := strings.Join([]string{d.change(), d.Activation}, "\n")
		if d.Starts == nil {
			key += "\n" + d.Reason
		}
		g := all[d.Model][key]
		if g == nil {
			g = &group{nodes: map[string]bool{}, waves: map[string]bool{}, first: d}
			all[d.Model][key] = g
		}
		g.devices++
		g.nodes[d.Node] = true
		if d.Wave != "" {
			g.waves[d.Wave] = true
		}
		if d.Starts != nil && d.Starts.Before(g.first.Starts) {
			g.first = d
		}
	}
	at.width = cmp.Or(at.width, 80)
	for _, model := range slices.Sorted(maps.Keys(all)) {
		var rows [][]string
		for _, key := range slices.Sorted(maps.Keys(all[model])) {
			g := all[model][key]
			rows = append(rows, []string{g.first.change(), fmt.Sprintf("%d on %d", g.devices, len(g.nodes)), needs(g.first.Activation),
				strings.Join(slices.Sorted(maps.Keys(g.waves)), ","), g.first.starts(p.now)})
		}
		if err := at.line("\n%s", cmp.Or(model, "unknown model")); err != nil {
			return err
		}
		if err := at.table([]string{"CHANGE", "DEVICES", "NEEDS", "WAVES", "FROM"}, rows, 0, 3); err != nil {
			return err
		}
	}
	return nil
}

// needs says what activates a change, in a word.
func needs(activation string) string {
	switch activation {
	case "DeviceReset":
		return "reset"
	case "DriverReload":
		return "reload"
	case "Reboot":
		return "reboot"
	case "PowerCycle":
		return "cold power"
	case "None":
		return "none"
	}
	return strings.ToLower(activation)
}

func (p *Plan) each(at page) error {
	impact := map[string]forecast.Impact{}
	for _, n := range p.Nodes {
		impact[n.Name] = n.Impact
	}
	header := []string{"NODE", "DEVICE", "CHANGE", "NEEDS", "WAVE", "FROM", "TAKES"}
	if at.wide {
		header = append(header, "NODE IS", "MODEL", "POLICY", "BY", "SAYS")
	}
	var rows [][]string
	for i := range p.Devices {
		d := &p.Devices[i]
		row := []string{d.Node, strings.TrimPrefix(d.Name, d.Node+"-"), d.change(), needs(d.Activation), d.Wave, d.starts(p.now), d.Took}
		if at.wide {
			row[1] = d.Name
			row = append(row, string(impact[d.Node]), d.Model, d.Policy, d.By, d.Message)
		}
		rows = append(rows, row)
	}
	return section(at, header, rows, 0, 1, 2)
}

// length is a duration for people: two units of it.
func length(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return strconv.Itoa(int(d/day)) + "d"
	case d >= 10*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d >= time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d >= time.Minute:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return d.Round(time.Second).String()
}
