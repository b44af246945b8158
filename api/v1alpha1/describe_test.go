package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
)

// What `kubectl describe` prints of a catalog: which devices run behind, what is offered, and which vulnerabilities are known.
func TestDescribeCatalogGolden(t *testing.T) {
	env := apitest.New(t)
	c := catalogInDetail()
	status := c.Status
	require.NoError(t, env.Client.Create(t.Context(), c))
	c.Status = status
	require.NoError(t, env.Client.Status().Update(t.Context(), c))
	golden.Equal(t, "testdata/describe-firmwarecatalog.golden",
		"$ kubectl describe firmwarecatalog "+c.Name+"\n"+env.Describe(t, v1alpha1.GroupVersion.WithKind("FirmwareCatalog"), c.Name))
}

// catalogInDetail is a catalog as the controller writes it for a small fleet.
func catalogInDetail() *v1alpha1.FirmwareCatalog {
	const hub = "oci://registry.example.com/firmware/cx6"
	c := validCatalog()
	c.Spec.Providers = []v1alpha1.CatalogProvider{
		{Name: "sources", Type: v1alpha1.ProviderSources}, {Name: "hub", Type: v1alpha1.ProviderOCI, URL: hub, SecretRef: &v1alpha1.LocalReference{Name: "node-firmware-source-credentials"}},
	}
	c.Status = v1alpha1.FirmwareCatalogStatus{
		ObservedGeneration: 1, LastDiscoveryTime: &someTime, Nodes: 12, Devices: v1alpha1.CatalogDevices{Total: 24, Behind: 7, Vulnerable: new(int32(3)), Unknown: 12},
		Conditions: ready(metav1.ConditionTrue, v1alpha1.ReasonSucceeded,
			"7 of 24 devices run behind the newest version, 3 with a known vulnerability; for 12 it is not known."),
		Providers: []v1alpha1.CatalogProviderStatus{{Name: "sources", LastDiscoveryTime: &someTime}, {Name: "hub", LastDiscoveryTime: &someTime}},
		Components: []v1alpha1.CatalogComponent{
			{Class: v1alpha1.ClassBIOS, Vendor: "Dell Inc.", Model: "PowerEdge R650", Running: []v1alpha1.CatalogRunning{{Version: "1.9.2", Devices: 12, Position: v1alpha1.PositionUnknown}}},
			{
				Class: v1alpha1.ClassNIC, Vendor: "Mellanox", Model: "ConnectX-6 Dx", PCIID: "15b3:101d", BoardID: "MT_0000000359",
				Running: []v1alpha1.CatalogRunning{
					{Version: "22.42.1000", Devices: 5, Position: v1alpha1.PositionNewest},
					{Version: "22.41.1000", Devices: 4, Position: v1alpha1.PositionBehind},
					{Version: "22.40.1000", Devices: 3, Position: v1alpha1.PositionBehind, Issues: []string{"CVE-2026-1"}, FixedIn: "22.41.1000"},
				},
				Versions: []v1alpha1.CatalogVersion{
					{Version: "22.42.1000", Provider: "hub", URL: hub + "@sha256:" + strings.Repeat("b", 64), Digest: v1alpha1.Digest("sha256:" + strings.Repeat("2", 64))},
					{Version: "22.41.1000", Provider: "hub", Source: "cx6dx-2241", URL: hub + "@sha256:" + strings.Repeat("c", 64), Digest: v1alpha1.Digest("sha256:" + strings.Repeat("1", 64))},
				},
			},
		},
	}
	return c
}
