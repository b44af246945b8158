package inventory

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSpellsNumbersAsFwupdDoes(t *testing.T) { // the values of fwupd's own tests, where it has some
	for format, want := range map[string]string{
		"number": "2154893328", "hex": "0x80711010", "pair": "32881.4112", "triplet": "128.113.4112", "quad": "128.113.16.16", "bcd": "80.71.10.10",
		"dell-bios": "113.16.16", "dell-bios-msb": "128.113.16", "compal-bios": "10.10", "intel-me": "15.0.113.4112", "intel-me2": "8.0.113.4112",
		"intel-csme19": "23.0.113.4112", "surface": "128.28944.16", "surface-legacy": "513.3140.16",
	} {
		assert.Equal(t, want, SpellNumber(format, 0x80711010), format)
		assert.Contains(t, NumberFormats, format)
	}
	assert.Len(t, NumberFormats, 14)
	assert.Empty(t, SpellNumber("plain", 1))
}
