package devlink

import (
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Zero switches SR-IOV off and leaves the number alone, as with mstflint: it is what comes back when it is switched on.
func TestNumVFsIsTwoParametersOfTheFirmware(t *testing.T) {
	a, id := broadcom()
	a.Params = []fakeParam{{"enable_sriov", 6, 2, "true", "false"}, {"total_vfs", 3, 2, "8", "16"}}
	k := newFakeKernel(t, a)
	d := New(runnerOf(t, k), simulatedTree(), k.dial)
	read := func() inventory.Parameter {
		all, err := d.Parameters(t.Context(), id, inventory.SettingNumVFs)
		require.NoError(t, err)
		require.Len(t, all, 3, "with those that it sets")
		return *inventory.FindParameter(all, inventory.SettingNumVFs)
	}
	assert.Equal(t, inventory.Read("8"), read().Next)
	assert.Equal(t, inventory.Read("0"), read().Default)
	needs, err := d.Configure(t.Context(), id, driver.Configuration{Set: []inventory.Setting{{Name: inventory.SettingNumVFs, Value: "0"}}})
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, needs)
	assert.Equal(t, inventory.Read("0"), read().Next)
	now, err := k.load()
	require.NoError(t, err)
	assert.Equal(t, []fakeParam{{"enable_sriov", 6, 2, "false", "false"}, {"total_vfs", 3, 2, "8", "16"}}, now.Params)
	a.Params = a.Params[:1]
	require.NoError(t, k.save(a))
	all, err := d.Parameters(t.Context(), id, inventory.SettingNumVFs)
	require.NoError(t, err)
	assert.Empty(t, all, "without the number there is only a switch")
}

// What is not known of either parameter is not known of the two, and what keeps one of them from being changed keeps both.
func TestNumVFsIsAsKnownAsItsParameters(t *testing.T) {
	unknown, read := inventory.Reading{}, inventory.Read
	for name, c := range map[string]struct{ enabled, vfs, want inventory.Reading }{
		"switched on":                  {read("true"), read("8"), read("8")},
		"switched off":                 {read("false"), read("8"), read("0")},
		"off, and no number":           {read("false"), unknown, read("0")},
		"on, and no number":            {read("true"), unknown, unknown},
		"nobody says whether it is on": {unknown, read("8"), unknown},
	} {
		enabled := inventory.Parameter{Name: sriovEnabled, Current: c.enabled, Next: read("true"), ReadOnly: "fused", Needs: inventory.ActivateReboot}
		vfs := inventory.Parameter{
			Name: sriovVFs, Current: c.vfs, Next: read("4"), Default: c.vfs, Spelling: inventory.SpelledAsNumber, Needs: inventory.ActivateDriverReload,
			Domain: inventory.Domain{Number: &inventory.Interval{Max: 127}},
		}
		all := withTyped([]inventory.Parameter{{Name: "a/runtime"}, enabled, vfs, {Name: "zz/runtime"}})
		p := inventory.FindParameter(all, inventory.SettingNumVFs)
		require.NotNil(t, p, name)
		assert.Equal(t, inventory.Parameter{
			Name: inventory.SettingNumVFs, Sets: []string{sriovEnabled, sriovVFs}, Current: c.want, Next: read("4"), ReadOnly: "fused",
			Domain: vfs.Domain, Spelling: inventory.SpelledAsNumber, Needs: inventory.ActivateReboot,
		}, *p, name)
		assert.Equal(t, "a/runtime", all[0].Name)
		assert.Len(t, all, 5)
	}
	for value, want := range map[string][]inventory.Setting{
		" 0x0 ": {{Name: sriovEnabled, Value: "false"}},
		"0x8":   {{Name: sriovEnabled, Value: "true"}, {Name: sriovVFs, Value: "0x8"}},
	} {
		assert.Equal(t, want, own([]inventory.Setting{{Name: inventory.SettingNumVFs, Value: value}}, nil), value)
	}
}

// A number is stored as what it was checked to be, however it is spelled.
func TestNumbersAreStoredHoweverTheyAreSpelled(t *testing.T) {
	a, id := broadcom()
	a.Params = []fakeParam{{"enable_sriov", 6, 2, "false", "false"}, {"total_vfs", 3, 2, "8", "16"}}
	k := newFakeKernel(t, a)
	d := New(runnerOf(t, k), simulatedTree(), k.dial)
	for value, want := range map[string]string{" 0X10 ": "16", "017": "17"} {
		_, err := d.Configure(t.Context(), id, driver.Configuration{Set: []inventory.Setting{{Name: inventory.SettingNumVFs, Value: value}}})
		require.NoError(t, err)
		now, err := k.load()
		require.NoError(t, err)
		assert.Equal(t, want, now.Params[1].Value)
	}
	for kind, bits := range map[uint8]string{kindU8: "8", kindU16: "16", kindU32: "32", kindU64: "64"} {
		for _, value := range []string{"-1", "0x10000000000000000", "many"} {
			require.ErrorContains(t, encodeData(netlink.NewAttributeEncoder(), kind, value), "is no number of "+bits+" bits")
		}
	}
}
