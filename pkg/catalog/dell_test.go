package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
)

func dellPackage(kind, version, brand, model, pci string) string {
	device := ""
	if pci != "" {
		vendor, id, _ := strings.Cut(pci, ":")
		device = fmt.Sprintf(`<SupportedDevices><Device componentID="1"><Display lang="en"><![CDATA[NIC]]></Display>`+
			`<PCIInfo deviceID="%s" subDeviceID="0016" subVendorID="15B3" vendorID="%s"/></Device></SupportedDevices>`, id, vendor)
	}
	return fmt.Sprintf(`<SoftwareComponent schemaVersion="2.0" packageID="ABCDE" path="FOLDER1/1/file_%s.EXE" dateTime="2026-01-15T10:00:00+05:30" `+
		`vendorVersion="%[1]s" dellVersion="A00" hashMD5="00"><Name><Display lang="en"><![CDATA[Update]]></Display></Name>`+
		`<ComponentType value="%s"><Display lang="en"><![CDATA[x]]></Display></ComponentType><Criticality value="2"><Display lang="en">Urgent</Display></Criticality>%s`+
		`<SupportedSystems><Brand key="3" prefix="PE"><Display lang="en"><![CDATA[%s]]></Display><Model systemID="08FF" systemIDType="BIOS">`+
		`<Display lang="en"><![CDATA[%s]]></Display></Model></Brand></SupportedSystems></SoftwareComponent>`, version, kind, device, brand, model)
}

func dellManifest(packages ...string) string {
	return `<?xml version="1.0" encoding="utf-16"?>` + "\r\n" + `<Manifest baseLocation="downloads.example.com" version="26.01">` + strings.Join(packages, "\r\n") + `</Manifest>`
}

func TestDellOffersBIOSByMachineAndFirmwareByPCIID(t *testing.T) {
	manifest := dellManifest(
		dellPackage("BIOS", "1.10.2", "PowerEdge", "R650", ""),
		dellPackage("BIOS", "1.9.2", "PowerEdge", "PowerEdge R650", ""),
		dellPackage("BIOS", "2.1.0", "PowerEdge", "R750", ""),
		dellPackage("FRMW", "22.41.10.00", "PowerEdge", "R650", "15B3:101D"),
		dellPackage("FRMW", "22.42.10.00", "PowerEdge", "R650", "15B3:101D"),
		dellPackage("FRMW", "9.0", "PowerEdge", "R650", "8086:1593"),
		dellPackage("FRMW", "8.0", "PowerEdge", "R750", "15B3:101D"),
		dellPackage("DRVR", "7.0", "PowerEdge", "R650", "15B3:101D"),
		dellPackage("FRMW", "6.10.30.00", "PowerEdge", "R650", ""),
	)
	for name, text := range map[string]string{"UTF-16": utf16le(manifest), "UTF-8": strings.Replace(manifest, "utf-16", "utf-8", 1)} {
		t.Run(name, func(t *testing.T) {
			c := collect(t, catalog.Dell{Catalog: strings.NewReader(text)}, 5)
			assert.Equal(t, []string{"1.10.2", "1.9.2"}, versions(c.Offers[bios], bios))
			assert.Equal(t, []string{"22.42.1000", "22.41.1000"}, versions(c.Offers[nic], nic), "as the card spells them")
			assert.Empty(t, c.Offers[disk].First)
			r := c.Offers[bios].First[0]
			assert.Equal(t, catalog.Undeclared, r.Spelling)
			assert.Equal(t, "https://downloads.example.com/FOLDER1/1/file_1.10.2.EXE", r.URL)
		})
	}
	q := r650()
	q.Vendor = "Lenovo"
	c, err := catalog.Collect(t.Context(), catalog.Dell{Catalog: strings.NewReader(utf16le(manifest))}, q, 5)
	assert.NoError(t, err)
	assert.Empty(t, c.Offers[bios].First, "a machine of another vendor may have the same model name")
}

// A version that Dell counts itself is not compared with that of the device; one that is spelled by a known rule is.
func TestDellVersionsAreSpelledAsDevicesDo(t *testing.T) {
	for _, c := range []struct {
		vendor, version, want string
		spelling              catalog.Spelling
	}{
		{"15B3", "22.41.10.00", "22.41.1000", catalog.Undeclared},
		{"15B3", "28.39.35.60", "28.39.3560", catalog.Undeclared},
		{"15B3", "02.42.50.00", "2.42.5000", catalog.Undeclared},
		{"15B3", "16.35.30.06", "16.35.3006", catalog.Undeclared},
		{"15B3", "22.41.1000", "22.41.1000", catalog.Text},
		{"15B3", "22.41.1.0", "22.41.1.0", catalog.Text},
		{"15B3", "22.41.xx.00", "22.41.xx.00", catalog.Text},
		{"14E4", "22.92.07.50", "22.92.07.50", catalog.Text},
		{"8086", "23.0.8", "23.0.8", catalog.Text},
	} {
		q := r650()
		q.Components[nic].VendorID = strings.ToLower(c.vendor)
		got, err := catalog.Collect(t.Context(), catalog.Dell{Catalog: strings.NewReader(utf16le(dellManifest(
			dellPackage("FRMW", c.version, "PowerEdge", "R650", c.vendor+":101D"))))}, q, 5)
		require.NoError(t, err)
		require.Len(t, got.Offers[nic].First, 1)
		assert.Equal(t, c.want, got.Offers[nic].First[0].Version)
		assert.Equal(t, c.spelling, got.Offers[nic].First[0].Spelling, "%+v", c)
	}
}

func TestBadDellCatalogsAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"LVFS metadata":    utf16le(lvfs()),
		"half a character": utf16le(dellManifest()) + "x",
		"entity expansion": utf16le(`<!DOCTYPE m [<!ENTITY a "ha">]><Manifest>&a;</Manifest>`),
		"broken off":       utf16le(dellManifest(dellPackage("BIOS", "1.0", "PowerEdge", "R650", ""))[:600]),
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, catalog.InvalidCatalog, refused(t, catalog.Dell{Catalog: strings.NewReader(text)}))
		})
	}
}

func FuzzDell(f *testing.F) {
	f.Add(utf16le(dellManifest(dellPackage("BIOS", "1.0", "PowerEdge", "R650", "15B3:101D"))))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := catalog.Collect(t.Context(), catalog.Dell{Catalog: strings.NewReader(text)}, r650(), 3)
		if err != nil {
			assert.Empty(t, c)
		}
	})
}
