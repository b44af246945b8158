package mirror

import (
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"aead.dev/minisign"
)

// Address is where URLs say that the server is: an address that is set aside for documentation (RFC 5737, TEST-NET-1), so that nobody
// has it and no DNS is asked. Only the proxy knows where the server listens, which is on the loopback interface. The operator
// refuses loopback addresses whatever its flags say, and the lab does not make an exception of it.
const Address = "192.0.2.10"

// username is who the password is of.
const username = "firmware-lab"

// Mirror is a running server with its proxy. It must be closed.
type Mirror struct {
	served      string
	key         minisign.PrivateKey
	authority   []byte
	password    string
	server      *http.Server
	proxy       *http.Server
	backend     string
	proxyListen string
	running     sync.WaitGroup
	publishing  sync.Mutex
}

// Start starts a server of the files below the directory, and its proxy, both on ports of the loopback interface. The key that signs
// stays in the directory, because a source that was declared before names it; authority, certificate and password are made anew.
func Start(dir string) (*Mirror, error) {
	m := &Mirror{served: filepath.Join(dir, "served"), password: rand.Text()}
	if err := os.MkdirAll(m.served, 0o755); err != nil {
		return nil, fmt.Errorf("start mirror: %w", err)
	}
	var err error
	if m.key, err = keyIn(filepath.Join(dir, "minisign.key")); err != nil {
		return nil, err
	}
	var certificate tls.Certificate
	if m.authority, certificate, err = newCertificate(Address); err != nil {
		return nil, err
	}
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start mirror: %w", err)
	}
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start mirror: %w", err), backend.Close())
	}
	m.backend, m.proxyListen = backend.Addr().String(), front.Addr().String()
	quiet := log.New(nowhere{}, "", 0) // a client that does not trust the authority is no news
	const patience = 10 * time.Second
	m.server = &http.Server{Handler: m.authenticated(m.files()), ReadHeaderTimeout: patience, ErrorLog: quiet}
	m.proxy = &http.Server{Handler: http.HandlerFunc(m.connect), ReadHeaderTimeout: patience, ErrorLog: quiet}
	secured := tls.NewListener(backend, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	m.running.Go(func() { _ = m.server.Serve(secured) })
	m.running.Go(func() { _ = m.proxy.Serve(front) })
	return m, nil
}

// Close ends the server and the proxy with all connections.
func (m *Mirror) Close() error {
	err := errors.Join(m.proxy.Close(), m.server.Close())
	m.running.Wait()
	return err
}

// Authority is the certificate of the server's authority, in PEM.
func (m *Mirror) Authority() []byte { return m.authority }

// Credentials are those that the server asks for, by HTTP Basic.
func (m *Mirror) Credentials() (user, password string) { return username, m.password }

// Proxy is the URL of the proxy through which the server is reached.
func (m *Mirror) Proxy() string { return "http://" + m.proxyListen }

// PublicKey is the line of the minisign key that signs.
func (m *Mirror) PublicKey() string {
	public, _ := m.key.Public().(minisign.PublicKey)
	return public.String()
}

// KeyID is the identity of that key, as minisign prints it.
func (m *Mirror) KeyID() string { return fmt.Sprintf("%016X", m.key.ID()) }

// files serves what was published, and no listing of it.
func (m *Mirror) files() http.Handler {
	root := os.DirFS(m.served)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, "/")
		if !ok || !fs.ValidPath(name) || name == "." {
			http.NotFound(w, r)
			return
		}
		http.ServeFileFS(w, r, root, name)
	})
}

// authenticated refuses who does not know the password.
func (m *Mirror) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		known := subtle.ConstantTimeCompare([]byte(user), []byte(username)) & subtle.ConstantTimeCompare([]byte(password), []byte(m.password))
		if known != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="firmware"`)
			http.Error(w, http.StatusText(http.StatusUnauthorized), http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// keyIn reads the key in the file, or makes it.
func keyIn(path string) (minisign.PrivateKey, error) {
	var key minisign.PrivateKey
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := key.UnmarshalText(text); err != nil {
			return key, fmt.Errorf("read key %s: %w", path, err)
		}
		return key, nil
	case !errors.Is(err, fs.ErrNotExist):
		return key, fmt.Errorf("read key: %w", err)
	}
	if _, key, err = minisign.GenerateKey(rand.Reader); err != nil {
		return key, fmt.Errorf("make key: %w", err)
	}
	if text, err = key.MarshalText(); err != nil {
		return key, fmt.Errorf("make key: %w", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return key, fmt.Errorf("keep key: %w", err)
	}
	return key, nil
}
