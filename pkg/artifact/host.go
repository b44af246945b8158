package artifact

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// errNotNow marks hosts that are refused as long as they cannot be judged.
var errNotNow = errors.New("refused for now")

var (
	label = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)
	// numeric is a last label that makes readers after https://url.spec.whatwg.org/#ends-in-a-number-checker read the whole name as an
	// address: 2852039166, 0x7f.1, 0177.0.0.1.
	numeric = regexp.MustCompile(`^([0-9]+|0x[0-9a-f]*)$`)
)

// maxName is the longest host name (RFC 1035, 2.3.4, without its lengths and the root).
const maxName = 253

// hostOf returns the host of a URL, as an address or as a name in lower case, if all programs read it alike. A proxy must not find an
// address in what is a name here.
func hostOf(u *url.URL) (netip.Addr, string, error) {
	host, refuse := u.Hostname(), func(format string, args ...any) (netip.Addr, string, error) {
		return netip.Addr{}, "", fmt.Errorf("%w: "+format, append([]any{errRefused}, args...)...)
	}
	ip, err := netip.ParseAddr(host)
	bracketed := strings.HasPrefix(u.Host, "[")
	switch {
	case err == nil && ip.Zone() == "" && ip.Is6() == bracketed:
		return ip, "", nil
	case bracketed:
		return refuse("[%s] is not an IPv6 address without a zone", host)
	case strings.ContainsFunc(host, func(c rune) bool { return c > '~' }):
		return refuse("the host %+q has letters that programs read differently; write it in ASCII, as xn--", host)
	}
	name := strings.ToLower(host)
	labels := strings.Split(name, ".")
	switch {
	case numeric.MatchString(labels[len(labels)-1]):
		return refuse("%s is a number, which some programs read as an address; write the address as 192.0.2.1, or a name", host)
	case len(name) > maxName || slices.ContainsFunc(labels, func(l string) bool { return !label.MatchString(l) }):
		return refuse("%q is no host name; write labels of letters, digits, - and _ with one dot between two", host)
	}
	return netip.Addr{}, name, nil
}

// permitThroughProxy judges a host that a proxy will fetch from: the address that is dialed is the proxy's. A name leads to permitted
// addresses here, or is one that the proxy may be asked for. It may lead the proxy elsewhere all the same.
func (a addresses) permitThroughProxy(ctx context.Context, ip netip.Addr, name string) error {
	if ip.IsValid() {
		return a.permit(ip)
	}
	lookup := a.lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupNetIP
	}
	resolved, err := lookup(ctx, "ip", name)
	if err != nil && !a.isAllowed(name) {
		why := errNotNow
		if failed := (*net.DNSError)(nil); errors.As(err, &failed) && failed.IsNotFound {
			why = errRefused
		}
		return fmt.Errorf("%w: the operator cannot look up %s, and a proxy would be asked for it: name it in the operator's --allow-source-hosts if the proxy may",
			why, name)
	}
	for _, ip := range resolved {
		if err := a.permit(ip); err != nil {
			return err
		}
	}
	return nil
}

// isAllowed reports whether a proxy may be asked for a name that is not known here.
func (a addresses) isAllowed(name string) bool {
	return slices.ContainsFunc(a.hosts, func(h string) bool {
		return name == h || strings.HasPrefix(h, ".") && strings.HasSuffix(name, h)
	})
}
