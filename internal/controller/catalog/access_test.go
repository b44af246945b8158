package catalog

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/access"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
)

// mirror is a server that wants a password, with an index and a repository of one tag.
func mirror(t *testing.T) *httptest.Server {
	manifest := `{"annotations":{"` + catalog.EntriesAnnotation + `":"[{\"class\":\"NIC\",\"version\":\"2.0\"}]"},"layers":[]}`
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "mirror" || password != "s3cret" {
			w.Header().Set("Www-Authenticate", "Basic realm=mirror")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch r.URL.Path {
		case "/index.json":
			fmt.Fprint(w, indexOf(nicEntry("1.0")))
		case "/v2/firmware/tags/list":
			fmt.Fprint(w, `{"tags":["v2"]}`)
		case "/v2/firmware/manifests/v2":
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			fmt.Fprint(w, manifest)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// Providers are asked with their own credentials and CA, by the rules of sources.
func TestAProviderIsAskedWithItsCredentialsAndItsCA(t *testing.T) {
	server := mirror(t)
	host := strings.TrimPrefix(server.URL, "https://")
	ref := &v1alpha1.LocalReference{Name: "mirror"}
	index := v1alpha1.CatalogProvider{Name: "ours", Type: v1alpha1.ProviderIndex, URL: server.URL + "/index.json", SecretRef: ref, CARef: ref}
	oci := v1alpha1.CatalogProvider{Name: "hub", Type: v1alpha1.ProviderOCI, URL: "oci://" + host + "/firmware", SecretRef: ref, CARef: ref}
	lvfs := v1alpha1.CatalogProvider{Name: "lvfs", Type: v1alpha1.ProviderLVFS, URL: server.URL + "/firmware.xml", SecretRef: ref, CARef: ref}
	_, lvfs.Signers = newWorld(t).signed("firmware.xml", "")
	for name, c := range map[string]struct {
		change func(*v1alpha1.CatalogProvider)
		hosts  string
		config artifact.FetchConfig
		says   string // empty: it answers
	}{
		"all is well":                        {hosts: host, config: artifact.FetchConfig{AllowLoopback: true}},
		"no Secret is named":                 {change: func(p *v1alpha1.CatalogProvider) { p.SecretRef = nil }, hosts: host, config: artifact.FetchConfig{AllowLoopback: true}, says: "name the server's credentials in secretRef"},
		"no CA is named":                     {change: func(p *v1alpha1.CatalogProvider) { p.CARef = nil }, hosts: host, config: artifact.FetchConfig{AllowLoopback: true}, says: "name it in caRef"},
		"a Secret that is missing":           {change: func(p *v1alpha1.CatalogProvider) { p.SecretRef = &v1alpha1.LocalReference{Name: "none"} }, hosts: host, config: artifact.FetchConfig{AllowLoopback: true}, says: "].secretRef: there is no Secret none"},
		"a Secret of other servers":          {hosts: "mirror.example", config: artifact.FetchConfig{AllowLoopback: true}, says: "among the hosts of that Secret"},
		"an address that is not permitted":   {hosts: host, says: "on this machine"},
		"a network that sources may not use": {hosts: host, config: artifact.FetchConfig{AllowLoopback: true, Refused: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, says: "--refuse-source-networks"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			require.NoError(t, w.client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "product", Name: "mirror"},
				Data: map[string][]byte{"username": []byte("mirror"), "password": []byte("s3cret"), "hosts": []byte(c.hosts)}}))
			require.NoError(t, w.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "product", Name: "mirror"},
				Data: map[string]string{"ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))}}))
			r := New(w.client, Options{Network: artifact.NewFetcher(c.config), Access: access.Reader{Client: w.client, Namespace: "product"}})
			q := question{versions: 5, query: catalog.Query{Components: []catalog.Component{{Class: "NIC", VendorID: "15b3", DeviceID: "101d"}}}}
			for _, p := range []v1alpha1.CatalogProvider{index, oci, lvfs} {
				if c.change != nil {
					c.change(&p)
				}
				q.providers = append(q.providers, p)
			}
			answers := r.ask(t.Context(), q)
			require.Len(t, answers, 3)
			if c.says == "" {
				assert.NoError(t, answers[0].Err)
				assert.NoError(t, answers[1].Err)
				assert.Equal(t, []int{1, 1}, []int{len(answers[0].Offers[0].First), len(answers[1].Offers[0].First)})
				assert.ErrorContains(t, answers[2].Err, "404", "it got as far as the file")
				return
			}
			for _, a := range answers {
				assert.ErrorContains(t, a.Err, c.says, a.Provider)
				assert.Equal(t, catalog.DownloadFailed, catalog.ReasonOf(a.Err))
				assert.NotContains(t, a.Err.Error(), "s3cret")
			}
		})
	}
}
