package trust

import (
	"errors"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

// Of is who must have signed every file of a source; nil where the source asks for no signature. A mode of a later version of the API
// is an error, and never taken for none.
func Of(v *v1alpha1.SourceVerification) (*signature.Trust, error) {
	switch {
	case v == nil || v.Mode == v1alpha1.VerificationUnsigned:
		return nil, nil
	case v.Mode == v1alpha1.VerificationKeys:
		return keys(v.Keys)
	case v.Mode == v1alpha1.VerificationSigstore:
		return identities(v.Sigstore)
	}
	return nil, fmt.Errorf("spec.verification.mode %q is not known to this version", v.Mode)
}

func keys(texts []string) (*signature.Trust, error) {
	var out signature.Trust
	for i, text := range texts {
		found, err := signature.ParseKeys(text)
		if err != nil {
			return nil, fmt.Errorf("spec.verification.keys[%d]: %w", i, err)
		}
		out.Keys = append(out.Keys, found...)
	}
	if len(out.Keys) == 0 {
		return nil, errors.New("spec.verification.mode is Keys, and spec.verification.keys has none")
	}
	return &out, nil
}

func identities(v *v1alpha1.SigstoreVerification) (*signature.Trust, error) {
	if v == nil {
		return nil, errors.New("spec.verification.mode is Sigstore, and spec.verification.sigstore is not there")
	}
	var who []signature.Identity
	for _, i := range v.Identities {
		who = append(who, signature.Identity{Issuer: i.Issuer, Subject: i.Subject, SubjectRegExp: i.SubjectRegExp})
	}
	s, err := signature.NewSigstore([]byte(v.TrustedRoot), who)
	if err != nil {
		return nil, fmt.Errorf("spec.verification.sigstore: %w", err)
	}
	return &signature.Trust{Sigstore: []signature.Sigstore{s}}, nil
}
