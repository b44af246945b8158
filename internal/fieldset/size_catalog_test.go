package fieldset_test

import (
	"strings"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	nfostatus "github.com/nodefirmware/node-firmware-operator/internal/status"
)

func (c cluster) fullCatalog() {
	texts := func(n, size int) []string {
		return filled(c.T, n, unbounded, func(i int) string { return long(size, i) })
	}
	o := &v1alpha1.FirmwareCatalog{Spec: v1alpha1.FirmwareCatalogSpec{
		Manufacturer: long(120, 1), Model: long(120, 2), Discover: long(128, 1),
		Providers: filled(c.T, 8, unbounded, func(i int) v1alpha1.CatalogProvider {
			return v1alpha1.CatalogProvider{Name: long(63, i), Type: v1alpha1.ProviderLVFS, URL: "https://" + long(1016, i), Signers: long(4096, i),
				SecretRef: &v1alpha1.LocalReference{Name: long(253, i)}, CARef: &v1alpha1.LocalReference{Name: long(253, i)}}
		}),
		Stage: filled(c.T, 16, unbounded, func(i int) v1alpha1.CatalogStage {
			return v1alpha1.CatalogStage{Source: long(253, i), Class: v1alpha1.ClassStorageController, PCIID: "15b3:101d", Name: long(128, i), BoardID: long(64, i),
				Version: long(64, i), SHA256: strings.Repeat("0", 64)}
		}),
	}}
	o.Name = o.Spec.CatalogName()
	o.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 48<<10)} // the spec once more
	c.create(o)
	require.NoError(c, fieldset.ApplyCatalog(c.Context(), c, o.Name, v1alpha1.FirmwareCatalogStatus{
		Conditions: verbose(nfostatus.CatalogConditions...), LastDiscoveryTime: &now, Discover: long(128, 1),
		Machine: &v1alpha1.CatalogMachine{Manufacturer: long(128, 1), Model: long(128, 2)},
		Providers: filled(c.T, 8, unbounded, func(i int) v1alpha1.CatalogProviderStatus {
			return v1alpha1.CatalogProviderStatus{Name: long(63, i), LastDiscoveryTime: &now, Reason: v1alpha1.ReasonSignatureInvalid, Message: long(512, i), SignedTime: &now}
		}),
		Staged: filled(c.T, 16, unbounded, func(i int) v1alpha1.CatalogStaged {
			return v1alpha1.CatalogStaged{Source: long(253, i), Reason: v1alpha1.ReasonDigestMismatch, Message: long(512, i)}
		}),
		Components: filled(c.T, 64, 112<<10, func(i int) v1alpha1.CatalogComponent { // as the catalog controller bounds it
			return v1alpha1.CatalogComponent{
				Class: v1alpha1.ClassStorageController, Manufacturer: long(128, i), Name: long(128, i), PCIID: "15b3:101d", BoardID: long(64, i), Newest: long(64, i),
				Running: filled(c.T, 4, unbounded, func(i int) v1alpha1.CatalogRunning {
					return v1alpha1.CatalogRunning{Version: long(64, i), Devices: 1, Position: v1alpha1.PositionBehind, NodeDevices: texts(5, 253), Issues: texts(4, 64), MendedByNewest: texts(4, 64)}
				}),
				Versions: filled(c.T, 4, unbounded, func(i int) v1alpha1.CatalogVersion {
					return v1alpha1.CatalogVersion{Version: long(64, i), Providers: texts(8, 63), Source: long(253, i), Released: &metav1.Time{Time: now.Time}, URL: long(1024, i), SHA256: long(64, i),
						Tag: long(128, i), Moved: &v1alpha1.CatalogMove{From: long(71, i), Time: now}}
				}),
				Issues: filled(c.T, 4, unbounded, func(i int) v1alpha1.CatalogIssue {
					return v1alpha1.CatalogIssue{ID: long(64, i), MendedIn: texts(8, 64), Affects: texts(16, 64), Devices: 1}
				}),
			}
		}),
	}))
	c.isSmall(o)
}
