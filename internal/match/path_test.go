package match

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// imageOf knows an image of each version "N.0", with digest N, but for those that are missing.
func imageOf(missing ...string) func(inventory.Version) (v1alpha1.Digest, string) {
	return func(v inventory.Version) (v1alpha1.Digest, string) {
		for _, m := range missing {
			if string(v) == m {
				return "", v1alpha1.ReasonImageNotFound
			}
		}
		return digest(int(v[0] - '0')), ""
	}
}

func edge(to string, from ...string) v1alpha1.BlockedEdge {
	return v1alpha1.BlockedEdge{To: to, From: from}
}

func via(to, via string, from ...string) v1alpha1.VersionHop {
	return v1alpha1.VersionHop{To: to, Via: via, From: from}
}

func least(to, version string) v1alpha1.MinimumVersion {
	return v1alpha1.MinimumVersion{To: to, Version: version}
}

// R002-13, R002-65, R002-66: what template and source say adds up.
func TestRoute(t *testing.T) {
	up := func(version string, from ...string) v1alpha1.UpgradeHop {
		d, _ := imageOf()(inventory.Version(version))
		return v1alpha1.UpgradeHop{From: from, Version: version, Digest: d}
	}
	for _, tt := range []struct {
		name         string
		rule, source v1alpha1.UpgradePaths
		want         *v1alpha1.UpgradePath
	}{
		{name: "nothing is restricted"},
		{
			name:   "only other versions are",
			source: v1alpha1.UpgradePaths{BlockedEdges: []v1alpha1.BlockedEdge{edge("8.0", "1.0")}, Hops: []v1alpha1.VersionHop{via("8.0", "7.0", "1.0")}},
		},
		{
			name:   "the edges of both",
			rule:   v1alpha1.UpgradePaths{BlockedEdges: []v1alpha1.BlockedEdge{edge("9.0", "3.0", "1.0")}},
			source: v1alpha1.UpgradePaths{BlockedEdges: []v1alpha1.BlockedEdge{edge("9.0", "2.0", "3.0")}},
			want:   &v1alpha1.UpgradePath{BlockedFrom: []string{"1.0", "2.0", "3.0"}},
		},
		{
			name:   "the newer minimum",
			rule:   v1alpha1.UpgradePaths{MinimumVersions: []v1alpha1.MinimumVersion{least("9.0", "2.9")}},
			source: v1alpha1.UpgradePaths{MinimumVersions: []v1alpha1.MinimumVersion{least("9.0", "2.10")}},
			want:   &v1alpha1.UpgradePath{MinimumVersion: "2.10"},
		},
		{
			name:   "one minimum twice, whatever it is",
			rule:   v1alpha1.UpgradePaths{MinimumVersions: []v1alpha1.MinimumVersion{least("9.0", "A1")}},
			source: v1alpha1.UpgradePaths{MinimumVersions: []v1alpha1.MinimumVersion{least("9.0", "A1")}},
			want:   &v1alpha1.UpgradePath{MinimumVersion: "A1"},
		},
		{
			name:   "one hop of both",
			rule:   v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{via("9.0", "5.0", "1.0")}},
			source: v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{via("9.0", "5.0", "2.0", "1.0")}},
			want:   &v1alpha1.UpgradePath{Hops: []v1alpha1.UpgradeHop{up("5.0", "1.0", "2.0")}},
		},
		{
			name: "a hop with restrictions of its own",
			source: v1alpha1.UpgradePaths{
				Hops: []v1alpha1.VersionHop{via("9.0", "5.0", "1.0")}, BlockedEdges: []v1alpha1.BlockedEdge{edge("5.0", "0.5")},
				MinimumVersions: []v1alpha1.MinimumVersion{least("5.0", "1.0"), least("4.0", "3.0")},
			},
			want: &v1alpha1.UpgradePath{Hops: []v1alpha1.UpgradeHop{{
				From: []string{"1.0"}, Version: "5.0", Digest: digest(5), BlockedFrom: []string{"0.5"}, MinimumVersion: "1.0",
			}}},
		},
		{
			name: "at most one minor at a time",
			source: v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{
				via("4.0", "3.0", "1.0", "2.0"), via("3.0", "2.0", "1.0"), via("9.0", "4.0", "1.0", "2.0", "3.0"),
			}},
			want: &v1alpha1.UpgradePath{Hops: []v1alpha1.UpgradeHop{up("2.0", "1.0"), up("3.0", "2.0"), up("4.0", "3.0")}},
		},
		{
			name: "a hop to a version in between is not taken by those that need not go there",
			source: v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{
				via("9.0", "5.0", "1.0"), via("5.0", "3.0", "2.0"),
			}},
			want: &v1alpha1.UpgradePath{Hops: []v1alpha1.UpgradeHop{up("5.0", "1.0")}},
		},
		{
			name:   "blanks do not count",
			source: v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{via(" 9.0", "5.0 ", " 1.0 ")}},
			want:   &v1alpha1.UpgradePath{Hops: []v1alpha1.UpgradeHop{up("5.0", "1.0")}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, o := route("9.0", imageOf(), NewPaths(&tt.rule, "rule"), NewPaths(&tt.source, "source"))
			require.Nil(t, o)
			assert.Equal(t, tt.want, got)
		})
	}
}

