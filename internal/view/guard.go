package view

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
)

// policy of the page: nothing but its own files and its own server, and no text that becomes code.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard lets only the page itself ask, and only who has the token: other pages of the browser are told apart by what the browser says of where a
// request comes from, and a name that was rebound to loopback by the Host header. Hosts are the names of the server with its port.
func guard(hosts []string, token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		origin, site := r.Header.Values("Origin"), r.Header.Values("Sec-Fetch-Site")
		switch {
		case !slices.Contains(hosts, r.Host):
			http.Error(w, "This address is not that of the view.", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet:
			h.Set("Allow", http.MethodGet)
			http.Error(w, "The view only reads.", http.StatusMethodNotAllowed)
		case len(origin) > 0 && !slices.Equal(origin, []string{"http://" + r.Host}),
			len(site) > 0 && !slices.Equal(site, []string{"same-origin"}) && !slices.Equal(site, []string{"none"}):
			http.Error(w, "Another page may not use the view. Open the address that kubectl firmware ui printed.", http.StatusForbidden)
		case strings.HasPrefix(r.URL.Path, "/api/") && !same(r.Header.Get("Authorization"), "Bearer "+token):
			http.Error(w, "Open the address that kubectl firmware ui printed, with all that follows the #.", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// same compares without telling by its time how much is right.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
