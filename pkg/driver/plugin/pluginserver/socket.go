package pluginserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// listen makes the socket. Nobody ever sees it with other rights than its owner's, and nobody is refused while an old one is
// replaced: it is made under another name and moved into place.
func listen(ctx context.Context, socket string) (net.Listener, error) {
	dir := filepath.Dir(socket)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("directory of the socket %s: %w", dir, errors.Join(err, fs.ErrNotExist))
	}
	if err := unserved(ctx, socket); err != nil {
		return nil, err
	}
	// The name is no longer than the socket's, whose path may have little more than 100 bytes. It is the plugin's alone: in
	// containers all plugins have the same process id, and one must not move the socket of another into its own place.
	temporary := filepath.Join(dir, "."+strings.TrimSuffix(filepath.Base(socket), ".sock")+".new")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	err = os.Chmod(temporary, 0o600)
	if err == nil {
		err = os.Rename(temporary, socket)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make socket: %w", err), os.Remove(temporary), listener.Close())
	}
	return listener, nil
}

// unserved returns an error when the socket is in use, or is no socket.
func unserved(ctx context.Context, socket string) error {
	info, err := os.Lstat(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and is no socket: remove it", socket)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil // whoever made it is gone
	case err != nil:
		return fmt.Errorf("look at socket %s: %w", socket, err)
	}
	_ = conn.Close()
	return fmt.Errorf("another process serves %s: end it first", socket)
}