// R002-66: paths that cannot be followed refuse everything they are about, and say what to correct.
func TestRouteFailsClosed(t *testing.T) {
	many := func(n int) []v1alpha1.VersionHop { // each from another version via another one
		var out []v1alpha1.VersionHop
		for i := range n {
			out = append(out, via("9.0", fmt.Sprintf("5.%d", i), fmt.Sprintf("1.%d", i)))
		}
		return out
	}
	for _, tt := range []struct {
		name         string
		rule, source v1alpha1.UpgradePaths
		missing      []string
		want         Block
	}{
		{
			name:    "a hop without an image",
			source:  v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{via("9.0", "5.0", "1.0")}},
			missing: []string{"5.0"}, want: Block{Reason: v1alpha1.ReasonImageNotFound, Version: "5.0"},
		},
		{
			name:   "two hops from one version",
			rule:   v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{via("9.0", "5.0", "1.0")}},
			source: v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{via("9.0", "6.0", "1.0", "2.0")}},
			want: Block{Reason: v1alpha1.ReasonInvalidUpgradePath, Message: "hops from 1.0 to 9.0 contradict each other: " +
				"rule says via 5.0, source says via 6.0; keep one of them"},
		},
		{
			name: "two hops to a version in between",
			source: v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{
				via("9.0", "5.0", "1.0"), via("5.0", "3.0", "1.0"), via("5.0", "4.0", "1.0"),
			}},
			want: Block{Reason: v1alpha1.ReasonInvalidUpgradePath, Message: "hops from 1.0 to 5.0 contradict each other: " +
				"source says via 3.0, source says via 4.0; keep one of them"},
		},
		{
			name: "hops that need each other",
			source: v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{
				via("9.0", "5.0", "1.0"), via("5.0", "6.0", "1.0"), via("6.0", "5.0", "1.0"),
			}},
			want: Block{Reason: v1alpha1.ReasonInvalidUpgradePath, Message: "the hops to 9.0 lead in a circle (5.0, 6.0, 5.0, 9.0); " +
				"remove one of them"},
		},
		{
			name: "hops that lead back",
			source: v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{
				via("9.0", "5.0", "1.0"), via("9.0", "1.0", "5.0"),
			}},
			want: Block{Reason: v1alpha1.ReasonInvalidUpgradePath, Message: "the hops to 9.0 lead in a circle (1.0, 5.0, 1.0); " +
				"remove one of them"},
		},
		{
			name:   "two minimums that cannot be ordered",
			rule:   v1alpha1.UpgradePaths{MinimumVersions: []v1alpha1.MinimumVersion{least("9.0", "A1")}},
			source: v1alpha1.UpgradePaths{MinimumVersions: []v1alpha1.MinimumVersion{least("9.0", "A2")}},
			want: Block{Reason: v1alpha1.ReasonInvalidUpgradePath, Message: "minimumVersions says that 9.0 needs at least A1 and at least A2, " +
				"which cannot be ordered; keep one of them"},
		},
		{
			name:   "33 hops",
			source: v1alpha1.UpgradePaths{Hops: many(33)},
			want: Block{Reason: v1alpha1.ReasonInvalidUpgradePath, Message: "the way to 9.0 has 33 hops, and at most 32 are allowed; " +
				"remove some"},
		},
		{
			name: "an edge from a version to itself, though of another version",
			rule: v1alpha1.UpgradePaths{BlockedEdges: []v1alpha1.BlockedEdge{edge("8.0", "1.0"), edge("7.0", " 7.0")}},
			want: Block{Reason: v1alpha1.ReasonInvalidUpgradePath, Message: "upgradePaths of rule: blockedEdges[1] must name versions that differ"},
		},
		{
			name:   "an edge from nowhere",
			source: v1alpha1.UpgradePaths{BlockedEdges: []v1alpha1.BlockedEdge{edge("9.0")}},
			want:   Block{Reason: v1alpha1.ReasonInvalidUpgradePath, Message: "upgradePaths of source: blockedEdges[0] must name versions that differ"},
		},
		{
			name:   "a hop via its start",
			source: v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{via("9.0", "1.0", "1.0 ")}},
			want:   Block{Reason: v1alpha1.ReasonInvalidUpgradePath, Message: "upgradePaths of source: hops[0] must name versions that differ"},
		},
		{
			name:   "an empty minimum",
			source: v1alpha1.UpgradePaths{MinimumVersions: []v1alpha1.MinimumVersion{least("9.0", " ")}},
			want:   Block{Reason: v1alpha1.ReasonInvalidUpgradePath, Message: "upgradePaths of source: minimumVersions[0] must name two versions"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, o := route("9.0", imageOf(tt.missing...), NewPaths(&tt.rule, "rule"), NewPaths(&tt.source, "source"))
			assert.Nil(t, got)
			require.NotNil(t, o)
			assert.Equal(t, tt.want, *o)
		})
	}
}

