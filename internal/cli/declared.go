package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/desired"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Declared holds what devices have of the settings that are declared for them, by unique id.
type Declared map[string]declared

// declared is what is declared for one device, and what it has.
type declared struct {
	rules  []*match.Rule
	paused bool
	all    []inventory.Parameter
	err    error
}

// PlannedSetting is one setting that is not in force.
type PlannedSetting struct {
	Name string `json:"name"`
	// Current is what the device has; absent where that is not known, or where only other firmware knows the parameter.
	Current *string `json:"current,omitempty"`
	To      string  `json:"to"`
	// Activation is what it costs to bring it into force; absent where only other firmware knows the parameter.
	Activation string `json:"activation,omitempty"`
}

// ReadDeclared reads the settings of the devices for which the documents declare any, on this machine as a Node with these labels. It reads
// nothing of the others.
func ReadDeclared(ctx context.Context, found host.Inventory, docs Documents, labels map[string]string, drivers driver.Set) (Declared, error) {
	templates, err := docs.configurations(found, labels)
	if err != nil {
		return nil, err
	}
	out := Declared{}
	for _, d := range found.Devices {
		var is declared
		for _, t := range templates {
			matched := t.Match(match.DeviceFrom(d.Identity))
			is.rules = append(is.rules, matched...)
			is.paused = is.paused || t.Paused && len(matched) > 0
		}
		switch {
		case len(is.rules) == 0:
			continue
		case len(is.rules) == 1 && !is.paused:
			is.all, is.err = parametersOf(ctx, d, drivers)
		}
		out[d.UniqueID] = is
	}
	return out, nil
}

// configurations are the templates of settings for this machine.
func (d Documents) configurations(found host.Inventory, labels map[string]string) ([]*match.Template, error) {
	var templates []*match.Template
	machine := machineOf(found)
	for i := range d.Configurations {
		t, err := match.NewConfigurationTemplate(&d.Configurations[i])
		if err != nil {
			return nil, fmt.Errorf("ConfigurationTemplate %s: %w", d.Configurations[i].Name, err)
		}
		if t.ChoosesLabels(labels) && t.ChoosesMachine(machine.Manufacturer, machine.Model) {
			templates = append(templates, t)
		}
	}
	return templates, nil
}

// plan says what becomes of the settings of a device, and reports whether they are due. FirmwareComing says that it is flashed before.
func (d declared) plan(out *PlannedDevice, firmwareComing bool) (decided plan.ConfigurationDecision, due bool) {
	switch {
	case len(d.rules) == 0:
		return decided, false
	case len(d.rules) > 1:
		out.SettingsReason = "several rules match, so nothing is changed: " + parties(d.rules)
		return decided, false
	}
	r := d.rules[0]
	out.SettingsRule = r.Name + "/" + r.Rule
	switch {
	case d.paused:
		out.SettingsReason = "the template is paused"
		return decided, false
	case d.err != nil:
		out.SettingsReason = strings.Join(strings.Fields(strings.TrimSuffix(d.err.Error(), ": "+driver.ErrNotSupported.Error())), " ")
		return decided, false
	}
	want := *desired.Configuration(*r.Configuration)
	decided = plan.DecideConfiguration(want, d.all, firmwareComing)
	for _, c := range decided.Changes {
		out.Settings = append(out.Settings, PlannedSetting{Name: c.Name, Current: known(c.Had), To: c.Value, Activation: c.Needs.String()})
	}
	for _, s := range want.Set {
		if slices.Contains(decided.Later, s.Name) {
			out.Settings = append(out.Settings, PlannedSetting{Name: s.Name, To: s.Value})
		}
	}
	switch {
	case decided.Refusal != "":
		out.SettingsReason = decided.Refusal
		return decided, false
	case len(out.Settings) == 0 && (!firmwareComing || r.Policy == v1alpha1.PolicyValidate): // else the flash may reset them
		out.SettingsReason = "in force already"
		return decided, false
	case r.Policy == v1alpha1.PolicyValidate:
		out.SettingsReason = "the policy is Validate, so a difference is only reported"
		return decided, false
	}
	return decided, true
}

// settingTable lists what becomes of settings, if any are declared.
func (p Plan) settingTable(w io.Writer) error {
	var rows [][]string
	for _, d := range p.Devices {
		name := strings.Join(d.Names, ",")
		for _, s := range d.Settings {
			had := "unknown"
			if s.Current != nil {
				had = *s.Current
			}
			reason := d.SettingsReason
			if s.Activation == "" && reason == "" {
				reason = "once the new firmware runs"
			}
			rows = append(rows, []string{name, s.Name, had, s.To, s.Activation, d.SettingsRule, reason})
		}
		if len(d.Settings) == 0 && d.SettingsReason != "" {
			rows = append(rows, []string{name, "", "", "", "", d.SettingsRule, d.SettingsReason})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	_, err := io.WriteString(w, "\n")
	return errors.Join(err, columns(w, []string{"DEVICE", "SETTING", "CURRENT", "DESIRED", "COST", "RULE", "REASON"}, rows))
}
