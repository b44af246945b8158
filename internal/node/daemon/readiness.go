package daemon

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
)

// readiness reads whether the cluster considers one Node Ready.
type readiness struct {
	Reader client.Reader
	Name   string
	// BootID reads the boot id of the running kernel; nil to accept reports of the kubelet from any boot.
	BootID func() (string, error)
}

// Ready returns the Node's condition Ready and its message. A report from before the last boot, which stays in the
// status for a while, does not count.
func (n readiness) Ready(ctx context.Context) (bool, string, error) {
	var node corev1.Node
	if err := n.Reader.Get(ctx, client.ObjectKey{Name: n.Name}, &node); err != nil {
		return false, "", fmt.Errorf("get node %s: %w", n.Name, err)
	}
	if old, err := n.stale(&node); err != nil || old {
		return false, "the kubelet has not reported since the boot", err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c.Message, nil
		}
	}
	return false, "it has no condition Ready", nil
}

// stale reports whether the kubelet's last report is from another boot.
func (n readiness) stale(node *corev1.Node) (bool, error) {
	reported := node.Status.NodeInfo.BootID
	if n.BootID == nil || reported == "" {
		return false, nil
	}
	bootID, err := n.BootID()
	if err != nil {
		return false, fmt.Errorf("read boot id: %w", err)
	}
	return reported != bootID, nil
}

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

// ask returns nil when an API server that works answers, whatever it says: without credentials most refuse. What has no backend, a
// database without a quorum or a load balancer, answers with one of the other errors.
func (s server) ask(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/livez", nil)
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if code := response.StatusCode; code >= http.StatusInternalServerError || code == http.StatusTooManyRequests {
		return fmt.Errorf("get /livez: %s", response.Status)
	}
	return nil
}

func (s server) answers(ctx context.Context) bool { return s.ask(ctx) == nil }

// Ready implements health.NodeReadiness: a guard cannot read the Node, and only notices whether the API server answers.
func (s server) Ready(ctx context.Context) (ready bool, message string, err error) {
	if err := s.ask(ctx); err != nil {
		return false, "", fmt.Errorf("ask %s: %w", s.url, err)
	}
	return false, "", health.ErrAnswered
}
