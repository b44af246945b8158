package mstflint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func golden(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(b)
}

func TestParseQuery(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       query
		unique     string
	}{
		{
			"a card that runs what it stores", "query-4.21.0-cx6.txt",
			query{Type: "FS4", Stored: "20.35.1012", PSID: "MT_0000000228", MAC: "043f72f04c46", GUID: "043f720300f04c46"},
			"04:3f:72:f0:4c:46",
		},
		{
			"a card with a pending image", "query-4.21.0-cx6-pending.txt",
			query{Type: "FS4", Stored: "20.35.1012", Running: "20.34.1002", PSID: "MT_0000000228", MAC: "043f72f04c46", GUID: "043f720300f04c46"},
			"04:3f:72:f0:4c:46",
		},
		{
			"a full query", "query-4.33.0-cx7-full.txt",
			query{
				Type: "FS4", Stored: "28.43.1014", PSID: "MT_0000001244", PartNumber: "MCX75310AAS-NEA_Ax", MAC: "e09d73126474",
				GUID: "e09d730300126474", Secure: true,
			},
			"e0:9d:73:12:64:74",
		},
		{
			"a ConnectX-3 with blank GUIDs", "query-4.21.0-cx3.txt",
			query{Type: "FS2", Stored: "2.42.5000", Running: "2.40.5032", PSID: "MT_1090111019", MAC: "e41d2d1f28c0"},
			"e4:1d:2d:1f:28:c0",
		},
		{
			"a Connect-IB, which has no MAC", "query-4.21.0-connectib.txt",
			query{Type: "FS3", Stored: "10.16.1200", PSID: "MT_1230110019", GUID: "0002c90300a1b2c0"},
			"0002c90300a1b2c0",
		},
		{
			"an image, which has no addresses", "query-4.21.0-image.txt",
			query{Type: "FS4", Stored: "20.35.1012", PSID: "MT_0000000228", Secure: true},
			"",
		},
		{
			"firmware of another vendor, which has no PSID", "query-4.21.0-not-mellanox.txt",
			query{Type: "FS3", Stored: "14.21.1000", MAC: "248a07a1b2c4", GUID: "248a070300a1b2c4"},
			"24:8a:07:a1:b2:c4",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseQuery(golden(t, c.file))
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.unique, got.uniqueID())
		})
	}
}

func TestParseQueryRefusesUnknown(t *testing.T) {
	for name, out := range map[string]string{
		"nothing":          "",
		"an error":         golden(t, "query-error-4.21.0-device.txt"),
		"no type":          "FW Version:            20.35.1012\n",
		"no version":       "Image type:            FS4\nPSID:                  MT_0000000228\n",
		"an empty version": "Image type:            FS4\nFW Version:            \n",
		"no numbers":       "Image type:            FS4\nFW Version:            unknown\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseQuery(out)
			require.Error(t, err)
			assert.Zero(t, got)
		})
	}
}

func FuzzParseQuery(f *testing.F) {
	files, err := filepath.Glob("testdata/query-*.txt")
	require.NoError(f, err)
	for _, file := range files {
		f.Add(golden(f, filepath.Base(file)))
	}
	f.Fuzz(func(t *testing.T, out string) {
		q, err := parseQuery(out)
		if err != nil {
			assert.Zero(t, q)
			return
		}
		assert.NotEmpty(t, q.running())
		assert.Contains(t, []int{0, 12}, len(q.MAC))
		assert.Contains(t, []int{0, 16}, len(q.GUID))
	})
}
