package simhost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// flintRead reads the image on the flash into a file. Like the real tool it prints nothing on success, replaces an
// existing file, and reads the stored image, which need not be the running one.
func (c *call) flintRead(n NIC, path string) (int, error) {
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	if n.Secure {
		// The real tool opens the file, and thereby empties it, before it reads the card.
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

// keepImage keeps the bytes of an image that is written to a card, so that they can be read back, and drops those that
// the card no longer holds.
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

// keptImage is the bytes of an image on a card. A new card has an initial image.
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