func TestRouteSplitsAHopFromManyVersions(t *testing.T) {
	rule, source := &v1alpha1.UpgradePaths{}, &v1alpha1.UpgradePaths{}
	for i := range 100 {
		p := []*v1alpha1.UpgradePaths{rule, source}[i%2]
		p.Hops = append(p.Hops, via("9.0", "5.0", fmt.Sprintf("1.%03d", i)))
	}
	got, o := route("9.0", imageOf(), NewPaths(rule, "rule"), NewPaths(source, "source"))
	require.Nil(t, o)
	require.Len(t, got.Hops, 2)
	assert.Len(t, got.Hops[0].From, 64)
	assert.Len(t, got.Hops[1].From, 36)
}

// Every NodeDevice of the model holds the path, so that it is bounded in bytes too.
func TestRouteThatIsTooLargeForItsObjectsIsRefused(t *testing.T) {
	source := &v1alpha1.UpgradePaths{}
	long := func(n int) string { return fmt.Sprintf("%d.%s", n, strings.Repeat("0", 55)) }
	for h := range 30 {
		hop := v1alpha1.VersionHop{To: "9.0", Via: fmt.Sprintf("5.%d", h)}
		for f := range 60 {
			hop.From = append(hop.From, long(100+h*60+f))
		}
		source.Hops = append(source.Hops, hop)
	}
	_, o := route("9.0", imageOf(), NewPaths(source, "source"))
	require.NotNil(t, o)
	assert.Equal(t, Block{Reason: v1alpha1.ReasonInvalidUpgradePath,
		Message: "the way to 9.0 takes 116 KiB, and at most 96 KiB are allowed; remove hops or blocked edges"}, *o)
	source.Hops = source.Hops[:20]
	_, o = route("9.0", imageOf(), NewPaths(source, "source"))
	assert.Nil(t, o)
}

// restrict gives the stage's source upgrade paths.
func restricted(ready metav1.ConditionStatus, p v1alpha1.UpgradePaths, versions ...string) *v1alpha1.FirmwareSource {
	s := newSource(ready, versions...)
	s.Spec.UpgradePaths = &p
	return s
}

