package imageserver

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// SecretName holds the certification authority and the serving certificate.
	SecretName = "node-firmware-image-tls"
	// ConfigMapName publishes the authority's certificate, under CAKey, to the daemons.
	ConfigMapName = "node-firmware-image-ca"
	// CAKey is the key of the authority's certificate in the Secret and the ConfigMap.
	CAKey = "ca.crt"
	// AddressKey is the key in the ConfigMap of the address at which the server can be reached without a name.
	AddressKey = "address"

	caPrivateKey = "ca.key"
	// The next authority is published before it signs, and the previous one until it expires, so that there is no moment in
	// which a daemon trusts another authority than the one that signed.
	nextCA, nextPrivateKey, previousCA = "next-ca.crt", "next-ca.key", "previous-ca.crt"
	authorityFor                       = 10 * 365 * 24 * time.Hour
	servingFor                         = 90 * 24 * time.Hour
	renewBefore                        = 30 * 24 * time.Hour
	// promoteBefore is how long before the end of an authority the next one begins to sign. Until then daemons have had two
	// weeks to receive it.
	promoteBefore = 15 * 24 * time.Hour
	recheckEvery  = time.Hour
)

// Certificates keeps the serving certificate in a Secret, renews it in time, and publishes the authority.
type Certificates struct {
	// Client reads from the API server and not from a cache.
	Client    client.Client
	Namespace string
	// Names are the DNS names and IP addresses the daemons use for the server.
	Names []string
	// Address is where daemons reach this process without the cluster's DNS and without the routing of its Services, as host:port. It
	// is published beside the authority; empty publishes none.
	Address string
	Now     func() time.Time

	mu      sync.RWMutex
	current *tls.Certificate
}

// Get returns the serving certificate; it is a tls.Config.GetCertificate.
func (c *Certificates) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.current == nil {
		return nil, fmt.Errorf("serve images: no certificate yet")
	}
	return c.current, nil
}

// NeedLeaderElection tells the manager that every replica needs a certificate.
func (c *Certificates) NeedLeaderElection() bool { return false }

// Start renews the certificate until the context ends. While the API server is unreachable, the current certificate is
// kept.
func (c *Certificates) Start(ctx context.Context) error {
	for {
		wait := recheckEvery
		if err := c.Ensure(ctx); err != nil {
			wait = 5 * time.Second
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// Ensure loads the certificate from the Secret, creates or renews what is missing or about to expire, and publishes the
// authority.
func (c *Certificates) Ensure(ctx context.Context) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: SecretName}}
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read secret %s: %w", SecretName, err)
	}
	found := err == nil
	pair, changed, err := c.complete(secret)
	if err != nil {
		return err
	}
	if changed {
		// A conflict means that another replica created one at the same time: the next pass loads it.
		if found {
			err = c.Client.Update(ctx, secret)
		} else {
			secret.Type = corev1.SecretTypeTLS
			err = c.Client.Create(ctx, secret)
		}
		if err != nil {
			return fmt.Errorf("write secret %s: %w", SecretName, err)
		}
	}
	if err := c.publish(ctx, c.bundle(secret)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = pair
	return nil
}

// complete creates the parts of the secret that are missing, damaged, about to expire or for other names.
func (c *Certificates) complete(secret *corev1.Secret) (pair *tls.Certificate, changed bool, err error) {
	ca, changed, err := c.authority(secret)
	if err != nil {
		return nil, false, err
	}
	leaf, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil || !c.fresh(leaf.Leaf) || !c.covers(leaf.Leaf) || leaf.Leaf.CheckSignatureFrom(ca.Leaf) != nil {
		if leaf, err = c.issue(&ca, secret, corev1.TLSCertKey, corev1.TLSPrivateKeyKey); err != nil {
			return nil, false, err
		}
		changed = true
	}
	return &leaf, changed, nil
}

