package pluginserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
)

// Match says which devices a plugin is for.
type Match = plugin.Match

// Options are the properties of a plugin that its driver does not have.
type Options struct {
	// Matches are the devices the plugin claims; at least one.
	Matches []Match
	// Log receives tasks and panics; nil for none.
	Log *slog.Logger
}

// maxMessage bounds a message in bytes, in both directions.
const maxMessage = 1 << 20

// readGrace is how long reading calls may take to end when the plugin stops.
const readGrace = 5 * time.Second

// Serve serves the driver on the socket until the context ends. The driver's name has to be the socket's without
// ".sock".
//
// The socket is created with permissions for its owner only, in an existing directory. A stale socket is replaced; if
// another process still serves it, Serve fails. When the context ends, Serve starts nothing new and returns once the last writing task has
// finished. The socket's file stays: it marks the plugin as installed, so that no other driver takes its devices while it restarts. Remove
// it to uninstall the plugin.
func Serve(ctx context.Context, d driver.Driver, socket string, o Options) error {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	info := plugin.Info{Name: d.Name(), Version: d.Version(), Matches: o.Matches}
	if err := info.Check(); err != nil {
		return fmt.Errorf("serve plugin: %w", err)
	}
	if want, ok := strings.CutSuffix(filepath.Base(socket), ".sock"); !ok || want != info.Name {
		return fmt.Errorf("serve plugin: the socket of driver %q is %s.sock, not %s", info.Name, info.Name, filepath.Base(socket))
	}
	listener, err := listen(ctx, socket)
	if err != nil {
		return fmt.Errorf("serve plugin: %w", err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.MaxConcurrentStreams(256),
		grpc.ChainUnaryInterceptor(survive(o.Log)))
	tasks := newTasks(o.Log)
	pluginv1.RegisterDriverServer(server, &service{driver: d, matches: o.Matches, tasks: tasks})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		tasks.drain()
		late := time.AfterFunc(readGrace, server.Stop)
		server.GracefulStop()
		late.Stop()
		err = <-served
	}
	if errors.Is(err, grpc.ErrServerStopped) {
		err = nil
	}
	return err
}

// survive turns a panic of the driver into a failed call, and the plugin keeps running.
func survive(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, call *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any, err error) {
		defer func() {
			if p := recover(); p != nil {
				log.Error("Driver panicked", "call", call.FullMethod, "panic", p)
				err = panicked(p)
			}
		}()
		return next(ctx, request)
	}
}

func panicked(p any) error {
	return fmt.Errorf("the driver panicked: %v; report this to the author of the plugin", p)
}

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
