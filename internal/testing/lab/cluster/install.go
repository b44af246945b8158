package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/crd"
)

// Namespace is where the manifests put the product.
const Namespace = "node-firmware-system"

const fieldOwner = client.FieldOwner("firmware-lab")

// Install applies the product's definitions, roles and policy as a cluster gets them, and the definitions of the
// maintenance-operator. It returns when the API serves all kinds.
func Install(ctx context.Context, c client.Client) error {
	objects, err := deploy.Objects(parts...)
	if err != nil {
		return err
	}
	return install(ctx, c, objects)
}

// InstallFrom does so with the manifests of another version of the product, in its directory deploy.
func InstallFrom(ctx context.Context, c client.Client, manifests fs.FS) error {
	objects, err := deploy.ObjectsIn(manifests, parts...)
	if err != nil {
		return err
	}
	return install(ctx, c, objects)
}

var parts = []deploy.Part{deploy.Namespace, deploy.CRDs, deploy.RBAC, deploy.Policy}

func install(ctx context.Context, c client.Client, objects []*unstructured.Unstructured) error {
	maintenance, err := crd.Maintenance()
	if err != nil {
		return err
	}
	for _, d := range maintenance {
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
		if err != nil {
			return fmt.Errorf("convert definition %s: %w", d.Name, err)
		}
		u := &unstructured.Unstructured{Object: raw}
		u.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		objects = append(objects, u)
	}
	if err := Apply(ctx, c, objects...); err != nil {
		return err
	}
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			if err := waitServed(ctx, c, o.GetName()); err != nil {
				return err
			}
		}
	}
	return Apply(ctx, c, maintenanceConfig())
}

// InstallDrain applies what the operator needs beyond Install to drain nodes itself.
func InstallDrain(ctx context.Context, c client.Client) error {
	objects, err := deploy.Objects(deploy.Drain)
	if err != nil {
		return err
	}
	return Apply(ctx, c, objects...)
}

// maintenanceConfig removes the maintenance-operator's own limit, so that only the RolloutPolicy limits.
func maintenanceConfig() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": maintenancev1alpha1.GroupVersion.String(), "kind": "MaintenanceOperatorConfig",
		"metadata": map[string]any{"namespace": Namespace, "name": "default"},
		"spec":     map[string]any{"maxParallelOperations": "100%"},
	}}
}

// Apply applies objects by server-side apply, again where an API server that has just started does not manage it in its own time.
func Apply(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		o = o.DeepCopy()
		o.SetManagedFields(nil)
		unstructured.RemoveNestedField(o.Object, "status")
		unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
		err := retry.OnError(wait.Backoff{Steps: 5, Duration: time.Second}, apierrors.IsTimeout, func() error {
			return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), fieldOwner, client.ForceOwnership)
		})
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func waitServed(ctx context.Context, c client.Client, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		var d apiextensionsv1.CustomResourceDefinition
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &d); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		for _, condition := range d.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("wait for definition %s to be served: %w", name, err)
	}
	return nil
}
