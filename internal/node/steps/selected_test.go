package steps

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A write that is taken and changes nothing, or something else, is no reset.
func TestOnlyShownSelectionCounts(t *testing.T) {
	for text, want := range map[string]bool{
		"builtinsafe lastknowngood [factory] custom\n": true,
		"factory\n": true,
		"builtinsafe lastknowngood factory custom\n": false,
		"[builtinsafe] factory custom\n":             false,
		"factory-like\n":                             false,
		"":                                           false,
	} {
		assert.Equal(t, want, selected(text, "factory"), text)
	}
}
