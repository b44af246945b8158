package sysfs

import (
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUptimeIsTheFirstNumber(t *testing.T) {
	for content, want := range map[string]time.Duration{
		"93.47 352.10\n":              93*time.Second + 470*time.Millisecond,
		"0.00 0.00\n":                 0,
		"31536000.12 1.00\n":          365*24*time.Hour + 120*time.Millisecond,
		"7\n":                         7 * time.Second,
		"  12.5 a kernel of tomorrow": 12*time.Second + 500*time.Millisecond,
	} {
		got, err := Uptime(fstest.MapFS{uptimeFile: {Data: []byte(content)}})
		require.NoError(t, err, content)
		assert.Equal(t, want, got, content)
	}
	got, err := Uptime(os.DirFS("/"))
	require.NoError(t, err)
	assert.Positive(t, got, "of this machine")
}

func TestUptimeThatIsNotKnown(t *testing.T) {
	got, err := Uptime(fstest.MapFS{})
	require.NoError(t, err)
	assert.Zero(t, got)
	for _, content := range []string{"", "\n", "-3.00 1.00", "1h 2", "NaN", "1e9 1", "99999999999999999999.00 1", ".5 1"} {
		_, err := Uptime(fstest.MapFS{uptimeFile: {Data: []byte(content)}})
		require.ErrorContains(t, err, uptimeFile, content)
	}
}

func FuzzUptime(f *testing.F) {
	f.Add("93.47 352.10\n")
	f.Add("-1.00 0.00\n")
	f.Add("1h")
	f.Fuzz(func(t *testing.T, content string) {
		up, err := parseUptime(content)
		if err != nil {
			assert.Zero(t, up)
			return
		}
		assert.GreaterOrEqual(t, up, time.Duration(0))
	})
}
