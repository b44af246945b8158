package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

func validCatalog() *v1alpha1.FirmwareCatalog {
	return &v1alpha1.FirmwareCatalog{
		ObjectMeta: metav1.ObjectMeta{Name: "dell-inc.poweredge-r650"},
		Spec:       v1alpha1.FirmwareCatalogSpec{Manufacturer: "dell-inc", Model: "poweredge-r650"},
	}
}

// R000-24: the API server refuses every name but the one of the pair, by the same rule as the operator's, so that there is one catalog
// for each model.
func TestACatalogIsUniqueForItsModel(t *testing.T) {
	env := apitest.New(t)
	for _, pair := range [][2]string{
		{"Dell Inc.", "PowerEdge R650"}, {"Lenovo", "ThinkSystem SR650 V2 -[7Z73CTO1WW]-"}, {"  HPE", "ProLiant\tDL380 Gen10+ "}, {"A", "b"},
		{"QEMU", "Standard PC (Q35 + ICH9, 2009)"}, {"Fujitsu Ä\u212a", "PRIMERGY İ9"}, {strings.Repeat("x", 120), strings.Repeat("- ", 59) + "yz"},
	} {
		spec, err := v1alpha1.CatalogModel(pair[0], pair[1])
		require.NoError(t, err)
		require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.FirmwareCatalog{ObjectMeta: metav1.ObjectMeta{Name: spec.CatalogName()}, Spec: spec}), "%q", pair)
		err = env.Client.Create(t.Context(), &v1alpha1.FirmwareCatalog{ObjectMeta: metav1.ObjectMeta{Name: spec.CatalogName() + "-2"}, Spec: spec})
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		assert.ErrorContains(t, err, "the name must be manufacturer and model joined by a dot, such as dell-inc.poweredge-r650; there is one catalog for each model")
	}
	spec, err := v1alpha1.CatalogModel("DELL INC", "PowerEdge-R650")
	require.NoError(t, err)
	assert.Equal(t, validCatalog().Spec, spec, "another spelling is the same model")
	spelled := validCatalog()
	spelled.Spec.Manufacturer = "Dell Inc."
	require.True(t, apierrors.IsInvalid(env.Client.Create(t.Context(), spelled)))
}

func TestSomeMachinesCanHaveNoCatalog(t *testing.T) {
	for _, pair := range [][2]string{{"", "R650"}, {"Dell", " - "}, {"戴尔", "R650"}, {"Dell", strings.Repeat("x", 121)}} {
		_, err := v1alpha1.CatalogModel(pair[0], pair[1])
		require.Error(t, err)
	}
}

