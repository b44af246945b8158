package view

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOnlyThePageItselfMayAskAndOnlyWithTheToken(t *testing.T) {
	const host, token = "127.0.0.1:4711", "SECRET"
	for name, c := range map[string]struct {
		method, host, path string
		header             map[string][]string
		want               int
	}{
		"the page":                           {path: "/", want: http.StatusOK},
		"the page, typed":                    {path: "/", header: map[string][]string{"Sec-Fetch-Site": {"none"}}, want: http.StatusOK},
		"the page by name":                   {host: "localhost:4711", path: "/", want: http.StatusOK},
		"with the token":                     {path: "/api/stream", header: map[string][]string{"Authorization": {"Bearer SECRET"}}, want: http.StatusOK},
		"by its own script":                  {path: "/api/stream", header: map[string][]string{"Authorization": {"Bearer SECRET"}, "Origin": {"http://" + host}, "Sec-Fetch-Site": {"same-origin"}}, want: http.StatusOK},
		"without the token":                  {path: "/api/stream", want: http.StatusUnauthorized},
		"with another token":                 {path: "/api/node?name=n", header: map[string][]string{"Authorization": {"Bearer SECRET2"}}, want: http.StatusUnauthorized},
		"with a part of the token":           {path: "/api/node?name=n", header: map[string][]string{"Authorization": {"Bearer SECRE"}}, want: http.StatusUnauthorized},
		"with an empty token":                {path: "/api/node?name=n", header: map[string][]string{"Authorization": {"Bearer "}}, want: http.StatusUnauthorized},
		"with the token in the address":      {path: "/api/stream?token=SECRET", want: http.StatusUnauthorized},
		"by another page":                    {path: "/api/stream", header: map[string][]string{"Authorization": {"Bearer SECRET"}, "Origin": {"https://evil.example.com"}}, want: http.StatusForbidden},
		"by a page of another port":          {path: "/api/stream", header: map[string][]string{"Authorization": {"Bearer SECRET"}, "Origin": {"http://127.0.0.1:80"}}, want: http.StatusForbidden},
		"by a page without an origin":        {path: "/api/stream", header: map[string][]string{"Authorization": {"Bearer SECRET"}, "Origin": {"null"}}, want: http.StatusForbidden},
		"with two origins":                   {path: "/", header: map[string][]string{"Origin": {"http://" + host, "https://evil.example.com"}}, want: http.StatusForbidden},
		"from another site":                  {path: "/", header: map[string][]string{"Sec-Fetch-Site": {"cross-site"}}, want: http.StatusForbidden},
		"from another port of this machine":  {path: "/view.js", header: map[string][]string{"Sec-Fetch-Site": {"same-site"}}, want: http.StatusForbidden},
		"by a name that was rebound":         {host: "evil.example.com:4711", path: "/", want: http.StatusMisdirectedRequest},
		"by a name that was rebound, asking": {host: "evil.example.com:4711", path: "/api/stream", header: map[string][]string{"Authorization": {"Bearer SECRET"}, "Origin": {"http://evil.example.com:4711"}, "Sec-Fetch-Site": {"same-origin"}}, want: http.StatusMisdirectedRequest},
		"without a port":                     {host: "127.0.0.1", path: "/", want: http.StatusMisdirectedRequest},
		"for another port":                   {host: "127.0.0.1:4712", path: "/", want: http.StatusMisdirectedRequest},
		"to write":                           {method: http.MethodPost, path: "/api/stream", header: map[string][]string{"Authorization": {"Bearer SECRET"}}, want: http.StatusMethodNotAllowed},
		"what may be asked":                  {method: http.MethodOptions, path: "/api/stream", want: http.StatusMethodNotAllowed},
		"to remove":                          {method: http.MethodDelete, path: "/", want: http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			method, asked := c.method, c.host
			if method == "" {
				method = http.MethodGet
			}
			if asked == "" {
				asked = host
			}
			r := httptest.NewRequestWithContext(t.Context(), method, "http://"+asked+c.path, nil)
			for k, v := range c.header {
				r.Header[k] = v
			}
			served := false
			w := httptest.NewRecorder()
			guard([]string{host, "localhost:4711"}, token, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })).ServeHTTP(w, r)
			assert.Equal(t, c.want, w.Code)
			assert.Equal(t, c.want == http.StatusOK, served)
			assert.Equal(t, policy, w.Header().Get("Content-Security-Policy"))
			assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			assert.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
		})
	}
}

// What the page loads is all in the program, and none of it is within the page, where the policy would not let it run.
func TestThePageHoldsNothingInline(t *testing.T) {
	page, err := site.ReadFile("web/site/index.html")
	require.NoError(t, err)
	assert.NotRegexp(t, `<script(?:[^>]*[^c]|)>[^<]|<style|style=|\son[a-z]+=|https?://`, string(page))
	for _, file := range []string{"view.js", "view.css", "icon.svg"} {
		text, err := site.ReadFile("web/site/" + file)
		require.NoError(t, err)
		assert.NotEmpty(t, text)
		assert.Contains(t, string(page), file)
	}
}
