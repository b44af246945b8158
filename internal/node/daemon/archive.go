package daemon

import (
	"context"
	"time"

	"github.com/go-logr/logr"

	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/discovery"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
)

// pruneInterval is how often images of devices that are long gone are removed from the archive.
const pruneInterval = time.Hour

// pruneArchive removes the archived images of devices that are long gone.
func pruneArchive(ctx context.Context, log logr.Logger, disc *discovery.Discovery, store *archive.Store) {
	ticker := time.NewTicker(pruneInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		pruneOnce(log, disc, store)
	}
}

func pruneOnce(log logr.Logger, disc *discovery.Discovery, store *archive.Store) {
	found, ok := disc.Snapshot()
	if !ok {
		return
	}
	if ids, all := present(found.Inventory); all {
		if err := store.Prune(ids, time.Now()); err != nil {
			log.Error(err, "Archive could not be pruned")
		}
	}
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
