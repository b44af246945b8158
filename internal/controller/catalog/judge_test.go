package catalog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/match"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Whatever providers offer and devices run, the status stays within its bound, and what is left out is counted.
func TestTheStatusIsBounded(t *testing.T) {
	long := func(n, i int) string { s := fmt.Sprint(i); return s + strings.Repeat("x", n-len(s)) }
	var s v1alpha1.FirmwareCatalogStatus
	const kinds, runs, issues = 80, 30, 200
	for n := range kinds {
		k := kind{ComponentKey: component{Class: v1alpha1.ClassDisk, Vendor: long(128, n), Model: long(128, n), BoardID: long(64, n)},
			format: inventory.FormatDotted, running: map[string]group{}}
		for i := range runs {
			k.running[fmt.Sprintf("1.%d", i)] = group{devices: 1}
		}
		var from catalog.Offer
		for i := range 16 {
			from.Decimal = append(from.Decimal, catalog.Release{Version: fmt.Sprintf("2.%d", i), URL: long(1024, i), Digest: inventory.Digest{1}})
		}
		for i := range issues {
			from.Issues = append(from.Issues, catalog.Issue{ID: long(64, i), FixedIn: []string{"2.0"}})
		}
		var o offers
		o.add(long(63, 1), from)
		c := judge(k, o, 16, nil)
		assert.Equal(t, "2.15", c.Versions[0].Version)
		count(&s, &c)
		s.Components = append(s.Components, c)
	}
	left := fit(&s)
	assert.LessOrEqual(t, v1alpha1.SizeOf(s.Components), maxStatus)
	assert.NotEmpty(t, s.Components)
	assert.Equal(t, kinds, len(s.Components)+left.Components)
	assert.Equal(t, kinds*(runs-maxRunning), left.Versions)
	assert.Positive(t, left.Issues)
	assert.Equal(t, v1alpha1.CatalogDevices{Total: kinds * runs, Behind: kinds * runs, Vulnerable: new(int32(kinds * runs))}, s.Devices, "the sums are of everything")
}

// What fails first has a place whatever there is no room for: only so it is foretold.
func TestWhatFailsFirstIsCutLast(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	var s v1alpha1.FirmwareCatalogStatus
	for n := range maxComponents + 2 {
		c := v1alpha1.CatalogComponent{Class: v1alpha1.ClassDisk, Model: fmt.Sprintf("m%03d", n)}
		for i := range maxRunning + 2 {
			c.Running = append(c.Running, v1alpha1.CatalogRunning{Version: fmt.Sprintf("1.%02d", i), Devices: int32(100 - i)})
		}
		s.Components = append(s.Components, c)
	}
	last := &s.Components[maxComponents+1]
	last.Running[maxRunning+1].Limit = &v1alpha1.CatalogLimit{Issue: "a00092491", PowerOnHours: 32_768, FirstFailureTime: &at}
	fails := last.Running[maxRunning+1]
	left := fit(&s)
	assert.Equal(t, 2, left.Components)
	assert.Equal(t, &at, s.FirstFailure())
	kept := s.Components[maxComponents-1]
	assert.Equal(t, fmt.Sprintf("m%03d", maxComponents+1), kept.Model, "the order stays")
	assert.Equal(t, fails, kept.Running[maxRunning-1])
	assert.Equal(t, int32(100), kept.Running[0].Devices)
	assert.Equal(t, "m000", s.Components[0].Model)
}

// Providers complete each other, and none takes back what an earlier one said.
func TestOffersOfProvidersAreMerged(t *testing.T) {
	var o offers
	o.add("a", catalog.Offer{Decimal: []catalog.Release{{Version: "1.0", Source: "s", Digest: inventory.Digest{1}}},
		Issues: []catalog.Issue{{ID: "CVE-1", FixedIn: []string{"1.0"}}}})
	o.add("b", catalog.Offer{Decimal: []catalog.Release{{Version: "1.1"}, {Version: "1.0", URL: "https://b/1.0", Digest: inventory.Digest{2}}},
		Issues: []catalog.Issue{{ID: "CVE-1", FixedIn: []string{"1.0", "1.1"}, Has: []string{"0.9"}}}})
	c := judge(kind{format: inventory.FormatDotted, running: map[string]group{"0.9": {devices: 2}, "": {devices: 1}}}, o, 5, nil)
	assert.Equal(t, []v1alpha1.CatalogVersion{
		{Version: "1.1", Provider: "b"},
		{Version: "1.0", Provider: "b", Source: "s", URL: "https://b/1.0", Digest: v1alpha1.Digest(inventory.Digest{2}.String())},
	}, c.Versions)
	assert.Equal(t, []v1alpha1.CatalogRunning{
		{Version: "0.9", Devices: 2, Position: v1alpha1.PositionBehind, Issues: []string{"CVE-1"}, FixedIn: "1.0"},
		{Version: "unknown", Devices: 1, Position: v1alpha1.PositionUnknown},
	}, c.Running)
}

