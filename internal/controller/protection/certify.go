package protection

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/certificate"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

const (
	// KeyName is the Secret of the product's namespace with the private key that signs certificates, under KeyFile. The operator makes
	// it when it first needs one, unless a person has.
	KeyName = "node-firmware-certificate-key"
	// KeyFile is the key in the Secret.
	KeyFile = "key.pem"
)

// certify makes the certificates of what the job erased that do not exist yet. Once made, they are left alone. Why one cannot be made is an
// event too.
func (r *Reconciler) certify(ctx context.Context, j *v1alpha1.FirmwareJob) error {
	err := r.certifyAll(ctx, j)
	if err != nil {
		r.recorder.Eventf(j, nil, corev1.EventTypeWarning, v1alpha1.ReasonNeedsIntervention, "Certify", "%s", text.Clip(err.Error(), maxNote))
	}
	return err
}

// maxNote bounds the note of an event in bytes, as the API does.
const maxNote = 1024

func (r *Reconciler) certifyAll(ctx context.Context, j *v1alpha1.FirmwareJob) error {
	records, unasked := certificate.Records(j)
	if unasked != nil {
		r.recorder.Eventf(j, nil, corev1.EventTypeWarning, v1alpha1.ReasonNeedsIntervention, "Certify", "%s", unasked)
	}
	for _, name := range slices.Sorted(maps.Keys(records)) {
		if _, known := r.issued.Load(name); known {
			continue
		}
		err := r.direct.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.SanitizationCertificate{})
		if apierrors.IsNotFound(err) {
			err = r.issue(ctx, name, records[name])
		}
		if err != nil {
			return fmt.Errorf("certify that %s is erased: %w", records[name].Device, err)
		}
		r.issued.Store(name, true)
	}
	return nil
}

func (r *Reconciler) issue(ctx context.Context, name string, record v1alpha1.SanitizationRecord) error {
	key, err := r.key(ctx)
	if err != nil {
		return err
	}
	c, err := certificate.Sign(name, record, key)
	if err != nil {
		return err
	}
	err = r.client.Create(ctx, c, client.FieldOwner(v1alpha1.FieldOwnerOperator))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// key is the private key of this installation. It is made where there is none.
func (r *Reconciler) key(ctx context.Context) (*ecdsa.PrivateKey, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: KeyName}, Type: corev1.SecretTypeOpaque}
	err := r.direct.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if apierrors.IsNotFound(err) {
		made, failed := certificate.NewKey()
		if failed != nil {
			return nil, failed
		}
		secret.Data = map[string][]byte{KeyFile: made}
		err = r.client.Create(ctx, secret, client.FieldOwner(v1alpha1.FieldOwnerOperator))
		if apierrors.IsAlreadyExists(err) { // another worker was first
			err = r.direct.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read or create the Secret %s: %w", KeyName, err)
	}
	key, err := certificate.ReadKey(secret.Data[KeyFile])
	if err != nil {
		return nil, fmt.Errorf("read %s of the Secret %s: %w; put an ECDSA key there, or delete the Secret, and another key is made", KeyFile, KeyName, err)
	}
	return key, nil
}
