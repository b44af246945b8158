package imageserver

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestMain(m *testing.M) { apitest.Main(m) }

type directory string

func (d directory) Open(digest inventory.Digest) (*os.File, error) {
	return os.Open(filepath.Join(string(d), digest.String()))
}

func (d directory) Statement(digest inventory.Digest) (artifact.Statement, error) {
	return artifact.Statement{Claims: []artifact.Claim{{File: digest.String(), Signature: []byte("signed")}}}, nil
}

type doorman map[string]error

func (d doorman) Authenticate(_ context.Context, _, token string) (string, error) {
	err, known := d[token]
	if !known {
		return "", ErrDenied
	}
	return "daemon", err
}

func TestHandlerServesImagesToAuthenticatedDaemonsOnly(t *testing.T) {
	content := []byte("0123456789")
	digest := inventory.Digest(sha256.Sum256(content))
	dir := directory(t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(string(dir), digest.String()), content, 0o600))
	server := httptest.NewServer(Handler(dir, doorman{"good": nil, "unsure": errors.New("API server away"), "busy": ErrBusy}, testr.New(t), Limits{}))
	defer server.Close()
	other := inventory.Digest(sha256.Sum256(nil)).String()

	for name, tc := range map[string]struct {
		path, token, byteRange string
		code                   int
		body                   string
	}{
		"whole image":              {"/images/" + digest.String(), "good", "", 200, "0123456789"},
		"the rest of an image":     {"/images/" + digest.String(), "good", "bytes=7-", 206, "789"},
		"no token":                 {"/images/" + digest.String(), "", "", 401, "a bearer token is needed\n"},
		"a stranger's token":       {"/images/" + digest.String(), "bad", "", 403, ErrDenied.Error() + "\n"},
		"a token nobody can judge": {"/images/" + digest.String(), "unsure", "", 503, "the token could not be reviewed; try again\n"},
		"a token too many":         {"/images/" + digest.String(), "busy", "", 429, "too many tokens to review; try again\n"},
		"an unknown image":         {"/images/" + other, "good", "", 404, "no such image in store\n"},
		"no digest":                {"/images/..%2Fsecret", "good", "", 400, "parse digest \"../secret\": want sha256: and 64 lower-case hexadecimal digits\n"},
		"a statement":              {"/statements/" + digest.String(), "good", "", 200, `{"claims":[{"file":"` + digest.String() + `","signature":"c2lnbmVk"}]}`},
		"a statement, no token":    {"/statements/" + digest.String(), "", "", 401, "a bearer token is needed\n"},
		"a statement to strangers": {"/statements/" + digest.String(), "bad", "", 403, ErrDenied.Error() + "\n"},
		"a statement about none":   {"/statements/x", "good", "", 400, "parse digest \"x\": want sha256: and 64 lower-case hexadecimal digits\n"},
		"another path":             {"/", "good", "", 404, "404 page not found\n"},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+tc.path, nil)
			require.NoError(t, err)
			if tc.token != "" {
				req.Header.Set("Authorization", "Bearer "+tc.token)
			}
			if tc.byteRange != "" {
				req.Header.Set("Range", tc.byteRange)
			}
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, tc.code, resp.StatusCode)
			assert.Equal(t, tc.body, string(body))
			if tc.code == http.StatusServiceUnavailable || tc.code == http.StatusTooManyRequests {
				assert.Equal(t, "5", resp.Header.Get("Retry-After"))
			}
		})
	}
}

// reviews answers token reviews in the place of an API server that knows two users.
type reviews struct {
	t     *testing.T
	asked int
	// issuer is the one that the token of this process names.
	issuer string
	// hold keeps answers until it is closed.
	hold chan struct{}
}

// claiming is a token that claims to be a daemon's and that the reviews know by the name.
func claiming(name string, change func(map[string]any)) string {
	claims := map[string]any{"iss": "https://cluster", "sub": "daemon", "aud": []string{"images"}, "exp": time.Now().Add(time.Hour).Unix()}
	if change != nil {
		change(claims)
	}
	text, _ := json.Marshal(claims)
	return "x." + base64.RawURLEncoding.EncodeToString(text) + ".x-" + name
}

func (r *reviews) RoundTrip(req *http.Request) (*http.Response, error) {
	r.asked++
	var review authenticationv1.TokenReview
	require.NoError(r.t, json.NewDecoder(req.Body).Decode(&review))
	assert.Equal(r.t, []string{"images"}, review.Spec.Audiences)
	if r.hold != nil {
		<-r.hold
	}
	switch _, name, _ := strings.Cut(review.Spec.Token, "."+"x-"); name {
	case "daemon", "other":
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: name}, Audiences: review.Spec.Audiences}
	case "unaware": // as a reviewer answers that does not look at audiences
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "daemon"}}
	case "outage":
		return nil, errors.New("connection refused")
	default:
		review.Status.Error = "unknown token"
	}
	answer := httptest.NewRecorder()
	answer.Header().Set("Content-Type", "application/json")
	require.NoError(r.t, json.NewEncoder(answer).Encode(review))
	return answer.Result(), nil
}

