package lab

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeAccess writes a kubeconfig that reaches the API server with the token in a file beside it, as a pod does.
func writeAccess(dir string, server *rest.Config, token string) (kubeconfig string, err error) {
	tokenFile := filepath.Join(dir, "token")
	if err := writePrivate(tokenFile, token); err != nil {
		return "", err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: server.Host, CertificateAuthorityData: server.CAData}
	config.AuthInfos["lab"] = &clientcmdapi.AuthInfo{TokenFile: tokenFile}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "lab"}
	config.CurrentContext = "lab"
	kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return kubeconfig, nil
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