// R000-20: manufacturer, model, interval and how many versions to keep, with their defaults and bounds.
func TestCatalogSpecs(t *testing.T) {
	env := apitest.New(t)
	for name, c := range map[string]struct {
		change func(*v1alpha1.FirmwareCatalogSpec)
		want   string
	}{
		"the model alone": {func(*v1alpha1.FirmwareCatalogSpec) {}, ""},
		"everything": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.DiscoveryInterval, s.VersionsToStore, s.Discover = "1h30m", 16, "now"
		}, ""},
		"too often":          {func(s *v1alpha1.FirmwareCatalogSpec) { s.DiscoveryInterval = "30s" }, "discoveryInterval must be a duration of at least 1m, such as 24h"},
		"no duration":        {func(s *v1alpha1.FirmwareCatalogSpec) { s.DiscoveryInterval = "daily" }, "discoveryInterval must be a duration of at least 1m, such as 24h"},
		"too many versions":  {func(s *v1alpha1.FirmwareCatalogSpec) { s.VersionsToStore = 17 }, "versionsToStore"},
		"a provider of each": {func(s *v1alpha1.FirmwareCatalogSpec) { s.Providers = someProviders() }, ""},
		"no url":             {func(s *v1alpha1.FirmwareCatalogSpec) { s.Providers = someProviders()[1:2]; s.Providers[0].URL = "" }, "name the url of the provider; only the type Sources takes none"},
		"a url of sources": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = someProviders()[:1]
			s.Providers[0].URL = "https://a"
		}, "name the url of the provider; only the type Sources takes none"},
		"plain http": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = someProviders()[1:2]
			s.Providers[0].URL = "http://a/b"
		}, "url must begin with https:// or file://, and with oci:// for the type OCI, and hold no blanks"},
		"credentials": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = someProviders()[1:2]
			s.Providers[0].URL = "https://u:p@a/b"
		}, "url must not carry credentials"},
		"oci that is none": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = someProviders()[4:]
			s.Providers[0].URL = "https://a/b"
		}, "url must begin with https:// or file://, and with oci:// for the type OCI, and hold no blanks"},
		"oci with a tag": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = someProviders()[4:]
			s.Providers[0].URL = "oci://registry.example.com:5000/firmware:v1"
		}, "url of the type OCI is oci://registry/repository, without a tag or digest"},
		"oci on another port": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = someProviders()[4:]
			s.Providers[0].URL = "oci://registry.example.com:5000/firmware/cx6"
		}, ""},
		"credentials and a CA": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = someProviders()[1:]
			for i := range s.Providers {
				s.Providers[i].SecretRef, s.Providers[i].CARef = &v1alpha1.LocalReference{Name: "a"}, &v1alpha1.LocalReference{Name: "b"}
			}
		}, ""},
		"credentials of sources": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = someProviders()[:1]
			s.Providers[0].SecretRef = &v1alpha1.LocalReference{Name: "a"}
		}, "the type Sources opens no connection and takes neither secretRef nor caRef"},
		"LVFS without signers": {func(s *v1alpha1.FirmwareCatalogSpec) { s.Providers = someProviders()[3:4]; s.Providers[0].Signers = "" }, "name the signers of LVFS metadata, which must be signed; the other types have no signatures"},
		"signers of an index": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = someProviders()[1:2]
			s.Providers[0].Signers = "x"
		}, "name the signers of LVFS metadata, which must be signed; the other types have no signatures"},
		"a version to stage": {func(s *v1alpha1.FirmwareCatalogSpec) { s.Stage = []v1alpha1.CatalogStage{staged()} }, ""},
		"one without a digest": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Stage = []v1alpha1.CatalogStage{staged()}
			s.Stage[0].SHA256 = ""
		}, "spec.stage[0].sha256"},
		"one whose source has no name that a source can have": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Stage = []v1alpha1.CatalogStage{staged()}
			s.Stage[0].Source = "CX6"
		}, "spec.stage[0].source"},
		"one twice":     {func(s *v1alpha1.FirmwareCatalogSpec) { s.Stage = []v1alpha1.CatalogStage{staged(), staged()} }, "Duplicate"},
		"two of a name": {func(s *v1alpha1.FirmwareCatalogSpec) { s.Providers = append(someProviders(), someProviders()[0]) }, "Duplicate"},
	} {
		t.Run(name, func(t *testing.T) {
			o := validCatalog()
			c.change(&o.Spec)
			err := env.Client.Create(t.Context(), o)
			if c.want == "" {
				require.NoError(t, err)
				require.NoError(t, env.Client.Delete(t.Context(), o))
				return
			}
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			assert.ErrorContains(t, err, c.want)
		})
	}
	o := validCatalog()
	require.NoError(t, env.Client.Create(t.Context(), o))
	assert.Equal(t, "24h", o.Spec.DiscoveryInterval)
	assert.Equal(t, int32(5), o.Spec.VersionsToStore)
	assert.Equal(t, v1alpha1.CatalogActive, o.Spec.State)
	assert.Empty(t, o.Spec.Providers, "no provider is on by default that leaves the cluster")
	o.Spec.Model = "poweredge-r651"
	err := env.Client.Update(t.Context(), o)
	require.ErrorContains(t, err, "model is immutable; create another catalog")
	o.Spec.Model, o.Spec.Manufacturer = "poweredge-r650", "dell"
	require.ErrorContains(t, env.Client.Update(t.Context(), o), "manufacturer is immutable; create another catalog")
}

func staged() v1alpha1.CatalogStage {
	return v1alpha1.CatalogStage{Source: "cx6dx-2242", Class: v1alpha1.ClassNIC, Version: "22.42.1000", SHA256: strings.Repeat("0", 64)}
}