// A fix that the upgrade paths of its source forbid is none; one that is reached by way of another version is.
func TestFixIsReached(t *testing.T) {
	var o offers
	o.add("sources", catalog.Offer{Decimal: []catalog.Release{{Version: "1.3", Source: "s"}, {Version: "1.2", Source: "s"}, {Version: "1.1", Source: "s"}},
		Issues: []catalog.Issue{{ID: "CVE-1", FixedIn: []string{"1.1"}}}})
	for want, list := range map[string][]v1alpha1.UpgradePath{
		"1.1": nil,
		"1.2": {{To: "1.1", From: []string{"1.0"}}, {To: "1.2", From: []string{"1.0"}, Via: "0.9"}},
		"1.3": {{To: "1.1", From: []string{"1.0"}}, {To: "1.2", Below: "1.1"}},
		"":    {{To: "1.1", From: []string{"1.0"}}, {To: "1.2", Below: "1.1"}, {To: "1.3", From: []string{"1.0"}, Via: "1.2"}},
	} {
		c := judge(kind{format: inventory.FormatDotted, running: map[string]group{"1.0": {devices: 1}}}, o, 5, map[string]*match.Paths{"s": match.NewPaths(list, "s")})
		assert.Equal(t, want, c.Running[0].FixedIn)
	}
}

func limited(issue string, hours int64) *v1alpha1.CatalogLimit {
	return &v1alpha1.CatalogLimit{Issue: issue, PowerOnHours: hours}
}

// The lowest limit of the vulnerabilities that a version has counts, and the device that has been on the longest.
func TestTheFirstDeviceThatFailsIsForetold(t *testing.T) {
	read := metav1.NewTime(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	device := func(version string, hours int64) v1alpha1.NodeDevice {
		return v1alpha1.NodeDevice{Status: v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassDisk, Model: "EO001920", Firmware: &v1alpha1.ObservedFirmware{Running: version},
			PowerOnHours: &hours, PowerOnHoursTime: &read}}
	}
	silent := device("HPD6", 0)
	silent.Status.PowerOnHours, silent.Status.PowerOnHoursTime = nil, nil
	of := tally{}
	of.add([]v1alpha1.NodeDevice{device("HPD5", 32_000), device("HPD5", 32_720), silent, device("HPD8", 40_000)})
	var o offers
	o.add("a", catalog.Offer{First: []catalog.Release{{Version: "HPD8"}}, Tells: true, Issues: []catalog.Issue{
		{ID: "a00092491", FixedInText: []string{"HPD8"}, Has: []string{"HPD5", "HPD6"}, PowerOnHours: 32_768}, {ID: "CVE-1", Has: []string{"HPD5"}},
	}})
	o.add("b", catalog.Offer{Issues: []catalog.Issue{{ID: "a00097382", Has: []string{"HPD5"}, PowerOnHours: 40_000}}})
	first := metav1.NewTime(read.Add(48 * time.Hour))
	limits := map[string]*v1alpha1.CatalogLimit{}
	for _, run := range judge(of.kinds()[0], o, 5, nil).Running {
		limits[run.Version] = run.Limit
	}
	assert.Equal(t, map[string]*v1alpha1.CatalogLimit{
		"HPD5": {Issue: "a00092491", PowerOnHours: 32_768, FirstFailureTime: &first}, "HPD6": {Issue: "a00092491", PowerOnHours: 32_768}, "HPD8": nil,
	}, limits)
	status := v1alpha1.FirmwareCatalogStatus{Components: []v1alpha1.CatalogComponent{judge(of.kinds()[0], o, 5, nil)}}
	assert.Equal(t, &first, status.FirstFailure())
}

// What the status said is completed, and never made better than what is known now.
func TestWhatIsRememberedCompletesARunningVersion(t *testing.T) {
	type run = v1alpha1.CatalogRunning
	for name, c := range map[string]struct{ was, is, want run }{
		"nothing before": {run{}, run{Issues: []string{"a"}, FixedIn: "1.1"}, run{Issues: []string{"a"}, FixedIn: "1.1"}},
		"nothing now":    {run{Issues: []string{"a"}, FixedIn: "1.1"}, run{}, run{Issues: []string{"a"}, FixedIn: "1.1"}},
		"the same":       {run{Issues: []string{"a"}}, run{Issues: []string{"a"}, FixedIn: "1.1"}, run{Issues: []string{"a"}, FixedIn: "1.1"}},
		"a later fix":    {run{Issues: []string{"b"}, FixedIn: "1.2"}, run{Issues: []string{"a"}, FixedIn: "1.1"}, run{Issues: []string{"a", "b"}, FixedIn: "1.2"}},
		"an earlier fix": {run{Issues: []string{"b"}, FixedIn: "1.0"}, run{Issues: []string{"a"}, FixedIn: "1.1"}, run{Issues: []string{"a", "b"}, FixedIn: "1.1"}},
		"no fix before":  {run{Issues: []string{"b"}}, run{Issues: []string{"a"}, FixedIn: "1.1"}, run{Issues: []string{"a", "b"}}},
		"a limit":        {run{Limit: limited("a", 9)}, run{}, run{Limit: limited("a", 9)}},
		"a lower limit":  {run{Limit: limited("b", 8)}, run{Limit: limited("a", 9)}, run{Limit: limited("b", 8)}},
		"a higher limit": {run{Limit: limited("b", 10)}, run{Limit: limited("a", 9)}, run{Limit: limited("a", 9)}},
		"no fix for it":  {run{Issues: []string{"b"}, FixedIn: "1.0"}, run{Issues: []string{"a"}}, run{Issues: []string{"a", "b"}}},
	} {
		got := c.is
		offers{before: []run{c.was}}.complete(&got)
		assert.Equal(t, c.want, got, name)
	}
}
