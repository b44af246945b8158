package neighbour

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The page lists everything that is looked for.
func TestPageNamesEverySign(t *testing.T) {
	page, err := os.ReadFile("../../docs/concepts/other-node-managers.md")
	require.NoError(t, err)
	for _, known := range append(annotations[:len(annotations):len(annotations)], taints...) {
		assert.Contains(t, string(page), "`"+known.key+"`")
	}
	for _, state := range upgrading {
		assert.Contains(t, string(page), "`"+state+"`")
	}
	assert.Contains(t, string(page), "`"+upgradePrefix+"DRIVER"+upgradeSuffix+"`")
}