func (s *stage) blocked() string {
	d, _ := s.ix.Decision("d")
	if d.Blocked == nil {
		return ""
	}
	return d.Blocked.Reason
}

// R002-13: a running version that is a forbidden start is refused, and any other one is not.
func TestBlockedEdgeBlocksTheDeviceThatRunsIt(t *testing.T) {
	s := newStage(t)
	s.template("t", "3.0", func(o *v1alpha1.FirmwareTemplate) {
		o.Spec.Rules[0].UpgradePaths = &v1alpha1.UpgradePaths{BlockedEdges: []v1alpha1.BlockedEdge{edge("3.0", "1.0")}}
	})
	assert.Equal(t, []string{"1.0"}, s.device.Spec.Firmware.Path.BlockedFrom)
	assert.Equal(t, digest(3), s.device.Spec.Firmware.Digest)
	assert.Equal(t, v1alpha1.ReasonEdgeBlocked, s.blocked())
	tally, _ := s.ix.Tally("t")
	assert.Equal(t, int32(1), tally.Blocked)
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "2.0" })
	assert.Empty(t, s.blocked())
}

// R002-65: a device gets the image of the version in between, and what runs changes nothing about its assignment.
func TestHopIsAssignedWithItsImage(t *testing.T) {
	s := newStage(t)
	s.ix.SetSource(restricted(metav1.ConditionTrue, v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{via("3.0", "2.0", "1.0")}}, "2.0", "3.0"))
	s.template("t", "3.0")
	want := []v1alpha1.UpgradeHop{{From: []string{"1.0"}, Version: "2.0", Digest: digest(2)}}
	assert.Equal(t, want, s.device.Spec.Firmware.Path.Hops)
	assert.Empty(t, s.blocked())
	for _, v := range []string{"2.0", "3.0", "1.0"} {
		changed := s.device.DeepCopy()
		changed.Status.Firmware.Running = v
		s.device = changed
		assert.Empty(t, s.ix.SetDevice(changed).Devices, "a device that runs %s is left alone", v)
	}
	s.pins("3.0")
	s.wants("3.0", "n")
	assert.Equal(t, want, s.device.Spec.Firmware.Path.Hops, "a pin goes the way its source says")

	s.ix.SetSource(restricted(metav1.ConditionTrue, v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{via("3.0", "2.0", "1.0")}}, "3.0"))
	s.act()
	assert.Empty(t, s.device.Spec.Firmware.Digest, "nothing is flashed while a version in between has no image")
	d, _ := s.ix.Decision("d")
	assert.Equal(t, v1alpha1.ReasonImageNotFound, d.Blocked.Reason)
	assert.Equal(t, "2.0", d.Blocked.Version, "the message names the version that is missing")
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "3.0" })
	assert.Empty(t, s.blocked(), "a device at its target is not blocked")
}

// R002-66: a malformed list refuses.
func TestInvalidPathBlocks(t *testing.T) {
	s := newStage(t)
	contradict := v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{via("3.0", "2.0", "1.0"), via("3.0", "1.5", "1.0")}}
	s.ix.SetSource(restricted(metav1.ConditionTrue, contradict, "2.0", "3.0"))
	s.template("t", "3.0")
	assert.Empty(t, s.device.Spec.Firmware.Digest)
	d, _ := s.ix.Decision("d")
	require.NotNil(t, d.Blocked)
	assert.Equal(t, v1alpha1.ReasonInvalidUpgradePath, d.Blocked.Reason)
	assert.Contains(t, d.Blocked.Message, `FirmwareSource "s" says via 2.0, FirmwareSource "s" says via 1.5`)
	s.ix.SetSource(newSource(metav1.ConditionTrue, "2.0", "3.0"))
	s.act()
	assert.Equal(t, digest(3), s.device.Spec.Firmware.Digest)
	assert.Empty(t, s.blocked())
}

