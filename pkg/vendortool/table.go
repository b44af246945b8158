package vendortool

import (
	"regexp"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Tool is a program of a vendor, and the range of its versions that the drivers understand.
type Tool struct {
	// Name is the program's base name.
	Name string
	// Product is what it belongs to, as its makers call it, and Package is the package of Debian with it; empty where there is none.
	Product, Package string
	// VersionArgs make it print its version, which is the first group of VersionText, and reach no device. Both are empty for a tool
	// of which any version will do.
	VersionArgs []string
	VersionText *regexp.Regexp
	// Oldest and Newest bound the versions whose answers are known, by a recording or by the source of that version. Ran is the one
	// that this project runs its command lines with.
	Oldest, Ran, Newest inventory.Version
	// Why says what is wrong with versions older than Oldest.
	Why string
}

// ofMstflint is how all programs of mstflint print the version of their package.
var ofMstflint = regexp.MustCompile(`mstflint (\d+\.\d+\.\d+)`)

// ofSG is how the programs of sg3_utils print their own versions.
var ofSG = regexp.MustCompile(`(?i)version(?: string)?: (\d+\.\d+)`)

// Table lists the tools in order of product. A tool that a driver runs and that is not here, such as the one of a profile, is only
// looked for.
func Table() []Tool {
	const newerOutput = "the drivers know no output of earlier versions"
	sg := func(name string, version inventory.Version) Tool {
		return Tool{
			Name: name, Product: "sg3_utils 1.46", Package: "sg3-utils", VersionArgs: []string{"--version"}, VersionText: ofSG,
			Oldest: version, Ran: version, Newest: version, Why: newerOutput,
		}
	}
	mst := func(name string, newest inventory.Version) Tool {
		return Tool{
			Name: name, Product: "mstflint", Package: "mstflint", VersionArgs: []string{"-v"}, VersionText: ofMstflint,
			Oldest: "4.21.0", Ran: "4.21.0", Newest: newest, Why: newerOutput,
		}
	}
	return []Tool{
		mst("mstflint", "4.33.0"),
		mst("mstfwreset", "4.28.0"),
		mst("mstconfig", "4.21.0"),
		{Name: "lspci", Product: "pciutils", Package: "pciutils"},
		{Name: "setpci", Product: "pciutils", Package: "pciutils"},
		{
			Name: "nvme", Product: "nvme-cli", Package: "nvme-cli", VersionArgs: []string{"version"},
			VersionText: regexp.MustCompile(`nvme version (\d+(?:\.\d+)+)`), Oldest: "2.3", Ran: "2.3", Newest: "2.13",
			Why: "its JSON has other members before 2.0, and no output of 2.0 to 2.2 is known",
		},
		sg("sg_inq", "2.10"),
		sg("sg_opcodes", "0.69"),
		sg("sg_read_buffer", "1.30"),
		sg("sg_write_buffer", "1.29"),
		sg("sg_sat_identify", "1.17"),
		{
			// One plugin: without that it looks at all hardware before it prints its version.
			Name: "fwupdtool", Product: "fwupd", Package: "fwupd", VersionArgs: []string{"--version", "--plugins", "ata"},
			VersionText: regexp.MustCompile(`(?m)^runtime\s+org\.freedesktop\.fwupd\s+(\d+\.\d+\.\d+)`),
			Oldest:      "2.0.0", Ran: "2.0.20", Newest: "2.0.20",
			Why: "its lock, its exit codes and the JSON of its errors are those of 2.0",
		},
		// Tools of the profiles in docs/examples: the profile says which output it understands.
		{Name: "dmidecode", Product: "dmidecode", Package: "dmidecode"},
		{Name: "nvmupdate64e", Product: "Intel NVM Update Utility"},
		{Name: "perccli64", Product: "Dell PERC CLI"},
		{Name: "storcli64", Product: "Broadcom StorCLI"},
	}
}

// Named finds a tool in the table.
func Named(name string) (tool Tool, known bool) {
	all := Table()
	i := slices.IndexFunc(all, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return Tool{}, false
	}
	return all[i], true
}
