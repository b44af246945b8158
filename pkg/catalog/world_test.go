package catalog_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// r650 is a machine with a BIOS, a NIC and an NVMe drive.
func r650() catalog.Query {
	return catalog.Query{Vendor: "Dell Inc.", Model: "PowerEdge R650", Components: []catalog.Component{
		{Class: "BIOS", Vendor: "Dell Inc.", Model: "PowerEdge R650", BoardID: "E5CB0FB5-9C71-4E5E-9C2A-000000000001"},
		{Class: "NIC", Vendor: "Mellanox", Model: "ConnectX-6 Dx", VendorID: "15b3", DeviceID: "101d", SubsystemID: "15b3:0016", BoardID: "MT_0000000359", Format: inventory.FormatDotted},
		{Class: "Disk", Vendor: "Samsung", Model: "PM1733", VendorID: "144d", DeviceID: "a824"},
	}}
}

const (
	bios = iota
	nic
	disk
)

// versions are the versions of an offer for a component of r650, as they are listed when nobody else offers any.
func versions(o catalog.Offer, component int) []string {
	var out []string
	for _, r := range o.Versions(catalog.SpellingOf(r650().Components[component].Format, o.Declared)) {
		out = append(out, r.Version)
	}
	return out
}

func collect(t *testing.T, p catalog.Provider, keep int) catalog.Collected {
	t.Helper()
	c, err := catalog.Collect(t.Context(), p, r650(), keep)
	require.NoError(t, err)
	return c
}

// refused runs a provider that must fail, and returns why.
func refused(t *testing.T, p catalog.Provider) catalog.Reason {
	t.Helper()
	c, err := catalog.Collect(t.Context(), p, r650(), 5)
	require.Error(t, err)
	assert.Empty(t, c, "nothing of a bad answer is used")
	t.Log(err)
	return catalog.ReasonOf(err)
}

// component is LVFS metadata of one device with some releases.
func component(guid, format string, releases ...string) string {
	return fmt.Sprintf(`<component type="firmware"><id>com.example</id><name>N</name><provides><firmware type="flashed">%s</firmware></provides>`+
		`<releases>%s</releases><custom><value key="LVFS::VersionFormat">%s</value></custom></component>`, guid, strings.Join(releases, ""), format)
}

func release(version string, issues ...string) string {
	var list strings.Builder
	for _, i := range issues {
		list.WriteString(`<issue type="cve">` + i + `</issue>`)
	}
	return fmt.Sprintf(`<release version="%s" urgency="high" timestamp="1767225600"><location>https://fw.example.com/%[1]s.cab</location>`+
		`<checksum type="sha256" target="content">%064d</checksum><checksum type="sha256" target="container">%064d</checksum>`+
		`<description><p>text with <em>marks</em> in it</p></description><issues>%s</issues></release>`, version, 1, 2, list.String())
}

func lvfs(components ...string) string {
	return `<?xml version="1.0" encoding="utf-8"?><components origin="lvfs" version="0.9">` + strings.Join(components, "\n") + `</components>`
}

// utf16le is a text as Dell writes it.
func utf16le(s string) string {
	out := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(s)) {
		out = append(out, byte(u), byte(u>>8))
	}
	return string(out)
}

// forever gives a head and then the same text without end.
type forever struct {
	head, body string
	at         int
}

func (f *forever) Read(p []byte) (int, error) {
	if f.at < len(f.head) {
		n := copy(p, f.head[f.at:])
		f.at += n
		return n, nil
	}
	n := 0
	for n < len(p) {
		i := (f.at - len(f.head)) % len(f.body)
		m := copy(p[n:], f.body[i:])
		n, f.at = n+m, f.at+m
	}
	return n, nil
}

// brokenOff fails after a text.
func brokenOff(s string) io.Reader {
	return io.MultiReader(strings.NewReader(s), failing{})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, fmt.Errorf("read tcp: connection reset by peer") }

func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
