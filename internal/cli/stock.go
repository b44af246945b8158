package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/sourcefile"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// stock keeps the images of FirmwareSources on this machine.
type stock struct{ store *artifact.Store }

// openStock opens the stock below the state directory. File URLs may point anywhere, because a user who may run this
// program may read every file of this machine anyway, and URLs may name private addresses, because the user reaches them too.
func openStock(stateDir string) (*stock, error) {
	anywhere := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	fetcher := artifact.NewFetcher(artifact.FetchConfig{FileRoot: "/", AllowLoopback: true, Private: anywhere})
	store, err := artifact.OpenStore(filepath.Join(stateDir, "sources"), fetcher, time.Now)
	if err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	return &stock{store}, nil
}

// fetch downloads and verifies the sources that the assignments need, and returns their images by true digest.
func (s *stock) fetch(ctx context.Context, sources []v1alpha1.FirmwareSource, needed []assignment, report func(string)) (Images, error) {
	out := Images{}
	for _, source := range sources {
		if !slices.ContainsFunc(needed, func(a assignment) bool { return a.image.source == source.Name }) {
			continue
		}
		files, err := sourcefile.Of(&source)
		if err != nil {
			return nil, fmt.Errorf("FirmwareSource %s: %w", source.Name, err)
		}
		if err := artifact.CheckUnique(files); err != nil {
			return nil, fmt.Errorf("FirmwareSource %s: %w", source.Name, err)
		}
		missing := s.store.Missing(source.Name, files)
		if len(missing) > 0 && (source.Spec.SecretRef != nil || source.Spec.CARef != nil) {
			return nil, fmt.Errorf("FirmwareSource %s: there are no Secrets and ConfigMaps without a cluster, so secretRef and caRef cannot be used here, and nothing "+
				"was fetched; fetch its files yourself and name them by file URLs", source.Name)
		}
		for _, f := range missing {
			report("fetching " + f.URL)
			if err := s.store.Download(ctx, source.Name, f, files...); err != nil {
				return nil, fmt.Errorf("FirmwareSource %s: %w", source.Name, err)
			}
		}
		images, err := s.store.Publish(source.Name, files)
		if err != nil {
			return nil, fmt.Errorf("FirmwareSource %s: %w", source.Name, err)
		}
		for _, i := range images {
			out.addStored(source, i)
		}
	}
	return out, nil
}

func (m Images) addStored(source v1alpha1.FirmwareSource, i artifact.Image) {
	m.add(source.Name, v1alpha1.FirmwareFile{}, v1alpha1.ImageDescription{
		Path: i.Path, Class: v1alpha1.DeviceClass(i.Class), Vendor: i.Vendor, Models: i.Models, BoardIDs: i.BoardIDs, Version: string(i.Version),
	}, i.Digest.String())
}

// Fetch gives the engine an image that was fetched before the job began. The engine hashes its content again before it
// writes it.
func (s *stock) Fetch(_ context.Context, digest inventory.Digest) (path string, size int64, err error) {
	path = s.store.Path(digest)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, driver.Rejectf("image %s is not in %s any more", hex.EncodeToString(digest[:]), filepath.Dir(path))
	}
	if err != nil {
		return "", 0, fmt.Errorf("find image: %w", err)
	}
	return path, info.Size(), nil
}
