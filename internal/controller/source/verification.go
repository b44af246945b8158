package source

import (
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

// keysOf are the keys one of which must have signed every file; nil where the source asks for no signature.
func keysOf(v *v1alpha1.SourceVerification) ([]signature.Key, error) {
	invalid := func(format string, args ...any) error {
		return &artifact.Error{Reason: artifact.InvalidSpec, Err: fmt.Errorf(format, args...)}
	}
	switch {
	case v == nil || v.Mode == v1alpha1.VerificationUnsigned:
		return nil, nil
	case v.Mode != v1alpha1.VerificationKeys: // of a later version of the API: never taken for none
		return nil, invalid("spec.verification.mode %q is not known to this version; nothing is fetched", v.Mode)
	}
	var keys []signature.Key
	for i, text := range v.Keys {
		found, err := signature.ParseKeys(text)
		if err != nil {
			return nil, invalid("spec.verification.keys[%d]: %w", i, err)
		}
		keys = append(keys, found...)
	}
	if len(keys) == 0 {
		return nil, invalid("spec.verification.mode is Keys, and spec.verification.keys has none")
	}
	return keys, nil
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
