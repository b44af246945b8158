package profile_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/profile"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestProblemsNameLineAndField(t *testing.T) {
	good := golden(t, "simflash.yaml")
	for want, change := range map[string][2]string{
		`p.yaml:1: name: "Sim flash": want lower-case letters`:                              {"name: simflash", "name: Sim flash"},
		`p.yaml:1: version: is required`:                                                    {"version: \"1\"\n", ""},
		`p.yaml:2: version: want a string: put it in quotes`:                                {`version: "1"`, `version: 1.0`},
		`p.yaml:2: vresion: no such field; the known fields are activate, activation`:       {"version:", "vresion:"},
		`p.yaml:3: name: occurs twice`:                                                      {"match:", "name: other\nmatch:"},
		`p.yaml:3: match.class: "Toaster": want BIOS, NIC, StorageController, Disk`:         {"class: NIC", "class: Toaster"},
		`p.yaml:3: match.support: is required`:                                              {"support: Vendor, ", ""},
		`p.yaml:3: match: select devices by at least one`:                                   {`, vendorIDs: ["1af4"]`, ""},
		`p.yaml:3: match.vendorIDs[0]: "1AF4": want four lower-case`:                        {"1af4", "1AF4"},
		`p.yaml:5: inspect.argv[2]: no variable {{device.pci}}`:                             {"{{device.pciAddress}}", "{{device.pci}}"},
		`p.yaml:5: inspect.argv[2]: "{{ device.pciAddress" has`:                             {"{{device.pciAddress}}", "{{ device.pciAddress"},
		`p.yaml:5: inspect.argv[0]: "bin/simflash": want the tool's file name`:              {"[simflash, -d", "[bin/simflash, -d"},
		`p.yaml:5: inspect.argv[0]: "sh" runs other programs`:                               {"[simflash, -d", "[sh, -c"},
		`p.yaml:5: inspect: {{image.path}} is not known before inspect`:                     {`-d, "{{device.pciAddress}}", show`, `-d, "{{image.path}}", show`},
		`p.yaml:5: inspect: {{device.uniqueID}} is not known before inspect`:                {`-d, "{{device.pciAddress}}", show`, `-d, "{{device.uniqueID}}", show`},
		`p.yaml:6: inspect.exits.okay: no such field; the known fields are fail, ok, retry`: {"exits: {ok: [0], fail", "exits: {okay: [0], fail"},
		`p.yaml:6: inspect.exits.fail.0: exit code 0 is already in ok`:                      {"fail: {5:", "fail: {0:"},
		`p.yaml:7: inspect.format: "yaml": want json, xml, regex`:                           {"format: json", "format: yaml"},
		`p.yaml:5: inspect.fields.running: is required and not optional`:                    {"    running:", "    model:"},
		`p.yaml:16: check.argv: must have {{image.path}}`:                                   {`"{{image.path}}", show`, "x, show"},
		`check.fields.boardID.pattern: has 0 groups`:                                        {"'(?m)^board (.+)$'", "'(?m)^board .+$'"},
		`check.fields.boardID.pattern: error parsing regexp`:                                {"'(?m)^board (.+)$'", "'('"},
		`p.yaml:24: write.timeout: "ten minutes": want a time from 1s`:                      {"timeout: 10m\n  progress", "timeout: ten minutes\n  progress"},
		`p.yaml:26: write.exits.retry: want a list that is not empty`:                       {"already: [3], rejected", "already: [3], retry: 7, rejected"},
		`p.yaml:26: write.exits.retry[0]: "256": want an exit code from 0 to 255`:           {"already: [3], rejected", "already: [3], retry: [256], rejected"},
		`p.yaml:26: write.exits: no exit code means success`:                                {"{ok: [0], already: [3], rejected: [4]}", "{rejected: [4]}"},
		`p.yaml:23: write.argv: must have {{image.path}}`:                                   {"--image={{image.path}}", "x"},
		`write.exits.pending.2: DriverReload needs an activate of that kind`:                {"already: [3]", "pending: {2: DriverReload}"},
		`activate.kind: "Reboot": want DeviceReset, DriverReload`:                           {"kind: DeviceReset", "kind: Reboot"},
		`activate.exits.pending.2: must be more disruptive than DeviceReset`:                {"pending: {2: Reboot}", "pending: {2: DeviceReset}"},
		`p.yaml:32: activation: DriverReload needs an activate of that kind`:                {"activation: DeviceReset", "activation: DriverReload"},
		`activate: needs inspect.fields.stored`:                                             {"    stored: {path: [Controllers, 0, Stored], optional: true}\n", ""},
		`rollback: "Slot": want None, Image`:                                                {"rollback: Image", "rollback: Slot"},
		`p.yaml:1: write: give either write, or readOnly`:                                   {"rollback: Image", "rollback: Image\nreadOnly: because"},
		`inspect.fields.stored.optional: want true or false`:                                {"optional: true", "optional: sometimes"},
		`p.yaml:11: anchors and aliases are not supported`:                                  {"running: {path", "running: &a {path"},
		`p.yaml: has more than one document`:                                                {"rollback: Image", "rollback: Image\n---\nname: x"},
		`p.yaml: yaml: line`:                                                                {"name: simflash", "name: {"},
		`p.yaml:15: check.fields.boardID: needs inspect.fields.boardID`:                     {"    boardID: {path: [Controllers, 0, Board Id]}\n", ""},
		`inspect.fields.running.path[1]: "-1": want an index from 0`:                        {"[Controllers, {where: [Address], is: \"{{device.pciAddress}}\"}, Running]", "[Controllers, -1, Running]"},
		`inspect.fields.number: must not be optional`:                                       {"    stored:", "    number: {path: [N], optional: true}\n    stored:"},
		`inspect: {{device.number}} is not known before inspect`:                            {`-d, "{{device.pciAddress}}", show`, `-d, "{{device.number}}", show`},
		`write.argv: {{device.number}} needs inspect.fields.number`:                         {`"{{device.pciAddress}}", "--image`, `"{{device.number}}", "--image`},
		`activate.argv: {{device.number}} needs inspect.fields.number`:                      {`"{{device.pciAddress}}", reset`, `"{{device.number}}", reset`},
		`write.expect: needs format`:                                                        {"  progress: '", "  format: regex\n  progress: '"},
		`write.expect[0].pattern: has 0 groups`:                                             {"  progress: '", "  format: regex\n  expect: [{pattern: ok, is: [ok]}]\n  progress: '"},
		`match.subsystemVendorIDs: are known only for the class StorageController`:          {`["1af4"]`, `["1af4"], subsystemVendorIDs: ["1028"]`},
		`p.yaml:9: inspect.expect[0].is: is required`:                                       {", is: [Success]", ""},
		`p.yaml:35: steps: want a list that is not empty`:                                   {"steps:\n- name: self-test", "steps: {}\nsteps2:\n- name: self-test"},
		`p.yaml:36: steps[0].name: is required`:                                             {"- name: self-test\n  priority", "- priority"},
		`steps[0].name: "Self test": want lower-case letters`:                               {"name: self-test", "name: Self test"},
		`p.yaml:46: steps[1].name: "self-test" is already the name of another step`:         {"name: clear-log", "name: self-test"},
		`steps[0].priority: "-1": want a whole number from 0`:                               {"priority: 970", "priority: -1"},
		`steps[0].priority: "2.5": want a whole number from 0`:                              {"priority: 970", "priority: 2.5"},
		`steps[0].timeout: is required`:                                                     {"  timeout: 1m\n", ""},
		`steps[0].argv: is required`:                                                        {`  argv: [simflash, -d, "{{device.pciAddress}}", selftest]` + "\n", ""},
		`steps[0].argv[0]: "sh" runs other programs`:                                        {`[simflash, -d, "{{device.pciAddress}}", selftest]`, "[sh, -c, id]"},
		`steps[0].argv[2]: no variable {{device.path}}`:                                     {`"{{device.pciAddress}}", selftest`, `"{{device.path}}", selftest`},
		`steps[0]: has no image: {{image.path}} cannot be used here`:                        {`"{{device.pciAddress}}", selftest`, `"{{image.path}}", selftest`},
		`steps[0]: {{device.number}} needs inspect.fields.number`:                           {`"{{device.pciAddress}}", selftest`, `"{{device.number}}", selftest`},
		`steps[0].exits: already and pending need changes: true`:                            {"retry: [6]", "already: [6]"},
		`steps[1].exits.pending.8: must be Reboot`:                                          {"pending: {8: Reboot}", "pending: {8: PowerCycle}"},
		`steps[1].exits.rejected: no such field`:                                            {"pending: {8: Reboot}", "rejected: [8]"},
		`steps[1].changes: want true or false`:                                              {"changes: true", "changes: maybe"},
		`steps[0].fields.running: no such field; the known fields are result`:               {"    result: {", "    running: {"},
		`steps[0].format: is required with fields and expect`:                               {"  format: regex\n  expect:\n  - {pattern: '(?m)^verdict", "  expect:\n  - {pattern: '(?m)^verdict"},
		`steps[1].reboot: no such field; the known fields are argv, changes`:                {"changes: true", "changes: true\n  reboot: true"},
	} {
		t.Run(want, func(t *testing.T) {
			require.Contains(t, good, change[0])
			_, err := profile.Parse("p.yaml", []byte(strings.Replace(good, change[0], change[1], 1)))
			assert.ErrorContains(t, err, want)
		})
	}
	_, err := profile.Parse("p.yaml", []byte(good))
	assert.NoError(t, err)
}

