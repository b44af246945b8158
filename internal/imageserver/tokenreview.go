package imageserver

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
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
