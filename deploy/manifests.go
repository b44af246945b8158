package deploy

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed kustomize/*/*.yaml kustomize/dashboard/*.json policy/*.yaml
var files embed.FS

// Part is a directory of manifests.
type Part string

// The parts, in the order they are applied.
const (
	Namespace Part = "kustomize/default"
	CRDs      Part = "kustomize/crd"
	RBAC      Part = "kustomize/rbac"
	Policy    Part = "policy"
	Operator  Part = "kustomize/operator"
	Daemon    Part = "kustomize/daemon"
	// PodStrategy holds the roles and policies that the update strategy pod adds. Its patches are for kustomize.
	PodStrategy Part = "kustomize/pod-strategy"
	// Drain holds the roles and policies with which the operator drains nodes itself. Its patches are for kustomize.
	Drain Part = "kustomize/drain"
	// Medik8s has the operator agree on nodes with medik8s. Its patch is for kustomize.
	Medik8s Part = "kustomize/medik8s"
	// SignedImages makes nodes flash signed images only. It is a patch, for kustomize.
	SignedImages Part = "kustomize/signed-images"
	// ImageVolume keeps the operator's images on a persistent volume. Its patch is for kustomize.
	ImageVolume Part = "kustomize/image-volume"
	// Alerts are for the operator of Prometheus.
	Alerts Part = "kustomize/alerts"
	// Scrape has the operator of Prometheus scrape this one.
	Scrape Part = "kustomize/scrape"
)

// Objects reads the objects of the parts in order, without the files that are for kustomize.
func Objects(parts ...Part) ([]*unstructured.Unstructured, error) { return ObjectsIn(files, parts...) }

// ObjectsIn reads them from this directory of another version of the product.
func ObjectsIn(files fs.FS, parts ...Part) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, part := range parts {
		names, err := fs.Glob(files, path.Join(string(part), "*.yaml"))
		if err != nil {
			return nil, fmt.Errorf("list manifests of %s: %w", part, err)
		}
		for _, name := range names {
			if base := path.Base(name); base == "kustomization.yaml" || base == "names.yaml" {
				continue
			}
			data, err := fs.ReadFile(files, name)
			if err != nil {
				return nil, fmt.Errorf("read manifest: %w", err)
			}
			objects, err := decode(data)
			if err != nil {
				return nil, fmt.Errorf("read manifest %s: %w", name, err)
			}
			out = append(out, objects...)
		}
	}
	return out, nil
}

func decode(data []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		u := &unstructured.Unstructured{}
		switch err := d.Decode(u); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
}
