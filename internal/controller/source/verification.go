package source

import (
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/internal/trust"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

// trusted is who must have signed every file; nil where the source asks for no signature.
func trusted(v *v1alpha1.SourceVerification) (*signature.Trust, error) {
	who, err := trust.Of(v)
	if err != nil {
		return nil, &artifact.Error{Reason: artifact.InvalidSpec, Err: fmt.Errorf("%w; nothing is fetched", err)}
	}
	return who, nil
}

// refused reports whether a signature of the present spec did not hold. What somebody else than the publisher offers is not
// asked for again until a person has looked at it.
func refused(src *v1alpha1.FirmwareSource) bool {
	return failed(src) && artifact.Reason(condition(src.Status.Conditions, v1alpha1.ConditionReady).Reason).IsSignature()
}

func factsOf(src *v1alpha1.FirmwareSource) status.SourceFacts {
	facts := status.SourceFacts{Files: len(src.Spec.Files)}
	if v := src.Spec.Verification; v != nil {
		facts.Verification = v.Mode
	}
	return facts
}
