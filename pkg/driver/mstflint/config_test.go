package mstflint

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// of is a row with values as they are printed, "N/A" for an unknown one.
func of(name, standard, current, next string) nvRow {
	read := func(v string) inventory.Reading {
		if v == notReported {
			return inventory.Reading{}
		}
		return inventory.Read(v)
	}
	return nvRow{name: name, standard: read(standard), current: read(current), next: read(next)}
}

func fixed(r nvRow) nvRow {
	r.readOnly = true
	return r
}

func TestParseConfig(t *testing.T) {
	const atomic, atomics = "PCI_ATOMIC_DISABLED_EXT_ATOMIC_ENABLED(0)", "PCI_ATOMICS_ENABLED_EXT_ATOMICS_ENABLED(4)"
	const zeros = "0x00000000000000000000000000000000"
	for file, want := range map[string][]nvRow{
		"config-4.21.0-cx6.txt": {
			of("MEMIC_BAR_SIZE", "0", "0", "0"), of("HOST_CHAINING_MODE", "DISABLED(0)", "DISABLED(0)", "DISABLED(0)"),
			of("HOST_CHAINING_DESCRIPTORS", "Array[0..7]", "Array[0..7]", "Array[0..7]"),
			of("NUM_OF_VFS", "0", "8", "16"), of("SRIOV_EN", "False(0)", "True(1)", "True(1)"), of("PCI_ATOMIC_MODE", atomic, atomic, atomics),
			of("LINK_TYPE_P1", "ETH(2)", "ETH(2)", "ETH(2)"), of("LINK_TYPE_P2", "ETH(2)", "ETH(2)", "ETH(2)"),
		},
		"config-4.21.0-next-only.txt": {
			of("NUM_OF_VFS", "N/A", "N/A", "16"), of("SRIOV_EN", "N/A", "N/A", "True(1)"),
			of("LINK_TYPE_P1", "N/A", "N/A", "IB(1)"), of("LINK_TYPE_P2", "N/A", "N/A", "ETH(2)"),
		},
		"config-4.33.0-cx7.txt": {
			of("MODULE_SPLIT_M0", "Array[0..15]", "Array[0..15]", "Array[0..15]"),
			fixed(of("PCI_BUS00_HIERARCHY_TYPE", "PCIE_EXTERNAL_HOST_SWITCH(1)", "PCIE_EXTERNAL_HOST_SWITCH(1)", "PCIE_EXTERNAL_HOST_SWITCH(1)")),
			fixed(of("PCI_BUS00_WIDTH", "0", "2", "2")), of("MEMIC_SIZE_LIMIT", "_256KB(1)", "_256KB(1)", "_256KB(1)"),
			of("NUM_OF_VFS", "0", "0", "8"), of("SRIOV_EN", "False(0)", "False(0)", "True(1)"), of("NUM_VF_MSIX", "N/A", "N/A", "11"),
			of("CNP_DSCP_P1", "48", "48", "48"),
		},
		"config-4.36.0-cx8.txt": {
			fixed(of("CUSTOMIZATION_NUMBER", zeros, zeros, zeros)), of("PCI_DOWNSTREAM_PORT_OWNER", "Array[0..15]", "Array[0..15]", "Array[0..15]"),
			of("NUM_OF_VFS", "16", "16", "16"), of("SRIOV_EN", "True(1)", "True(1)", "False(0)"), of("LINK_TYPE_P1", "IB(1)", "IB(1)", "IB(1)"),
		},
	} {
		rows, err := parseConfig(golden(t, file))
		require.NoError(t, err, file)
		assert.Equal(t, want, rows, file)
	}
}

// Up to the layout of 4.21 no blank is behind a value of exactly 16 characters.
func TestParseConfigSplitsGluedValues(t *testing.T) {
	rows, err := parseConfig("\nConfigurations: Default Current Next Boot\n   PCI_BUS00_HIERARCHY_TYPE PCIE_ENDPOINT(0)PCIE_ENDPOINT(0)PCIE_ENDPOINT(0)\n")
	require.NoError(t, err)
	assert.Equal(t, []nvRow{of("PCI_BUS00_HIERARCHY_TYPE", "PCIE_ENDPOINT(0)", "PCIE_ENDPOINT(0)", "PCIE_ENDPOINT(0)")}, rows)
}

