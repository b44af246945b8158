package vendortool

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Support says what is known of a tool on this machine.
type Support string

// The kinds of support.
const (
	// Tested: its version is in the range of the table, or any version will do.
	Tested Support = "Tested"
	// Newer: its version is newer than any whose output is known. It is used, because the drivers reject output that they do not
	// understand.
	Newer Support = "Newer"
	// Unknown: its version could not be read. It is used, for the same reason.
	Unknown Support = "Unknown"
	// TooOld: its version is earlier than the oldest in the table. It is not used.
	TooOld Support = "TooOld"
	// CannotRun: it is installed, but this machine cannot execute it. It is not used.
	CannotRun Support = "CannotRun"
	// Missing: it is not where the daemon looks for tools.
	Missing Support = "Missing"
)

// Finding is what is known of one tool.
type Finding struct {
	Tool string
	// Version is empty where none was read.
	Version inventory.Version
	Support Support
	// Message says what is wrong and what to do about it, in at most 300 bytes; empty for a tool that was tested.
	Message string
}

// IsUsed reports whether drivers may run the tool.
func (f Finding) IsUsed() bool {
	return f.Support == Tested || f.Support == Newer || f.Support == Unknown
}

// Judge compares a version with the range of the table. The message is empty for a version that was tested.
func (t Tool) Judge(v inventory.Version) (support Support, message string) {
	switch {
	case v.Compare(t.Oldest, inventory.FormatDotted) == inventory.Older:
		return TooOld, fmt.Sprintf("version %s is older than %s, the oldest that is supported: %s; %s", v, t.Oldest, t.Why, t.Remedy())
	case v.Compare(t.Newest, inventory.FormatDotted) == inventory.Newer:
		return Newer, fmt.Sprintf("version %s is newer than %s, the newest whose output is known; it is used, and what is not understood is an error",
			v, t.Newest)
	}
	return Tested, ""
}

// Remedy is a person's next step.
func (t Tool) Remedy() string {
	const where = "in the daemon's image or on its --tool-path"
	switch {
	case t.Package == "":
		return "install its vendor's program " + where
	case t.VersionArgs == nil:
		return fmt.Sprintf("install the package %s %s", t.Package, where)
	case t.Oldest == t.Newest:
		return fmt.Sprintf("install version %s of it (package %s) %s", t.Oldest, t.Package, where)
	}
	return fmt.Sprintf("install version %s to %s of it (package %s) %s", t.Oldest, t.Newest, t.Package, where)
}

// Refused are the tools that drivers must not run, for command.Config.Refused.
func Refused(all []Finding) map[string]error {
	out := map[string]error{}
	for _, f := range all {
		if !f.IsUsed() && f.Support != Missing { // the runner finds that out itself, and again when the tool is there
			out[f.Tool] = errors.New(f.Message)
		}
	}
	return out
}

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
	// Oldest and Newest bound the versions whose answers are known, by a recording or by the source of that version.
	Oldest, Newest inventory.Version
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
	sg := func(name string, oldest, newest inventory.Version) Tool {
		return Tool{
			Name: name, Product: "sg3_utils", Package: "sg3-utils", VersionArgs: []string{"--version"}, VersionText: ofSG,
			Oldest: oldest, Newest: newest, Why: newerOutput,
		}
	}
	mst := func(name string, newest inventory.Version) Tool {
		return Tool{
			Name: name, Product: "mstflint", Package: "mstflint", VersionArgs: []string{"-v"}, VersionText: ofMstflint,
			Oldest: "4.21.0", Newest: newest, Why: newerOutput,
		}
	}
	return []Tool{
		mst("mstflint", "4.33.0"),
		mst("mstfwreset", "4.33.0"),
		mst("mstconfig", "4.33.0"),
		{Name: "lspci", Product: "pciutils", Package: "pciutils"},
		{Name: "setpci", Product: "pciutils", Package: "pciutils"},
		{
			Name: "nvme", Product: "nvme-cli", Package: "nvme-cli", VersionArgs: []string{"version"},
			VersionText: regexp.MustCompile(`nvme version (\d+(?:\.\d+)+)`), Oldest: "2.3", Newest: "2.16",
			Why: "its JSON has other members before 2.0, and no output of 2.0 to 2.2 is known",
		},
		sg("sg_inq", "2.10", "2.48"),
		sg("sg_logs", "1.81", "2.35"),
		sg("sg_luns", "1.45", "1.58"),
		sg("sg_opcodes", "0.69", "1.02"),
		sg("sg_persist", "0.67", "0.73"),
		sg("sg_read_buffer", "1.30", "1.36"),
		sg("sg_requests", "1.36", "1.45"),
		sg("sg_sanitize", "1.15", "1.22"),
		sg("sg_write_buffer", "1.29", "1.33"),
		sg("sg_sat_identify", "1.17", "1.22"),
		{
			// One plugin: without that it looks at all hardware before it prints its version.
			Name: "fwupdtool", Product: "fwupd", Package: "fwupd", VersionArgs: []string{"--version", "--plugins", "ata"},
			VersionText: regexp.MustCompile(`(?m)^runtime\s+org\.freedesktop\.fwupd\s+(\d+\.\d+\.\d+)`),
			Oldest:      "2.0.0", Newest: "2.1.8",
			Why: "its lock, its exit codes and the JSON of its errors are those of 2.0",
		},
		// Tools of the profiles in docs/examples: the profile says which output it understands.
		{Name: "dmidecode", Product: "dmidecode", Package: "dmidecode"},
		{Name: "ilorest", Product: "HPE iLOrest"},
		{Name: "nvmupdate64e", Product: "Intel NVM Update Utility"},
		{Name: "onecli", Product: "Lenovo XClarity Essentials OneCLI"},
		{Name: "perccli64", Product: "Dell PERC CLI"},
		{Name: "racadm", Product: "Dell RACADM"},
		{Name: "saa", Product: "Supermicro SAA or SUM"},
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
