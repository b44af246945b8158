package artifact

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// errRefused marks addresses and redirects that are refused for safety; no retry helps.
var errRefused = errors.New("refused")

// metadataAddresses are addresses of cloud instance metadata outside the link-local range: AWS (IPv6), Alibaba, Azure and
// Oracle.
var metadataAddresses = [...]netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("192.0.0.192"),
}

// translated are prefixes of IPv6 addresses that a gateway translates into IPv4 addresses, with the byte at which the IPv4
// address begins. It is judged in place of the address.
var translated = [...]struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4
	{netip.MustParsePrefix("::/96"), 12},           // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // IPv4-translated (RFC 2765)
}

// tunnels are prefixes of addresses whose IPv4 address is not in a known place: NAT64 of a site, and Teredo.
var tunnels = [...]netip.Prefix{netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/32")}

// addresses says which addresses files may be fetched from. It judges addresses after name resolution, so that a host name
// cannot hide one.
type addresses struct {
	loopback bool
	private  []netip.Prefix
	refused  []netip.Prefix
	// hosts are names, and suffixes that begin with a dot, which a proxy may be asked for though they are not known here.
	hosts []string
	// lookup finds the addresses of a name; nil asks the name servers of this machine.
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// privateToo are networks besides those of RFC 1918 and RFC 4193 that the internet does not route, and that clouds give to pods and
// services for this reason. Those for examples (RFC 5737, RFC 3849) are left out.
var privateToo = [...]netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), // of carriers (RFC 6598)
	netip.MustParsePrefix("192.0.0.0/24"),  // of protocols (RFC 6890)
	netip.MustParsePrefix("198.18.0.0/15"), // of benchmarks (RFC 2544)
	netip.MustParsePrefix("240.0.0.0/4"),   // reserved (RFC 1112)
	netip.MustParsePrefix("fec0::/10"),     // of sites (RFC 3879)
}

// isPrivate reports whether an address is one that only a private network has.
func isPrivate(ip netip.Addr) bool {
	return ip.IsPrivate() || slices.ContainsFunc(privateToo[:], func(p netip.Prefix) bool { return p.Contains(ip) })
}

// permit returns an error that matches errRefused for an address that is not permitted.
func (a addresses) permit(address netip.Addr) error {
	ip := address.Unmap().WithZone("")
	for _, t := range translated {
		if raw := ip.As16(); !ip.Is4() && t.prefix.Contains(ip) && !ip.IsLoopback() && !ip.IsUnspecified() {
			ip = netip.AddrFrom4([4]byte(raw[t.at : t.at+4]))
		}
	}
	switch {
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip.IsUnspecified(), ip.Is4() && ip.As4()[0] == 0, ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("%w: address %s is link-local, multicast, broadcast or unspecified", errRefused, ip)
	case slices.Contains(metadataAddresses[:], ip):
		return fmt.Errorf("%w: address %s holds a cloud's instance metadata", errRefused, ip)
	case slices.ContainsFunc(tunnels[:], func(p netip.Prefix) bool { return p.Contains(ip) }):
		return fmt.Errorf("%w: address %s tunnels to another address", errRefused, ip)
	case ip.IsLoopback() && !a.loopback:
		return fmt.Errorf("%w: address %s is on this machine", errRefused, ip)
	case isPrivate(ip) && !slices.ContainsFunc(a.private, func(p netip.Prefix) bool { return p.Contains(ip) }):
		return fmt.Errorf("%w: the address is in a private network that the operator's --allow-source-networks does not name", errRefused)
	case slices.ContainsFunc(a.refused, func(p netip.Prefix) bool { return p.Contains(ip) }):
		return fmt.Errorf("%w: the address is in a network that the operator's --refuse-source-networks names", errRefused)
	}
	return nil
}

// permitDialed judges an address that is about to be dialed.
func (a addresses) permitDialed(hostport string) error {
	addr, err := netip.ParseAddrPort(hostport)
	if err != nil {
		return fmt.Errorf("%w: address %s", errRefused, hostport)
	}
	return a.permit(addr.Addr())
}

// proxies are the addresses of proxies that the environment has named, as host:port. Whoever starts the operator chose them, so
// they may be in a private network or on this machine.
type proxies struct{ sync.Map }

// proxy returns the proxy for a request, as the environment names it. It is asked for every request, also of a redirect, and judges the
// host before anybody else reads it.
func (a addresses) proxy(of func(*http.Request) (*url.URL, error), known *proxies) func(*http.Request) (*url.URL, error) {
	return func(req *http.Request) (*url.URL, error) {
		ip, name, err := hostOf(req.URL)
		if err != nil {
			return nil, err
		}
		proxy, err := of(req)
		if err != nil || proxy == nil {
			return nil, err
		}
		if err := a.permitThroughProxy(req.Context(), ip, name); err != nil {
			return nil, err
		}
		known.Store(dialed(proxy), true)
		return proxy, nil
	}
}

// dialed is the address that is dialed for a URL.
func dialed(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(port, "80"))
}

// dialer returns a function that dials an address only if it is permitted.
func (a addresses) dialer(known *proxies) func(ctx context.Context, network, address string) (net.Conn, error) {
	const timeout = 15 * time.Second
	direct := &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error { return a.permitDialed(address) }}
	toProxy := &net.Dialer{Timeout: timeout}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if _, ok := known.Load(address); ok {
			return toProxy.DialContext(ctx, network, address)
		}
		return direct.DialContext(ctx, network, address)
	}
}

// Access holds the credentials for the servers of a source and the authorities that identify them. The zero value is for public servers.
type Access struct {
	// CA holds PEM certificates of authorities that are trusted in addition to the system's; empty for none.
	CA []byte
	// Hosts are the servers that receive the credentials, written as in a URL: with the port unless it is 443.
	Hosts []string
	// Username and Password are those of HTTP Basic; Token is a bearer token. At most one of the two is set.
	Username, Password, Token string
}

// with returns a fetcher that uses the access, and a function that releases its connections.
func (f *Fetcher) with(a *Access) (*Fetcher, func(), error) {
	if a == nil {
		return f, func() {}, nil
	}
	transport := f.transport.Clone()
	if len(a.CA) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(a.CA) {
			return nil, nil, permanent(InvalidSpec, "read the CA of the source: there is no certificate in PEM in it")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	own := *f
	own.transport, own.access = transport, a
	own.client = &http.Client{Transport: authorizer{access: *a, next: transport}, CheckRedirect: checkRedirect}
	return &own, transport.CloseIdleConnections, nil
}

// authorizer adds the credentials to each request to one of their hosts over TLS, and to no other, whatever redirected to it.
type authorizer struct {
	access Access
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a authorizer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("Authorization")
	if a.access.isFor(req.URL) {
		switch {
		case a.access.Token != "":
			req.Header.Set("Authorization", "Bearer "+a.access.Token)
		case a.access.Username != "":
			req.SetBasicAuth(a.access.Username, a.access.Password)
		}
	}
	return a.next.RoundTrip(req)
}

// isFor reports whether a server gets the credentials.
func (a Access) isFor(u *url.URL) bool {
	plain := func(host string) string { return strings.TrimSuffix(strings.ToLower(host), ":443") }
	return u.Scheme == "https" && slices.ContainsFunc(a.Hosts, func(h string) bool { return plain(h) == plain(u.Host) })
}

// String says which servers get credentials, and not the credentials.
func (a Access) String() string {
	return fmt.Sprintf("credentials for %s", strings.Join(a.Hosts, ", "))
}

// GoString does the same.
func (a Access) GoString() string { return a.String() }
