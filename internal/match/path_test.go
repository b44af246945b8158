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

func edge(to string, from ...string) v1alpha1.UpgradePath {
	return v1alpha1.UpgradePath{To: to, From: from}
}

func via(to, via string, from ...string) v1alpha1.UpgradePath {
	return v1alpha1.UpgradePath{To: to, Via: via, From: from}
}

func least(to, version string) v1alpha1.UpgradePath {
	return v1alpha1.UpgradePath{To: to, Below: version}
}

func viaBelow(to, via, below string) v1alpha1.UpgradePath {
	return v1alpha1.UpgradePath{To: to, Via: via, Below: below}
}

type paths = []v1alpha1.UpgradePath

// steps are paths as a device gets them.
func steps(of ...v1alpha1.UpgradePath) []v1alpha1.UpgradeStep {
	var out []v1alpha1.UpgradeStep
	for _, p := range of {
		s := v1alpha1.UpgradeStep{UpgradePath: p}
		if p.Via != "" {
			s.Digest, _ = imageOf()(inventory.Version(p.Via))
		}
		out = append(out, s)
	}
	return out
}

// R002-13, R002-65, R002-66: a device gets what matters for its version, with the images on the way.
func TestRoute(t *testing.T) {
	for name, tt := range map[string]struct {
		source paths
		want   []v1alpha1.UpgradeStep
	}{
		"nothing is restricted":      {},
		"only other versions are":    {source: paths{edge("8.0", "1.0"), via("8.0", "7.0", "1.0")}},
		"an edge and a minimum":      {paths{edge("9.0", "3.0", "1.0"), least("9.0", "2.9")}, steps(edge("9.0", "3.0", "1.0"), least("9.0", "2.9"))},
		"one that is named twice":    {paths{edge("9.0", "1.0"), edge("9.0", "1.0")}, steps(edge("9.0", "1.0"), edge("9.0", "1.0"))},
		"a way and a prohibition":    {paths{edge("9.0", "1.0"), via("9.0", "5.0", "1.0")}, steps(edge("9.0", "1.0"), via("9.0", "5.0", "1.0"))},
		"of the version in between":  {paths{least("4.0", "3.0"), via("9.0", "5.0", "1.0"), least("5.0", "1.0")}, steps(via("9.0", "5.0", "1.0"), least("5.0", "1.0"))},
		"at most one minor":          {paths{viaBelow("4.0", "3.0", "3.0"), viaBelow("3.0", "2.0", "2.0"), viaBelow("9.0", "4.0", "4.0")}, steps(viaBelow("4.0", "3.0", "3.0"), viaBelow("3.0", "2.0", "2.0"), viaBelow("9.0", "4.0", "4.0"))},
		"two bounds":                 {paths{viaBelow("9.0", "3.0", "3.0"), viaBelow("9.0", "5.0", "5.0")}, steps(viaBelow("9.0", "3.0", "3.0"), viaBelow("9.0", "5.0", "5.0"))},
		"blanks do not count":        {paths{via(" 9.0", "5.0 ", " 1.0 ")}, steps(via("9.0", "5.0", "1.0"))},
		"a way that is not the same": {paths{via("9.0", "5.0", "1.0"), via("5.0", "3.0", "2.0")}, steps(via("9.0", "5.0", "1.0"), via("5.0", "3.0", "2.0"))},
	} {
		got, o := route("9.0", imageOf(), NewPaths(tt.source, "source"))
		require.Nil(t, o, name)
		assert.Equal(t, tt.want, got, name)
	}
}

