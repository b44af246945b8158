package imageserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

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
