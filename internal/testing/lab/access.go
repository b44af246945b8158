package lab

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
)

// writeAccess writes a kubeconfig that reaches the API server with the token in a file beside it, as a pod does.
func writeAccess(dir string, server *rest.Config, token string) (kubeconfig string, err error) {
	tokenFile := filepath.Join(dir, "token")
	if err := writePrivate(tokenFile, token); err != nil {
		return "", err
	}
	kubeconfig = filepath.Join(dir, "kubeconfig")
	return kubeconfig, controlplane.WriteAccess(kubeconfig, server.Host, server.CAData, &clientcmdapi.AuthInfo{TokenFile: tokenFile})
}

func writePrivate(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
