package sysfs

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const cardVPD = "\x82\x05\x00Card \x90\x18\x00PN\x04MCX6SN\x06MT123 RV\x01\xffV0\x01x\x78"

func TestVPDNamesTheProductItsPartAndItsSerialNumber(t *testing.T) { // R001-4
	for name, tc := range map[string]struct {
		data string
		want *VPD
		err  string
	}{
		"a card":                     {"\x82\x05\x00Card \x90\x11\x00PN\x04MCX6SN\x07MT123 \x00\x78", &VPD{"Card", "MCX6", "MT123"}, ""},
		"an unknown item is skipped": {"\x91\x02\x00ab\x0a12\x82\x01\x00C\x78rest", &VPD{Product: "C"}, ""},
		"nothing":                    {"", nil, "no end"},
		"erased memory":              {"\xff\xff\xff\xff", nil, "says it has 65535 bytes"},
		"a cut keyword":              {"\x90\x04\x00PN\x09x\x78", nil, "cut off"},
		"a cut head":                 {"\x82\x05", nil, "within the head"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadVPD(fstest.MapFS{"sys/devices/f/vpd": &fstest.MapFile{Data: []byte(tc.data)}}, PCIFunction{Path: "sys/devices/f"})
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				assert.ErrorContains(t, err, "sys/devices/f/vpd")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestACardWithoutVPDIsNoError(t *testing.T) {
	got, err := ReadVPD(fstest.MapFS{}, PCIFunction{Path: "sys/devices/f"})
	require.NoError(t, err)
	assert.Nil(t, got)
}

func FuzzParseVPD(f *testing.F) {
	f.Add([]byte(cardVPD))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := parseVPD(data)
		assert.Equal(t, v == nil, err != nil)
	})
}