func TestTokenReviewerAsksOncePerMinuteAndTrustsOneUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &reviews{t: t}
		r := reviewer(t, server)

		known := claiming("daemon", nil)
		for range 3 {
			user, err := r.Authenticate(t.Context(), "10.0.0.1", known)
			require.NoError(t, err)
			assert.Equal(t, "daemon", user)
		}
		assert.Equal(t, 1, server.asked)
		time.Sleep(2 * time.Minute)
		_, err := r.Authenticate(t.Context(), "10.0.0.1", known)
		require.NoError(t, err)
		assert.Equal(t, 2, server.asked)

		for _, refused := range []string{"other", "forged", "unaware"} {
			for range 2 {
				_, err = r.Authenticate(t.Context(), "10.0.0.2", claiming(refused, nil))
				assert.ErrorIs(t, err, ErrDenied, refused)
			}
		}
		assert.Equal(t, 5, server.asked, "refusals are kept as well")
		for range 2 {
			_, err = r.Authenticate(t.Context(), "10.0.0.3", claiming("outage", nil))
			assert.Error(t, err)
			assert.NotErrorIs(t, err, ErrDenied)
		}
		assert.Equal(t, 7, server.asked, "outages are not")
	})
}

// reviewer returns a reviewer that asks the server.
func reviewer(t *testing.T, server *reviews) *TokenReviewer {
	t.Helper()
	config := &rest.Config{Host: "http://api", Transport: server, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	api, err := authenticationclient.NewForConfig(config)
	require.NoError(t, err)
	server.issuer = "https://cluster"
	r, err := NewTokenReviewer(api, "images", "daemon", func() string { return server.issuer })
	require.NoError(t, err)
	return r
}

func TestAnImplausibleTokenCostsTheAPIServerNothing(t *testing.T) {
	server := &reviews{t: t}
	r := reviewer(t, server)
	for name, change := range map[string]func(map[string]any){
		"another account":  func(c map[string]any) { c["sub"] = "stranger" },
		"another audience": func(c map[string]any) { c["aud"] = "api" },
		"it expired":       func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() },
		"no expiry":        func(c map[string]any) { delete(c, "exp") },
		"nonsense":         func(c map[string]any) { c["exp"] = "tomorrow" },
	} {
		_, err := r.Authenticate(t.Context(), "10.0.0.1", claiming("daemon", change))
		assert.ErrorIs(t, err, ErrDenied, name)
	}
	for _, token := range []string{"x", "a.b.c", "..", "x.e30"} {
		_, err := r.Authenticate(t.Context(), "10.0.0.1", token)
		assert.ErrorIs(t, err, ErrDenied, token)
	}
	assert.Zero(t, server.asked)
}

// issued is a daemon's token of an issuer.
func issued(name, issuer string) string {
	return claiming(name, func(c map[string]any) { c["iss"] = issuer })
}

// An API server may be given another issuer while the product runs. The tokens of the daemons and of this process are replaced one
// by one.
func TestTokensOfANewIssuerAreAcceptedWithoutARestart(t *testing.T) {
	for name, ownFirst := range map[string]bool{"this process has one before the daemons": true, "a daemon has one first": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &reviews{t: t}
				r := reviewer(t, server)
				authenticate := func(token string) error {
					_, err := r.Authenticate(t.Context(), "10.0.0.1", token)
					return err
				}
				require.NoError(t, authenticate(issued("daemon", "https://cluster")))
				if ownFirst {
					server.issuer = "https://new"
					require.ErrorIs(t, authenticate(issued("forged", "https://elsewhere")), ErrDenied) // and reads the own one again
				}
				require.NoError(t, authenticate(issued("daemon", "https://new")))
				require.NoError(t, authenticate(issued("daemon", "https://cluster")), "it is accepted as before")
				for range 100 {
					require.ErrorIs(t, authenticate(issued("daemon", "https://newer")), ErrBusy, "and not for good: a daemon tries again")
				}
				time.Sleep(time.Minute)
				require.NoError(t, authenticate(issued("daemon", "https://newer")))
			})
		})
	}
}

