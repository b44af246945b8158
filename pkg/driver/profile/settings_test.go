package profile_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/profile"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

var onOff = []string{"Enabled", "Disabled"}

// machine is system firmware with the profile of its vendor.
type machine struct {
	profile string
	dmi     string
	bios    bios
	suite   drivertest.Settings
}

func machines() map[string]machine {
	of := func(name, value string, values ...string) choice {
		return choice{Name: name, Current: value, Next: value, Default: value, Values: values}
	}
	fixed := func(name, value string) choice {
		c := of(name, value)
		c.Fixed = true
		return c
	}
	set := func(name, value string) inventory.Setting { return inventory.Setting{Name: name, Value: value} }
	return map[string]machine{
		"racadm": {
			profile: "dell-bios", dmi: "dmidecode-3.5-dell.txt",
			bios: bios{Settings: []choice{
				of("ProcSettings.LogicalProc", "Enabled", onOff...), of("SysProfileSettings.SysProfile", "PerfPerWattOptimizedDapc"),
				of("MiscSettings.AssetTag", ""), fixed("ProcSettings.Proc1Brand", "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz"),
				of("BiosBootSettings.BootSeq", "HardDisk.List.1-1, NIC.Integrated.1-1-1"),
			}},
			suite: drivertest.Settings{
				Set: []inventory.Setting{
					set("MiscSettings.AssetTag", "rack 7 (left)"), set("ProcSettings.LogicalProc", "Disabled"), set("SysProfileSettings.SysProfile", "Custom"),
				},
				ReadOnly: "ProcSettings.Proc1Brand",
			},
		},
		"OneCLI": {
			profile: "lenovo-bios", dmi: "dmidecode-3.5-lenovo.txt",
			bios: bios{Settings: []choice{
				of("OperatingModes.ChooseOperatingMode", "Maximum Efficiency"), of("Processors.HyperThreading", "Enable"), of("IMM.HostName1", "xcc-7"),
			}},
			suite: drivertest.Settings{Set: []inventory.Setting{
				set("OperatingModes.ChooseOperatingMode", "Custom Mode"), set("Processors.HyperThreading", "Disable"),
			}},
		},
		"ilorest": {
			profile: "hpe-bios", dmi: "dmidecode-3.5-hpe.txt",
			bios:  bios{Settings: []choice{of("AdminName", ""), of("ProcHyperthreading", "Enabled", onOff...), of("Sriov", "Enabled", onOff...)}},
			suite: drivertest.Settings{Set: []inventory.Setting{set("AdminName", "John D'euf, -42"), set("ProcHyperthreading", "Disabled")}},
		},
		"SUM": {
			profile: "supermicro-bios", dmi: "dmidecode-3.5-supermicro.txt",
			bios: bios{Settings: []choice{
				of("Advanced|Hyper-Threading [ALL]", "Enable", "Enable", "Disable"), of("Advanced|Wait For \"F1\" & Beep", "On", "On", "Yes, <always>"),
				of("Advanced|Fan Floor", "20"), of("Boot|Boot Option #1|1", "Disabled", "Disabled", "Network:IBA"),
				of("Boot|Boot Option #1|2", "Disabled", "Disabled", "Network:IBA"),
			}},
			suite: drivertest.Settings{
				Set: []inventory.Setting{
					set("Advanced|Fan Floor", "35"), set("Advanced|Wait For \"F1\" & Beep", "Yes, <always>"), set("Boot|Boot Option #1|2", "Network:IBA"),
				},
				Misfits: []inventory.Setting{set("Advanced|Hyper-Threading [ALL]", "Maybe")},
			},
		},
	}
}

// TestSettingsOfTheExamplesConform (R003-40) runs the suite of all drivers with settings for the shipped profiles of system firmware. The tools print in the
// layout that each profile names the source of.
func TestSettingsOfTheExamplesConform(t *testing.T) {
	for name, m := range machines() {
		t.Run(name, func(t *testing.T) {
			drivertest.RunSettings(t, func(t *testing.T) drivertest.Harness {
				t.Parallel()
				h, _ := m.harness(t)
				return h
			})
		})
	}
}

func (m machine) id() inventory.Identity {
	return inventory.Identity{Class: inventory.BIOS, UniqueID: "4c4c4544-0044-3510-8052-b4c04f4a4e32"}
}

