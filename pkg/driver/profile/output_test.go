package profile

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func named(names ...any) (path []step) {
	for _, n := range names {
		switch n := n.(type) {
		case string:
			path = append(path, step{name: n})
		case int:
			path = append(path, step{index: n})
		case step:
			path = append(path, n)
		}
	}
	return path
}

func where(t testing.TB, is string, names ...any) step {
	t.Helper()
	want, err := parseTemplate(is)
	require.NoError(t, err)
	return step{where: named(names...), is: want}
}

func TestValuesAreFoundOrRefused(t *testing.T) {
	const storcli = `{"Controllers":[{"Command Status":{"Controller":0,"Status":"Success"},
		"Response Data":{"FW Version":"5.140.00-3319 ","Drives":[{"EID:Slt":"252:0","Rev":"A1"},{"EID:Slt":"252:1","Rev":"A2"}],"None":null}}]}`
	const xmlText = `<?xml version="1.0"?><a><b n="1">one</b><b n="2"> two </b><c/></a>`
	for _, c := range []struct {
		format  Format
		out     string
		path    []step
		pattern string
		want    string
		err     string
	}{
		{JSON, storcli, named("Controllers", 0, "Response Data", "FW Version"), "", "5.140.00-3319", ""},
		{JSON, storcli, named("Controllers", 0, "Response Data", "FW Version"), `^([\d.]+)-`, "5.140.00", ""},
		{JSON, storcli, named("Controllers", 0, "Command Status", "Controller"), "", "0", ""},
		{JSON, storcli, named("Controllers", 0, "Response Data", "Drives", where(t, "252:1", "EID:Slt"), "Rev"), "", "A2", ""},
		{JSON, storcli, named("Controllers", 0, "Response Data", "Drives", where(t, "252:9", "EID:Slt"), "Rev"), "", "", "not in the output"},
		{JSON, storcli, named("Controllers", 1, "Response Data"), "", "", "not in the output"},
		{JSON, storcli, named("Controllers", 0, "Response Data", "None"), "", "", "not in the output"},
		{JSON, storcli, named("Controllers", 0, "Response Data"), "", "", "not a single value"},
		{JSON, storcli, named("Controllers", "Response Data"), "", "", "select one"},
		{JSON, storcli, named("Controllers"), "", "", "several"},
		{JSON, storcli + "x", named("Controllers"), "", "", "read JSON"},
		{JSON, "Segmentation fault", named("Controllers"), "", "", "read JSON"},
		{JSON, strings.Repeat("[", 100) + strings.Repeat("]", 100), named("a"), "", "", "levels"},
		{JSON, `{"a":"x\u0007y"}`, named("a"), "", "", "cannot be printed"},
		{JSON, `{"a":"` + strings.Repeat("x", 200) + `"}`, named("a"), "", "", "too long"},
		{JSON, "{\"a\":\"\xff\"}", named("a"), "", "", "not UTF-8"},
		{XML, xmlText, named("a", "b", 1), "", "two", ""},
		{XML, xmlText, named("a", "b", where(t, "1", "@n")), "", "one", ""},
		{XML, xmlText, named("a", "b", 0, "@n"), "", "1", ""},
		{XML, xmlText, named("a", "b"), "", "", "several"},
		{XML, xmlText, named("a", "b", "@n"), "", "", "select one"},
		{XML, xmlText, named("a", "c"), "", "", "not in the output"},
		{XML, xmlText, named("a"), "", "", "not a single value"},
		{XML, "<a><b></a>", named("a"), "", "", "read XML"},
		{XML, "banner\n" + "<a/>", named("a"), "", "", "outside of the document"},
		{XML, "<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>", named("a"), "", "", "document type"},
		{XML, "", named("a"), "", "", "no document"},
		{XML, strings.Repeat("<a>", 100), named("a"), "", "", "levels"},
		{Regex, "Version: 1.2\nVersion: 1.2\n", nil, `Version: (\S+)`, "1.2", ""},
		{Regex, "Version: 1.2\nVersion: 1.3\n", nil, `Version: (\S+)`, "", `"1.2" and "1.3"`},
		{XML, "<a>o<!-- x -->ne</a>", named("a"), "", "one", ""},
		{Regex, "nothing", nil, `Version: (\S+)`, "", "not in the output"},
	} {
		f := Field{Path: c.path}
		if c.pattern != "" {
			f.Pattern = regexp.MustCompile(c.pattern)
		}
		q := Query{Format: c.format, Fields: map[string]Field{"running": f}}
		values, err := q.read([]byte(c.out), subject{})
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.out)
			assert.Nil(t, values)
			continue
		}
		require.NoError(t, err, c.out)
		assert.Equal(t, c.want, values["running"])
	}
}

