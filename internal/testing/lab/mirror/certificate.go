package mirror

import (
	"bytes"
	"crypto/tls"
	"fmt"

	"k8s.io/client-go/util/cert"
)

// newCertificate makes the certificate of a server at the address, and a private authority that signed it and nothing else.
func newCertificate(address string) (authority []byte, server tls.Certificate, err error) {
	chain, key, err := cert.GenerateSelfSignedCertKey(address, nil, nil)
	if err == nil {
		server, err = tls.X509KeyPair(chain, key)
	}
	if err != nil {
		return nil, server, fmt.Errorf("make certificate: %w", err)
	}
	return chain[bytes.LastIndex(chain, []byte("-----BEGIN")):], server, nil
}