func (m machine) harness(t *testing.T) (h drivertest.Harness, dir string) {
	t.Helper()
	dir = t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	for tool := range biosTools {
		require.NoError(t, os.Symlink(self, filepath.Join(dir, tool)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "dmi"), []byte(golden(t, m.dmi)), 0o600))
	require.NoError(t, m.bios.save(dir))
	runner, err := command.NewExecRunner(command.Config{Path: []string{dir}, StateDir: t.TempDir()})
	require.NoError(t, err)
	fault := func(name, text string) func(*testing.T) {
		return func(t *testing.T) { require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	}
	settings := m.suite
	settings.Stored = func(t *testing.T, name string) string {
		b, err := loadBIOS(dir)
		require.NoError(t, err)
		return b.find(name).Next
	}
	return drivertest.Harness{
		Driver: profile.New(runner, loadExamples(t)[m.profile]), ID: m.id(), Settings: &settings,
		Reboot: func(t *testing.T) {
			b, err := loadBIOS(dir)
			require.NoError(t, err)
			for i := range b.Settings {
				if b.Committed || m.profile != "dell-bios" {
					b.Settings[i].Current = b.Settings[i].Next
				}
			}
			b.Committed = false
			require.NoError(t, b.save(dir))
		},
		Garbage: fault("garbage", ""), Unreadable: fault("gone", ""), LieWrite: fault("lie", ""),
		FailWrite: func(t *testing.T, stderr string) { fault("fail", stderr)(t) },
		HangWrite: func(t *testing.T) (func() bool, func()) {
			fault("hang", "")(t)
			started := func() bool {
				_, hangs := faulty(dir, "hangs")
				return hangs
			}
			return started, func() { assert.NoError(t, os.Remove(filepath.Join(dir, "hang"))) }
		},
		WriteRunning: func(t *testing.T, lock string) bool {
			running, err := runner.WriteRunning(lock)
			require.NoError(t, err)
			return running
		},
	}, dir
}

// What a tool says is read as it is: what waits beside what is in force, values with blanks, and what cannot be changed.
func TestSettingsOfTheExamplesAreRead(t *testing.T) {
	of := func(current, next, standard string) [3]string { return [3]string{current, next, standard} }
	for name, want := range map[string]map[string][3]string{
		"racadm": {
			"ProcSettings.LogicalProc": of("Enabled", "Disabled", "unknown"), "MiscSettings.AssetTag": of("", "rack 7 (left)", "unknown"),
			"ProcSettings.Proc1Brand":  of("Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz", "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz", "unknown"),
			"BiosBootSettings.BootSeq": of("HardDisk.List.1-1, NIC.Integrated.1-1-1", "HardDisk.List.1-1, NIC.Integrated.1-1-1", "unknown"),
		},
		"OneCLI": {
			"OperatingModes.ChooseOperatingMode": of("unknown", "Custom Mode", "unknown"), "Processors.HyperThreading": of("unknown", "Disable", "unknown"),
		},
		"ilorest": {
			"AdminName": of("", "John D'euf, -42", ""), "ProcHyperthreading": of("Enabled", "Disabled", "Enabled"), "Sriov": of("Enabled", "Enabled", "Enabled"),
		},
		"SUM": {
			"Advanced|Fan Floor": of("20", "unknown", "20"), "Boot|Boot Option #1|1": of("Disabled", "unknown", "Disabled"),
			"Advanced|Hyper-Threading [ALL]": of("Enable", "unknown", "Enable"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := machines()[name].harness(t)
			c := h.Driver.(driver.Configurer)
			_, err := c.Configure(t.Context(), h.ID, driver.Configuration{Set: h.Settings.Set})
			require.NoError(t, err)
			all, err := c.Parameters(t.Context(), h.ID)
			require.NoError(t, err)
			for setting, values := range want {
				p := inventory.FindParameter(all, setting)
				require.NotNil(t, p, setting)
				assert.Equal(t, values, of(p.Current.String(), p.Next.String(), p.Default.String()), setting)
				assert.Equal(t, inventory.ActivateReboot, p.Needs)
			}
			assert.Nil(t, inventory.FindParameter(all, "IMM.HostName1"), "the management controller is left alone")
		})
	}
}

// What a tool stored and did not commit, because it was cut off between the two, is committed by the next try. What is committed is not once more.
func TestACommitThatIsMissingIsMadeUpFor(t *testing.T) {
	h, dir := machines()["racadm"].harness(t)
	c := h.Driver.(driver.Configurer)
	b, err := loadBIOS(dir)
	require.NoError(t, err)
	for _, s := range h.Settings.Set {
		b.find(s.Name).Next = s.Value
	}
	require.NoError(t, b.save(dir))
	stores := func() bool {
		all, err := c.Parameters(t.Context(), h.ID)
		require.NoError(t, err)
		return inventory.FindParameter(all, h.Settings.Set[0].Name).Stores(h.Settings.Set[0].Value)
	}
	assert.False(t, stores(), "no activation would bring it into force, so that a job gives it again")
	for range 2 {
		need, err := c.Configure(t.Context(), h.ID, driver.Configuration{Set: h.Settings.Set})
		require.NoError(t, err)
		assert.Equal(t, inventory.ActivateReboot, need)
	}
	b, err = loadBIOS(dir)
	require.NoError(t, err)
	assert.True(t, b.Committed)
	assert.True(t, stores())
	h.Reboot(t)
	b, err = loadBIOS(dir)
	require.NoError(t, err)
	assert.Equal(t, "rack 7 (left)", b.find("MiscSettings.AssetTag").Current)
}

// The document that SUM is given has what is to change and nothing else: neither another setting nor a password.
func TestADocumentHoldsWhatIsToChangeAlone(t *testing.T) {
	h, dir := machines()["SUM"].harness(t)
	_, err := h.Driver.(driver.Configurer).Configure(t.Context(), h.ID, driver.Configuration{Set: h.Settings.Set})
	require.NoError(t, err)
	document, err := os.ReadFile(filepath.Join(dir, "document"))
	require.NoError(t, err)
	text := string(document)
	assert.True(t, strings.HasPrefix(text, "<?xml"), "without what the tool prints before it")
	assert.Equal(t, 3, strings.Count(text, "<Setting "))
	for _, part := range []string{`numericValue="35"`, `selectedOption="Yes, &lt;always&gt;"`, `order="2" selectedOption="Network:IBA"`, "Intel\xae technology"} {
		assert.Contains(t, text, part)
	}
	assert.NotContains(t, text, "Password")
	assert.NotContains(t, text, "Hyper-Threading")
}

// What a tool would take for something else than a value is refused before it runs.
func TestWhatIsNoValueIsNotGivenToATool(t *testing.T) {
	for _, value := range []string{"-f", " Custom", "Custom ", "a\nb", "a\x1bb", "-"} {
		h, _ := machines()["racadm"].harness(t)
		h.FailWrite(t, "nothing is to be written")
		c := driver.Configuration{Set: []inventory.Setting{{Name: "SysProfileSettings.SysProfile", Value: value}}}
		_, err := h.Driver.(driver.Configurer).Configure(t.Context(), h.ID, c)
		for _, err := range []error{err, h.Driver.(driver.Configurer).CheckConfiguration(t.Context(), h.ID, c)} {
			rejected := (*driver.RejectedError)(nil)
			require.ErrorAs(t, err, &rejected, "%q", value)
			assert.Equal(t, "settings", rejected.Of)
		}
	}
}

// A value that the tool alone can judge is taken back, and is not tried again.
func TestAValueThatTheToolRefusesIsRejected(t *testing.T) {
	h, _ := machines()["racadm"].harness(t)
	c := driver.Configuration{Set: []inventory.Setting{{Name: "ProcSettings.LogicalProc", Value: "Maybe"}}}
	_, err := h.Driver.(driver.Configurer).Configure(t.Context(), h.ID, c)
	require.ErrorAs(t, err, new(*driver.RejectedError))
	assert.ErrorContains(t, err, "racadm says: ERROR: RAC947: Invalid object value specified.")
}

// listing returns a driver whose tool prints the output, read as the field of YAML says.
func listing(t *testing.T, read, output string) *profile.Driver {
	t.Helper()
	p, err := profile.Parse("p.yaml", []byte(golden(t, "simflash.yaml")+`
settings:
  activation: Reboot
  read:
  - {argv: [lister], exits: {ok: [0]}, `+read+`}
  set: {argv: [setter, "{{setting.name}}={{setting.value}}"], exits: {ok: [0]}, timeout: 1m}
`))
	require.NoError(t, err)
	return profile.New(commandtest.NewRunner(t, map[string]commandtest.Tool{
		"lister": func(context.Context, command.Command) (command.Result, error) {
			return command.Result{Stdout: []byte(output)}, nil
		},
		simflash: func(context.Context, command.Command) (command.Result, error) {
			return command.Result{Stdout: []byte(`{"Controllers":[{"Status":"Success","Address":"0000:3b:00.0","Running":"1.0.0","Board Id":"B","MAC":"02:00:00:00:00:01"}]}`)}, nil
		},
	}), p)
}

// Output that is not understood is an error, and a setting that cannot be told from another is not changed.
func TestListingsAreReadWholeOrNotAtAll(t *testing.T) {
	const line = `line: '(?P<name>\w+)=(?P<current>.*)', ignore: ['#.*']`
	const members, elements = `members: [Of], are: current`, `elements: S, names: [n], value: [v], are: current`
	for _, c := range []struct{ read, output, want string }{
		{line, "a=1\n\n# x\nb=2 \r\n", ""},
		{line, "a=1\nwarning\n", `"warning" is neither a setting nor to be ignored`},
		{line, "# nothing\n", "the tool lists no settings"},
		{line, "a=\xff\n", "the output is not UTF-8"},
		{members, `{"Of":{"a":1,"b":"2","c":null}}`, ""},
		{members, `{"Of":{"a":1,"b":["2"]}}`, `the setting "b" is not a single value`},
		{members, `{"Of":[1]}`, "the object of the settings is not in the output"},
		{members, `{"On":{}}`, "the object of the settings is not in the output"},
		{members, `{"Of":{"a":1,"b":2}} {}`, "there is more after the document"},
		{elements, `<r><S n="a" v="1"/><S n="b" v="2"/><S n="c"/></r>`, ""},
		{elements, `<r><S n="a" v="1"/>`, "read XML"},
		{elements, `<!DOCTYPE r []><r><S n="a" v="1"/></r>`, "document types are not supported"},
		{elements, `<r><S n="" v="1"/></r>`, `"" is not the name of a setting`},
		{elements, "<r><S n=\"a\" v=\"\xff\"/></r>", "the output is not UTF-8"},
		{elements, strings.Repeat("<r>", 70), "more than 64 levels"},
		{elements + `, from: "<r"`, "x <!-- \n<r><S n=\"a\" v=\"1\"/><S n=\"b\" v='2'/></r>", ""},
		{elements + `, from: "<?xml"`, "<r><S n=\"a\" v=\"1\"/></r>", `"<?xml" is not in the output`},
		{`line: '(?:(?P<name>\w+)=(?P<current>.*)|(?P<default>\d+))'`, "a=1\nb=2\n3\n", `"" is not the name of a setting`},
		{`line: '(?P<name>\w+)(?:=(?P<current>\d))?(?:/(?P<default>\d))?'`, "a=1\nb=2\nc/3\n", ""}, // c is no setting of this device
	} {
		all, err := listing(t, c.read, c.output).Parameters(t.Context(), cardID())
		if c.want != "" {
			require.ErrorContains(t, err, c.want, c.output)
			assert.Empty(t, all)
			continue
		}
		require.NoError(t, err, c.output)
		require.Len(t, all, 2, c.output)
		assert.Equal(t, []string{"1", "2"}, []string{all[0].Current.Value, all[1].Current.Value}, c.output)
		assert.False(t, all[0].Next.Known, "the tool does not say what is stored")
	}
	all, err := listing(t, line, "a=1\nb=2\na=3\nc="+strings.Repeat("x", 513)+"\n").Parameters(t.Context(), cardID())
	require.NoError(t, err)
	for name, why := range map[string]string{"a": "several settings of this name", "b": "", "c": "more than 512 bytes"} {
		p := inventory.FindParameter(all, name)
		assert.Equal(t, why == "", p.Current.Known, name)
		assert.Contains(t, p.ReadOnly, why)
	}
}

// A profile without settings leaves those of its devices to the kernel, and one whose tool for settings is missing still updates firmware.
func TestSettingsAreNoPartOfEveryProfile(t *testing.T) {
	set := driver.Set{profile.New(nil, loadExamples(t)["intel-nvmupdate"])}
	_, err := set.Configurer(inventory.Device{
		Identity: inventory.Identity{Class: inventory.NIC, VendorID: "8086", DeviceID: "1592"}, Driver: "intel-nvmupdate", Firmware: &inventory.Firmware{},
	})
	require.ErrorIs(t, err, driver.ErrNotSupported)
	dell := profile.New(nil, loadExamples(t)["dell-bios"])
	assert.Equal(t, []string{"dmidecode", "racadm", "sh"}, dell.Tools())
	runner, err := command.NewExecRunner(command.Config{Path: []string{t.TempDir()}, StateDir: t.TempDir()})
	require.NoError(t, err)
	require.NotContains(t, profile.New(runner, loadExamples(t)["dell-bios"]).Usable().Error(), "racadm")
}

func TestProblemsOfSettingsNameLineAndField(t *testing.T) {
	good := golden(t, "simflash.yaml") + knobs
	_, err := profile.Parse("p.yaml", []byte(good))
	require.NoError(t, err)
	const read, line, set = `  - argv: [simflash, -d, "{{device.pciAddress}}", knobs]`, "    line: ", `turn, "{{setting.name}}", "{{setting.value}}"]`
	for want, change := range map[string][2]string{
		"settings.read: must have current or next":                                  {"current>.+), then (?P<next>", "values>.+), then (?P<readOnly>"},
		"settings.read[0].line: has the group \"nxt\"":                              {"?P<next>", "?P<nxt>"},
		"settings.read[0].line: needs the group (?P<name>...)":                      {"(?P<name>", "(?:"},
		"settings.read[0].separator: and the group values need each other":          {"    separator: /\n", ""},
		"settings.read[0]: has line and members":                                    {line, "    members: [a]\n    are: next\n" + line},
		"settings.read[0].are: cannot be used with line":                            {line, "    are: next\n" + line},
		"settings.read[0]: needs line, members or elements":                         {line, "    # "},
		"settings.read[0].groups: and {{settings.group}} in argv need each other":   {line, "    groups: [a]\n" + line},
		"settings.read[0].argv[4]: {{setting.name}} cannot be used here":            {read, strings.Replace(read, "]", `, "{{setting.name}}"]`, 1)},
		"settings.set.argv: must have {{setting.name}} and {{setting.value}}":       {set, `turn, "{{setting.name}}"]`},
		"settings.set.argv: must have name and value in one argument with together": {set, set + "\n    together: true"},
		"settings.set.argv: {{settings.document}} needs one command with elements":  {set, `turn, "{{settings.document}}"]`},
		"settings.set.timeout: is required":                                         {"    timeout: 1m\n    exits: {ok: [0], rejected: [4]}", "    exits: {ok: [0]}"},
		"settings.activation: DriverReload needs an activate of that kind":          {"activation: DeviceReset\n  read", "activation: DriverReload\n  read"},
		"settings.commit.unless: is required":                                       {"  set:", "  commit: {argv: [simflash], exits: {ok: [0]}, timeout: 1m}\n  set:"},
		"settings: has no image: {{image.path}} cannot be used here":                {set, `turn, "{{image.path}}", "{{setting.name}}={{setting.value}}"]`},
		"settings: {{device.number}} needs inspect.fields.number":                   {set, `turn, "{{device.number}}", "{{setting.name}}={{setting.value}}"]`},
		"write.argv[3]: {{setting.value}} cannot be used here":                      {"--image={{image.path}}", "--image={{image.path}}{{setting.value}}"},
		"settings.set.argv[0]: \"sh\" runs other programs":                          {"[simflash, -d, \"{{device.pciAddress}}\", turn", "[sh, -c"},
		"inspect.fields.running.path[1].is: {{settings.group}} cannot be used here": {`is: "{{device.pciAddress}}"`, `is: "{{settings.group}}"`},
	} {
		require.Contains(t, good, change[0])
		_, err := profile.Parse("p.yaml", []byte(strings.Replace(good, change[0], change[1], 1)))
		assert.ErrorContains(t, err, want)
	}
}
