package docs_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/fwupd"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/mstflint"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/profile"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/scsi"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

// driversOfTools are the drivers of this repository that run programs of vendors, with the profiles of the examples.
func driversOfTools(t *testing.T) driver.Set {
	t.Helper()
	set := driver.Set{mstflint.New(nil, nil), nvme.New(nil), scsi.New(nil), fwupd.New(nil, nil), fwupd.NewATA(nil)}
	profiles, err := profile.LoadDir("examples/profiles")
	require.NoError(t, err)
	for _, p := range profiles {
		set = append(set, profile.New(nil, p))
	}
	return set
}

// TestToolTableMatchesCode: with UPDATE_GOLDEN=1 it is written.
func TestToolTableMatchesCode(t *testing.T) {
	drivers := driversOfTools(t)
	usedBy := func(tool string) []string {
		var names []string
		for _, d := range drivers {
			if slices.Contains(d.(driver.ToolUser).Tools(), tool) {
				names = append(names, "`"+d.Name()+"`")
			}
		}
		return names
	}
	var b strings.Builder
	b.WriteString("| program | of | for the drivers | supported | its command lines ran with | how its version is read |\n|---|---|---|---|---|---|\n")
	for _, tool := range vendortool.Table() {
		supported, ran, read := "any version", "", "not at all"
		if tool.VersionArgs != nil {
			versions := recorded(t, tool.Name)
			assert.Equal(t, versions[len(versions)-1], string(tool.Newest), "%s: the newest version is the newest that ran", tool.Name)
			supported, ran = fmt.Sprintf("%s to %s", tool.Oldest, tool.Newest), strings.Join(versions, ", ")
			read = fmt.Sprintf("`%s %s`", tool.Name, strings.Join(tool.VersionArgs, " "))
		}
		names := usedBy(tool.Name)
		require.NotEmpty(t, names, "no driver runs %s: take it out of the table", tool.Name)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", tool.Name, tool.Product, strings.Join(names, ", "), supported, cmp.Or(ran, "–"), read)
	}
	b.WriteString("\n")
	for _, tool := range vendortool.Table() {
		if tool.Why != "" && !strings.HasPrefix(tool.Name, "sg_") {
			fmt.Fprintf(&b, "- No `%s` before %s: %s.\n", tool.Name, tool.Oldest, tool.Why)
		}
	}
	b.WriteString("- No programs of sg3_utils before 1.46: the drivers know no output of earlier versions.\n")
	const page, begin, end = "drivers/tools.md", "<!-- begin of the table -->\n", "<!-- end of the table -->\n"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found)
	golden.Equal(t, page, before+begin+b.String()+end+after)
}

// recorded are the versions of a program with a recording of the drivers' command lines.
func recorded(t *testing.T, tool string) []string {
	t.Helper()
	files, err := filepath.Glob("../internal/testing/toolcontract/testdata/" + tool + "-[0-9]*.txt")
	require.NoError(t, err)
	var versions []string
	for _, file := range files {
		version, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), tool+"-"), ".txt"), "-")
		versions = append(versions, version)
	}
	slices.SortFunc(versions, func(a, b string) int {
		return int(inventory.Version(a).Compare(inventory.Version(b), inventory.FormatDotted) - inventory.Same)
	})
	require.NotEmpty(t, versions, tool)
	return slices.Compact(versions)
}

// TestToolTableListsDriverTools: a script is run by the shell, which is no program of a vendor.
func TestToolTableListsDriverTools(t *testing.T) {
	tools := driversOfTools(t).Tools()
	assert.Greater(t, len(tools), 10)
	for _, name := range tools {
		if _, known := vendortool.Named(name); !known {
			assert.Equal(t, "sh", name, "add it to the table of package vendortool")
		}
	}
}
