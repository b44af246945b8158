package controlplane

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

// Authority signs the certificates of one control plane, of servers and clients alike.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority whose files are in the directory. The certificate is in CAFile.
func NewAuthority(dir string) (*Authority, error) {
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
	a := &Authority{dir, ca, key}
	return a, os.WriteFile(a.CAFile(), pemOf(ca.Raw), 0o644)
}

func pemOf(raw []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}) }

// CAFile is the file of the authority's own certificate.
func (a *Authority) CAFile() string { return filepath.Join(a.dir, "ca.crt") }

// CertFile is the file of a certificate that was issued.
func (a *Authority) CertFile(name string) string { return filepath.Join(a.dir, name+".crt") }

// KeyFile is the file of its key.
func (a *Authority) KeyFile(name string) string { return filepath.Join(a.dir, name+".key") }

// Issue makes the certificate of a user in groups, which is also one for the addresses of a server.
func (a *Authority) Issue(name, user string, groups []string, addresses ...string) error {
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
	return errors.Join(os.WriteFile(a.CertFile(name), pemOf(raw), 0o644), writeKey(a.KeyFile(name), key))
}

// SigningKey makes the key that signs the tokens of service accounts.
func (a *Authority) SigningKey(name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key %s: %w", name, err)
	}
	return writeKey(a.KeyFile(name), key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	raw, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	return os.WriteFile(path, raw, 0o600)
}

// Kubeconfig writes the access of a user of the server to a file, with everything in it.
func (a *Authority) Kubeconfig(server, path, user string, groups ...string) error {
	name := filepath.Base(path)
	if err := a.Issue(name, user, groups); err != nil {
		return err
	}
	cert, err := os.ReadFile(a.CertFile(name))
	if err != nil {
		return fmt.Errorf("make kubeconfig of %s: %w", user, err)
	}
	key, err := os.ReadFile(a.KeyFile(name))
	if err != nil {
		return fmt.Errorf("make kubeconfig of %s: %w", user, err)
	}
	return WriteAccess(path, server, pemOf(a.cert.Raw), &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key})
}

// WriteAccess writes a kubeconfig that reaches a server, which the certificates authenticate, as somebody.
func WriteAccess(path, server string, ca []byte, who *clientcmdapi.AuthInfo) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos["lab"] = who
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "lab"}
	config.CurrentContext = "lab"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return os.Chmod(path, 0o600)
}
