package discovery_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

func TestToolsDegradeTheNode(t *testing.T) {
	b := newBench(t)
	b.tools = []vendortool.Finding{
		{Tool: "mstflint", Version: "4.21.0", Support: vendortool.Tested},
		{Tool: "nvme", Version: "1.9", Support: vendortool.TooOld, Message: "version 1.9 is older than 2.3; install 2.3"},
	}
	b.restart()
	b.seen(t)
	got := meta.FindStatusCondition(b.node(t).Status.Conditions, v1alpha1.ConditionDegraded)
	require.NotNil(t, got)
	assert.Contains(t, got.Message, "nvme: version 1.9 is older than 2.3")
	assert.NotContains(t, got.Message, "mstflint")
	written := b.written()
	b.seen(t)
	assert.LessOrEqual(t, b.written()-written, 1, "the time of the scan, which was requested, and no more")

	b.tools = nil
	b.restart()
	b.seen(t)
	assert.Nil(t, meta.FindStatusCondition(b.node(t).Status.Conditions, v1alpha1.ConditionDegraded))
}
