package images

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"
)

// connectTimeout is how long one way to the server may take: to look its name up, to connect and to agree on a key.
const connectTimeout = 10 * time.Second

// dialer connects to the image server. The host of the server's URL is where it should be, and what its certificate has to be for,
// whatever the way: a host network has no cluster DNS where the node's resolver comes first, and no route to a Service where nothing
// on the node provides one. The operator's own address needs neither.
type dialer struct {
	tls         *tls.Config
	addressFile string
}

// dial tries the host of the URL, and then the address that the operator published.
func (d dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	conn, err := d.connect(ctx, network, addr, host)
	if err == nil || ctx.Err() != nil {
		return conn, err
	}
	published, err2 := publishedAddress(d.addressFile)
	if err2 == nil && published == "" {
		return nil, err
	}
	if err2 == nil {
		if conn, err2 = d.connect(ctx, network, published, host); err2 == nil {
			return conn, nil
		}
		err2 = fmt.Errorf("the operator's own address: %w", err2)
	}
	return nil, errors.Join(err, err2)
}

// connect returns a connection to the server that the certificate is for; nothing was sent over it yet.
func (d dialer) connect(ctx context.Context, network, addr, name string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	config := d.tls.Clone()
	config.ServerName = name
	return (&tls.Dialer{Config: config}).DialContext(ctx, network, addr)
}

// maxAddress bounds what is read of an address in bytes.
const maxAddress = 256

// publishedAddress reads IP:port from a file; empty when it names none.
func publishedAddress(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the operator's address: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxAddress))
	if err != nil {
		return "", fmt.Errorf("read the operator's address: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	if text == "" {
		return "", nil
	}
	address, err := netip.ParseAddrPort(text)
	if err != nil {
		return "", fmt.Errorf("read the operator's address: %s: %w", path, err)
	}
	return address.String(), nil
}
