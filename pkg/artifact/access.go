package artifact

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

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
