package images_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/images"
)

// nobody is an address at which nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// moved makes the server's URL lead nowhere, and publishes an address for it.
func moved(t *testing.T, address func(real string) string) func(*images.Config) {
	t.Helper()
	return func(c *images.Config) {
		real := strings.TrimPrefix(c.Server, "https://")
		c.Server = "https://" + nobody(t)
		c.AddressFile = filepath.Join(filepath.Dir(c.Dir), "address")
		require.NoError(t, os.WriteFile(c.AddressFile, []byte(address(real)), 0o600))
	}
}

func TestAnImageIsFetchedWhereNoNameAndNoServiceLeads(t *testing.T) {
	s := newScene(t, serve(content), moved(t, func(real string) string { return real + "\n" }))
	path, size, err := s.Fetch(t.Context(), digest(content))
	require.NoError(t, err)
	assert.Equal(t, int64(len(content)), size)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, content, got)
	assert.Zero(t, s.waits, "the other way is tried at once")
}

// The address of a pod that is gone may be another's: who cannot prove to be the server is sent no token.
func TestAStrangerAtThePublishedAddressLearnsNothing(t *testing.T) {
	s := newScene(t, serve(content), moved(t, func(real string) string { return real }), func(c *images.Config) {
		require.NoError(t, os.WriteFile(c.CAFile, otherAuthority(t), 0o600))
	})
	_, _, err := s.Fetch(t.Context(), digest(content))
	require.ErrorIs(t, err, images.ErrUnavailable)
	assert.ErrorContains(t, err, "the operator's own address")
	assert.ErrorContains(t, err, "certificate signed by unknown authority")
	assert.Empty(t, s.shelf.tokens)
}

// otherAuthority is a certificate, in PEM, that has signed no server of these tests.
func otherAuthority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestNamesBothFailedAddresses(t *testing.T) {
	for name, c := range map[string]struct{ address, says string }{
		"nobody there":  {nobody(t), "connection refused"},
		"no address":    {"operator.example:8444", "read the operator's address"},
		"no port":       {"10.0.0.1", "read the operator's address"},
		"none is known": {"", "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, serve(content), moved(t, func(string) string { return c.address }))
			_, _, err := s.Fetch(t.Context(), digest(content))
			require.ErrorIs(t, err, images.ErrUnavailable)
			assert.ErrorContains(t, err, strings.TrimPrefix(s.config.Server, "https://"))
			assert.ErrorContains(t, err, c.says)
		})
	}
}

func TestUnpublishedAddressIsNone(t *testing.T) {
	s := newScene(t, serve(content), func(c *images.Config) { c.AddressFile = filepath.Join(c.Dir, "missing") })
	_, _, err := s.Fetch(t.Context(), digest(content))
	assert.NoError(t, err)
}
