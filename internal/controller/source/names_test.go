package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

// resolve has this process ask a name server of the test, which gives the IPv4 addresses of a name in turn, and then the last one.
func resolve(t *testing.T, name string, addresses ...string) {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	before := net.DefaultResolver
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = server.Close()
	})
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	var wire []byte // of the name
	for label := range bytes.SplitSeq([]byte(name), []byte(".")) {
		wire = append(append(wire, byte(len(label))), label...)
	}
	wire = append(wire, 0)
	go func() {
		query, asked := make([]byte, 1500), 0
		for {
			n, from, err := server.ReadFrom(query)
			if err != nil {
				return
			}
			end := 12 + len(wire) + 4 // of the question, of RFC 1035 4.1
			if n < end || !bytes.Equal(query[12:12+len(wire)], wire) {
				continue
			}
			reply := append(bytes.Clone(query[:2]), 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
			reply = append(reply, query[12:end]...)
			if binary.BigEndian.Uint16(query[end-4:]) == 1 { // A
				ip := netip.MustParseAddr(addresses[min(asked, len(addresses)-1)]).As4()
				asked++
				reply[7] = 1
				reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				reply = append(reply, ip[:]...)
			}
			_, _ = server.WriteTo(reply, from)
		}
	}()
}

// The address is judged when it is dialed, each time: a name that had a permitted address when it was first asked for does not lead to
// another one. The two addresses of this machine stand for a public and an internal one.
func TestDNSRebindingLeadsNowhere(t *testing.T) {
	public, err := net.Listen("tcp", "127.0.0.2:0")
	require.NoError(t, err)
	port := public.Addr().(*net.TCPAddr).Port
	internal, err := net.Listen("tcp", fmt.Sprintf("127.0.0.3:%d", port))
	require.NoError(t, err)
	serve := func(l net.Listener, h http.HandlerFunc) *atomic.Int64 {
		asked := &atomic.Int64{}
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			h(w, r)
		})}}
		s.Start()
		t.Cleanup(s.Close)
		return asked
	}
	first := serve(public, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "8")
		_, _ = w.Write([]byte("FIR"))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler) // so that it is asked again
	})
	second := serve(internal, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("FIRMWARE")) })
	resolve(t, "rebound.test", "127.0.0.2", "127.0.0.3")

	b := newBench(t)
	b.limits = func(c *artifact.FetchConfig) { c.Refused = []netip.Prefix{netip.MustParsePrefix("127.0.0.3/32")} }
	b.start()
	b.create("src", remote(fmt.Sprintf("http://rebound.test:%d/fw.bin", port), "FIRMWARE"))
	_, err = b.reconcile("src")
	require.NoError(t, err, "a refused address is not tried again soon")
	assert.Equal(t, "False DownloadFailed", b.reason("src", "Ready"))
	assert.Contains(t, b.message("src", "Ready"), "--refuse-source-networks")
	assert.EqualValues(t, 1, first.Load())
	assert.Zero(t, second.Load())
	assert.Empty(t, b.kept())
}
