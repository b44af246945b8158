package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

const (
	nothingMessage  = "name settings or parameters, or set unlisted to Reset"
	tooLargeMessage = "names and values of the parameters of one device are at most 16384 characters together"
)

// TestConfigurationTemplateValidation: what is wrong with settings for every device is refused when they are written; what only the device
// knows, such as the range of a value, is refused when it was asked.
func TestConfigurationTemplateValidation(t *testing.T) {
	type change = validation[*v1alpha1.ConfigurationTemplate]
	rule := func(change func(*v1alpha1.ConfigurationRule)) func(*v1alpha1.ConfigurationTemplate) {
		return func(o *v1alpha1.ConfigurationTemplate) { change(&o.Spec.Rules[0]) }
	}
	cases := []change{
		{name: "a plain template", change: func(*v1alpha1.ConfigurationTemplate) {}},
		{name: "no rules", change: func(o *v1alpha1.ConfigurationTemplate) { o.Spec.Rules = nil }, field: "spec", message: "Required"},
		{name: "64 rules, full of parameters", change: func(o *v1alpha1.ConfigurationTemplate) {
			o.Spec.Rules[0].Parameters = parameters(128, 112)
			repeatConfigurationRules(o, 64)
		}},
		{name: "65 rules", change: func(o *v1alpha1.ConfigurationTemplate) { repeatConfigurationRules(o, 65) },
			field: "spec.rules", message: "at most 64 items"},
		{name: "two rules of one name", change: func(o *v1alpha1.ConfigurationTemplate) { o.Spec.Rules = append(o.Spec.Rules, o.Spec.Rules[0]) },
			field: "spec.rules[1]", message: "Duplicate value"},
		{name: "a rule without a name", change: rule(func(r *v1alpha1.ConfigurationRule) { r.Name = "" }),
			field: "spec.rules[0].name", message: "Required"},
		{name: "a rule's name that is no label", change: rule(func(r *v1alpha1.ConfigurationRule) { r.Name = "CX6" }),
			field: "spec.rules[0].name", message: "should match"},
		{name: "a rule without a selector", change: rule(func(r *v1alpha1.ConfigurationRule) { r.Selector = v1alpha1.DeviceSelector{} }),
			field: "spec.rules[0].selector", message: "Required"},
		{name: "a class alone", change: rule(func(r *v1alpha1.ConfigurationRule) { r.Selector = v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC} }),
			field: "spec.rules[0].selector", message: "name a vendor, models, boardIDs, serialNumbers or pciAddresses; for the devices of every vendor, set vendor to any"},
		{name: "the BIOS of any machine", change: rule(func(r *v1alpha1.ConfigurationRule) { r.Selector = v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS} }),
			field: "spec.rules", message: "a rule of class BIOS must name a vendor, models, boardIDs or serialNumbers unless spec.machine names the machine; for the BIOS of every machine, set its vendor to any"},
		{name: "the BIOS of every machine on purpose", change: rule(func(r *v1alpha1.ConfigurationRule) {
			r.Selector = v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS, Vendor: v1alpha1.AnyVendor}
		})},
		{name: "the BIOS of one machine model", change: func(o *v1alpha1.ConfigurationTemplate) {
			o.Spec.Machine = &v1alpha1.MachineSelector{Model: "7X21"}
			o.Spec.Rules[0].Selector = v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS}
		}},
		{name: "a machine by nothing", change: func(o *v1alpha1.ConfigurationTemplate) { o.Spec.Machine = &v1alpha1.MachineSelector{} },
			field: "spec.machine", message: "name a vendor, a model, or both"},
		{name: "a paused template", change: func(o *v1alpha1.ConfigurationTemplate) { o.Spec.State = v1alpha1.TemplatePaused }},
		{name: "an unknown state", change: func(o *v1alpha1.ConfigurationTemplate) { o.Spec.State = "Off" },
			field: "spec.state", message: `supported values: "Active", "Paused"`},
		{name: "a priority too high", change: func(o *v1alpha1.ConfigurationTemplate) { o.Spec.Priority = 1001 },
			field: "spec.priority", message: "less than or equal to 1000"},
		{name: "only reported", change: rule(func(r *v1alpha1.ConfigurationRule) { r.Policy = v1alpha1.PolicyValidate })},
		{name: "an unknown policy", change: rule(func(r *v1alpha1.ConfigurationRule) { r.Policy = "Force" }),
			field: "spec.rules[0].policy", message: `supported values: "Apply", "Validate"`},
		{name: "an unknown policy for what is not named", change: rule(func(r *v1alpha1.ConfigurationRule) { r.Unlisted = "Delete" }),
			field: "spec.rules[0].unlisted", message: `supported values: "Keep", "Reset"`},
	}
	for _, c := range configurationCases() {
		cases = append(cases, change{name: c.name, message: c.message, field: join("spec.rules[0]", c.field, c.message),
			change: rule(func(r *v1alpha1.ConfigurationRule) { c.change(&r.DesiredConfiguration) })})
	}
	for _, c := range selectorCases() {
		cases = append(cases, change{name: c.name, field: c.field, message: c.message,
			change: func(o *v1alpha1.ConfigurationTemplate) { o.Spec.NodeSelector = c.selector }})
	}
	checkCreate(t, validConfiguration, cases)
}