func TestParseConfigRefusesUnknown(t *testing.T) {
	const head = "\nConfigurations: Default Current Next Boot\n"
	for _, out := range []string{
		"", "-E- Failed to open the device\n", head, head + "The '*' shows\n",
		"\nConfigurations: Next Boot Default\n   A 1 2\n", "\nConfigurations: Default Current Next Boot New\n   A 1 2 3 4\n",
		head + "   A 1 2\n", head + "   A 1 2 3 4\n", head + "   a=1 1 2 3\n", head + "   -y 1 2 3\n", head + "   A 1 2 3\n   A 1 2 3\n",
		head + "WO A 1 2 3\n",
	} {
		_, err := parseConfig(out)
		assert.Error(t, err, out)
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, file := range []string{"config-4.21.0-cx6.txt", "config-4.21.0-next-only.txt", "config-4.33.0-cx7.txt", "config-4.36.0-cx8.txt"} {
		f.Add(golden(f, file))
	}
	f.Fuzz(func(t *testing.T, out string) {
		rows, err := parseConfig(out)
		if err != nil {
			assert.Empty(t, rows)
			return
		}
		var all []inventory.Parameter
		for _, r := range rows {
			assert.Regexp(t, isParameter, r.name)
			all = append(all, r.parameter(inventory.ActivateReboot))
		}
		for _, p := range withTyped(all) {
			for _, v := range []inventory.Reading{p.Current, p.Next, p.Default} {
				assert.False(t, v.Known && strings.ContainsAny(v.Value, " \t\n"), "%s is %q", p.Name, v.Value)
			}
		}
	})
}

func parameters(t *testing.T, file string) []inventory.Parameter {
	t.Helper()
	rows, err := parseConfig(golden(t, file))
	require.NoError(t, err)
	var all []inventory.Parameter
	for _, r := range rows {
		all = append(all, r.parameter(inventory.ActivateDeviceReset))
	}
	return withTyped(all)
}

func TestTypedSettingsAreReadFromTheCards(t *testing.T) {
	for _, c := range []struct{ file, name, standard, current, next string }{
		{"config-4.21.0-cx6.txt", "numVFs", "0", "8", "16"},
		{"config-4.21.0-cx6.txt", "linkType", "Ethernet", "Ethernet", "Ethernet"},
		{"config-4.21.0-next-only.txt", "numVFs", "unknown", "unknown", "16"},
		{"config-4.21.0-next-only.txt", "linkType", "unknown", "unknown", "InfiniBand,Ethernet"},
		{"config-4.33.0-cx7.txt", "numVFs", "0", "0", "8"},
		{"config-4.36.0-cx8.txt", "numVFs", "16", "16", "0"},
		{"config-4.36.0-cx8.txt", "linkType", "InfiniBand", "InfiniBand", "InfiniBand"},
	} {
		p := inventory.FindParameter(parameters(t, c.file), c.name)
		require.NotNil(t, p, c)
		assert.Equal(t, []string{c.standard, c.current, c.next}, []string{p.Default.String(), p.Current.String(), p.Next.String()}, c)
	}
	assert.Nil(t, inventory.FindParameter(parameters(t, "config-4.33.0-cx7.txt"), "linkType"), "the card has one kind of link")
}

func TestTypedSettingsAreStoredAsTheCards(t *testing.T) {
	all := parameters(t, "config-4.21.0-cx6.txt") // it stores 16 virtual functions, switched on, and Ethernet
	set := func(name, value string) []inventory.Setting { return []inventory.Setting{{Name: name, Value: value}} }
	for _, c := range []struct{ given, want []inventory.Setting }{
		{set("numVFs", "16"), nil},
		{set("numVFs", "0x20"), set("NUM_OF_VFS", "32")}, {set("numVFs", "010"), set("NUM_OF_VFS", "10")},
		{set("numVFs", "0"), set("SRIOV_EN", "0")},
		{set("linkType", "Ethernet"), nil},
		{set("linkType", "InfiniBand"), append(set("LINK_TYPE_P1", "1"), set("LINK_TYPE_P2", "1")...)},
		{set("LINK_TYPE_P1", "IB(1)"), set("LINK_TYPE_P1", "1")},
		{set("PCI_ATOMIC_MODE", "pci_atomic_disabled_ext_atomic_enabled"), set("PCI_ATOMIC_MODE", "pci_atomic_disabled_ext_atomic_enabled")},
		{set("PCI_ATOMIC_MODE", "4"), nil},
	} {
		got := own(c.given, all)
		if len(c.want) == 0 {
			assert.Empty(t, got, c.given)
			continue
		}
		assert.Equal(t, c.want, got, c.given)
	}
}

// The tool changes all cards of a machine when it is told none.
func TestEveryLineOfMstconfigNamesItsCard(t *testing.T) {
	for _, s := range []inventory.Setting{{}, {Name: "-y", Value: "r"}, {Name: "r"}} {
		for _, c := range [][]string{
			queryConfig(card).Argv, queryConfig(card, s.Name).Argv, tryConfig(card, []inventory.Setting{s}).Argv,
			setConfig(card, []inventory.Setting{s}, "lock").Argv, tryConfig(inventory.PCIAddress{}, nil).Argv,
		} {
			assert.Equal(t, []string{"mstconfig", "-d"}, c[:2])
			assert.Regexp(t, `^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`, c[2])
			assert.NotContains(t, c, "-yy")
		}
	}
}

func TestNoNameIsAnOption(t *testing.T) {
	assert.Equal(t, []string{"A", "B_1[3]", "SRIOV_EN", "NUM_OF_VFS"},
		askedFor([]string{"A", "-y", "r", "--with_default", "a", "B_1[3]", "B[1", "A=1", "A", "", "numVFs"}))
}
