package admin

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// identity is the data of a drive with three slots.
func identity() []byte {
	b := make([]byte, identifySize)
	copy(b, "\x4d\x14\x4d\x14S64HNE0T000000      SAMSUNG MZQL23T8HCLS-00A07              GDC5602Q")
	b[76] = 3
	b[77], b[256], b[257], b[260], b[270], b[271], b[319] = 9, 0x5f, 0x01, 0x17, 130, 1, 32
	return b
}

func TestParseIdentify(t *testing.T) {
	i, err := ParseIdentify(identity())
	require.NoError(t, err)
	assert.Equal(t, Identification{
		VendorID: 0x144d, Serial: "S64HNE0T000000", Model: "SAMSUNG MZQL23T8HCLS-00A07", Revision: "GDC5602Q",
		CMIC: 3, OACS: 0x15f, FRMW: 0x17, MDTS: 9, FWUG: 32, MTFA: 38600 * time.Millisecond,
	}, i)
}

func TestTextOfADriveIsCleaned(t *testing.T) {
	b := identity()
	copy(b[4:], "S1\xff\x00\x00")
	copy(b[64:], "1.0\x00\x00\x00\x00\x00")
	i, err := ParseIdentify(b)
	require.NoError(t, err)
	assert.Equal(t, "1.0", i.Revision)
	assert.Equal(t, "S1   E0T000000", i.Serial)
	b[64] = 0xff
	_, err = ParseIdentify(b)
	require.ErrorContains(t, err, "not ASCII", "a revision is compared")
	_, err = ParseIdentify(b[:4095])
	require.ErrorContains(t, err, "4095 bytes")
}

func TestParseSlotLog(t *testing.T) {
	b := make([]byte, logSize)
	copy(b, "\x21\x00\x00\x00\x00\x00\x00\x00GDC5602QGDC5902Q")
	copy(b[56:], "1.0     ")
	l, err := ParseSlotLog(b)
	require.NoError(t, err)
	assert.Equal(t, SlotLog{AFI: 0x21, Revisions: [7]string{"GDC5602Q", "GDC5902Q", "", "", "", "", "1.0"}}, l)
	b[16] = 7
	l, err = ParseSlotLog(b)
	require.NoError(t, err, "one slot does not make the drive unreadable")
	assert.Equal(t, SlotLog{AFI: 0x21, Revisions: [7]string{"GDC5602Q", "", "", "", "", "", "1.0"}, Unreadable: [7]bool{1: true}}, l)
	_, err = ParseSlotLog(b[:511])
	require.Error(t, err)
}

func FuzzParseIdentify(f *testing.F) {
	f.Add(identity())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := ParseIdentify(b)
		if err != nil {
			assert.Zero(t, i)
			return
		}
		for _, s := range []string{i.Serial, i.Model, i.Revision} {
			for _, c := range []byte(s) {
				assert.True(t, c >= ' ' && c <= '~')
			}
		}
	})
}

func FuzzParseSlotLog(f *testing.F) {
	f.Add(make([]byte, logSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseSlotLog(b)
		if err != nil {
			assert.Zero(t, l)
		}
	})
}

func FuzzCharacterMajor(f *testing.F) {
	f.Add(devices)
	f.Fuzz(func(_ *testing.T, table string) { characterMajor(table, "nvme") })
}

func TestParsePowerOnHours(t *testing.T) {
	log := make([]byte, 512)
	log[128], log[129] = 0xff, 0x7f
	hours, err := ParsePowerOnHours(log)
	require.NoError(t, err)
	assert.Equal(t, int64(32767), hours)
	_, err = ParsePowerOnHours(log[:511])
	require.ErrorContains(t, err, "511 bytes instead of 512")
	for _, at := range []int{132, 136, 143} {
		broken := slices.Clone(log)
		broken[at] = 1
		_, err = ParsePowerOnHours(broken)
		require.ErrorContains(t, err, "no such count", "byte %d", at)
	}
}

func FuzzParsePowerOnHours(f *testing.F) {
	f.Add(make([]byte, 512))
	f.Fuzz(func(t *testing.T, b []byte) {
		hours, err := ParsePowerOnHours(b)
		assert.True(t, hours >= 0 && hours <= inventory.MostPowerOnHours && (err == nil || hours == 0))
	})
}

func TestParseSanitizeLog(t *testing.T) {
	b := make([]byte, logSize)
	copy(b, "\x00\x80\x02\x01\x0c\x00\x00\x00")
	l, err := ParseSanitizeLog(b)
	require.NoError(t, err)
	assert.Equal(t, SanitizeLog{State: Sanitizing, Progress: 0x8000, GlobalDataErased: true, Command: 12, Status: 0x102}, l)
	assert.Equal(t, "log page 81h: SPROG 8000h, SSTAT 0102h, SCDW10 0000000Ch", l.String())
	assert.Equal(t, CryptoErase, l.Action())
	for at, value := range map[int]byte{2: 5, 4: 1} {
		c := slices.Clone(b)
		c[at] = value
		_, err = ParseSanitizeLog(c)
		require.ErrorContains(t, err, "is unknown")
	}
	_, err = ParseSanitizeLog(b[:511])
	require.ErrorContains(t, err, "511 bytes")
}

func FuzzParseSanitizeLog(f *testing.F) {
	f.Add(make([]byte, logSize))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseSanitizeLog(b)
		if err != nil {
			assert.Zero(t, l)
			return
		}
		assert.LessOrEqual(t, l.State, SanitizedNoDealloc)
	})
}
