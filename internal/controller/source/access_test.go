package source

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func TestASourceFetchesWithItsCredentialsAndItsCA(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "mirror" || password != "s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "FIRMWARE")
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "https://")
	good := map[string]string{"username": "mirror", "password": "s3cret\n", "hosts": "mirror.example, " + host}
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	with := func(key, value string) map[string]string {
		out := map[string]string{}
		for k, v := range good {
			out[k] = v
		}
		out[key] = value
		return out
	}
	for name, tc := range map[string]struct {
		secret map[string]string
		ca     string
		reason string
		says   string
	}{
		"all is well":                     {secret: good, ca: ca, reason: "True Succeeded"},
		"the Secret is missing":           {ca: ca, reason: "False InvalidSpec", says: "there is no Secret mirror in the namespace product"},
		"the ConfigMap is missing":        {secret: good, reason: "False InvalidSpec", says: "there is no ConfigMap mirror"},
		"the Secret is for other servers": {secret: with("hosts", "mirror.example"), ca: ca, reason: "False DownloadFailed", says: "401"},
		"the Secret is for no server":     {secret: with("hosts", " "), ca: ca, reason: "False InvalidSpec", says: "which servers get the credentials"},
		"the Secret is for all servers":   {secret: with("hosts", "*"), ca: ca, reason: "False InvalidSpec", says: "no host"},
		"the Secret has both":             {secret: with("token", "x"), ca: ca, reason: "False InvalidSpec", says: "either username"},
		"the Secret has neither":          {secret: with("username", ""), ca: ca, reason: "False InvalidSpec", says: "either username"},
		"the Secret has another header":   {secret: with("password", "x\r\nHost: y"), ca: ca, reason: "False InvalidSpec", says: "control characters"},
		"the password is wrong":           {secret: with("password", "no"), ca: ca, reason: "False DownloadFailed", says: "if they are there, correct them"},
		"the ConfigMap has no CA":         {secret: good, ca: "no PEM", reason: "False InvalidSpec", says: "no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if tc.secret != nil {
				data := map[string][]byte{}
				for k, v := range tc.secret {
					data[k] = []byte(v)
				}
				require.NoError(t, b.client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "product", Name: "mirror"}, Data: data}))
			}
			if tc.ca != "" {
				require.NoError(t, b.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "product", Name: "mirror"}, Data: map[string]string{"ca.crt": tc.ca}}))
			}
			b.create("cx", remote(server.URL+"/fw.bin", "FIRMWARE"))
			s := b.get("cx")
			s.Spec.SecretRef, s.Spec.CARef = &v1alpha1.LocalReference{Name: "mirror"}, &v1alpha1.LocalReference{Name: "mirror"}
			require.NoError(t, b.client.Update(t.Context(), s))
			result, err := b.reconcile("cx")
			require.NoError(t, err)
			assert.NotZero(t, result.RequeueAfter, "correcting the Secret does not change the source")
			assert.Equal(t, tc.reason, b.reason("cx", "Ready"))
			message := meta.FindStatusCondition(b.get("cx").Status.Conditions, "Ready").Message
			assert.Contains(t, message, tc.says)
			assert.NotContains(t, message, "s3cret")
		})
	}
}

// reader answers every Get with an error.
type reader struct {
	client.Reader
	err error
}

func (r reader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return r.err
}

func TestNamesForbiddenSecret(t *testing.T) {
	b := newBench(t)
	b.create("cx", remote("https://192.0.2.1/fw.bin", "FIRMWARE"))
	s := b.get("cx")
	s.Spec.SecretRef = &v1alpha1.LocalReference{Name: "mirror"}
	require.NoError(t, b.client.Update(t.Context(), s))
	b.reconciler.Reader = reader{b.client, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "mirror", nil)}
	_, err := b.reconcile("cx")
	require.NoError(t, err)
	assert.Equal(t, "False InvalidSpec", b.reason("cx", "Ready"))
	assert.Contains(t, meta.FindStatusCondition(b.get("cx").Status.Conditions, "Ready").Message, "add it to the operator's Role")
}
