package source

import (
	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

// refused reports whether a signature of the present spec did not hold. What somebody else than the publisher offers is not
// asked for again until a person has looked at it.
func refused(src *v1alpha1.FirmwareSource) bool {
	return failed(src) && artifact.Reason(condition(src.Status.Conditions, v1alpha1.ConditionReady).Reason).IsSignature()
}

func factsOf(src *v1alpha1.FirmwareSource) status.SourceFacts {
	return status.SourceFacts{Files: len(src.Spec.Files), Verification: src.Spec.Verification}
}
