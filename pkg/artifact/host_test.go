package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Behind a proxy a host is read twice. What another reader takes for an address must not be a name here.
func TestStrictHosts(t *testing.T) {
	for _, host := range []string{
		// Numbers, of which the readers of inet_aton and of WHATWG make 169.254.169.254 or 127.0.0.1.
		"2852039166", "0xa9fea9fe", "0XA9FEA9FE", "025177524776", "0251.0376.0251.0376", "0xa9.0xfe.0xa9.0xfe", "169.254.43518", "169.16689662",
		"169.254.0xa9fe", "0xa9.254.43518", "127.1", "127.0.1", "0x7f.1", "0177.1", "017700000001", "0x7f000001", "2130706433", "0", "0x", "0x0",
		"1.2.3.4.5", "1.2.3", "127.0.0.01", "127.0.0.1.", "0127.0.0.1", "256.0.0.1", "127.0.0.0x1", "a.b.127", "metadata.0x1", "1.2.3.4.0",
		// Letters and dots that IDNA or a lenient reader turns into others.
		"１６９.254.169.254", "①②⑦.0.0.1", "127。0。0。1", "127．0．0．1", "ｌocalhost", "localhoſt", "loc\u00adalhost", "\u212a8s.example.com", "пример.example.com",
		"xn--\u00e9.com",
		// Names that not everybody takes for one.
		"localhost.", "example.com.", "example..com", ".example.com", "-a.example.com", "a-.example.com", "a b", "a,b", "a;b", "a|b", "a*b", "a!b", "$(id)",
		strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 127) + "com", "",
		// Addresses in another form than the only one.
		"[fe80::1%25eth0]", "[::1%25]", "[127.0.0.1]", "[v1.a]", "[example.com]", "[::1", "::1", "[::ffff:127.0.0.01]", "[]",
	} {
		u, err := url.Parse("https://" + host + "/fw.bin")
		if err != nil {
			u = &url.URL{Scheme: "https", Host: host} // as a redirect could have it, if Go read it
		}
		_, _, err = hostOf(u)
		assert.ErrorIs(t, err, errRefused, "%q", host)
	}
	for host, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "[2001:DB8:0::7]": "2001:db8::7", "[::ffff:192.0.2.7]": "::ffff:192.0.2.7", "192.0.2.7:8443": "192.0.2.7", "[2001:db8::7]:443": "2001:db8::7",
		"Mirror.Example.COM": "mirror.example.com", "mirror": "mirror", "xn--bcher-kva.example": "xn--bcher-kva.example", "a_b.example.com": "a_b.example.com",
		"3com.com": "3com.com", "1.example": "1.example", "0x7f.com": "0x7f.com", "mirror:8443": "mirror", strings.Repeat("a", 63) + ".com": strings.Repeat("a", 63) + ".com",
		"a.0b": "a.0b", "_dmarc.example.com": "_dmarc.example.com",
	} {
		u, err := url.Parse("https://" + host + "/fw.bin")
		require.NoError(t, err, host)
		ip, name, err := hostOf(u)
		require.NoError(t, err, host)
		if ip.IsValid() {
			name = ip.String()
		}
		assert.Equal(t, want, name)
	}
}

// hosts is a proxy that records for which hosts it is asked.
func hosts(t *testing.T, answer http.HandlerFunc) (asked *[]string, of func(*http.Request) (*url.URL, error)) {
	t.Helper()
	asked = &[]string{}
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Host)
		answer(w, r)
	})
	return asked, func(*http.Request) (*url.URL, error) { return url.Parse(address) }
}

// No way by which a source names a server reaches the proxy with a host that the proxy may read in another way.
func TestProxyGetsNoNumber(t *testing.T) {
	asked, proxy := hosts(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			http.Redirect(w, r, "http://2852039166/latest/meta-data", http.StatusFound)
		}
	})
	f := loopback(FetchConfig{Proxy: proxy})
	for _, target := range []string{"http://2852039166/fw.bin", "https://0x7f.1/fw.bin", "https://１６９.254.169.254/fw.bin", "http://localhost./fw.bin"} {
		err := f.Fetch(t.Context(), target, digestOf(nil), &bytes.Buffer{})
		assert.ErrorContains(t, err, "refused", target)
		_, again := ReasonOf(err)
		assert.False(t, again, target)
		_, err = f.FetchSignature(t.Context(), target)
		require.ErrorContains(t, err, "refused", target)
		_, err = f.Open(t.Context(), target, nil)
		require.ErrorContains(t, err, "refused", target)
	}
	_, err := f.fetchOCI(t.Context(), "oci://2852039166/fw@sha256:"+strings.Repeat("0", 64), &bytes.Buffer{})
	require.ErrorContains(t, err, "is a number, which some programs read as an address")
	assert.Empty(t, *asked)

	require.ErrorContains(t, f.Fetch(t.Context(), "http://192.0.2.7/fw.bin", digestOf(nil), &bytes.Buffer{}), "2852039166 is a number")
	assert.Equal(t, []string{"192.0.2.7"}, *asked, "and not for where it was redirected")
}

// A name that is not known here leads the proxy wherever the proxy's name servers say.
func TestUnknownNameNotProxied(t *testing.T) {
	known := map[string][]netip.Addr{
		"mirror.example.com": {netip.MustParseAddr("192.0.2.7")}, "inside.example.com": {netip.MustParseAddr("10.0.0.1")},
		"both.example.com": {netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("169.254.169.254")}, "inside.allowed.example": {netip.MustParseAddr("10.0.0.1")},
	}
	through, err := url.Parse("http://192.0.2.9:3128")
	require.NoError(t, err)
	a := addresses{hosts: []string{"only.example.org", ".allowed.example"}, lookup: func(_ context.Context, _, host string) ([]netip.Addr, error) {
		if host == "away.example.com" {
			return nil, &net.DNSError{Err: "server misbehaving", Name: host, IsTemporary: true}
		}
		if found, ok := known[host]; ok {
			return found, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}}
	proxy := a.proxy(func(*http.Request) (*url.URL, error) { return through, nil }, &proxies{})
	for host, want := range map[string]error{
		"mirror.example.com": nil, "only.example.org": nil, "a.allowed.example": nil, "A.B.Allowed.Example": nil,
		"inside.example.com": errRefused, "both.example.com": errRefused, "inside.allowed.example": errRefused,
		"unknown.example.com": errRefused, "allowed.example": errRefused, "xallowed.example": errRefused, "a.only.example.org": errRefused, "away.example.com": errNotNow,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://%s/fw.bin", host), nil)
		require.NoError(t, err)
		to, err := proxy(req)
		require.ErrorIs(t, err, want, host)
		assert.Equal(t, want == nil, to == through, host)
		if want != nil && !errors.Is(err, errNotNow) && len(known[host]) == 0 {
			require.ErrorContains(t, err, "--allow-source-hosts", host)
		}
	}
}

// Without a proxy an odd host is refused as well: the message is the same wherever the operator runs.
func TestStrictWithoutProxy(t *testing.T) {
	err := loopback(FetchConfig{}).Fetch(t.Context(), "https://0x7f.1/fw.bin", digestOf(nil), &bytes.Buffer{})
	assert.ErrorContains(t, err, "refused: 0x7f.1 is a number, which some programs read as an address; write the address as 192.0.2.1, or a name")
}
