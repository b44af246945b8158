package catalog_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// These are computed outside of the product, by Python: hardware ids as fwupd's documentation has them, of "Dell Inc." and of
// "Dell Inc.&PowerEdge R650".
const (
	guidBoard = "8bac7db2-8c46-5431-a127-a25b1de142f9" // PCI\VEN_15B3&DEV_101D&SUBSYS_15B30016
	hwVendor  = "85d38fda-fc0e-5c6f-808f-076984ae7978"
	hwModel   = "df061707-adc4-5ffc-a59c-de994577d80e"
	hwOther   = "6de5d951-d755-576b-bd09-c5cf66b27234" // LENOVO
)

// onlyIf is LVFS metadata of a release that has requirements, or a branch.
func onlyIf(guid, conditions string, releases ...string) string {
	return strings.Replace(component(guid, "triplet", releases...), "<releases>", conditions+"<releases>", 1)
}

// A release is for a device that meets all requirements; one that fails one is not for it; and where a requirement cannot be judged, that is
// said, and the release is not offered.
func TestHonoursRequirementsOfLVFS(t *testing.T) {
	const vendorID = `<firmware compare="regex" version="%">vendor-id</firmware>`
	vendor := func(pattern string) string { return strings.Replace(vendorID, "%", pattern, 1) }
	for name, c := range map[string]struct {
		requires, guid string
		at             int
		want           string // offered, left out, or why it is in doubt
	}{
		"none":                             {``, guidPCI, nic, "offered"},
		"the vendor of the card":           {vendor("PCI:0x15B3|PCI:0x10DE"), guidPCI, nic, "offered"},
		"another vendor":                   {vendor("PCI:0x8086"), guidPCI, nic, "left out"},
		"the vendor of an NVMe drive":      {vendor("NVME:0x144D"), guidNVMe, disk, "offered"},
		"the vendor of a BIOS":             {vendor("DMI:Dell Inc."), biosGUID, bios, "offered"},
		"another vendor of a BIOS":         {vendor("DMI:Insyde"), biosGUID, bios, "vendor-id"},
		"a pattern that is none":           {vendor("PCI:(0x15B3"), guidPCI, nic, "cannot be judged"},
		"a vendor of the parent":           {`<firmware depth="1" compare="regex" version="PCI:0x15B3">vendor-id</firmware>`, guidPCI, nic, "depth"},
		"the machine's manufacturer":       {`<hardware>` + hwOther + `|` + hwVendor + `</hardware>`, guidPCI, nic, "offered"},
		"the machine's model":              {`<hardware>` + hwModel + `</hardware>`, guidPCI, nic, "offered"},
		"another machine, or its board":    {`<hardware>` + hwOther + `</hardware>`, guidPCI, nic, hwOther},
		"not this machine":                 {`<not_hardware>` + hwModel + `</not_hardware>`, guidPCI, nic, "left out"},
		"not another machine":              {`<not_hardware>` + hwOther + `</not_hardware>`, guidPCI, nic, hwOther},
		"a version of fwupd":               {`<id compare="ge" version="1.9.7">org.freedesktop.fwupd</id>`, guidPCI, nic, "offered"},
		"a version of something else":      {`<id compare="ge" version="6.0">org.kernel</id>`, guidPCI, nic, "org.kernel"},
		"what the client must be able to":  {`<client>detach-action|requests</client>`, guidPCI, nic, "offered"},
		"what nobody knows of the client":  {`<client>levitate</client>`, guidPCI, nic, "levitate"},
		"a phased deployment":              {`<phased_update>4</phased_update>`, guidPCI, nic, "offered"},
		"the device's own id":              {`<firmware depth="0">` + hwOther + `|` + guidPCI + `</firmware>`, guidPCI, nic, "offered"},
		"another device":                   {`<firmware>` + hwOther + `</firmware>`, guidPCI, nic, hwOther},
		"a version of the boot loader":     {`<firmware compare="ge" version="1.0">bootloader</firmware>`, guidPCI, nic, "bootloader"},
		"no child":                         {`<firmware compare="ge" version="1.0">not-child</firmware>`, guidPCI, nic, "not-child"},
		"a pattern of the running version": {`<firmware compare="glob" version="22.*"/>`, guidPCI, nic, "glob"},
		"what nobody has heard of":         {`<moon phase="full"/>`, guidPCI, nic, "<moon>"},
		"one of several fails":             {`<moon/>` + vendor("PCI:0x8086"), guidPCI, nic, "left out"},
	} {
		for _, group := range []string{"requires", "recommends", "suggests"} {
			t.Run(name+" "+group, func(t *testing.T) {
				o := collect(t, catalog.LVFS{Metadata: strings.NewReader(lvfs(onlyIf(c.guid, "<"+group+">"+c.requires+"</"+group+">", release("1.0.0", "CVE-2026-1"))))}, 5).Offers[c.at]
				switch c.want {
				case "offered":
					assert.Len(t, o.First, 1)
					assert.Zero(t, o.Doubts)
				case "left out":
					assert.Empty(t, o)
				default:
					assert.Empty(t, o.First)
					assert.False(t, o.Tells)
					assert.Equal(t, []catalog.Issue{{ID: "CVE-2026-1", InDoubt: []string{"1.0.0"}}}, o.Issues)
					require.Equal(t, 1, o.Doubts)
					assert.Contains(t, o.Doubtful[0].Doubt, c.want)
				}
			})
		}
	}
}

