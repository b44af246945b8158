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
func TestKubectlDescribeCatalogGolden(t *testing.T) {
	env := apitest.New(t)
	c := catalogInDetail()
	status := c.Status
	require.NoError(t, env.Client.Create(t.Context(), c))
	c.Status = status
	require.NoError(t, env.Client.Status().Update(t.Context(), c))
	golden.Equal(t, "testdata/describe-firmwarecatalog.golden",
		"$ kubectl describe firmwarecatalog "+c.Name+"\n"+env.Describe(t, v1alpha1.GroupVersion.WithKind("FirmwareCatalog"), c.Name))
}

// catalogInDetail is a catalog as the controller writes it for a small fleet, with a tag that was moved.
func catalogInDetail() *v1alpha1.FirmwareCatalog {
	const hub = "oci://registry.example.com/firmware/cx6"
	c := validCatalog()
	c.Spec.Providers = []v1alpha1.CatalogProvider{
		{Name: "sources", Type: v1alpha1.ProviderSources}, {Name: "hub", Type: v1alpha1.ProviderOCI, URL: hub, SecretRef: &v1alpha1.LocalReference{Name: "node-firmware-source-credentials"}},
	}
	c.Status = v1alpha1.FirmwareCatalogStatus{
		ObservedGeneration: 1, LastDiscoveryTime: &someTime, Nodes: 12, Devices: 24, DevicesBehind: 7, DevicesVulnerable: 3, DevicesUnknown: 12,
		Machine: &v1alpha1.CatalogMachine{Manufacturer: "Dell Inc.", Model: "PowerEdge R650"},
		Conditions: ready(metav1.ConditionTrue, v1alpha1.ReasonSucceeded,
			"7 of 24 devices run behind the newest version, 3 with a known vulnerability; of 12 it is not known.",
			condition(v1alpha1.ConditionTagsMoved, metav1.ConditionTrue, v1alpha1.ReasonTagMoved,
				"Tag 22.42.1000 (version 22.42.1000) pointed to sha256:"+strings.Repeat("a", 64)+" and points to "+hub+"@sha256:"+strings.Repeat("b", 64)+" now.")),
		Providers: []v1alpha1.CatalogProviderStatus{{Name: "sources", LastDiscoveryTime: &someTime, Versions: 1}, {Name: "hub", LastDiscoveryTime: &someTime, Versions: 2}},
		Components: []v1alpha1.CatalogComponent{
			{Class: v1alpha1.ClassBIOS, Manufacturer: "Dell Inc.", Name: "PowerEdge R650", Running: []v1alpha1.CatalogRunning{{Version: "1.9.2", Devices: 12, Position: v1alpha1.PositionUnknown}}},
			{
				Class: v1alpha1.ClassNIC, Manufacturer: "Mellanox", Name: "ConnectX-6 Dx", PCIID: "15b3:101d", BoardID: "MT_0000000359",
				VersionFormat: v1alpha1.VersionFormatDotted, Newest: "22.42.1000",
				Running: []v1alpha1.CatalogRunning{
					{Version: "22.42.1000", Devices: 5, Position: v1alpha1.PositionNewest},
					{Version: "22.41.1000", Devices: 4, Position: v1alpha1.PositionBehind, NodeDevices: []string{"n04-nic", "n05-nic", "n06-nic", "n07-nic"}},
					{Version: "22.40.1000", Devices: 3, Position: v1alpha1.PositionBehind, NodeDevices: []string{"n01-nic", "n02-nic", "n03-nic"}, Issues: []string{"CVE-2026-1"}, MendedByNewest: []string{"CVE-2026-1"}},
				},
				Versions: []v1alpha1.CatalogVersion{
					{
						Version: "22.42.1000", Providers: []string{"hub"}, Tag: "22.42.1000", URL: hub + "@sha256:" + strings.Repeat("b", 64), SHA256: strings.Repeat("2", 64),
						Moved: &v1alpha1.CatalogMove{From: "sha256:" + strings.Repeat("a", 64), Time: someTime},
					},
					{Version: "22.41.1000", Providers: []string{"sources", "hub"}, Source: "cx6dx-2241", Tag: "22.41.1000", URL: hub + "@sha256:" + strings.Repeat("c", 64), SHA256: strings.Repeat("1", 64)},
				},
				Issues: []v1alpha1.CatalogIssue{{ID: "CVE-2026-1", MendedIn: []string{"22.41.1000"}, Devices: 3}},
			},
		},
	}
	return c
}
