package simhost

import (
	"fmt"
	"slices"
	"strings"
)

// mstconfigFailed is the exit code of every error of mstconfig.
const mstconfigFailed = 3

var mstconfigOptions = optionTable{
	"d": "device=", "dev": "device=", "e": "all", "enable_verbosity": "all", "v": "version", "version": "version",
}

// setting is a setting of a card: its values as the tool prints them.
type setting struct{ name, standard, current, next string }

// settings are those of a card that tell its mode. Cards without processors have none of them.
func (n NIC) settings(now Mode) []setting {
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

// mstconfig 4.21.0: it reads settings, and changes none.
func mstconfig(c *call) (int, error) {
	o, err := mstconfigOptions.parse(c.argv[1:])
	switch {
	case err != nil:
		c.printf("-E- invalid argument: %s\n    NAME:\n        mstconfig\n", strings.Trim(strings.TrimPrefix(err.Error(), "unrecognized option "), "'"))
		return mstconfigFailed, nil
	case o.has("version"):
		c.printf("mstconfig, mstflint 4.21.0, Git SHA Hash: N/A\n")
		return 0, nil
	case len(o.args) == 0 || o.args[0] != "q" && o.args[0] != "query" || !o.has("device"):
		c.printf("-E- this simulation only queries the settings of a device\n")
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
	return c.run(nic.Key, "query", func() (int, error) { return c.configQuery(nic, o) })
}

func (c *call) configQuery(n NIC, o options) (int, error) {
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	var rows strings.Builder
	changed := false
	for _, name := range o.args[1:] {
		all := n.settings(s.NICs[n.Key].Mode)
		i := slices.IndexFunc(all, func(s setting) bool { return s.name == name })
		if i < 0 {
			c.printf("\n-E- The Device doesn't support %s parameter\n", name)
			return mstconfigFailed, nil
		}
		mark := " "
		if all[i].next != all[i].current || all[i].next != all[i].standard {
			mark, changed = "*", true
		}
		fmt.Fprintf(&rows, "%s       %-43s %-20s %-20s %-20s\n", mark, name, all[i].standard, all[i].current, all[i].next)
	}
	c.printf("\nDevice #1:\n----------\n\n%-20s%-20s\n%-20s%-20s\n%-20s%s\n%-20s%-20s\n\n", "Device type:", "BlueField2", "Name:", n.PartNumber,
		"Description:", n.Model, "Device:", o.values["device"])
	c.printf("%-52s%-20s %-20s %-20s\n%s", "Configurations:", "Default", "Current", "Next Boot", rows.String())
	if changed {
		c.printf("The '*' shows parameters with next value different from default/current value.\n")
	}
	return 0, nil
}