// R002-66: paths that cannot be followed refuse everything they are about, and say what to correct.
func TestRouteFailsClosed(t *testing.T) {
	for name, tt := range map[string]struct {
		source  paths
		missing string
		want    Block
	}{
		"no image in between": {source: paths{via("9.0", "5.0", "1.0")}, missing: "5.0", want: Block{Reason: v1alpha1.ReasonImageNotFound, Version: "5.0"}},
		"two ways from one version": {source: paths{via("9.0", "5.0", "1.0"), via("9.0", "6.0", "1.0", "2.0")},
			want: Block{Message: "from 1.0 to 9.0 contradict each other: one says via 5.0, one says via 6.0; keep one of them"}},
		"two ways to a version in between": {source: paths{via("9.0", "5.0", "1.0"), via("5.0", "3.0", "1.0"), via("5.0", "4.0", "1.0")},
			want: Block{Message: "from 1.0 to 5.0 contradict each other: one says via 3.0, one says via 4.0; keep one of them"}},
		"two ways from below one version": {source: paths{viaBelow("9.0", "5.0", "4.0"), viaBelow("9.0", "6.0", "4.0")},
			want: Block{Message: "from below 4.0 to 9.0 contradict each other: one says via 5.0, one says via 6.0; keep one of them"}},
		"two bounds that cannot be ordered": {source: paths{least("9.0", "A1"), least("9.0", "A2")},
			want: Block{Message: "to 9.0 from below A1 and from below A2 cannot be ordered; keep one of them"}},
		"ways that need each other": {source: paths{via("9.0", "5.0", "1.0"), via("5.0", "6.0", "1.0"), via("6.0", "5.0", "1.0")},
			want: Block{Message: "in a circle"}},
		"ways that lead back": {source: paths{via("9.0", "5.0", "1.0"), via("9.0", "1.0", "5.0")},
			want: Block{Message: "the upgrade paths to 9.0 lead in a circle (1.0, 5.0, 1.0); remove one of them"}},
		"bounds that lead back": {source: paths{viaBelow("9.0", "5.0", "4.0"), viaBelow("5.0", "9.0", "3.0")}, want: Block{Message: "in a circle"}},
		"between two bounds only": {source: paths{viaBelow("9.0", "5.0", "4.0"), viaBelow("5.0", "9.0", "4.0"), viaBelow("9.0", "6.0", "2.0")},
			want: Block{Message: "in a circle"}},
		"from itself, though of another version": {source: paths{edge("8.0", "1.0"), edge("7.0", " 7.0")},
			want: Block{Message: "upgradePaths of source: upgradePaths[1] must name versions that differ"}},
		"from nowhere":     {source: paths{edge("9.0")}, want: Block{Message: "upgradePaths[0] needs either from or below"}},
		"from both":        {source: paths{{To: "9.0", From: []string{"1.0"}, Below: "2.0"}}, want: Block{Message: "upgradePaths[0] needs either from or below"}},
		"via its start":    {source: paths{via("9.0", "1.0", "1.0 ")}, want: Block{Message: "upgradePaths[0] must name versions that differ"}},
		"via its end":      {source: paths{viaBelow("9.0", "9.0", "1.0")}, want: Block{Message: "upgradePaths[0] must name versions that differ"}},
		"via blanks":       {source: paths{via("9.0", " ", "1.0")}, want: Block{Message: "upgradePaths[0] must name versions that differ"}},
		"via one below it": {source: paths{viaBelow("9.0", "3.0", "4.0")}, want: Block{Message: "upgradePaths[0] goes via 3.0, which is not 4.0 or newer"}},
	} {
		got, o := route("9.0", imageOf(tt.missing), NewPaths(tt.source, "source"))
		assert.Nil(t, got, name)
		require.NotNil(t, o, name)
		if tt.want.Reason == "" {
			tt.want.Reason = v1alpha1.ReasonInvalidSpec
		}
		assert.Contains(t, o.Message, tt.want.Message, name)
		o.Message = tt.want.Message
		assert.Equal(t, tt.want, *o, name)
	}
}