// An edit of the source's paths costs its devices nothing until what it asks for is in store.
func TestPathsOfASourceThatIsFetchedAnew(t *testing.T) {
	s := newStage(t)
	s.template("t", "3.0")
	hops := v1alpha1.UpgradePaths{Hops: []v1alpha1.VersionHop{via("3.0", "2.0", "1.0")}}
	s.ix.SetSource(restricted(metav1.ConditionFalse, hops, "3.0"))
	d, _ := s.ix.Decision("d")
	assert.Equal(t, Keep, d.Action)
	assert.Equal(t, v1alpha1.ReasonSourceNotReady, s.blocked(), "and nothing is flashed past the new hop")
	s.ix.SetSource(restricted(metav1.ConditionTrue, hops, "2.0", "3.0"))
	s.act()
	assert.Empty(t, s.blocked())
	require.Len(t, s.device.Spec.Firmware.Path.Hops, 1)
	s.ix.SetSource(restricted(metav1.ConditionFalse, hops, "2.0", "3.0"))
	d, _ = s.ix.Decision("d")
	assert.Equal(t, Keep, d.Action, "what was verified and is still listed stays in use, hops too")
	assert.Nil(t, d.Blocked)
	s.ix.SetSource(restricted(metav1.ConditionFalse, hops, "3.0"))
	assert.Equal(t, v1alpha1.ReasonSourceNotReady, s.blocked(), "a hop that left the store is waited for")
}

// F14: a desired version that is older than what runs needs an explicit downgrade.
func TestDowngradeIsExplicit(t *testing.T) {
	s := newStage(t)
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "3.0" })
	s.template("t", "2.0")
	assert.Equal(t, v1alpha1.ReasonDowngradeForbidden, s.blocked())
	s.template("t", "2.0", func(o *v1alpha1.FirmwareTemplate) { o.Spec.Rules[0].Downgrade = v1alpha1.DowngradeAllow })
	assert.Empty(t, s.blocked())
	s.pins("2.0")
	assert.Equal(t, v1alpha1.ReasonDowngradeForbidden, s.blocked(), "a pin says so too")
	s.allow()
	assert.Empty(t, s.blocked())
}

// The API server may keep a set in another order than it was written in.
func TestSameAssignmentIgnoresTheOrderOfSets(t *testing.T) {
	a := &v1alpha1.DesiredFirmware{Version: "3.0", Path: &v1alpha1.UpgradePath{
		BlockedFrom: []string{"1.0", "2.0"}, Hops: []v1alpha1.UpgradeHop{{From: []string{"0.1", "0.2"}, Version: "2.0", Digest: digest(2)}},
	}}
	b := a.DeepCopy()
	b.Path.BlockedFrom, b.Path.Hops[0].From = []string{"2.0", "1.0"}, []string{"0.2", "0.1"}
	assert.True(t, sameAssignment(&Assigned{DesiredFirmware: *a}, &Assigned{DesiredFirmware: *b}))
	for _, change := range []func(*v1alpha1.DesiredFirmware){
		func(f *v1alpha1.DesiredFirmware) { f.Path = nil },
		func(f *v1alpha1.DesiredFirmware) { f.Path.BlockedFrom = []string{"1.0"} },
		func(f *v1alpha1.DesiredFirmware) { f.Path.MinimumVersion = "1.0" },
		func(f *v1alpha1.DesiredFirmware) { f.Path.Hops = nil },
		func(f *v1alpha1.DesiredFirmware) { f.Path.Hops[0].From[0] = "0.3" },
		func(f *v1alpha1.DesiredFirmware) { f.Path.Hops[0].Digest = digest(3) },
		func(f *v1alpha1.DesiredFirmware) { f.Path.Hops[0].MinimumVersion = "0.1" },
		func(f *v1alpha1.DesiredFirmware) { f.Path.Hops[0].BlockedFrom = []string{"0.1"} },
	} {
		c := a.DeepCopy()
		change(c)
		assert.False(t, sameAssignment(&Assigned{DesiredFirmware: *a}, &Assigned{DesiredFirmware: *c}))
		assert.False(t, sameAssignment(&Assigned{DesiredFirmware: *c}, &Assigned{DesiredFirmware: *a}))
	}
}
