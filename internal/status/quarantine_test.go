package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func TestTheConditionQuarantinedIsThereOnlyWhileAnImageIs(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded}
	listed := []v1alpha1.QuarantinedImage{{Version: "22.41", Model: "15b3:101d"}, {Version: "22.41", Model: "15b3:101f"}}
	for name, c := range map[string]struct {
		facts QuarantineFacts
		want  []string
	}{
		"one":  {QuarantineFacts{Source: "cx6", Listed: listed[:1]}, []string{"Version 22.41 on 15b3:101d made", "kubectl patch firmwaresource cx6", "liftQuarantine"}},
		"two":  {QuarantineFacts{Source: "cx6", Listed: listed}, []string{"and 1 other image or model made"}},
		"full": {QuarantineFacts{Source: "cx6", Listed: listed, More: 3}, []string{"and 4 other images or models", "3 more entries do not fit"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Quarantine(c.facts, []metav1.Condition{ready}, 3, now)
			assert.Contains(t, got, ready, "what others wrote stays")
			q := meta.FindStatusCondition(got, v1alpha1.ConditionQuarantined)
			require.NotNil(t, q)
			assert.Equal(t, metav1.ConditionTrue, q.Status)
			for _, want := range c.want {
				assert.Contains(t, q.Message, want)
			}
			assert.Equal(t, []metav1.Condition{ready}, Quarantine(QuarantineFacts{Source: "cx6"}, got, 4, now))
		})
	}
}
