package imageserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/utils/lru"
)

const (
	// reviewTTL is how long an answer of the API server is cached.
	reviewTTL = time.Minute
	// reviewTimeout bounds one review with its repetitions.
	reviewTimeout = 10 * time.Second
)

// TokenReviewer authenticates tokens by asking the API server. It uses the parts of the API server library's
// DelegatingAuthenticatorConfig and not that type itself, whose answer does not distinguish a refused token from an
// unreachable API server: a daemon retries only after the second.
type TokenReviewer struct {
	tokens    authenticator.Token
	audiences authenticator.Audiences
	user      string
	issuers   *issuers
	limit     *limit
}

// NewTokenReviewer returns a reviewer that accepts tokens for the audience that belong to the user. Answers of the API server are
// cached for a minute; errors are not. A token whose claims do not say so is refused without asking the API server. Own reads the
// issuer that this process's own token names now, or "" where it has none; about tokens of another issuer the API server is
// asked once a minute at most for each caller.
func NewTokenReviewer(api authenticationv1.AuthenticationV1Interface, audience, user string, own func() string) (*TokenReviewer, error) {
	// No implicit audience: a server that ignores audiences in its reviews accepts no token.
	review, err := webhook.NewFromInterface(api, nil, wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5},
		reviewTimeout, webhook.AuthenticatorMetrics{
			RecordRequestTotal: authenticatorfactory.RecordRequestTotal, RecordRequestLatency: authenticatorfactory.RecordRequestLatency,
		})
	if err != nil {
		return nil, fmt.Errorf("make token reviewer: %w", err)
	}
	return &TokenReviewer{
		tokens: cache.New(review, false, reviewTTL, reviewTTL), audiences: authenticator.Audiences{audience}, user: user,
		issuers: newIssuers(own), limit: newLimit(),
	}, nil
}

// Authenticate implements Authenticator.
func (t *TokenReviewer) Authenticate(ctx context.Context, caller, token string) (string, error) {
	issuer, err := t.implausible(token)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrDenied, err)
	}
	if !t.issuers.plausible(issuer, caller) {
		return "", fmt.Errorf("%w: it is of another issuer than this cluster is known to have", ErrBusy)
	}
	end, ok := t.limit.begin(caller, token)
	if !ok {
		return "", ErrBusy
	}
	answered := false
	defer func() { end(answered) }()
	response, known, err := t.tokens.AuthenticateToken(authenticator.WithAudiences(ctx, t.audiences), token)
	answered = err == nil
	switch {
	case err != nil:
		return "", fmt.Errorf("review token: %w", err)
	case !known:
		return "", fmt.Errorf("%w: the API server does not know it for audience %s", ErrDenied, t.audiences[0])
	case response.User.GetName() != t.user:
		return "", fmt.Errorf("%w: it belongs to %s", ErrDenied, response.User.GetName())
	}
	t.issuers.learn(issuer)
	return response.User.GetName(), nil
}

const (
	// unknownEvery is how often the API server is asked about an issuer that is not known, for each caller: one that makes tokens up
	// uses up no other's share. All callers together have a burst of unknownBurst, and then one in unknownAllEvery.
	unknownEvery    = time.Minute
	unknownAllEvery = 5 * time.Second
	unknownBurst    = 12
	// maxIssuers bounds the issuers that are known: while an issuer is replaced there are two.
	maxIssuers = 4
)

// issuers are the issuers that tokens of this cluster are known to have. An API server that is given another issuer goes on to
// accept the one before, and each pod's token is replaced at its own time: for an hour or so there are both.
type issuers struct {
	// own reads the issuer of this process's own token, or returns "" where that is not known.
	own func() string

	mu sync.Mutex
	// known is empty when the token of this process named none at the start: then any issuer is plausible.
	known   []string
	unknown *rate.Limiter
	callers *lru.Cache // of *rate.Limiter by address
}

