package inventory_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestOrdersVersionsBySection(t *testing.T) {
	for _, c := range []struct {
		a, b   inventory.Version
		format inventory.VersionFormat
		want   inventory.Order
	}{
		{"22.41.1000", "22.42.1000", inventory.FormatDotted, inventory.Older},
		{"22.9", "22.10", inventory.FormatDotted, inventory.Older},
		{"22.41", "22.41.0", inventory.FormatDotted, inventory.Same},
		{"22.41", "22.41.1", inventory.FormatDotted, inventory.Older},
		{"022.41", "22.41", inventory.FormatDotted, inventory.Same},
		{"22.41", "22.41-rc1", inventory.FormatDotted, inventory.Incomparable},
		{"22.41", "22.+41", inventory.FormatDotted, inventory.Incomparable},
		{"22..41", "22.41", inventory.FormatDotted, inventory.Incomparable},
		{"", "22.41", inventory.FormatDotted, inventory.Incomparable},
		{"GXA7401Q", "GXA7401Q", inventory.FormatPlain, inventory.Same},
		{"1.0", "2.0", inventory.FormatPlain, inventory.Incomparable},
		{"1.0", "1.00", inventory.FormatPlain, inventory.Incomparable},
	} {
		assert.Equal(t, c.want, c.a.Compare(c.b, c.format), "%s against %s", c.a, c.b)
		turned := map[inventory.Order]inventory.Order{inventory.Older: inventory.Newer, inventory.Newer: inventory.Older}
		back, ok := turned[c.want]
		if !ok {
			back = c.want
		}
		assert.Equal(t, back, c.b.Compare(c.a, c.format), "%s against %s", c.b, c.a)
	}
}

func TestDigestIsSpelledOneWay(t *testing.T) {
	digits := strings.Repeat("ab", 32)
	d, err := inventory.ParseDigest("sha256:" + digits)
	require.NoError(t, err)
	assert.Equal(t, "sha256:"+digits, d.String())
	for _, text := range []string{digits, strings.ToUpper(digits), "SHA256:" + digits, "sha256:" + strings.ToUpper(digits)} {
		_, err := inventory.ParseDigest(text)
		assert.ErrorContains(t, err, "write it as sha256:"+digits, text)
	}
	for _, text := range []string{"", "sha256:", "sha256:" + digits[1:], "sha256:" + digits + "ab", "md5:" + digits[:32], "sha256:" + digits[:62] + "zz"} {
		_, err := inventory.ParseDigest(text)
		assert.ErrorContains(t, err, "want sha256: and 64 lower-case hexadecimal digits", text)
	}
}
