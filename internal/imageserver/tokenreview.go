package imageserver

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// reviewTTL is how long an answer of the API server is believed.
	reviewTTL = time.Minute
	// maxReviews bounds the answers that are kept.
	maxReviews = 10_000
)

// TokenReviewer authenticates tokens by asking the API server.
type TokenReviewer struct {
	// Client creates TokenReviews.
	Client client.Client
	// Audience the tokens must be meant for.
	Audience string
	// User that may fetch images: the daemons' service account.
	User string
	Now  func() time.Time

	mu      sync.Mutex
	reviews map[[32]byte]review
}

type review struct {
	user    string
	denied  string
	expires time.Time
}

// Authenticate implements Authenticator. Answers are kept for a minute.
func (t *TokenReviewer) Authenticate(ctx context.Context, token string) (string, error) {
	key := sha256.Sum256([]byte(token))
	r, known := t.known(key)
	if !known {
		var err error
		if r, err = t.review(ctx, token); err != nil {
			return "", err
		}
		t.remember(key, r)
	}
	if r.denied != "" {
		return "", fmt.Errorf("%w: %s", ErrDenied, r.denied)
	}
	return r.user, nil
}

func (t *TokenReviewer) review(ctx context.Context, token string) (review, error) {
	tr := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{t.Audience}}}
	if err := t.Client.Create(ctx, tr); err != nil {
		return review{}, fmt.Errorf("review token: %w", err)
	}
	r := review{user: tr.Status.User.Username, expires: t.Now().Add(reviewTTL)}
	switch {
	case !tr.Status.Authenticated:
		r.denied = "the API server does not know it for audience " + t.Audience
	case tr.Status.User.Username != t.User:
		r.denied = "it belongs to " + tr.Status.User.Username
	}
	return r, nil
}

func (t *TokenReviewer) known(key [32]byte) (review, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.reviews[key]
	return r, ok && t.Now().Before(r.expires)
}

func (t *TokenReviewer) remember(key [32]byte, r review) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reviews == nil || len(t.reviews) >= maxReviews {
		t.reviews = map[[32]byte]review{}
	}
	t.reviews[key] = r
}
