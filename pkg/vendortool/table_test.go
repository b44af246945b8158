package vendortool_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

func TestEachToolHasRangeOrNone(t *testing.T) {
	names := map[string]bool{}
	for _, tool := range vendortool.Table() {
		assert.False(t, names[tool.Name], "%s is in the table twice", tool.Name)
		names[tool.Name] = true
		hasRange := tool.Oldest != "" && tool.Newest != "" && tool.Why != "" && tool.VersionText != nil
		assert.Equal(t, tool.VersionArgs != nil, hasRange, tool.Name)
		if !hasRange {
			continue
		}
		for _, v := range []inventory.Version{tool.Oldest, tool.Newest} {
			support, message := tool.Judge(v)
			assert.Equal(t, vendortool.Tested, support, "%s %s: %s", tool.Name, v, message)
		}
	}
}
