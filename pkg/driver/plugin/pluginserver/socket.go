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

// listen creates the socket under another name and moves it into place, so that it is never visible with more than its
// owner's permissions, and clients are not refused while an old socket is replaced.
func listen(ctx context.Context, socket string) (net.Listener, error) {
	dir := filepath.Dir(socket)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("directory of the socket %s: %w", dir, errors.Join(err, fs.ErrNotExist))
	}
	if err := unserved(ctx, socket); err != nil {
		return nil, err
	}
	// The name is no longer than the socket's, whose path is limited to little more than 100 bytes. It is unique to the
	// plugin: in containers all plugins have the same process id, and one must not move another's socket into its own
	// place.
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

// unserved returns an error when the socket is in use, or is not a socket.
func unserved(ctx context.Context, socket string) error {
	info, err := os.Lstat(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("check socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket: remove it", socket)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil // its creator is gone
	case err != nil:
		return fmt.Errorf("check socket %s: %w", socket, err)
	}
	_ = conn.Close()
	return fmt.Errorf("another process serves %s: stop it first", socket)
}
