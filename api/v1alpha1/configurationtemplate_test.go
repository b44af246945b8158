package v1alpha1_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Settings are the same whatever their order and policy, and others when one of them differs: what failed is kept away until it does.
func TestDigestOfSettings(t *testing.T) {
	settings := func(changes ...func(*v1alpha1.DesiredConfiguration)) v1alpha1.Digest {
		c := &v1alpha1.DesiredConfiguration{
			Settings:   v1alpha1.Settings{NumVFs: new(int32(8))},
			Parameters: []v1alpha1.ParameterValue{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
		}
		for _, change := range changes {
			change(c)
		}
		return c.Digest()
	}
	want := settings()
	assert.Regexp(t, "^sha256:[0-9a-f]{64}$", want)
	assert.Regexp(t, "^[0-9a-f]{16}$", v1alpha1.ImageHash(want), "an origin has it as a hash")
	for name, same := range map[string]func(*v1alpha1.DesiredConfiguration){
		"order":              func(c *v1alpha1.DesiredConfiguration) { slices.Reverse(c.Parameters) },
		"policy":             func(c *v1alpha1.DesiredConfiguration) { c.Policy = v1alpha1.PolicyValidate },
		"the default policy": func(c *v1alpha1.DesiredConfiguration) { c.Policy = v1alpha1.PolicyApply },
		"what is kept":       func(c *v1alpha1.DesiredConfiguration) { c.Unlisted = v1alpha1.UnlistedKeep },
	} {
		assert.Equal(t, want, settings(same), name)
	}
	seen := map[v1alpha1.Digest]string{want: "the settings", (*v1alpha1.DesiredConfiguration)(nil).Digest(): "none"}
	for name, other := range map[string]func(*v1alpha1.DesiredConfiguration){
		"a value":              func(c *v1alpha1.DesiredConfiguration) { c.Parameters[0].Value = "2" },
		"a name":               func(c *v1alpha1.DesiredConfiguration) { c.Parameters[0].Name = "C" },
		"one less":             func(c *v1alpha1.DesiredConfiguration) { c.Parameters = c.Parameters[:1] },
		"values swapped":       func(c *v1alpha1.DesiredConfiguration) { c.Parameters[0].Value, c.Parameters[1].Value = "2", "1" },
		"a setting":            func(c *v1alpha1.DesiredConfiguration) { c.Settings.NumVFs = new(int32(9)) },
		"no virtual functions": func(c *v1alpha1.DesiredConfiguration) { c.Settings.NumVFs = new(int32(0)) },
		"left alone":           func(c *v1alpha1.DesiredConfiguration) { c.Settings.NumVFs = nil },
		"a link type":          func(c *v1alpha1.DesiredConfiguration) { c.Settings.LinkType = "Ethernet" },
		"reset":                func(c *v1alpha1.DesiredConfiguration) { c.Unlisted = v1alpha1.UnlistedReset },
	} {
		got := settings(other)
		assert.Empty(t, seen[got], "%s is told apart", name)
		seen[got] = name
	}
}