// Every NodeDevice of the model holds the path, so that it is bounded in bytes too.
func TestRouteThatIsTooLargeForItsObjectsIsRefused(t *testing.T) {
	var source paths
	for h := range 30 {
		p := v1alpha1.UpgradePath{To: "9.0", Via: fmt.Sprintf("5.%d", h)}
		for f := range 60 {
			p.From = append(p.From, fmt.Sprintf("%d.%s", 100+h*60+f, strings.Repeat("0", 55)))
		}
		source = append(source, p)
	}
	_, o := route("9.0", imageOf(), NewPaths(source, "source"))
	require.NotNil(t, o)
	assert.Equal(t, Block{Reason: v1alpha1.ReasonInvalidSpec,
		Message: "the upgrade paths to 9.0 take 116 KiB, more than the allowed 96 KiB; remove some of them"}, *o)
	_, o = route("9.0", imageOf(), NewPaths(source[:20], "source"))
	assert.Nil(t, o)
}

// The path is looked for at each change of each device's facts. A source may have 128 paths of 64 versions.
func TestARouteIsFoundOnce(t *testing.T) {
	var source paths
	for h := range 32 {
		p := v1alpha1.UpgradePath{To: "9.0", Via: fmt.Sprintf("5.%d", h)}
		for f := range 32 {
			p.From = append(p.From, fmt.Sprintf("%d.0", 100+h*32+f))
		}
		source = append(source, p)
	}
	compiled := NewPaths(source, "source")
	want, o := route("9.0", imageOf(), compiled)
	require.Nil(t, o)
	again := testing.AllocsPerRun(10, func() {
		got, _ := route("9.0", imageOf(), compiled)
		assert.Len(t, got, len(want))
	})
	assert.Less(t, again, 100.0, "a device costs as much as its path is long")
	other, o := route("9.0", imageOf("5.31"), compiled)
	assert.Nil(t, other)
	assert.Equal(t, &Block{Reason: v1alpha1.ReasonImageNotFound, Version: "5.31"}, o, "each device has its own images")
	got, o := route("9.0", imageOf(), compiled)
	require.Nil(t, o)
	assert.Equal(t, want, got)
}

