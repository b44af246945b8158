package sourcefile

import (
	"errors"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

// trustOf is who must have signed every file of a source; nil where the source asks for no signature. A verification that names nobody is an
// error, and never taken for none.
func trustOf(v *v1alpha1.SourceVerification) (*signature.Trust, error) {
	switch {
	case v == nil:
		return nil, nil
	case (len(v.Keys) > 0) == (v.TrustedRoot != ""):
		return nil, errors.New("spec.verification needs either keys, or trustedRoot and identities")
	case len(v.Keys) > 0:
		return keys(v.Keys)
	}
	return identities(v)
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
		return nil, errors.New("spec.verification.keys holds no key")
	}
	return &out, nil
}

func identities(v *v1alpha1.SourceVerification) (*signature.Trust, error) {
	var who []signature.Identity
	for _, i := range v.Identities {
		who = append(who, signature.Identity{Issuer: i.Issuer, Subject: i.Subject, SubjectRegExp: i.SubjectRegExp})
	}
	s, err := signature.NewSigstore([]byte(v.TrustedRoot), who)
	if err != nil {
		return nil, fmt.Errorf("spec.verification: %w", err)
	}
	return &signature.Trust{Sigstore: []signature.Sigstore{s}}, nil
}
