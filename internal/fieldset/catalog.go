package fieldset

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	applyv1alpha1 "github.com/nodefirmware/node-firmware-operator/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// ApplyCatalog writes the status of a catalog. The catalog controller of the operator does so, and it alone: what a discovery found
// reaches the status by this way only.
func ApplyCatalog(ctx context.Context, c client.Client, name string, s v1alpha1.FirmwareCatalogStatus) error {
	ac, err := configure(s, applyv1alpha1.FirmwareCatalogStatus())
	body := applyv1alpha1.FirmwareCatalog(name).WithStatus(ac)
	return apply(ctx, c, v1alpha1.FieldOwnerOperator, body, err, "status of firmware catalog "+name)
}