func TestUnexpectedStatusIsAnError(t *testing.T) {
	q := Query{Format: JSON, Expect: []Expectation{{Field{Path: named("Status")}, []string{"Success", "OK"}}}}
	_, err := q.read([]byte(`{"Status":"Success"}`), subject{})
	require.NoError(t, err)
	_, err = q.read([]byte(`{"Status":"Failure"}`), subject{})
	require.ErrorContains(t, err, `the tool reports "Failure", not Success or OK`)
	_, err = q.read([]byte(`{}`), subject{})
	require.ErrorContains(t, err, "expect[0]")
}

func TestVariableIsOneSafeArgument(t *testing.T) {
	id := inventory.Identity{Node: "nvme0", SerialNumber: "S 1;reboot", UniqueID: "b4:96:91:aa:9e:18", PCI: []inventory.PCIAddress{{Bus: 0x3b}}}
	img := driver.Image{Path: "/images/a b;c", Version: "1.0"}
	for _, c := range []struct{ text, want, err string }{
		{"/dev/{{device.node}}", "/dev/nvme0", ""},
		{"file={{image.path}}@{{image.version}}", "file=/images/a b;c@1.0", ""},
		{"{{device.macHex}}", "B49691AA9E18", ""},
		{"{{device.pciAddress}}", "0000:3b:00.0", ""},
		{"{{device.pciColons}}", "00:3b:00:00", ""},
		{"/c{{device.number}}", "/c12", ""},
		{"$(reboot)", "$(reboot)", ""},
		{"{{device.serialNumber}}", "", "not a safe argument"},
		{"{{device.boardID}}", "", "has no {{device.boardID}}"},
	} {
		template, err := parseTemplate(c.text)
		require.NoError(t, err)
		got, err := template.fill(subject{id: id, img: img, number: "12"})
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
	for _, s := range []subject{{number: "all"}, {number: "0 noverchk"}, {}} {
		_, err := (template{literals: []string{"/c", ""}, names: []string{numberVariable}}).fill(s)
		require.Error(t, err, s.number)
	}
	far := subject{id: inventory.Identity{PCI: []inventory.PCIAddress{{Domain: 0x100, Bus: 0x3b}}}}
	_, err := (template{literals: []string{"", ""}, names: []string{"device.pciColons"}}).fill(far)
	require.ErrorContains(t, err, "has no {{device.pciColons}}", "two digits cannot name the domain")
	template, err := parseTemplate("{{image.version}}")
	require.NoError(t, err)
	for _, version := range []string{"-f", "1.0 --force", "1\n2", "$(x)", "../x"} {
		_, err = template.fill(subject{id: id, img: driver.Image{Version: inventory.Version(version)}})
		require.ErrorAs(t, err, new(*driver.RejectedError), version)
	}
}

// FuzzOutput: no output of a tool breaks the parsers, and what they return is bounded and can be printed.
func FuzzOutput(f *testing.F) {
	for _, name := range []string{"dmidecode-3.5-dell.txt", "dmidecode-3.5-hpe.txt", "nvmupdate-inventory.xml"} {
		text, err := os.ReadFile("testdata/" + name)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Add([]byte(`{"a":[{"b":"1"},{"b":"2","c":"x"}]}`))
	choice := where(f, "2", "b")
	queries := []Query{
		{Format: JSON, Fields: map[string]Field{"running": {Path: named("a", choice, "c")}}},
		{Format: XML, Fields: map[string]Field{"running": {Path: named("DeviceUpdate", "Instance", 0, "@PBA")}}},
		{Format: Regex, Fields: map[string]Field{"running": {Pattern: regexp.MustCompile(`(?m)^\tVersion: (.+)$`)}}},
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		for _, q := range queries {
			values, err := q.read(out, subject{})
			if err != nil {
				assert.Nil(t, values)
				continue
			}
			assert.NotEmpty(t, values["running"])
			assert.LessOrEqual(t, len(values["running"]), maxValue)
		}
	})
}
