package realnode

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// origin is the web server of a vendor, from which the operator fetches images.
type origin struct {
	server   *http.Server
	listener net.Listener

	mu    sync.Mutex
	files map[string][]byte
}

// serveImages starts it on this side of the machine's network.
func serveImages() (*origin, error) {
	listener, err := net.Listen("tcp", hostAddress+":0")
	if err != nil {
		return nil, fmt.Errorf("serve images: %w", err)
	}
	o := &origin{listener: listener, files: map[string][]byte{}}
	o.server = &http.Server{Handler: o, ReadHeaderTimeout: time.Minute}
	go func() { _ = o.server.Serve(listener) }() // until close
	return o, nil
}

func (o *origin) close() { _ = o.server.Close() }

// put publishes a file and returns its URL.
func (o *origin) put(name string, content []byte) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.files["/"+name] = content
	return "http://" + o.listener.Addr().String() + "/" + name, nil
}

// ServeHTTP answers with a file that was published.
func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	content, known := o.files[r.URL.Path]
	o.mu.Unlock()
	if !known {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(content)
}
