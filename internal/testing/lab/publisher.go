package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/mirror"
)

// The Secret and the ConfigMap that the shipped Role lets the operator read for its sources.
const (
	credentialsName = "node-firmware-source-credentials"
	authorityName   = "node-firmware-source-ca"
)

// startMirror starts the server of the images, and tells the cluster how it is known and what it asks for, as its administrator would.
func (l *Lab) startMirror(ctx context.Context) (err error) {
	if l.mirror, err = mirror.Start(filepath.Join(l.options.Dir, "mirror")); err != nil {
		return err
	}
	user, password := l.mirror.Credentials()
	if err := l.putCredentials(ctx, user, password); err != nil {
		return err
	}
	return l.putAuthority(ctx, l.mirror.Authority())
}

// putCredentials writes the Secret with what the mirror is sent.
func (l *Lab) putCredentials(ctx context.Context, user, password string) error {
	return l.put(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: credentialsName},
		Data:       map[string][]byte{"username": []byte(user), "password": []byte(password), "hosts": []byte(mirror.Address)},
	})
}

// putAuthority writes the ConfigMap with who is trusted to name the mirror.
func (l *Lab) putAuthority(ctx context.Context, pem []byte) error {
	return l.put(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: authorityName},
		Data:       map[string]string{"ca.crt": string(pem)},
	})
}

// put creates an object, or replaces the one of an earlier lab.
func (l *Lab) put(ctx context.Context, o client.Object) error {
	err := l.admin.Create(ctx, o.DeepCopyObject().(client.Object))
	if client.IgnoreAlreadyExists(err) == nil && err != nil {
		err = l.admin.Update(ctx, o)
	}
	if err != nil {
		return fmt.Errorf("declare %s: %w", o.GetName(), err)
	}
	return nil
}

// imageKeys mounts the publisher's public key on a node, and returns what the programs there are told of it. Without a mirror there is no
// key, and no image must be signed.
func (l *Lab) imageKeys(dir string) ([]string, error) {
	keys, verification := filepath.Join(dir, "image-keys"), config.ImagesSignedIfKeys
	if err := os.MkdirAll(keys, 0o755); err != nil {
		return nil, fmt.Errorf("mount keys: %w", err)
	}
	if l.mirror != nil {
		verification = config.ImagesSigned
		if err := os.WriteFile(filepath.Join(keys, "publisher.pub"), []byte(l.mirror.PublicKey()+"\n"), 0o644); err != nil {
			return nil, fmt.Errorf("mount keys: %w", err)
		}
	}
	return []string{"--image-keys-dir=" + keys, "--image-verification=" + verification}, nil
}

// sayMirror says in one sentence what is trusted how.
func (l *Lab) sayMirror(list []target) {
	files := make([]string, len(list))
	for i, t := range list {
		files[i] = t.file
	}
	l.say("Images: %s, each in a tar.zst from https://%s (private CA, password, reached by a proxy), signed with minisign key %s, which every node verifies again.",
		strings.Join(files, ", "), mirror.Address, l.mirror.KeyID())
}
