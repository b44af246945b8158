package step_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func TestOnlyReasonsThatSayNothingAboutTheImagePass(t *testing.T) {
	for reason, passes := range map[step.Reason]bool{
		step.ImageRejected: false, step.ImageUnavailable: true, step.StorageFailed: true, step.HardwareChanged: true, step.ReadFailed: true, step.NotUpdatable: false,
		step.DowngradeForbidden: false, step.MaintenanceUnavailable: true, step.MaintenanceLost: true, step.WriteFailed: false, step.WriteUnprotected: true, step.UnlockUnavailable: false,
		step.ActivationFailed: false, step.RebootFailed: false, step.VerifyFailed: false, step.Unhealthy: false, step.UnhealthyBefore: true,
		step.TimedOut: true, step.PowerCycleRequired: false, step.Cancelled: false, step.ArchiveFailed: false,
		step.RollbackUnavailable: false, step.Quarantined: false, step.DeviceUnhealthy: false, step.AttemptsExhausted: false,
		step.StepFailed: false, step.SignatureMissing: true, step.SignatureInvalid: false, step.SignatureUntrusted: false,
		"ReasonOfTheFuture": false,
	} {
		assert.Equal(t, passes, reason.Passing(), reason)
	}
}