// Tokens of other issuers cost the API server one review per caller and minute, and do not displace the issuers that are known.
func TestForeignTokensCostLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &reviews{t: t}
		r := reviewer(t, server)
		forge := func(caller string, n int) {
			_, err := r.Authenticate(t.Context(), caller, issued(fmt.Sprint("forged", n), fmt.Sprint("https://elsewhere", n)))
			require.Error(t, err)
			time.Sleep(time.Second)
		}
		for n := range 600 {
			forge("10.6.6.6", n)
		}
		assert.Equal(t, 10, server.asked)
		_, err := r.Authenticate(t.Context(), "10.0.0.2", issued("daemon", "https://new"))
		require.NoError(t, err, "a daemon with a token of a new issuer has a share of its own")
		server.asked = 0
		for n := range 600 {
			forge(fmt.Sprint("10.7.", n/256, ".", n%256), n)
		}
		assert.LessOrEqual(t, server.asked, unknownBurst+600/5, "many callers together are bounded too")
		_, err = r.Authenticate(t.Context(), "10.0.0.1", claiming("daemon", nil))
		require.NoError(t, err)
	})
}

func TestLimitsPlausibleTokenFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &reviews{t: t}
		r := reviewer(t, server)
		daemon := claiming("daemon", nil)
		_, err := r.Authenticate(t.Context(), "10.0.0.1", daemon)
		require.NoError(t, err)
		for n := range 1000 { // one machine, each time another token
			_, err = r.Authenticate(t.Context(), "10.6.6.6", claiming(fmt.Sprint("forged", n), nil))
		}
		require.ErrorIs(t, err, ErrBusy)
		assert.Equal(t, 1+callerBurst, server.asked)
		_, err = r.Authenticate(t.Context(), "10.0.0.2", claiming("daemon", func(c map[string]any) { c["jti"] = "other" }))
		require.NoError(t, err, "another machine is not kept waiting")
		for n := range 1000 { // many machines
			_, err = r.Authenticate(t.Context(), fmt.Sprint("10.7.0.", n), claiming(fmt.Sprint("forged", n), nil))
		}
		require.ErrorIs(t, err, ErrBusy)
		assert.LessOrEqual(t, server.asked, 2+callerBurst+reviewBurst)
		_, err = r.Authenticate(t.Context(), "10.0.0.1", daemon)
		require.NoError(t, err, "an answer that is known is still given")
		time.Sleep(time.Minute)
		_, err = r.Authenticate(t.Context(), "10.0.0.1", daemon)
		require.NoError(t, err, "the limit passes")
	})
}

func TestOneReviewPerCallerAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &reviews{t: t, hold: make(chan struct{})}
		r := reviewer(t, server)
		first := make(chan error, 1)
		go func() {
			_, err := r.Authenticate(t.Context(), "10.0.0.1", claiming("daemon", nil))
			first <- err
		}()
		synctest.Wait()
		_, err := r.Authenticate(t.Context(), "10.0.0.1", claiming("other", nil))
		require.ErrorIs(t, err, ErrBusy)
		close(server.hold)
		require.NoError(t, <-first)
		assert.Equal(t, 1, server.asked)
	})
}

func TestTokenReviewerKnowsTheDaemonsTokensForImages(t *testing.T) {
	env := apitest.New(t)
	api, err := kubernetes.NewForConfig(env.Config)
	require.NoError(t, err)
	token := func(account, audience string) string {
		accounts := api.CoreV1().ServiceAccounts(apitest.Namespace)
		if _, err := accounts.Get(t.Context(), account, metav1.GetOptions{}); err != nil {
			_, err = accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
		request, err := accounts.CreateToken(t.Context(), account, request, metav1.CreateOptions{})
		require.NoError(t, err)
		return request.Status.Token
	}
	user := "system:serviceaccount:" + apitest.Namespace + ":daemon"
	good := token("daemon", "images")
	r, err := NewTokenReviewer(api.AuthenticationV1(), "images", user, func() string { return IssuerOf(good) })
	require.NoError(t, err)

	got, err := r.Authenticate(t.Context(), "10.0.0.1", good)
	require.NoError(t, err)
	assert.Equal(t, user, got)
	parts := strings.Split(good, ".")
	for name, refused := range map[string]struct{ token, want string }{
		"a daemon's token for the API":      {token("daemon", "https://kubernetes.default.svc"), "it is not for audience images"},
		"another account's token":           {token("stranger", "images"), "belongs to another account than " + user},
		"no token":                          {"forged", "it is no token of a service account"},
		"a token that no API server signed": {parts[0] + "." + parts[1] + "." + parts[2][2:] + "AA", "the API server does not know it"},
	} {
		_, err := r.Authenticate(t.Context(), "10.0.0.1", refused.token)
		assert.ErrorIs(t, err, ErrDenied, name)
		assert.ErrorContains(t, err, refused.want, name)
	}
}

func TestServerSpeaksHTTP1AndIsTrustedThroughThePublishedAuthority(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	certs := &Certificates{Client: c, Namespace: "ns", Names: []string{"images.ns.svc", "127.0.0.1"}, Now: time.Now}
	require.NoError(t, certs.Ensure(t.Context()))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	server := &Server{Listener: listener, Certificate: certs.Get, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })}
	go func() { ended <- server.Start(ctx) }()

	var authority corev1.ConfigMap
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: ConfigMapName}, &authority))
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM([]byte(authority.Data[CAKey])))
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	resp, err := trusting.Get("https://" + listener.Addr().String())
	require.NoError(t, err)
	_ = resp.Body.Close()
	resp, err = http.Get("https://" + listener.Addr().String())
	if err == nil {
		_ = resp.Body.Close()
	}
	assert.ErrorContains(t, err, "certificate signed by unknown authority")

	conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{RootCAs: pool, NextProtos: []string{"h2", "http/1.1"}})
	require.NoError(t, err)
	assert.Equal(t, "http/1.1", conn.ConnectionState().NegotiatedProtocol)
	require.NoError(t, conn.Close())
	conn, err = tls.Dial("tcp", listener.Addr().String(), &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}})
	if err == nil {
		_ = conn.Close()
	}
	assert.ErrorContains(t, err, "no application protocol", "HTTP/2 is off")

	stop()
	require.NoError(t, <-ended)
}

