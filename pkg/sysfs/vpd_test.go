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
		"an unknown item is skipped": {"\x84\x02\x00ab\x82\x01\x00C\x78rest", &VPD{Product: "C"}, ""},
		"nothing":                    {"", &VPD{}, ""},
		"erased memory":              {"\xff\xff\xff\xff", nil, "truncated"},
		"a cut keyword":              {"\x90\x04\x00PN\x09x\x78", nil, "truncated"},
		"a cut head":                 {"\x82\x05", nil, "truncated"},
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

func FuzzReadVPD(f *testing.F) {
	f.Add([]byte(cardVPD))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ReadVPD(fstest.MapFS{"sys/devices/f/vpd": &fstest.MapFile{Data: data}}, PCIFunction{Path: "sys/devices/f"})
		assert.Equal(t, v == nil, err != nil)
	})
}
