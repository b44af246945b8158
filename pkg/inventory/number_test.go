package inventory

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNumbersOfSettingsAreReadInOneWay(t *testing.T) {
	for text, want := range map[string]string{
		"8": "8", " 8\t": "8", "008": "8", "0x8": "8", "0X0f": "15", "-0x10": "-16", "-1": "-1", "18446744073709551616": "18446744073709551616",
		"": "", "x": "", "0x": "", "8 8": "", "1e3": "", "0b1": "", "1_0": "", "+1": "", "--1": "", "0xg": "", "True(1)": "",
	} {
		n := ParseNumber(text)
		assert.Equal(t, want != "", n != nil, "%q", text)
		if n != nil {
			assert.Equal(t, want, n.String(), "%q", text)
		}
	}
	for value, want := range map[string]string{
		"0x10": "16", " 8 ": "8", "True(1)": "1", "TRUE(0x01)": "1", "Array[0..7]": "Array[0..7]", " a ": "a", "0x10000000000000000": "0x10000000000000000",
	} {
		assert.Equal(t, want, DecimalOf(value), "%q", value)
	}
	number := Parameter{Name: "n", Domain: Domain{Number: &Interval{Max: 8}}, Spelling: SpelledAsNumber}
	coded := number
	coded.Spelling = SpelledWithCode
	for value, takes := range map[string][2]bool{" 0x8 ": {true, true}, "9": {}, "Many(8)": {false, true}} {
		for i, p := range []Parameter{number, coded} {
			assert.Equal(t, takes[i], CheckSettings([]Setting{{Name: "n", Value: value}}, []Parameter{p}) == nil, "%q", value)
		}
	}
}

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