// TestDeviceConfigurationValidation: what is assigned to a device has the bounds of a rule.
func TestDeviceConfigurationValidation(t *testing.T) {
	type change = validation[*v1alpha1.NodeDevice]
	cases := []change{
		{name: "settings beside firmware", change: func(*v1alpha1.NodeDevice) {}},
		{name: "settings alone", change: func(o *v1alpha1.NodeDevice) { o.Spec.Firmware, o.Spec.Origin = nil, o.Spec.Origin[2:] }},
		{name: "settings of unknown origin", change: func(o *v1alpha1.NodeDevice) { o.Spec.Firmware, o.Spec.Origin = nil, nil },
			field: "spec.origin", message: "firmware or configuration must be set together with origin"},
		{name: "an origin of nothing", change: func(o *v1alpha1.NodeDevice) { o.Spec.Firmware, o.Spec.Configuration = nil, nil },
			field: "spec.origin", message: "firmware or configuration must be set together with origin"},
	}
	for _, c := range configurationCases() {
		cases = append(cases, change{name: c.name, message: c.message, field: join("spec.configuration", c.field, c.message),
			change: func(o *v1alpha1.NodeDevice) { c.change(o.Spec.Configuration) }})
	}
	checkCreate(t, configuredDevice, cases)
}

// TestDeviceConfigurationStatus: what a daemon reports of the settings of a device is bounded.
func TestDeviceConfigurationStatus(t *testing.T) {
	type change = validation[*v1alpha1.NodeDevice]
	parameter := func(change func(*v1alpha1.ObservedParameter)) func(*v1alpha1.NodeDevice) {
		return func(o *v1alpha1.NodeDevice) { change(&o.Status.Parameters[0]) }
	}
	repeat := func(n int) func(*v1alpha1.NodeDevice) {
		return func(o *v1alpha1.NodeDevice) {
			for i := len(o.Status.Parameters); i < n; i++ {
				o.Status.Parameters = append(o.Status.Parameters, v1alpha1.ObservedParameter{Name: fmt.Sprintf("P%d", i)})
			}
		}
	}
	checkStatus(t, configuredDevice(), func(o *v1alpha1.NodeDevice) {
		o.Status.Configuration = &v1alpha1.ObservedConfiguration{Digest: o.Spec.Configuration.Digest(), State: v1alpha1.ConfigurationOutOfDate, Activation: v1alpha1.ActivationReboot}
		o.Status.Parameters = []v1alpha1.ObservedParameter{{Name: "numVFs", Current: new("0"), Next: new("8")}}
	}, []change{
		{name: "settings that a reboot brings into force", change: func(*v1alpha1.NodeDevice) {}},
		{name: "no digest", change: func(o *v1alpha1.NodeDevice) { o.Status.Configuration.Digest = "" }, field: "status.configuration.digest", message: "Required"},
		{name: "no state", change: func(o *v1alpha1.NodeDevice) { o.Status.Configuration.State = "" }, field: "status.configuration.state", message: "Required"},
		{name: "an unknown state", change: func(o *v1alpha1.NodeDevice) { o.Status.Configuration.State = "Drifted" },
			field: "status.configuration.state", message: `supported values: "UpToDate", "OutOfDate", "Invalid"`},
		{name: "an unknown activation", change: func(o *v1alpha1.NodeDevice) { o.Status.Configuration.Activation = "Hope" },
			field: "status.configuration.activation", message: "Unsupported value"},
		{name: "a value that the device does not report", change: parameter(func(p *v1alpha1.ObservedParameter) { p.Current = nil })},
		{name: "an empty value", change: parameter(func(p *v1alpha1.ObservedParameter) { p.Current = new("") })},
		{name: "a value too long", change: parameter(func(p *v1alpha1.ObservedParameter) { p.Next = new(strings.Repeat("x", 513)) }),
			field: "status.parameters[0].next", message: "may not be more than 512"},
		{name: "160 parameters", change: repeat(160)},
		{name: "161 parameters", change: repeat(161), field: "status.parameters", message: "at most 160 items"},
	})
}