// authority returns the authority that signs, creates the next one in time, and puts it in place when daemons had time to
// receive it. A damaged or expired authority is replaced at once.
func (c *Certificates) authority(secret *corev1.Secret) (ca tls.Certificate, changed bool, err error) {
	ca, err = tls.X509KeyPair(secret.Data[CAKey], secret.Data[caPrivateKey])
	if err != nil || !c.lasts(ca.Leaf, 0) {
		ca, err = c.issue(nil, secret, CAKey, caPrivateKey)
		return ca, true, err
	}
	if c.lasts(ca.Leaf, renewBefore) {
		return ca, false, nil
	}
	next, err := tls.X509KeyPair(secret.Data[nextCA], secret.Data[nextPrivateKey])
	switch {
	case err != nil:
		_, err = c.issue(nil, secret, nextCA, nextPrivateKey)
		return ca, true, err
	case c.lasts(ca.Leaf, promoteBefore):
		return ca, false, nil
	}
	secret.Data[previousCA], secret.Data[CAKey], secret.Data[caPrivateKey] = secret.Data[CAKey], secret.Data[nextCA], secret.Data[nextPrivateKey]
	delete(secret.Data, nextCA)
	delete(secret.Data, nextPrivateKey)
	return next, true, nil
}

// bundle is every authority that daemons have to trust now.
func (c *Certificates) bundle(secret *corev1.Secret) []byte {
	out := slices.Clone(secret.Data[CAKey])
	for _, key := range []string{nextCA, previousCA} {
		if block, _ := pem.Decode(secret.Data[key]); block != nil {
			if cert, err := x509.ParseCertificate(block.Bytes); err == nil && c.lasts(cert, 0) {
				out = append(out, secret.Data[key]...)
			}
		}
	}
	return out
}

// lasts reports whether a certificate is valid for longer than that.
func (c *Certificates) lasts(cert *x509.Certificate, d time.Duration) bool {
	return cert != nil && c.Now().Add(d).Before(cert.NotAfter)
}

func (c *Certificates) fresh(cert *x509.Certificate) bool { return c.lasts(cert, renewBefore) }

func (c *Certificates) covers(cert *x509.Certificate) bool {
	return !slices.ContainsFunc(c.Names, func(name string) bool { return cert.VerifyHostname(name) != nil })
}

// issue creates a key and a certificate, signed by parent or self-signed, and puts both into the secret.
func (c *Certificates) issue(parent *tls.Certificate, secret *corev1.Secret, certKey, privateKey string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "node-firmware-operator images"},
		NotBefore: c.Now().Add(-time.Hour), NotAfter: c.Now().Add(servingFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range c.Names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	signer, issuer := crypto.Signer(key), template
	if parent == nil {
		template.NotAfter = c.Now().Add(authorityFor)
		template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
		template.KeyUsage, template.ExtKeyUsage, template.DNSNames, template.IPAddresses = x509.KeyUsageCertSign, nil, nil, nil
		template.Subject.CommonName = "node-firmware-operator image authority"
	} else {
		signer, issuer = parent.PrivateKey.(crypto.Signer), parent.Leaf
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("encode key: %w", err)
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[certKey] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret.Data[privateKey] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	return tls.X509KeyPair(secret.Data[certKey], secret.Data[privateKey])
}

// publish writes the authority and the address to the ConfigMap, if they are not there already.
func (c *Certificates) publish(ctx context.Context, authority []byte) error {
	data := map[string]string{CAKey: string(authority)}
	if c.Address != "" {
		data[AddressKey] = c.Address
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: ConfigMapName}}
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(cm), cm)
	switch {
	case apierrors.IsNotFound(err):
		cm.Data = data
		err = c.Client.Create(ctx, cm)
	case err == nil && !maps.Equal(cm.Data, data):
		cm.Data = data
		err = c.Client.Update(ctx, cm)
	}
	if err != nil {
		return fmt.Errorf("publish image authority in config map %s: %w", ConfigMapName, err)
	}
	return nil
}
