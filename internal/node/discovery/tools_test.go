package discovery_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

func TestTheNodeShowsItsVendorsTools(t *testing.T) {
	b := newBench(t)
	b.tools = []vendortool.Finding{
		{Tool: "mstflint", Version: "4.21.0", Support: vendortool.Tested},
		{Tool: "nvme", Version: "1.9", Support: vendortool.TooOld, Message: "version 1.9 is older than 2.3; install 2.3"},
	}
	b.restart()
	b.seen(t)
	n := b.node(t)
	assert.Equal(t, []v1alpha1.VendorTool{
		{Name: "mstflint", Version: "4.21.0", Support: v1alpha1.ToolTested},
		{Name: "nvme", Version: "1.9", Support: v1alpha1.ToolTooOld, Message: "version 1.9 is older than 2.3; install 2.3"},
	}, n.Status.Tools)
	assert.True(t, meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionToolsUntested))
	written := b.written()
	b.seen(t)
	assert.LessOrEqual(t, b.written()-written, 1, "the time of the scan, which was requested, and no more")

	b.tools = nil
	b.restart()
	b.seen(t)
	assert.Empty(t, b.node(t).Status.Tools, "what is gone is not shown any more")
	assert.Nil(t, meta.FindStatusCondition(b.node(t).Status.Conditions, v1alpha1.ConditionToolsUntested))
	for i := range 40 {
		b.tools = append(b.tools, vendortool.Finding{Tool: fmt.Sprintf("tool-%02d", i), Support: vendortool.Tested})
	}
	b.restart()
	b.seen(t)
	assert.Len(t, b.node(t).Status.Tools, 32)
}