// restrict gives the stage's source upgrade paths.
func restricted(ready metav1.ConditionStatus, p paths, versions ...string) *v1alpha1.FirmwareSource {
	s := newSource(ready, versions...)
	s.Spec.UpgradePaths = p
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
func TestBlockedEdgeBlocksItsDevice(t *testing.T) {
	s := newStage(t)
	s.ix.SetSource(restricted(metav1.ConditionTrue, paths{edge("3.0", "1.0")}, "2.0", "3.0"))
	s.template("t", "3.0")
	assert.Equal(t, steps(edge("3.0", "1.0")), s.device.Spec.Firmware.Path)
	assert.Equal(t, digest(3), s.device.Spec.Firmware.Digest)
	assert.Equal(t, v1alpha1.ReasonPathBlocked, s.blocked())
	tally, _ := s.ix.Tally(Ref{v1alpha1.OriginTemplate, "t"})
	assert.Equal(t, int32(1), tally.Blocked)
	s.status(func(d *v1alpha1.NodeDeviceStatus) { d.Firmware.Running = "2.0" })
	assert.Empty(t, s.blocked())
}

// R002-65: a device gets the image of the version in between, and what runs changes nothing about its assignment.
func TestHopIsAssignedWithItsImage(t *testing.T) {
	s := newStage(t)
	s.ix.SetSource(restricted(metav1.ConditionTrue, paths{via("3.0", "2.0", "1.0")}, "2.0", "3.0"))
	s.template("t", "3.0")
	want := steps(via("3.0", "2.0", "1.0"))
	assert.Equal(t, want, s.device.Spec.Firmware.Path)
	assert.Empty(t, s.blocked())
	for _, v := range []string{"2.0", "3.0", "1.0"} {
		changed := s.device.DeepCopy()
		changed.Status.Firmware.Running = v
		s.device = changed
		assert.Empty(t, s.ix.SetDevice(changed).Devices, "a device that runs %s is left alone", v)
	}
	s.pins("3.0")
	s.wants("3.0", "n")
	assert.Equal(t, want, s.device.Spec.Firmware.Path, "a pin goes the way its source says")

	s.ix.SetSource(restricted(metav1.ConditionTrue, paths{via("3.0", "2.0", "1.0")}, "3.0"))
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
	contradict := paths{via("3.0", "2.0", "1.0"), via("3.0", "1.5", "1.0")}
	s.ix.SetSource(restricted(metav1.ConditionTrue, contradict, "2.0", "3.0"))
	s.template("t", "3.0")
	assert.Empty(t, s.device.Spec.Firmware.Digest)
	d, _ := s.ix.Decision("d")
	require.NotNil(t, d.Blocked)
	assert.Equal(t, v1alpha1.ReasonInvalidSpec, d.Blocked.Reason)
	assert.Contains(t, d.Blocked.Message, `one says via 2.0, one says via 1.5`)
	s.ix.SetSource(newSource(metav1.ConditionTrue, "2.0", "3.0"))
	s.act()
	assert.Equal(t, digest(3), s.device.Spec.Firmware.Digest)
	assert.Empty(t, s.blocked())
}

// An edit of the source's paths costs its devices nothing until what it asks for is in store.
func TestPathsOfRefetchedSource(t *testing.T) {
	s := newStage(t)
	s.template("t", "3.0")
	hops := paths{via("3.0", "2.0", "1.0")}
	s.ix.SetSource(restricted(metav1.ConditionFalse, hops, "3.0"))
	d, _ := s.ix.Decision("d")
	assert.Equal(t, Keep, d.Action)
	assert.Equal(t, v1alpha1.ReasonSourceNotReady, s.blocked(), "and nothing is flashed past the new hop")
	s.ix.SetSource(restricted(metav1.ConditionTrue, hops, "2.0", "3.0"))
	s.act()
	assert.Empty(t, s.blocked())
	require.Len(t, s.device.Spec.Firmware.Path, 1)
	s.ix.SetSource(restricted(metav1.ConditionFalse, hops, "2.0", "3.0"))
	d, _ = s.ix.Decision("d")
	assert.Equal(t, Keep, d.Action, "what was verified and is still listed stays in use, hops too")
	assert.Nil(t, d.Blocked)
	s.ix.SetSource(restricted(metav1.ConditionFalse, hops, "3.0"))
	d, _ = s.ix.Decision("d")
	assert.Equal(t, Keep, d.Action, "its path with it, or the device would be free to go directly")
	assert.Equal(t, v1alpha1.ReasonSourceNotReady, s.blocked(), "a hop that left the store is waited for")
	s.ix.SetSource(restricted(metav1.ConditionFalse, append(paths{via("2.0", "1.5", "0.5")}, hops...), "3.0"))
	d, _ = s.ix.Decision("d")
	assert.Equal(t, Keep, d.Action, "also where the source was given another one")
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
func TestAssignmentIgnoresSetOrder(t *testing.T) {
	a := &v1alpha1.DesiredFirmware{Version: "3.0", Path: steps(via("3.0", "2.0", "0.1", "0.2"), least("2.0", "0.1"))}
	b := a.DeepCopy()
	b.Path[0].From = []string{"0.2", "0.1"}
	assert.True(t, sameAssignment(&Assigned{DesiredFirmware: *a}, &Assigned{DesiredFirmware: *b}))
	for _, change := range []func(*v1alpha1.DesiredFirmware){
		func(f *v1alpha1.DesiredFirmware) { f.Path = nil },
		func(f *v1alpha1.DesiredFirmware) { f.Path[0].From[0] = "0.3" },
		func(f *v1alpha1.DesiredFirmware) { f.Path[0].Digest = digest(3) },
		func(f *v1alpha1.DesiredFirmware) { f.Path[0].Via = "2.1" },
		func(f *v1alpha1.DesiredFirmware) { f.Path[1].Below = "0.2" },
		func(f *v1alpha1.DesiredFirmware) { f.Path[1].To = "3.0" },
	} {
		c := a.DeepCopy()
		change(c)
		assert.False(t, sameAssignment(&Assigned{DesiredFirmware: *a}, &Assigned{DesiredFirmware: *c}))
		assert.False(t, sameAssignment(&Assigned{DesiredFirmware: *c}, &Assigned{DesiredFirmware: *a}))
	}
}
