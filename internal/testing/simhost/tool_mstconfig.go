package simhost

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The exit codes of mstconfig: every error has the same.
const (
	mstconfigAborted = 2
	mstconfigFailed  = 3
)

var mstconfigOptions = optionTable{
	"d": "device=", "dev": "device=", "e": "all", "enable_verbosity": "all", "y": "yes", "yes": "yes", "v": "version", "version": "version",
}

// setting is a setting of a card: its values as the tool prints them.
type setting struct{ name, standard, current, next string }

// mode are the settings of a BlueField that tell its mode. Cards without processors have none of them.
func (n NIC) mode(now Mode) []setting {
	if n.Mode == "" {
		return nil
	}
	offload := map[Mode]string{DPUMode: "ENABLED(0)", NICMode: "DISABLED(1)"}
	next := n.NextMode
	if next == "" {
		next = now
	}
	return []setting{
		{"INTERNAL_CPU_MODEL", "EMBEDDED_CPU(1)", "EMBEDDED_CPU(1)", "EMBEDDED_CPU(1)"},
		{"INTERNAL_CPU_OFFLOAD_ENGINE", "ENABLED(0)", offload[now], offload[next]},
	}
}

// settings are those of the card, in the order of the tool.
func (n NIC) settings(fw *nicState) []setting {
	out := n.mode(fw.Mode)
	for _, p := range n.nvParameters(fw) {
		out = append(out, p.setting(p.name, fw))
	}
	return out
}

func (p nvParameter) setting(name string, fw *nicState) setting {
	if p.elements > 0 && name == p.name {
		array := fmt.Sprintf("Array[0..%d]", p.elements-1)
		return setting{name, array, array, array}
	}
	v := fw.nv(name, p.standard)
	return setting{name, p.shows(p.standard), p.shows(v.Current), p.shows(v.Next)}
}

var mstconfigElement = regexp.MustCompile(`^(\w+)\[(\d+)\]$`)

// parameter finds a setting, or an element of an array. Why says what the tool says about a name without one.
func (n NIC) parameter(name string, fw *nicState) (p nvParameter, why string) {
	array, index := name, -1
	if m := mstconfigElement.FindStringSubmatch(name); m != nil {
		array = m[1]
		index, _ = strconv.Atoi(m[2])
	}
	all := n.nvParameters(fw)
	i := slices.IndexFunc(all, func(p nvParameter) bool { return p.name == array })
	switch {
	case i < 0:
		return p, fmt.Sprintf("The Device doesn't support %s parameter", name)
	case index >= 0 && index >= all[i].elements:
		return p, fmt.Sprintf("Index %d of the parameter %s is out of range. Maximal index is %d", index, array, all[i].elements-1)
	}
	return all[i], ""
}

// mstconfig 4.21.0: it reads and stores settings.
func mstconfig(c *call) (int, error) {
	o, err := mstconfigOptions.parse(c.argv[1:])
	switch {
	case err != nil:
		return c.misused("invalid argument: %s", strings.Trim(strings.TrimPrefix(err.Error(), "unrecognized option "), "'"))
	case o.has("version"):
		c.printf("mstconfig, mstflint 4.21.0, Git SHA Hash: N/A\n")
		return 0, nil
	case len(o.args) == 0:
		return c.misused("no command found")
	}
	command, args := o.args[0], o.args[1:]
	switch {
	case !slices.Contains([]string{"q", "query", "s", "set", "r", "reset"}, command):
		return c.misused("invalid argument: %s", command)
	case command[0] == 's' && len(args) == 0:
		return c.misused("missing configuration arguments. For more information please run mstconfig -h|--help.")
	case command[0] == 's':
		for _, a := range args {
			if name, value, ok := strings.Cut(a, "="); !ok || name == "" || value == "" {
				return c.misused("Invalid Configuration argument %s", a)
			}
		}
	case command[0] == 'r' && !o.has("device"):
		return c.resetAllConfig(o)
	}
	if !o.has("device") {
		c.printf("-E- this simulation only queries the settings of one device\n")
		return mstconfigFailed, nil
	}
	nic, why, err := c.openNIC(o.values["device"])
	if err != nil {
		return 0, err
	}
	if why != "" {
		c.printf("-E- Failed to open the device\n")
		return mstconfigFailed, nil
	}
	switch {
	case command[0] == 'q':
		return c.run(nic.Key, "query", func() (int, error) { return c.configQuery(nic, o) })
	case command[0] == 'r':
		return c.run(nic.Key, "write", func() (int, error) { return c.configReset(nic, o) })
	case !o.has("yes"):
		return c.run(nic.Key, "query", func() (int, error) { return c.configSet(nic, o) })
	}
	return c.run(nic.Key, "write", func() (int, error) { return c.configSet(nic, o) })
}

