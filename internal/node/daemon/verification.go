package daemon

import (
	"log/slog"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/node/images"
)

// logVerification says once whether this node verifies who signed the images it flashes. The keys are read again for every image.
func logVerification(log *slog.Logger, c config.Daemon, store *images.Store) {
	switch who, required, err := store.Signed(); {
	case err != nil:
		log.Error("Could not read the keys of images; every image is refused until they can be read", "dir", c.ImageKeysDir, "err", err)
	case !required:
		log.Warn("Images are flashed without signature verification, because this node has no key. Whoever compromises the operator can have "+
			"any image flashed that a device accepts", "dir", c.ImageKeysDir, "policy", c.ImageVerification)
	case who.Len() == 0:
		log.Error("Every image is refused: this node accepts only signed images but has no key", "dir", c.ImageKeysDir, "policy", c.ImageVerification)
	default:
		log.Info("Images must be signed", "dir", c.ImageKeysDir, "keys", len(who.Keys), "trustedRoots", len(who.Sigstore), "policy", c.ImageVerification)
	}
}
