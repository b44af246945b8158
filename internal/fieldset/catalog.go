package fieldset

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// FieldOwnerCatalog is the field manager of the operator for catalogs.
const FieldOwnerCatalog = v1alpha1.FieldOwnerOperator + "-catalog"

// CreateCatalog creates the catalog of a machine with the machine alone, so that the user owns everything else. It changes nothing of one
// that exists.
func CreateCatalog(ctx context.Context, c client.Client, m v1alpha1.CatalogMachine) error {
	body, err := Configuration(c, &v1alpha1.FirmwareCatalog{ObjectMeta: named(m.CatalogName()), Spec: v1alpha1.FirmwareCatalogSpec{Machine: m}})
	if err == nil {
		err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(body), client.FieldOwner(FieldOwnerCatalog))
	}
	if err != nil {
		return fmt.Errorf("create firmware catalog %s: %w", m.CatalogName(), err)
	}
	return nil
}

// ApplyCatalog writes the status of a catalog. The catalog controller of the operator does so, and it alone: what a discovery found
// reaches the status by this way only.
func ApplyCatalog(ctx context.Context, c client.Client, name string, s v1alpha1.FirmwareCatalogStatus) error {
	return apply(ctx, c, FieldOwnerCatalog, &v1alpha1.FirmwareCatalog{ObjectMeta: named(name), Status: s}, "status of firmware catalog "+name)
}