// misused prints an error and the help.
func (c *call) misused(format string, args ...any) (int, error) {
	c.printf("-E- "+format+"\n    NAME:\n        mstconfig\n", args...)
	return mstconfigFailed, nil
}

func (c *call) configFailed(why string) (int, error) {
	c.printf("\n-E- %s\n", why)
	return mstconfigFailed, nil
}

func (c *call) configQuery(n NIC, o options) (int, error) {
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	fw := s.NICs[n.Key]
	rows := n.settings(fw)
	if len(o.args) > 1 {
		rows = nil
		for _, name := range o.args[1:] {
			all := n.mode(fw.Mode)
			if i := slices.IndexFunc(all, func(s setting) bool { return s.name == name }); i >= 0 {
				rows = append(rows, all[i])
				continue
			}
			p, why := n.parameter(name, fw)
			if why != "" {
				c.configHead(n, o)
				return c.configFailed(why)
			}
			rows = append(rows, p.setting(name, fw))
		}
	}
	c.configHead(n, o)
	changed := false
	for _, r := range rows {
		mark := " "
		if r.next != r.current || r.next != r.standard {
			mark, changed = "*", true
		}
		c.printf("%s        %-36s", mark, r.name)
		values := []string{r.next}
		if o.has("all") {
			values = []string{r.standard, r.current, r.next}
		}
		for i, v := range values {
			if i > 0 && len(values[i-1]) > 16 {
				c.printf(" ")
			}
			c.printf("%-16s", v)
		}
		c.printf("\n")
	}
	if changed && o.has("all") {
		c.printf("The '*' shows parameters with next value different from default/current value.\n")
	}
	return 0, nil
}

func (c *call) configHead(n NIC, o options) {
	kind := "ConnectX6"
	if n.Mode != "" {
		kind = "BlueField2"
	}
	c.printf("\nDevice #1:\n----------\n\n%-16s%-16s\n%-16s%-16s\n%-16s%s\n%-16s%-16s\n\n", "Device type:", kind, "Name:", n.PartNumber,
		"Description:", n.Model, "Device:", o.values["device"])
	if o.has("all") {
		c.printf("%-16s%36s%16s%18s\n", "Configurations:", "Default", "Current", "Next Boot")
		return
	}
	c.printf("%-16s%38s\n", "Configurations:", "Next Boot")
}

// configSet stores values. What a value must be is judged when it is read, and how large it may be when it is applied.
func (c *call) configSet(n NIC, o options) (int, error) {
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	fw := s.NICs[n.Key]
	values := map[string]nvValue{}
	large := ""
	for _, a := range o.args[1:] {
		name, value, _ := strings.Cut(a, "=")
		p, why := n.parameter(name, fw)
		if why != "" {
			c.configHead(n, o)
			return c.configFailed(why)
		}
		number, ok := p.takes(value)
		if !ok || p.elements > 0 && name == p.name {
			c.configHead(n, o)
			return c.configFailed(fmt.Sprintf("Cannot set the value %s for the parameter %s: Unknown value %s", value, name, value))
		}
		if number > p.most {
			large = fmt.Sprintf("Parameter %s' value is larger than maximum allowed %d", name, p.most)
		}
		values[name] = nvValue{fw.nv(name, p.standard).Current, number}
	}
	c.configHead(n, o)
	if !c.configAsk(o, "Apply new Configuration?") {
		return mstconfigAborted, nil
	}
	c.printf("Applying... ")
	if large != "" {
		c.printf("Failed!\n-E- %s\n", large)
		return mstconfigFailed, c.refused(n.Key, "Write", Image{}, large)
	}
	return c.configStore(n, strings.Join(o.args[1:], " "), func(fw *nicState) { fw.store(values) })
}