func newIssuers(own func() string) *issuers {
	i := &issuers{own: own, unknown: rate.NewLimiter(rate.Every(unknownAllEvery), unknownBurst), callers: lru.New(remembered)}
	if first := own(); first != "" {
		i.known = []string{first}
	}
	return i
}

// plausible reports whether the API server is worth asking about a token of the issuer. Once a minute it is about one that is
// not known and that the caller brings: only the API server knows all that it accepts.
func (i *issuers) plausible(issuer, caller string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case len(i.known) == 0, slices.Contains(i.known, issuer):
		return true
	case !i.of(caller).Allow() || !i.unknown.Allow():
		return false
	}
	if own := i.own(); own != "" {
		i.add(own)
	}
	return true
}

func (i *issuers) of(caller string) *rate.Limiter {
	if found, ok := i.callers.Get(caller); ok {
		return found.(*rate.Limiter)
	}
	l := rate.NewLimiter(rate.Every(unknownEvery), 1)
	i.callers.Add(caller, l)
	return l
}

// learn notes that the API server accepted a token of the issuer.
func (i *issuers) learn(issuer string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.known) > 0 {
		i.add(issuer)
	}
}

func (i *issuers) add(issuer string) {
	if !slices.Contains(i.known, issuer) {
		i.known = append(i.known, issuer)
		i.known = i.known[max(0, len(i.known)-maxIssuers):]
	}
}

// claims are the parts of a service account's token that are compared before the API server is asked. They are not
// verified: a forged token may hold them, but nothing else has a chance.
type claims struct {
	Issuer   string    `json:"iss"`
	Subject  string    `json:"sub"`
	Audience audiences `json:"aud"`
	Expiry   float64   `json:"exp"`
	// Cluster says what a token is bound to: the pod, and since Kubernetes 1.30 its node.
	Cluster struct {
		Node boundTo `json:"node"`
		Pod  boundTo `json:"pod"`
	} `json:"kubernetes.io"`
}

// boundTo is an object that a token is bound to.
type boundTo struct {
	UID string `json:"uid"`
}

// audiences are a string or a list of strings in a token.
type audiences []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audiences) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}

// clockSkew is how far the clocks of the API server and of this machine may be apart.
const clockSkew = 5 * time.Minute

// claimsOf reads the claims of a token and verifies nothing.
func claimsOf(token string) (claims, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}, fmt.Errorf("it is no token of a service account")
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return claims{}, fmt.Errorf("it is no token of a service account")
	}
	var c claims
	if err := json.Unmarshal(text, &c); err != nil {
		return claims{}, fmt.Errorf("it is no token of a service account")
	}
	return c, nil
}

// IssuerOf is the issuer that a service account's token names, or "" where the text is no such token.
func IssuerOf(token string) string {
	c, _ := claimsOf(strings.TrimSpace(token))
	return c.Issuer
}

// nodeOf tells nodes apart by a token that was accepted: by its node or, where it names none, its pod or the address of the caller, which
// several nodes may share.
func nodeOf(token, caller string) string {
	c, err := claimsOf(token)
	switch {
	case err == nil && c.Cluster.Node.UID != "":
		return "node/" + c.Cluster.Node.UID
	case err == nil && c.Cluster.Pod.UID != "":
		return "pod/" + c.Cluster.Pod.UID
	}
	return "address/" + caller
}

// implausible says why the API server would refuse the token whoever issued it, or returns nil and the issuer.
func (t *TokenReviewer) implausible(token string) (issuer string, err error) {
	c, err := claimsOf(token)
	switch {
	case err != nil:
		return "", err
	case c.Subject != t.user:
		return "", fmt.Errorf("it belongs to another account than %s", t.user)
	case !slices.Contains(c.Audience, t.audiences[0]):
		return "", fmt.Errorf("it is not for audience %s", t.audiences[0])
	case time.Unix(int64(c.Expiry), 0).Add(clockSkew).Before(time.Now()):
		return "", fmt.Errorf("it has expired")
	}
	return c.Issuer, nil
}
