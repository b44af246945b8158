package fieldset_test

import (
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	nfostatus "github.com/nodefirmware/node-firmware-operator/internal/status"
)

func (c cluster) fullCatalog() {
	texts := func(n, size int) []string {
		return filled(c.T, n, unbounded, func(i int) string { return long(size, i) })
	}
	o := &v1alpha1.FirmwareCatalog{Spec: v1alpha1.FirmwareCatalogSpec{
		Machine: v1alpha1.CatalogMachine{Vendor: long(120, 1), Model: long(120, 2)}, Requests: v1alpha1.CatalogRequests{Discover: long(128, 1)},
		Providers: filled(c.T, 8, unbounded, func(i int) v1alpha1.CatalogProvider {
			return v1alpha1.CatalogProvider{Name: long(63, i), Type: v1alpha1.ProviderLVFS, URL: "https://" + long(1016, i), Signers: long(4096, i),
				SecretRef: &v1alpha1.LocalReference{Name: long(253, i)}, CARef: &v1alpha1.LocalReference{Name: long(253, i)}}
		}),
	}}
	o.Name = o.Spec.Machine.CatalogName()
	o.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 48<<10)} // the spec once more
	c.create(o)
	require.NoError(c, fieldset.ApplyCatalog(c.Context(), c, o.Name, v1alpha1.FirmwareCatalogStatus{
		Conditions: verbose(nfostatus.CatalogConditions...), LastDiscoveryTime: &now, Requests: v1alpha1.CatalogRequests{Discover: long(128, 1)},
		Providers: filled(c.T, 8, unbounded, func(i int) v1alpha1.CatalogProviderStatus {
			return v1alpha1.CatalogProviderStatus{Name: long(63, i), LastDiscoveryTime: &now, Reason: v1alpha1.ReasonSignatureInvalid, Message: long(512, i), SignedTime: &now}
		}),
		Components: filled(c.T, 64, 112<<10, func(i int) v1alpha1.CatalogComponent { // as the catalog controller bounds it
			return v1alpha1.CatalogComponent{
				Class: v1alpha1.ClassStorageController, Vendor: long(128, i), Model: long(128, i), PCIID: "15b3:101d", SubsystemID: "15b3:0016", BoardID: long(64, i),
				Running: filled(c.T, 4, unbounded, func(i int) v1alpha1.CatalogRunning {
					return v1alpha1.CatalogRunning{Version: long(64, i), Devices: 1, Position: v1alpha1.PositionBehind, Issues: texts(16, 64), FixedIn: long(64, i)}
				}),
				Versions: filled(c.T, 4, unbounded, func(i int) v1alpha1.CatalogVersion {
					return v1alpha1.CatalogVersion{Version: long(64, i), Provider: long(63, i), Source: long(253, i), URL: long(1024, i), Digest: digest}
				}),
			}
		}),
	}))
	c.isSmall(o)
}
