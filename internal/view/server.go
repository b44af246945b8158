package view

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/forecast"
)

// site is the page: what a person wrote of it, and the bundle that make ui builds.
//
//go:embed web/site
var site embed.FS

// Options are what the view needs of who starts it.
type Options struct {
	API client.WithWatch
	// Cluster is how a person calls what is shown, and Flags lead a command there, as a shell takes them; empty for the current context.
	Cluster string
	Flags   string
	// Port of loopback; 0 for any that is free.
	Port int
	// Explain says of an error of the API server what is wrong and what to do.
	Explain func(error) string
	// Forecast plays what the operator is about to do.
	Forecast func(context.Context) (*forecast.Forecast, error)
	// Ready is told the address of the page, with its token.
	Ready func(url string)
	Now   func() time.Time
}

// Serve reads the fleet, and serves the page until ctx ends. The first error that the API server answers with ends it as well.
func Serve(ctx context.Context, o Options) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return fmt.Errorf("listen for the browser: %w. Choose another port with --port, or none for any", err)
	}
	defer listener.Close()
	c, err := connect(ctx, o.API, o.Now)
	if err != nil {
		return ignore(ctx, err)
	}
	s := &server{Options: o, cluster: c, pages: map[chan struct{}]bool{}}
	go s.follow(ctx)
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	token := rand.Text()
	web := &http.Server{
		Handler:     guard([]string{"127.0.0.1:" + port, "localhost:" + port}, token, s.routes()),
		BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
	}
	context.AfterFunc(ctx, func() { _ = web.Close() })
	o.Ready("http://127.0.0.1:" + port + "/#token=" + token)
	return ignore(ctx, web.Serve(listener))
}

// ignore takes away an error that is due to the end.
func ignore(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

type server struct {
	Options
	cluster *cluster

	mu sync.Mutex
	// drawn is the last picture; nil where something changed since, and no page was there to see it.
	drawn *Picture
	// pages are the open streams, each with a token when there is something new.
	pages map[chan struct{}]bool
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	files, err := fs.Sub(site, "web/site")
	if err != nil {
		panic(err) // the path above is embedded
	}
	mux.Handle("/", http.FileServerFS(files))
	mux.HandleFunc("/api/stream", s.stream)
	mux.HandleFunc("/api/node", s.node)
	mux.HandleFunc("/api/running", s.running)
	mux.HandleFunc("/api/forecast", s.forecast)
	return mux
}

// Pauses between two pictures: five times what the last one took, within these bounds.
const (
	shortest = 100 * time.Millisecond
	longest  = 3 * time.Second
)

// follow draws a new picture when something changed and a page is open. At rest it does nothing.
func (s *server) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.cluster.changed:
		}
		s.mu.Lock()
		s.drawn = nil
		for page := range s.pages {
			select {
			case page <- struct{}{}:
			default:
			}
		}
		watched := len(s.pages) > 0
		s.mu.Unlock()
		if !watched {
			continue
		}
		began := s.Now()
		s.picture()
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(max(shortest, 5*s.Now().Sub(began)), longest)):
		}
	}
}

// picture is that of now.
func (s *server) picture() *Picture {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drawn == nil {
		s.drawn = Draw(s.cluster.objects(), s.Now())
		s.drawn.Cluster = s.Cluster
		s.drawn.aim(s.Flags)
	}
	return s.drawn
}

// beat is how long a stream is silent at most. A page that hears nothing for three of them takes what it shows for stale.
const beat = 10 * time.Second

// stream sends a page the picture, and then what changes in it, until the page goes away.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	page := make(chan struct{}, 1)
	page <- struct{}{}
	s.mu.Lock()
	s.pages[page] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pages, page)
	}()
	t := &told{label: r.FormValue("label")}
	w.Header().Set("Content-Type", "text/event-stream")
	answer := http.NewResponseController(w)
	idle := time.NewTicker(beat)
	defer idle.Stop()
	for {
		said := []byte(":\n\n") // a comment: all is well, and nothing is new
		select {
		case <-r.Context().Done():
			return
		case <-idle.C:
		case <-page:
			since, failure := s.cluster.outage()
			says := ""
			if failure != nil {
				says = s.Explain(failure)
			}
			var err error
			if said, err = t.next(s.picture(), outageOf(since, says)); err != nil {
				return
			}
			if len(said) > 0 {
				idle.Reset(beat)
			}
		}
		if _, err := w.Write(said); err != nil {
			return
		}
		if err := answer.Flush(); err != nil {
			return
		}
	}
}

// running names the nodes whose devices of a model run a version.
func (s *server) running(w http.ResponseWriter, r *http.Request) {
	out := []string{}
	for _, m := range s.picture().Versions {
		for _, v := range m.Running {
			if string(m.Class) == r.FormValue("class") && m.Model == r.FormValue("model") && v.Version == r.FormValue("version") {
				out = append(out, v.names...)
			}
		}
	}
	s.answer(w, out, nil)
}

func (s *server) node(w http.ResponseWriter, r *http.Request) {
	page, err := readNode(r.Context(), s.API, r.FormValue("name"), s.picture())
	if err == nil {
		aim(page.Next, s.Flags)
	}
	s.answer(w, page, err)
}

func (s *server) forecast(w http.ResponseWriter, r *http.Request) {
	f, err := s.Forecast(r.Context())
	if err != nil {
		s.answer(w, nil, err)
		return
	}
	s.answer(w, comingOf(f), nil)
}

func (s *server) answer(w http.ResponseWriter, what any, err error) {
	if err != nil {
		status := http.StatusBadGateway
		if apierrors.IsNotFound(err) {
			status = http.StatusNotFound
		}
		http.Error(w, s.Explain(err), status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what) // the page went away
}
