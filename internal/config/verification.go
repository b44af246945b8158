package config

import (
	"errors"
	"fmt"
	"path/filepath"
)

// The values of Daemon.ImageVerification.
const (
	// ImagesSigned refuses images that nobody signed whom this machine trusts.
	ImagesSigned = "Required"
	// ImagesSignedIfKeys does so where this machine has keys or trusted roots.
	ImagesSignedIfKeys = "IfKeys"
)

func (d Daemon) validateVerification() error {
	var errs []error
	switch {
	case d.ImageVerification != ImagesSigned && d.ImageVerification != ImagesSignedIfKeys:
		errs = append(errs, fmt.Errorf("--image-verification %q: want %s or %s", d.ImageVerification, ImagesSigned, ImagesSignedIfKeys))
	case d.ImageVerification == ImagesSigned && d.ImageKeysDir == "":
		errs = append(errs, fmt.Errorf("--image-verification %s needs --image-keys-dir, or every image is refused", ImagesSigned))
	}
	if d.ImageKeysDir != "" && !filepath.IsAbs(d.ImageKeysDir) {
		errs = append(errs, fmt.Errorf("--image-keys-dir %q: must be an absolute path, or empty for no keys", d.ImageKeysDir))
	}
	return errors.Join(errs...)
}
