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
		Spec:       v1alpha1.FirmwareCatalogSpec{Machine: v1alpha1.CatalogMachine{Vendor: "dell-inc", Model: "poweredge-r650"}},
	}
}

// R000-24: the API server refuses every name but the one of the pair, by the same rule as the operator's, so that there is one catalog
// for each model.
func TestOneCatalogPerModel(t *testing.T) {
	env := apitest.New(t)
	for _, pair := range [][2]string{
		{"Dell Inc.", "PowerEdge R650"}, {"Lenovo", "ThinkSystem SR650 V2 -[7Z73CTO1WW]-"}, {"  HPE", "ProLiant\tDL380 Gen10+ "}, {"A", "b"},
		{"QEMU", "Standard PC (Q35 + ICH9, 2009)"}, {"Fujitsu Ä\u212a", "PRIMERGY İ9"}, {strings.Repeat("x", 120), strings.Repeat("- ", 59) + "yz"},
	} {
		m, err := v1alpha1.CatalogOf(pair[0], pair[1])
		require.NoError(t, err)
		spec := v1alpha1.FirmwareCatalogSpec{Machine: m}
		require.NoError(t, env.Client.Create(t.Context(), &v1alpha1.FirmwareCatalog{ObjectMeta: metav1.ObjectMeta{Name: m.CatalogName()}, Spec: spec}), "%q", pair)
		for _, name := range []string{m.CatalogName() + "-2", v1alpha1.DefaultCatalog} {
			err = env.Client.Create(t.Context(), &v1alpha1.FirmwareCatalog{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			assert.ErrorContains(t, err, "the name must be vendor and model of the machine joined by a dot, such as dell-inc.poweredge-r650, or default without a machine; there is one catalog for each model")
		}
	}
	m, err := v1alpha1.CatalogOf("DELL INC", "PowerEdge-R650")
	require.NoError(t, err)
	assert.Equal(t, validCatalog().Spec.Machine, m, "another spelling is the same model")
	spelled := validCatalog()
	spelled.Spec.Machine.Vendor = "Dell Inc."
	require.True(t, apierrors.IsInvalid(env.Client.Create(t.Context(), spelled)))
}

func TestSomeMachinesHaveNoCatalog(t *testing.T) {
	for _, pair := range [][2]string{{"", "R650"}, {"Dell", " - "}, {"戴尔", "R650"}, {"Dell", strings.Repeat("x", 121)}} {
		_, err := v1alpha1.CatalogOf(pair[0], pair[1])
		require.Error(t, err)
	}
}

// R000-20: the machine, interval and how many versions to keep, with their defaults and bounds.
func TestCatalogSpecs(t *testing.T) {
	env := apitest.New(t)
	for name, c := range map[string]struct {
		change func(*v1alpha1.FirmwareCatalogSpec)
		want   string
	}{
		"the model alone": {func(*v1alpha1.FirmwareCatalogSpec) {}, ""},
		"everything": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.DiscoveryInterval, s.VersionsToStore, s.Requests.Discover = "1h30m", 16, "now"
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
		}, "url must begin with https:// or file://, or with oci:// for the type OCI, and contain no spaces"},
		"credentials": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = someProviders()[1:2]
			s.Providers[0].URL = "https://u:p@a/b"
		}, "url must not carry credentials"},
		"oci that is none": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = someProviders()[4:]
			s.Providers[0].URL = "https://a/b"
		}, "url must begin with https:// or file://, or with oci:// for the type OCI, and contain no spaces"},
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
		"a base of an index": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = []v1alpha1.CatalogProvider{{Name: "ours", Type: v1alpha1.ProviderIndex, URL: "https://x.example.com/i.json", BaseURL: "https://x.example.com"}}
		}, "baseURL is for the type LVFS, whose metadata has the addresses of the service it comes from"},
		"a base with credentials": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = someProviders()[3:4]
			s.Providers[0].BaseURL = "https://me:secret@x.example.com"
		}, "baseURL"},
		"LVFS without signers": {func(s *v1alpha1.FirmwareCatalogSpec) { s.Providers = someProviders()[3:4]; s.Providers[0].Signers = "" }, "signers are required for the type LVFS, whose metadata must be signed, and not allowed for other types"},
		"signers of an index": {func(s *v1alpha1.FirmwareCatalogSpec) {
			s.Providers = someProviders()[1:2]
			s.Providers[0].Signers = "x"
		}, "signers are required for the type LVFS, whose metadata must be signed, and not allowed for other types"},
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
	assert.Equal(t, v1alpha1.FirmwareCatalogSpec{Machine: validCatalog().Spec.Machine, State: v1alpha1.CatalogActive}, o.Spec,
		"what is left out is that of the catalog default")
	o.Spec.Machine.Model = "poweredge-r651"
	require.ErrorContains(t, env.Client.Update(t.Context(), o), "machine is immutable; create another catalog")
}

