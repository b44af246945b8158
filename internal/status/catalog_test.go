package status_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// A catalog that was never asked for says whether it is being asked for or waits for room in the queue.
func TestACatalogThatHasNoPlaceSaysSo(t *testing.T) {
	for facts, want := range map[status.CatalogFacts]string{
		{Never: true, QueueFull: true}: v1alpha1.ReasonQueueFull,
		{Never: true, Scheduled: true}: v1alpha1.ReasonProgressing,
		{QueueFull: true}:              v1alpha1.ReasonSucceeded,
	} {
		got := status.Catalog(nil, 1, time.Unix(0, 0), &v1alpha1.FirmwareCatalogStatus{}, facts)
		ready := meta.FindStatusCondition(got, v1alpha1.ConditionReady)
		require.NotNil(t, ready)
		assert.Equal(t, want, ready.Reason, "%+v", facts)
	}
}
