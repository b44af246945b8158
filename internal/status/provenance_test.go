package status_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	nfstatus "github.com/nodefirmware/node-firmware-operator/internal/status"
)

func TestCurrentNamesWhatChanged(t *testing.T) {
	daemons := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUpToDate}}
	old := nfstatus.Provenance(nil, daemons, 3, noon)
	c := meta.FindStatusCondition(old, v1alpha1.ConditionCurrent)
	require.NotNil(t, c, "kubectl wait needs a condition to wait for")
	assert.Equal(t, metav1.ConditionTrue, c.Status)
	assert.Equal(t, v1alpha1.ReasonUpToDate, c.Reason)
	assert.Equal(t, int64(3), c.ObservedGeneration)
	assert.NotNil(t, meta.FindStatusCondition(old, v1alpha1.ConditionReady), "the daemon's conditions stay")

	list := []v1alpha1.ObsoleteReference{
		{Kind: v1alpha1.OriginTemplate, Name: "gpu", Rule: "nic", Reason: v1alpha1.ObsoleteUpdated},
		{Kind: v1alpha1.OriginPin, Name: "n1", Rule: "stay", Reason: v1alpha1.ObsoleteDeleted},
	}
	next := nfstatus.Provenance(list, old, 3, noon.Add(time.Hour))
	c = meta.FindStatusCondition(next, v1alpha1.ConditionCurrent)
	assert.Equal(t, metav1.ConditionFalse, c.Status)
	assert.Equal(t, v1alpha1.ReasonReferencesChanged, c.Reason)
	assert.Contains(t, c.Message, "2 objects that")
	assert.Contains(t, c.Message, "rule nic of FirmwareTemplate gpu (Updated), pin stay of NodeFirmware n1 (Deleted). That alone flashes nothing")

	for i := range 60 {
		list = append(list, v1alpha1.ObsoleteReference{Kind: v1alpha1.OriginSource, Name: fmt.Sprintf("s%d", i)})
	}
	c = meta.FindStatusCondition(nfstatus.Provenance(list, next, 3, noon), v1alpha1.ConditionCurrent)
	assert.Contains(t, c.Message, "62 objects that")
	assert.Contains(t, c.Message, ", 57 others.")
}