// R000-52: a report is answered with a status and a code: accepted, or why it is not.
func TestCatalogStatusValidation(t *testing.T) {
	type change = validation[*v1alpha1.FirmwareCatalog]
	running := func(change func(*v1alpha1.CatalogRunning)) func(*v1alpha1.FirmwareCatalog) {
		return func(o *v1alpha1.FirmwareCatalog) { change(&o.Status.Components[0].Running[0]) }
	}
	checkStatus(t, validCatalog(), func(o *v1alpha1.FirmwareCatalog) {
		o.Status.Staged = []v1alpha1.CatalogStaged{{Source: "cx6dx-2242", Reason: v1alpha1.ReasonStaged}}
		o.Status.Providers = []v1alpha1.CatalogProviderStatus{{Name: "sources"}}
		o.Status.Components = []v1alpha1.CatalogComponent{{Class: v1alpha1.ClassNIC, VersionFormat: v1alpha1.VersionFormatDotted,
			Running: []v1alpha1.CatalogRunning{{Version: "1.0", Devices: 1, Position: v1alpha1.PositionBehind}}}}
	}, []change{
		{name: "what a discovery found", change: func(*v1alpha1.FirmwareCatalog) {}},
		{name: "fewer devices than none", change: func(o *v1alpha1.FirmwareCatalog) { o.Status.DevicesBehind = -1 },
			field: "status.devicesBehind", message: "greater than or equal to 0"},
		{name: "an unknown position", change: running(func(r *v1alpha1.CatalogRunning) { r.Position = "Old" }),
			field: "status.components[0].running[0].position", message: `supported values: "Newest", "Behind", "Ahead", "Unknown"`},
		{name: "a provider twice", change: func(o *v1alpha1.FirmwareCatalog) {
			o.Status.Providers = append(o.Status.Providers, o.Status.Providers[0])
		}, field: "status.providers[1]", message: "Duplicate value"},
		{name: "a staged version without a reason", change: func(o *v1alpha1.FirmwareCatalog) { o.Status.Staged[0].Reason = "" },
			field: "status.staged[0].reason", message: "Required"},
	})
}

func someProviders() []v1alpha1.CatalogProvider {
	return []v1alpha1.CatalogProvider{
		{Name: "sources", Type: v1alpha1.ProviderSources},
		{Name: "ours", Type: v1alpha1.ProviderIndex, URL: "https://mirror.example.com/index.json"},
		{Name: "dell", Type: v1alpha1.ProviderDell, URL: "file:///catalogs/Catalog.xml"},
		{Name: "lvfs", Type: v1alpha1.ProviderLVFS, URL: "https://mirror.example.com/firmware.xml.gz", Signers: "PEM"},
		{Name: "oci", Type: v1alpha1.ProviderOCI, URL: "oci://registry.example.com/firmware"},
	}
}

// catalogsInUse are one that was never discovered, one at rest, and one whose provider fails.
func catalogsInUse() []client.Object {
	fresh, atRest, failing := validCatalog(), validCatalog(), validCatalog()
	fresh.Name, fresh.Spec.Manufacturer, fresh.Spec.Model = "lenovo.7x21", "lenovo", "7x21"
	fresh.Status = v1alpha1.FirmwareCatalogStatus{ObservedGeneration: -1}
	atRest.Status = v1alpha1.FirmwareCatalogStatus{
		ObservedGeneration: 1, LastDiscoveryTime: &someTime, Nodes: 12, Devices: 60, DevicesBehind: 7, DevicesVulnerable: 3, DevicesUnknown: 24,
		Conditions: ready(metav1.ConditionTrue, v1alpha1.ReasonSucceeded,
			"7 of 60 devices run behind the newest version, 3 with a known vulnerability; of 24 it is not known."),
	}
	failing.Name, failing.Spec.Model = "dell-inc.poweredge-r750", "poweredge-r750"
	failing.Status = v1alpha1.FirmwareCatalogStatus{
		ObservedGeneration: 1, Nodes: 2, Devices: 8,
		Conditions: ready(metav1.ConditionFalse, v1alpha1.ReasonSignatureInvalid, "lvfs: verify signature of \"firmware.xml.gz\": unknown authority."),
	}
	return []client.Object{fresh, atRest, failing}
}
