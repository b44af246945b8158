package access

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

// The keys of the Secret and the ConfigMap. Who may write a source need not be one who may read the Secret, so the Secret says itself
// who gets what is in it.
const (
	keyUsername, keyPassword, keyToken, keyHosts = "username", "password", "token", "hosts"
	keyCA                                        = "ca.crt"
)

// Reader reads what specs name in secretRef and caRef.
type Reader struct {
	// Client reads past the cache: the operator may read these objects one by one, and not list them.
	Client client.Reader
	// Namespace is the product's, where the objects are.
	Namespace string
}

// Of returns how servers are known and what they want to know; nil where neither is named. field is the path of the part of the spec that
// has the references, for messages. It fails with an *artifact.Error.
func (r Reader) Of(ctx context.Context, field string, secretRef, caRef *v1alpha1.LocalReference) (*artifact.Access, error) {
	if secretRef == nil && caRef == nil {
		return nil, nil
	}
	var out artifact.Access
	if secretRef != nil {
		var secret corev1.Secret
		if err := r.read(ctx, field+".secretRef", "Secret", secretRef.Name, &secret); err != nil {
			return nil, err
		}
		if err := credentials(&out, &secret); err != nil {
			return nil, unusable("%s.secretRef: Secret %s %w", field, secretRef.Name, err)
		}
	}
	if caRef != nil {
		var ca corev1.ConfigMap
		if err := r.read(ctx, field+".caRef", "ConfigMap", caRef.Name, &ca); err != nil {
			return nil, err
		}
		if out.CA = []byte(ca.Data[keyCA]); len(out.CA) == 0 {
			return nil, unusable("%s.caRef: ConfigMap %s has no key %s", field, caRef.Name, keyCA)
		}
	}
	return &out, nil
}

func (r Reader) read(ctx context.Context, field, kind, name string, into client.Object) error {
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, into)
	switch {
	case apierrors.IsNotFound(err):
		return unusable("%s: there is no %s %s in the namespace %s; create it", field, kind, name, r.Namespace)
	case apierrors.IsForbidden(err):
		return unusable("%s: the operator may not read %s %s in the namespace %s; add it to the operator's Role there, or use a name that the Role has", field, kind,
			name, r.Namespace)
	case err != nil:
		return &artifact.Error{Reason: artifact.DownloadFailed, Transient: true, Err: fmt.Errorf("%s: read %s %s: %w", field, kind, name, err)}
	}
	return nil
}

// unusable is the error of an object that a person must correct. What names it must be looked at again in a while, because correcting it
// changes nothing there.
func unusable(format string, args ...any) error {
	return &artifact.Error{Reason: artifact.InvalidSpec, Err: fmt.Errorf(format+"; nothing was fetched", args...)}
}

func credentials(out *artifact.Access, secret *corev1.Secret) error {
	text := func(key string) string { return strings.TrimRight(string(secret.Data[key]), "\r\n") }
	out.Username, out.Password, out.Token = text(keyUsername), text(keyPassword), text(keyToken)
	out.Hosts = strings.FieldsFunc(text(keyHosts), func(c rune) bool { return strings.ContainsRune(" ,\r\n\t", c) })
	switch {
	case (out.Token == "") == (out.Username == ""):
		return fmt.Errorf("needs either %s and %s, or %s", keyUsername, keyPassword, keyToken)
	case strings.ContainsAny(out.Token+out.Username+out.Password, "\r\n\x00"):
		return fmt.Errorf("has control characters in its credentials")
	case len(out.Hosts) == 0:
		return fmt.Errorf("does not say in %s which servers get the credentials", keyHosts)
	}
	for _, h := range out.Hosts {
		if strings.ContainsAny(h, "/@*") {
			return fmt.Errorf("names %q in %s, which is no host; write it as host or host:port", h, keyHosts)
		}
	}
	return nil
}