// The catalog default has no machine, and takes nothing that would have no effect.
func TestDefaultCatalogHasNoMachine(t *testing.T) {
	env := apitest.New(t)
	common := func(change func(*v1alpha1.FirmwareCatalogSpec)) *v1alpha1.FirmwareCatalog {
		o := &v1alpha1.FirmwareCatalog{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultCatalog}}
		o.Spec.Providers, o.Spec.DiscoveryInterval, o.Spec.VersionsToStore = someProviders(), "12h", 3
		change(&o.Spec)
		return o
	}
	for _, change := range []func(*v1alpha1.FirmwareCatalogSpec){
		func(s *v1alpha1.FirmwareCatalogSpec) { s.State = v1alpha1.CatalogPaused },
		func(s *v1alpha1.FirmwareCatalogSpec) { s.Requests.Discover = "now" },
	} {
		assert.ErrorContains(t, env.Client.Create(t.Context(), common(change)), "the catalog default discovers no versions itself; pause the other catalogs, or request a discovery there")
	}
	o := common(func(*v1alpha1.FirmwareCatalogSpec) {})
	require.NoError(t, env.Client.Create(t.Context(), o))
	o.Spec.Machine = validCatalog().Spec.Machine
	require.ErrorContains(t, env.Client.Update(t.Context(), o), "or default without a machine")
}

// R000-52: a report is answered with a status and a code: accepted, or why it is not.
func TestCatalogStatusValidation(t *testing.T) {
	type change = validation[*v1alpha1.FirmwareCatalog]
	running := func(change func(*v1alpha1.CatalogRunning)) func(*v1alpha1.FirmwareCatalog) {
		return func(o *v1alpha1.FirmwareCatalog) { change(&o.Status.Components[0].Running[0]) }
	}
	checkStatus(t, validCatalog(), func(o *v1alpha1.FirmwareCatalog) {
		o.Status.Providers = []v1alpha1.CatalogProviderStatus{{Name: "sources"}}
		o.Status.Components = []v1alpha1.CatalogComponent{{Class: v1alpha1.ClassNIC, Versions: []v1alpha1.CatalogVersion{{Version: "1.1", Digest: digest}},
			Running: []v1alpha1.CatalogRunning{{Version: "1.0", Devices: 1, Position: v1alpha1.PositionBehind}}}}
	}, []change{
		{name: "what a discovery found", change: func(*v1alpha1.FirmwareCatalog) {}},
		{name: "fewer devices than none", change: func(o *v1alpha1.FirmwareCatalog) { o.Status.Devices.Behind = -1 },
			field: "status.devices.behind", message: "greater than or equal to 0"},
		{name: "an unknown position", change: running(func(r *v1alpha1.CatalogRunning) { r.Position = "Old" }),
			field: "status.components[0].running[0].position", message: `supported values: "Newest", "Behind", "Ahead", "Unknown"`},
		{name: "a provider twice", change: func(o *v1alpha1.FirmwareCatalog) {
			o.Status.Providers = append(o.Status.Providers, o.Status.Providers[0])
		}, field: "status.providers[1]", message: "Duplicate value"},
		{name: "a digest of another form", change: func(o *v1alpha1.FirmwareCatalog) { o.Status.Components[0].Versions[0].Digest = "md5:0" },
			field: "status.components[0].versions[0].digest", message: "should match"},
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
	fresh.Name, fresh.Spec.Machine = "lenovo.7x21", v1alpha1.CatalogMachine{Vendor: "lenovo", Model: "7x21"}
	fresh.Status = v1alpha1.FirmwareCatalogStatus{ObservedGeneration: -1}
	atRest.Status = v1alpha1.FirmwareCatalogStatus{
		ObservedGeneration: 1, LastDiscoveryTime: &someTime, Nodes: 12, Devices: v1alpha1.CatalogDevices{Total: 60, Behind: 7, Vulnerable: new(int32(3)), Unknown: 24},
		Conditions: ready(metav1.ConditionTrue, v1alpha1.ReasonSucceeded,
			"7 of 60 devices run behind the newest version, 3 with a known vulnerability; for 24 it is not known."),
	}
	failing.Name, failing.Spec.Machine.Model = "dell-inc.poweredge-r750", "poweredge-r750"
	failing.Status = v1alpha1.FirmwareCatalogStatus{
		ObservedGeneration: 1, Nodes: 2, Devices: v1alpha1.CatalogDevices{Total: 8},
		Conditions: ready(metav1.ConditionFalse, v1alpha1.ReasonSignatureInvalid, "lvfs: verify signature of \"firmware.xml.gz\": unknown authority."),
	}
	return []client.Object{fresh, atRest, failing}
}