// TestTaskConfigurationValidation: a job updates firmware, changes settings, or does both.
func TestTaskConfigurationValidation(t *testing.T) {
	const message = "each device of a job of type Update has a uniqueID, and a version with its digest, a configuration, or all of them"
	type change = validation[*v1alpha1.FirmwareJob]
	device := func(change func(*v1alpha1.TaskDevice)) func(*v1alpha1.FirmwareJob) {
		return func(o *v1alpha1.FirmwareJob) {
			o.Spec.Task.Devices[0].Configuration = digest
			change(&o.Spec.Task.Devices[0])
		}
	}
	checkCreate(t, validJob, []change{
		{name: "firmware and settings", change: device(func(*v1alpha1.TaskDevice) {})},
		{name: "settings alone", change: device(func(d *v1alpha1.TaskDevice) { d.Version, d.Digest = "", "" })},
		{name: "settings and a version without its digest", change: device(func(d *v1alpha1.TaskDevice) { d.Digest = "" }),
			field: "spec.task.devices", message: message},
		{name: "settings and a digest without its version", change: device(func(d *v1alpha1.TaskDevice) { d.Version = "" }),
			field: "spec.task.devices", message: message},
		{name: "neither", change: device(func(d *v1alpha1.TaskDevice) { d.Version, d.Digest, d.Configuration = "", "", "" }),
			field: "spec.task.devices", message: message},
		{name: "settings of a device without its identity", change: device(func(d *v1alpha1.TaskDevice) { d.UniqueID = "" }),
			field: "spec.task.devices", message: message},
		{name: "settings that are no digest", change: device(func(d *v1alpha1.TaskDevice) { d.Configuration = "numVFs=8" }),
			field: "spec.task.devices[0].configuration", message: "should match"},
		{name: "settings out of the archive", change: byPerson(v1alpha1.JobTypeRestore, v1alpha1.TaskDevice{Name: "nic", Configuration: digest}),
			field: "spec.task.devices", message: "only a job of type Update has a model, an origin, a fromVersion, a rollbackDigest, a rollbackSource or a configuration"},
	})
}

// configurationCase is one side of a rule about what a device is told to be. Field is below that, and empty for the whole.
type configurationCase struct {
	name           string
	change         func(*v1alpha1.DesiredConfiguration)
	field, message string
}

