package imageserver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Images is the store of images.
type Images interface {
	// Open opens an image, or a signed archive, by digest; a missing one is an error that matches fs.ErrNotExist.
	Open(inventory.Digest) (*os.File, error)
	// Statement says who signed the file that an image came from. It has no claims where that is not known.
	Statement(inventory.Digest) (artifact.Statement, error)
}

// Authenticator decides whether the bearer of a token may fetch images.
type Authenticator interface {
	// Authenticate returns the name of the bearer, ErrDenied, ErrBusy, or another error when it cannot decide. Caller is
	// the address the request came from.
	Authenticate(ctx context.Context, caller, token string) (string, error)
}

// ErrDenied says that a token does not belong to a daemon.
var ErrDenied = errors.New("the token does not belong to a firmware daemon")

// PathPrefix is the URL path of images; the digest follows it.
const PathPrefix = "/images/"

// StatementPrefix is the URL path of the statements about images; the digest of the image follows it.
const StatementPrefix = "/statements/"

// Handler serves GET and HEAD of PathPrefix + "sha256:<hex>" and StatementPrefix + "sha256:<hex>". What cannot be answered now is answered
// with Retry-After.
func Handler(images Images, auth Authenticator, log logr.Logger, limits Limits) http.Handler {
	limits = limits.orDefaults()
	transfers := newQueue(limits)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathPrefix+"{digest}", authenticated(auth, log, func(w http.ResponseWriter, r *http.Request, user bearer, digest inventory.Digest) {
		end, err := transfers.enter(r.Context(), user.node)
		if err != nil {
			later(w, http.StatusServiceUnavailable, transfers.comeAgain(), err.Error()+"; try again")
			return
		}
		defer end()
		file, err := images.Open(digest)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			http.Error(w, "no such image in store", http.StatusNotFound)
			return
		case err != nil:
			log.Error(err, "Could not open an image", "digest", digest.String())
			http.Error(w, "the image could not be read; try again", http.StatusInternalServerError)
			return
		}
		defer file.Close()
		log.V(1).Info("Served an image", "digest", digest.String(), "user", user.name, "node", user.node, "range", r.Header.Get("Range"))
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("ETag", `"`+digest.String()+`"`)
		to := newChunked(w, limits.Chunk)
		defer to.close()
		http.ServeContent(to, r, "", time.Time{}, file)
	}))
	mux.HandleFunc("GET "+StatementPrefix+"{digest}", authenticated(auth, log, func(w http.ResponseWriter, _ *http.Request, _ bearer, digest inventory.Digest) {
		statement, err := images.Statement(digest)
		var text []byte
		if err == nil {
			text, err = json.Marshal(statement)
		}
		if err != nil {
			log.Error(err, "Could not read a statement", "digest", digest.String())
			http.Error(w, "the statement could not be read; try again", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
	}))
	return mux
}

// bearer is who brings a token that was accepted: the name of the account, and what tells its nodes apart.
type bearer struct{ name, node string }

// busyAfter is after how long a caller may come again whose token could not be reviewed.
const busyAfter = 5 * time.Second

// authenticated passes on the requests of daemons for a digest.
func authenticated(auth Authenticator, log logr.Logger, next func(http.ResponseWriter, *http.Request, bearer, inventory.Digest)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || token == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		caller, _, _ := net.SplitHostPort(r.RemoteAddr)
		user, err := auth.Authenticate(r.Context(), caller, token)
		switch {
		case errors.Is(err, ErrBusy):
			later(w, http.StatusTooManyRequests, busyAfter, err.Error()+"; try again")
			return
		case errors.Is(err, ErrDenied):
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		case err != nil:
			log.Error(err, "Could not review a token")
			later(w, http.StatusServiceUnavailable, busyAfter, "the token could not be reviewed; try again")
			return
		}
		digest, err := inventory.ParseDigest(r.PathValue("digest"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		next(w, r, bearer{user, nodeOf(token, caller)}, digest)
	}
}

// Server speaks HTTP/1 and listens on an address until its context ends. It runs on every replica, leader or not.
type Server struct {
	Listener    net.Listener
	Handler     http.Handler
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

// NeedLeaderElection tells the manager that every replica serves.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context ends, then gives transfers ten seconds to finish; a daemon resumes the rest.
func (s *Server) Start(ctx context.Context) error {
	server := &http.Server{
		Handler: s.Handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.Certificate},
		// HTTP/2 is off: its streams let one client open many requests at once, and a daemon sends one at a time.
		Protocols: http1(),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.ServeTLS(s.Listener, "", "") }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve images: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("stop serving images: %w", err), server.Close())
	}
	return nil
}

func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// chunked is an answer each part of which has a deadline of its own: a node that stops to read gives its place to others, and one that
// is slow keeps it.
type chunked struct {
	http.ResponseWriter
	control *http.ResponseController
	chunk   time.Duration
}

func newChunked(w http.ResponseWriter, chunk time.Duration) *chunked {
	return &chunked{w, http.NewResponseController(w), chunk}
}

// Write writes one part. A part that is not received in time breaks the connection.
func (c *chunked) Write(p []byte) (int, error) {
	if err := c.control.SetWriteDeadline(time.Now().Add(c.chunk)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return c.ResponseWriter.Write(p)
}

// close sends what is left under the last deadline, and takes the deadline from the connection: the next answer has its own.
func (c *chunked) close() {
	_ = c.control.SetWriteDeadline(time.Now().Add(c.chunk))
	if c.control.Flush() == nil {
		_ = c.control.SetWriteDeadline(time.Time{})
	}
}

// later answers that the caller is to come again.
func later(w http.ResponseWriter, code int, after time.Duration, text string) {
	w.Header().Set("Retry-After", strconv.Itoa(int(after.Seconds())))
	http.Error(w, text, code)
}