func TestDocumentedExampleIsValid(t *testing.T) {
	page, err := os.ReadFile("../../../docs/drivers/profiles.md")
	require.NoError(t, err)
	blocks := strings.Split(string(page), "```yaml\n")
	require.Len(t, blocks, 4)
	whole := ""
	for _, block := range blocks[1:] {
		text, _, _ := strings.Cut(block, "```")
		whole += text
	}
	p, err := profile.Parse("profiles.md", []byte(whole))
	require.NoError(t, err)
	assert.NotNil(t, p.Settings.Commit)
	assert.Equal(t, "acme-nic", p.Name)
	assert.Equal(t, []driver.Step{
		{Name: "acme-self-test", Deadline: 10 * time.Minute}, {Name: "acme-clear-log", Changes: true, Deadline: 10 * time.Minute},
	}, profile.New(nil, p).Steps())
}

func TestMatchIsWholeAndSparesVMs(t *testing.T) {
	p, err := profile.Parse("p.yaml", []byte(golden(t, "simflash.yaml")))
	require.NoError(t, err)
	d := profile.New(nil, p)
	for _, c := range []struct {
		change func(*inventory.Identity)
		want   driver.Support
	}{
		{func(*inventory.Identity) {}, driver.SupportVendor},
		{func(id *inventory.Identity) { id.VendorID = "15b3" }, driver.SupportNone},
		{func(id *inventory.Identity) { id.Class = inventory.Disk }, driver.SupportNone},
		{func(id *inventory.Identity) { id.Kernel = "vfio-pci" }, driver.SupportNone},
	} {
		id := cardID()
		c.change(&id)
		assert.Equal(t, c.want, d.Support(id))
	}
}