// configurationCases are for each kind that holds what a device is told to be.
func configurationCases() []configurationCase {
	numVFs := func(n int32) func(*v1alpha1.DesiredConfiguration) {
		return func(c *v1alpha1.DesiredConfiguration) { c.Settings.NumVFs = &n }
	}
	readRequest := func(n int32) func(*v1alpha1.DesiredConfiguration) {
		return func(c *v1alpha1.DesiredConfiguration) { c.Settings.MaxReadRequestBytes = &n }
	}
	only := func(p ...v1alpha1.ParameterValue) func(*v1alpha1.DesiredConfiguration) {
		return func(c *v1alpha1.DesiredConfiguration) {
			*c = v1alpha1.DesiredConfiguration{Policy: v1alpha1.PolicyApply, Parameters: p}
		}
	}
	return []configurationCase{
		{"no settings at all", only(), "", nothingMessage},
		{"all others kept, alone", func(c *v1alpha1.DesiredConfiguration) {
			*c = v1alpha1.DesiredConfiguration{Unlisted: v1alpha1.UnlistedKeep}
		}, "", nothingMessage},
		{"all others reset, alone", func(c *v1alpha1.DesiredConfiguration) {
			*c = v1alpha1.DesiredConfiguration{Unlisted: v1alpha1.UnlistedReset}
		}, "", ""},
		{"no virtual functions", numVFs(0), "", ""},
		{"the most virtual functions", numVFs(65535), "", ""},
		{"more virtual functions than there can be", numVFs(65536), "settings.numVFs", "less than or equal to 65535"},
		{"less than no virtual functions", numVFs(-1), "settings.numVFs", "greater than or equal to 0"},
		{"an unknown link type", func(c *v1alpha1.DesiredConfiguration) { c.Settings.LinkType = "Token Ring" },
			"settings.linkType", `supported values: "Ethernet", "InfiniBand"`},
		{"a read request", readRequest(4096), "", ""},
		{"a read request that PCI Express has not", readRequest(1000), "settings.maxReadRequestBytes", "Unsupported value"},
		{"parameters alone", only(v1alpha1.ParameterValue{Name: "PCI_ATOMIC_MODE", Value: "1"}), "", ""},
		{"an empty value", only(v1alpha1.ParameterValue{Name: "AssetTag"}), "", ""},
		{"a parameter without a name", only(v1alpha1.ParameterValue{Value: "1"}), "parameters[0].name", "Required"},
		{"a parameter twice", only(v1alpha1.ParameterValue{Name: "A", Value: "1"}, v1alpha1.ParameterValue{Name: "A", Value: "2"}), "parameters[1]", "Duplicate value"},
		{"a name too long", only(v1alpha1.ParameterValue{Name: strings.Repeat("x", 129)}), "parameters[0].name", "may not be more than 128"},
		{"a value too long", only(v1alpha1.ParameterValue{Name: "A", Value: strings.Repeat("x", 513)}), "parameters[0].value", "may not be more than 512"},
		{"128 parameters", only(parameters(128, 112)...), "", ""},
		{"129 parameters", only(parameters(129, 1)...), "parameters", "at most 128 items"},
		{"parameters of 16 KiB and a byte", only(append(parameters(127, 112), v1alpha1.ParameterValue{Name: strings.Repeat("x", 128), Value: "1"})...), "parameters", tooLargeMessage},
	}
}

// join is the path of a field below another; there is none where nothing is refused.
func join(above, field, message string) string {
	if message == "" {
		return ""
	}
	return strings.TrimSuffix(above+"."+field, ".")
}

// parameters are n of them, each with a name of 16 characters and a value of a length.
func parameters(n, length int) []v1alpha1.ParameterValue {
	var out []v1alpha1.ParameterValue
	for i := range n {
		out = append(out, v1alpha1.ParameterValue{Name: fmt.Sprintf("PARAMETER_%06d", i), Value: strings.Repeat("x", length)})
	}
	return out
}

func validConfiguration() *v1alpha1.ConfigurationTemplate {
	return &v1alpha1.ConfigurationTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "virtual-functions"},
		Spec: v1alpha1.ConfigurationTemplateSpec{Rules: []v1alpha1.ConfigurationRule{{
			Name:                 "cx6dx",
			Selector:             v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"},
			DesiredConfiguration: v1alpha1.DesiredConfiguration{Settings: v1alpha1.Settings{NumVFs: new(int32(8))}},
		}}},
	}
}

func repeatConfigurationRules(o *v1alpha1.ConfigurationTemplate, n int) {
	for i := len(o.Spec.Rules); i < n; i++ {
		rule := o.Spec.Rules[0]
		rule.Name = fmt.Sprintf("rule-%d", i)
		o.Spec.Rules = append(o.Spec.Rules, rule)
	}
}

// configuredDevice is told which firmware to run and which settings to have.
func configuredDevice() *v1alpha1.NodeDevice {
	d := validDevice()
	d.Spec.Configuration = &v1alpha1.DesiredConfiguration{Settings: v1alpha1.Settings{NumVFs: new(int32(8))}}
	d.Spec.Origin = append(d.Spec.Origin, v1alpha1.Origin{Kind: v1alpha1.OriginConfiguration, Name: "virtual-functions", Rule: "cx6dx"})
	return d
}
