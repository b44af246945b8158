package simhost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// flintRead reads the image on the flash into a file. As the real one does, it says nothing when that works, replaces the
// file if there is one, and reads what is stored, which need not be what runs.
func (c *call) flintRead(n NIC, path string) (int, error) {
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	if n.Secure {
		// The real one opens the file, and with that empties it, before it asks the card.
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			c.printf("-E- Can not open %s: %s\n", path, osReason(err))
			return flintFailed, nil
		}
		c.printf("-E- Failed to read image. Unsupported operation under Secure FW\n")
		return flintFailed, nil
	}
	data, err := c.m.keptImage(n, s.NICs[n.Key].stored())
	if err != nil {
		return 0, err
	}
	if c.fault != nil && c.fault.Kind == Lie {
		data = data[:len(data)/2]
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		c.printf("-E- Can not open %s: %s\n", path, osReason(err))
		return flintFailed, nil
	}
	return 0, nil
}

// keepImage keeps the bytes of an image that is written to a card, for whoever reads them back, and forgets those that
// the card has no longer.
func (m *Machine) keepImage(key string, data []byte) error {
	s, err := m.view()
	if err != nil {
		return err
	}
	kept, err := filepath.Glob(m.imagePath(key, "*"))
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	for _, path := range kept {
		if path != m.imagePath(key, s.NICs[key].Running.Digest) && path != m.imagePath(key, s.NICs[key].Next.Digest) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return errors.Join(err, m.replace(m.imagePath(key, digest(data)), data, 0o644))
}

// keptImage is the bytes of an image on a card. A card comes with one that nobody wrote.
func (m *Machine) keptImage(n NIC, f flash) ([]byte, error) {
	data, err := os.ReadFile(m.imagePath(n.Key, f.Digest))
	if os.IsNotExist(err) {
		return BuildImage(NICImage, ImageOptions{Version: f.Version, PSID: n.PSID, LinkDown: f.LinkDown, Recovery: f.Recovery}), nil
	}
	return data, err
}

func (m *Machine) imagePath(key, digest string) string {
	return m.path("devices", key+"."+strings.TrimPrefix(digest, "sha256:")+".image")
}