func TestCertificatesAreKeptUntilTheyMustChange(t *testing.T) {
	now := time.Now()
	c := fake.NewClientBuilder().Build()
	names := []string{"a.svc"}
	ensure := func() (leaf, authority string) {
		certs := &Certificates{Client: c, Namespace: "ns", Names: names, Now: func() time.Time { return now }}
		require.NoError(t, certs.Ensure(t.Context()))
		pair, err := certs.Get(nil)
		require.NoError(t, err)
		var cm corev1.ConfigMap
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: ConfigMapName}, &cm))
		return string(pair.Certificate[0]), cm.Data[CAKey]
	}
	leaf1, ca1 := ensure()
	leaf2, ca2 := ensure()
	assert.Equal(t, leaf1, leaf2)
	assert.Equal(t, ca1, ca2)

	names = append(names, "b.svc")
	leaf3, ca3 := ensure()
	assert.NotEqual(t, leaf2, leaf3, "a new name needs a new certificate")
	assert.Equal(t, ca2, ca3, "but no new authority")

	now = now.Add(servingFor - renewBefore + time.Hour)
	leaf4, ca4 := ensure()
	assert.NotEqual(t, leaf3, leaf4, "renewed in time")
	assert.Equal(t, ca3, ca4)

	var secret corev1.Secret
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: SecretName}, &secret))
	secret.Data[CAKey] = []byte("damaged")
	require.NoError(t, c.Update(t.Context(), &secret))
	_, ca5 := ensure()
	assert.NotEqual(t, ca4, ca5)
}

func TestTheAddressIsPublishedAndFollowsThePod(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	published := func(address string) map[string]string {
		certs := &Certificates{Client: c, Namespace: "ns", Names: []string{"a.svc"}, Address: address, Now: time.Now}
		require.NoError(t, certs.Ensure(t.Context()))
		var cm corev1.ConfigMap
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: ConfigMapName}, &cm))
		return cm.Data
	}
	before := published("10.1.2.3:8444")
	assert.Equal(t, "10.1.2.3:8444", before[AddressKey])
	after := published("10.9.9.9:8444")
	assert.Equal(t, map[string]string{CAKey: before[CAKey], AddressKey: "10.9.9.9:8444"}, after, "a new pod, the same authority")
	assert.NotContains(t, published(""), AddressKey, "an old address would lead to somebody else")
}

// At no moment does a daemon, which receives what is published with delay, distrust the certificate in use.
func TestAReplacedAuthorityOverlapsWithTheNext(t *testing.T) {
	now := time.Now()
	c := fake.NewClientBuilder().Build()
	certs := &Certificates{Client: c, Namespace: "ns", Names: []string{"a.svc"}, Now: func() time.Time { return now }}
	published := func() string {
		require.NoError(t, certs.Ensure(t.Context()))
		var cm corev1.ConfigMap
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: ConfigMapName}, &cm))
		return cm.Data[CAKey]
	}
	trusted := func(authorities string) error {
		pair, err := certs.Get(nil)
		require.NoError(t, err)
		pool := x509.NewCertPool()
		require.True(t, pool.AppendCertsFromPEM([]byte(authorities)))
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, DNSName: "a.svc"})
		return err
	}
	first := published()
	now = now.Add(authorityFor - 40*24*time.Hour)
	received, seen := published(), map[string]bool{}
	for end := now.Add(60 * 24 * time.Hour); now.Before(end); now = now.Add(24 * time.Hour) {
		current := published()
		require.NoError(t, trusted(received), "a daemon that has the authorities of yesterday, at %s", now)
		require.NoError(t, trusted(current))
		received, seen[current] = current, true
	}
	assert.Error(t, trusted(first), "the authority was replaced")
	assert.Len(t, seen, 4, "the first, the first with the next, the second with the previous, the second")
}