// configReset gives all settings of the card their defaults.
func (c *call) configReset(n NIC, o options) (int, error) {
	if !c.configAsk(o, fmt.Sprintf("Reset configuration for device %s?", o.values["device"])) {
		return mstconfigAborted, nil
	}
	c.printf("Applying... ")
	return c.configStore(n, "reset", func(fw *nicState) { fw.store(n.defaults(fw)) })
}

// defaults are the values of a card whose settings are reset.
func (n NIC) defaults(fw *nicState) map[string]nvValue {
	values := map[string]nvValue{}
	for _, p := range n.nvParameters(fw) {
		values[p.name] = nvValue{fw.nv(p.name, p.standard).Current, p.standard}
		for i := range p.elements {
			name := fmt.Sprintf("%s[%d]", p.name, i)
			values[name] = nvValue{fw.nv(name, p.standard).Current, p.standard}
		}
	}
	return values
}

// resetAllConfig is what the tool does without -d: it resets all cards of the machine.
func (c *call) resetAllConfig(o options) (int, error) {
	if !c.configAsk(o, "Reset configuration for all devices?") {
		return mstconfigAborted, nil
	}
	err := c.m.update(func(s *state) error {
		for _, n := range s.Spec.NICs {
			s.NICs[n.Key].store(n.defaults(s.NICs[n.Key]))
			if _, err := c.record(s, Operation{Device: n.Key, Action: "Write", Result: Done, Detail: "reset"}); err != nil {
				return err
			}
		}
		return nil
	})
	c.printf("Applying... Done!\n-I- Please reboot machine to load new configurations.\n")
	return 0, err
}

// configAsk asks as a tool does whose standard input is closed.
func (c *call) configAsk(o options, question string) bool {
	c.printf("\n %s (y/n) [n] : ", question)
	if o.has("yes") {
		c.printf("y\n")
		return true
	}
	c.printf("-E- Aborted by user.\n")
	return false
}

func (c *call) configStore(n NIC, what string, store func(*nicState)) (int, error) {
	err := c.do(job{
		op:     Operation{Device: n.Key, Action: "Write", Detail: what},
		finish: func(s *state) { store(s.NICs[n.Key]) },
	})
	switch {
	case errors.Is(err, errBusy):
		c.printf("Failed!\n-E- Failed to set settings: ICMD interface is busy\n")
		return mstconfigFailed, nil
	case err != nil:
		return 0, err
	case n.ColdSettings:
		c.printf("Done!\n-I- Please power cycle machine to load new configurations.\n")
		return 0, nil
	}
	c.printf("Done!\n-I- Please reboot machine to load new configurations.\n")
	return 0, nil
}

// Setting are the numbers of a setting of a card: the one in force, and the one that it stores for the next reset.
func (m *Machine) Setting(key, name string) (inForce, stored int, err error) {
	s, err := m.view()
	if err != nil {
		return 0, 0, err
	}
	fw := s.NICs[key]
	if fw == nil {
		return 0, 0, fmt.Errorf("read setting of %s: it is no network adapter", key)
	}
	p, why := s.nic(key).parameter(name, fw)
	if why != "" {
		return 0, 0, fmt.Errorf("read setting of %s: %s", key, why)
	}
	v := fw.nv(name, p.standard)
	return v.Current, v.Next, nil
}
