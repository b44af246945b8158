package lab

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func TestAnImageThatReachedNoCardProvesNothing(t *testing.T) {
	_, err := (&Lab{}).judgeRollback(trial{bad: badTarget(targets()[2], "28.42.1000")}, nil)
	require.ErrorContains(t, err, "no card got")
}

// The device on which an image failed says so itself, and is blocked by the quarantine only until its job has ended.
func TestDeviceRefusesAnImageThatIsQuarantinedOrFailedOnIt(t *testing.T) {
	const bad = v1alpha1.Digest("sha256:bad")
	failure := func(d v1alpha1.Digest) *v1alpha1.DeviceFailure { return &v1alpha1.DeviceFailure{Digest: d} }
	for name, c := range map[string]struct {
		blocked string
		failure *v1alpha1.DeviceFailure
		refuses bool
	}{
		"quarantined":                     {v1alpha1.ReasonQuarantined, nil, true},
		"failed on it":                    {"", failure(bad), true},
		"failed on it and quarantined":    {v1alpha1.ReasonQuarantined, failure(bad), true},
		"will get it":                     {"", nil, false},
		"another image failed":            {"", failure("sha256:other"), false},
		"waits for its source":            {v1alpha1.ReasonSourceNotReady, nil, false},
		"waits for its source, once more": {v1alpha1.ReasonSourceNotReady, failure(bad), false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &v1alpha1.NodeDevice{}
			if c.blocked != "" {
				d.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Reason: c.blocked}}
			}
			assert.Equal(t, c.refuses, refuses(d, bad, c.failure))
		})
	}
}