const biosGUID = "e5cb0fb5-9c71-4e5e-9c2a-000000000001"

// Devices do not report which branch they run, so that a release of one is in doubt.
func TestReleaseOfABranchIsInDoubt(t *testing.T) {
	o := collect(t, catalog.LVFS{Metadata: strings.NewReader(lvfs(
		onlyIf(guidPCI, "<branch>coreboot</branch>", release("2.9.0"), release("2.10.0"), release("2.1.0")), component(guidPCI, "triplet", release("1.0.0")),
	))}, 5).Offers[nic]
	assert.Equal(t, []string{"1.0.0"}, versions(o, nic))
	assert.Equal(t, 3, o.Doubts)
	require.Len(t, o.Doubtful, 1)
	assert.Equal(t, "2.10.0", o.Doubtful[0].Version, "the newest")
	assert.Contains(t, o.Doubtful[0].Doubt, "coreboot")
}

// A requirement of the running version says from where an update leads, not for which device it is.
func TestVersionRequirementIsANeed(t *testing.T) {
	o := collect(t, catalog.LVFS{Metadata: strings.NewReader(lvfs(
		onlyIf(guidPCI, `<requires><firmware compare="ge" version="1.4.0"/><firmware compare="ne" version="1.5.1"/></requires>`, release("2.0.0"))))}, 5).Offers[nic]
	require.Len(t, o.First, 1)
	assert.Equal(t, []catalog.Need{{"ge", "1.4.0"}, {"ne", "1.5.1"}}, o.First[0].Needs)
	for compare, want := range map[string][3]bool{ // of an older, the same and a newer version
		"lt": {true, false, false}, "le": {true, true, false}, "eq": {false, true, false}, "ge": {false, true, true}, "gt": {false, false, true}, "ne": {true, false, true},
	} {
		for i, running := range []string{"1.9", "1.10", "1.11"} {
			assert.Equal(t, want[i], catalog.Need{Compare: compare, Version: "1.10"}.Met(running, catalog.Decimal), "%s %s", running, compare)
		}
		assert.False(t, catalog.Need{Compare: compare, Version: "1.10"}.Met("odd", catalog.Decimal), compare)
	}
}

// Dell's packages are for boards: another board's is not offered, and one is in doubt where the devices do not report their board.
func TestDellPackageIsForABoard(t *testing.T) {
	pci := func(sub ...string) string {
		var list strings.Builder
		for _, s := range sub {
			vendor, device, _ := strings.Cut(s, ":")
			list.WriteString(`<PCIInfo deviceID="101D" vendorID="15B3" subDeviceID="` + device + `" subVendorID="` + vendor + `"/>`)
		}
		return strings.Replace(dellPackage("FRMW", "22.41.10.00", "PowerEdge", "R650", ""), "</Criticality>",
			"</Criticality><SupportedDevices><Device>"+list.String()+"</Device></SupportedDevices>", 1)
	}
	for name, c := range map[string]struct {
		boards         []string
		reports        string
		offered, doubt int
	}{
		"the board":             {[]string{"1028:0001", "15B3:00AB"}, "15b3:00ab", 1, 0},
		"another board":         {[]string{"1028:0001", "15B3:0017"}, "15b3:00ab", 0, 0},
		"every board":           {[]string{":"}, "15b3:00ab", 1, 0},
		"every one of a vendor": {[]string{"15B3:"}, "15b3:00ab", 1, 0},
		"one of another vendor": {[]string{"1028:"}, "15b3:00ab", 0, 0},
		"no board is reported":  {[]string{"15B3:00AB"}, "", 0, 1},
		"every board, and none": {[]string{":"}, "", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			q := r650()
			q.Components[nic].SubsystemID = c.reports
			got, err := catalog.Collect(t.Context(), catalog.Dell{Catalog: strings.NewReader(utf16le(dellManifest(pci(c.boards...))))}, q, 5)
			require.NoError(t, err)
			assert.Len(t, got.Offers[nic].First, c.offered)
			assert.Equal(t, c.doubt, got.Offers[nic].Doubts)
		})
	}
}

func TestDoubtfulReleaseDeclaresItsSpelling(t *testing.T) {
	o := collect(t, catalog.LVFS{Metadata: strings.NewReader(lvfs(onlyIf(biosGUID, "<branch>x</branch>", release("1.0.0"))))}, 5).Offers[bios]
	assert.Equal(t, catalog.Decimal, catalog.SpellingOf(inventory.FormatPlain, o.Declared))
}
