package realnode

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// authority signs the certificates of one run, of servers and clients alike.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes an authority whose files are in the directory. The certificate is in caFile.
func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "lab"}, key)
	if err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	a := &authority{dir, ca, key}
	return a, os.WriteFile(a.caFile(), pemOf(ca.Raw), 0o644)
}

func pemOf(raw []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}) }

func (a *authority) caFile() string           { return filepath.Join(a.dir, "ca.crt") }
func (a *authority) certFile(n string) string { return filepath.Join(a.dir, n+".crt") }
func (a *authority) keyFile(n string) string  { return filepath.Join(a.dir, n+".key") }

// issue makes the certificate of a user in groups, which is also one for the addresses of a server.
func (a *authority) issue(name, user string, groups []string, addresses ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("issue certificate of %s: %w", user, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("issue certificate of %s: %w", user, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: user, Organization: groups},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, s := range addresses {
		if ip := net.ParseIP(s); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, s)
		}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("issue certificate of %s: %w", user, err)
	}
	return errors.Join(os.WriteFile(a.certFile(name), pemOf(raw), 0o644), writeKey(a.keyFile(name), key))
}

// signingKey makes the key that signs the tokens of service accounts.
func (a *authority) signingKey(name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key %s: %w", name, err)
	}
	return writeKey(a.keyFile(name), key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	raw, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	return os.WriteFile(path, raw, 0o600)
}

// kubeconfig writes the access of a user, with everything in one file, and returns its path.
func (a *authority) kubeconfig(name, user string, groups ...string) (string, error) {
	if err := a.issue(name, user, groups); err != nil {
		return "", err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: "https://" + apiAddress, CertificateAuthorityData: pemOf(a.cert.Raw)}
	cert, err := os.ReadFile(a.certFile(name))
	if err != nil {
		return "", fmt.Errorf("make kubeconfig of %s: %w", user, err)
	}
	key, err := os.ReadFile(a.keyFile(name))
	if err != nil {
		return "", fmt.Errorf("make kubeconfig of %s: %w", user, err)
	}
	config.AuthInfos["lab"] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "lab"}
	config.CurrentContext = "lab"
	path := filepath.Join(a.dir, name+".conf")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("make kubeconfig of %s: %w", user, err)
	}
	return path, nil
}
