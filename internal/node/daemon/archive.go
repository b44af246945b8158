package daemon

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
)

// pruneInterval is how often images of devices that are long gone are removed from the archive. The first time is soon after the first
// scan, so that a daemon that is often started anew does so too.
const (
	pruneInterval = time.Hour
	firstPrune    = 2 * time.Second
)

// pruneArchive removes the archived images of devices that are long gone.
func pruneArchive(ctx context.Context, log logr.Logger, disc *discovery.Discovery, store *archive.Store) {
	ticker := time.NewTicker(firstPrune)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if pruneOnce(log, disc, store) {
			ticker.Reset(pruneInterval)
		}
	}
}

// pruneOnce reports whether there was a scan to compare with.
func pruneOnce(log logr.Logger, disc *discovery.Discovery, store *archive.Store) bool {
	found, ok := disc.Snapshot()
	if !ok {
		return false
	}
	if ids, all := present(found.Inventory); all {
		if err := store.Prune(ids, time.Now()); err != nil {
			log.Error(err, "Archive could not be pruned")
		}
	}
	return true
}

// present lists the unique ids of the devices; all is false when a device may be missing, or has another id because it
// could not be read.
func present(found host.Inventory) (ids []string, all bool) {
	for _, d := range found.Devices {
		if d.Err != nil {
			return nil, false
		}
		ids = append(ids, d.UniqueID)
	}
	return ids, len(found.Incomplete) == 0
}
