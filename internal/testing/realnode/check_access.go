package realnode

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// confined takes the token out of the daemon's pod, as an intruder would, and writes to another node with it.
func confined(ctx context.Context, s *scene) (string, error) {
	daemon, err := s.daemon(ctx, "")
	if err != nil {
		return "", err
	}
	token, err := s.kubectl.run(ctx, "exec", "-n", cluster.Namespace, daemon.Name, "--", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token")
	if err != nil {
		return "", err
	}
	var claims struct {
		Kubernetes struct {
			Node, Pod struct{ Name string }
		} `json:"kubernetes.io"`
	}
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return "", fmt.Errorf("the token has %d parts instead of 3", len(parts))
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	if err := decode(string(raw), &claims); err != nil {
		return "", err
	}
	if claims.Kubernetes.Node.Name != nodeName || claims.Kubernetes.Pod.Name != daemon.Name {
		return "", fmt.Errorf("the token is bound to node %q and pod %q", claims.Kubernetes.Node.Name, claims.Kubernetes.Pod.Name)
	}
	config := rest.AnonymousClientConfig(s.plane.Config())
	config.BearerToken = strings.TrimSpace(token)
	as, err := client.New(config, client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		return "", fmt.Errorf("reach the API server: %w", err)
	}
	err = as.Create(ctx, &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "node-2-disk-x"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "node-2"}})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may not write an object of node 'node-2'") {
		return "", errors.Join(errors.New("a write to another node was not refused by the policy"), err)
	}
	return "bound to " + daemon.Name, nil
}

// logged requires that logs are reached through the kubelet.
func logged(ctx context.Context, s *scene) (string, error) {
	for _, of := range []string{"daemonset/firmware-daemon", "deployment/firmware-operator"} {
		out, err := s.kubectl.run(ctx, "logs", "-n", cluster.Namespace, of)
		if err != nil {
			return "", err
		}
		if !strings.Contains(out, "\n") {
			return "", fmt.Errorf("the log of %s is empty", of)
		}
	}
	return "", nil
}
