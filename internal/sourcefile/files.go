package sourcefile

import (
	"errors"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/signature"
)

// Of returns the files of a source, each with who must have signed it, if anybody. The spec may be of a file that no API server has validated.
// The error is an *artifact.Error with the reason InvalidSpec.
func Of(src *v1alpha1.FirmwareSource) ([]artifact.File, error) {
	who, err := trustOf(src.Spec.Verification)
	if err != nil {
		return nil, &artifact.Error{Reason: artifact.InvalidSpec, Err: fmt.Errorf("%w; nothing is fetched", err)}
	}
	files := make([]artifact.File, 0, len(src.Spec.Files))
	for _, f := range src.Spec.Files {
		var digest inventory.Digest
		if f.Digest != "" || !artifact.OCI(f.URL) {
			if digest, err = inventory.ParseDigest(string(f.Digest)); err != nil {
				return nil, &artifact.Error{Reason: artifact.InvalidSpec, Err: err}
			}
		}
		file := artifact.File{URL: f.URL, Digest: digest}
		if who != nil {
			file.Signature = &artifact.Signature{URL: f.SignatureURL, Trust: *who}
		}
		for _, i := range f.Images {
			var of inventory.Digest
			if i.Digest != "" {
				if of, err = inventory.ParseDigest(string(i.Digest)); err != nil {
					return nil, &artifact.Error{Reason: artifact.InvalidSpec, Err: err}
				}
			}
			file.Images = append(file.Images, artifact.Description{
				Path: i.Path, Class: inventory.Class(i.Class), Vendor: i.Vendor, Models: i.Models, BoardIDs: i.BoardIDs,
				Version: inventory.NormalizeVersion(i.Version), Digest: of,
			})
		}
		files = append(files, file)
	}
	return files, nil
}

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
