package mirror

import (
	"io"
	"net"
	"net/http"
	"time"
)

// connect leads to the server, and nowhere else, by the method CONNECT (RFC 9110, 9.3.6). What goes through is encrypted from end to
// end, as it is for any proxy.
func (m *Mirror) connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect || r.Host != net.JoinHostPort(Address, "443") {
		http.Error(w, "this proxy leads to https://"+Address+" only", http.StatusForbidden)
		return
	}
	server, err := net.DialTimeout("tcp", m.backend, 5*time.Second)
	if err != nil {
		http.Error(w, http.StatusText(http.StatusBadGateway), http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(server, buffered) // a client may have sent more than the head of its request
		_ = server.Close()               // ends the other direction
	}()
	_, _ = io.Copy(client, server)
	_ = client.Close()
	<-done
}
