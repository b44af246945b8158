package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
)

// answerTimeout bounds a question to the API server.
const answerTimeout = 5 * time.Second

// server is the API server, where the kubelet reaches it. A guard has no access to it: it asks only whether anything answers.
type server struct {
	url    string
	client *http.Client
}

func newServer(url string) server {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives, transport.Proxy = true, nil
	//nolint:gosec // nothing is sent or believed but that there is an answer, and after a boot the clock may be wrong
	transport.TLSClientConfig.InsecureSkipVerify = true
	return server{url: url, client: &http.Client{Transport: transport, Timeout: answerTimeout}}
}

// ask returns nil when anything answers, whatever it says.
func (s server) ask(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/livez", nil)
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func (s server) answers(ctx context.Context) bool { return s.ask(ctx) == nil }

// Ready implements health.NodeReadiness: a guard cannot read the Node, and only notices whether the API server answers.
func (s server) Ready(ctx context.Context) (ready bool, message string, err error) {
	if err := s.ask(ctx); err != nil {
		return false, "", fmt.Errorf("ask %s: %w: %w", s.url, health.ErrUnanswered, err)
	}
	return false, "", errAnswers
}

var errAnswers = errors.New("the API server answers; the guard leaves the job to the daemon")