func TestTwoProfilesOfOneDeviceAreNotChosenByLuck(t *testing.T) {
	text := golden(t, "simflash.yaml")
	one, err := profile.Parse("one.yaml", []byte(text))
	require.NoError(t, err)
	two, err := profile.Parse("two.yaml", []byte(strings.Replace(text, "name: simflash", "name: other", 1)))
	require.NoError(t, err)
	_, err = driver.Set{profile.New(nil, one), profile.New(nil, two)}.For(cardID())
	assert.ErrorContains(t, err, "simflash and other claim it equally")
}

func TestLoadNamesAllProblems(t *testing.T) {
	good := golden(t, "simflash.yaml")
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o644} }
	_, err := profile.Load(fstest.MapFS{
		"a.yaml": file(strings.Replace(good, "class: NIC", "class: X", 1)),
		"b.yml":  file(strings.Replace(strings.Replace(good, "rollback: Image", "rollback: X", 1), "kind: DeviceReset", "kind: X", 1)),
		"c.yaml": file(good), "d.yaml": file(good), "e.txt": file("not a profile"),
		"f.yaml": {Data: []byte(good), Mode: 0o666},
		"g.yaml": file(strings.Repeat("#", 1<<19)),
		"h.yaml": file(""),
		"i.yaml": {Data: []byte(good), Mode: 0o644, Sys: &syscall.Stat_t{Uid: uint32(os.Geteuid()) + 4711}},
		"j.yaml": {Data: []byte(strings.Replace(good, "name: simflash", "name: mine", 1)), Mode: 0o644, Sys: &syscall.Stat_t{}},
	}, "/profiles")
	for _, want := range []string{
		"/profiles/a.yaml:3: match.class", "/profiles/b.yml:30: activate.kind", "/profiles/b.yml:34: rollback",
		`/profiles/d.yaml: name: "simflash" is already the name of /profiles/c.yaml`, "/profiles/f.yaml: users other than its owner may write it",
		"/profiles/g.yaml: want a file", "/profiles/h.yaml: is empty",
		"/profiles/i.yaml: it belongs to neither root nor this user",
	} {
		assert.ErrorContains(t, err, want)
	}
	assert.NotContains(t, err.Error(), "/profiles/j.yaml", "it belongs to root")
}

func TestMissingDirHasNoProfiles(t *testing.T) {
	dir := t.TempDir()
	profiles, err := profile.LoadDir(filepath.Join(dir, "missing"))
	require.NoError(t, err)
	assert.Empty(t, profiles)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(golden(t, "simflash.yaml")), 0o600))
	profiles, err = profile.LoadDir(dir)
	require.NoError(t, err)
	assert.Len(t, profiles, 1)
	_, err = profile.LoadDir(filepath.Join(dir, "a.yaml"))
	assert.Error(t, err)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(golden(f, "simflash.yaml")))
	for _, name := range []string{"dell-bios", "hpe-bios", "intel-nvmupdate"} {
		text, err := os.ReadFile(filepath.Join(examples, name+".yaml"))
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := profile.Parse("p.yaml", text)
		if err != nil {
			assert.Zero(t, p)
			return
		}
		assert.NotEmpty(t, p.Name)
		assert.NotEmpty(t, p.Inspect.Argv)
		assert.NotEqual(t, driver.SupportNone, p.Match.Support)
		assert.Equal(t, p.Write == nil, p.ReadOnly != "")
	})
}
