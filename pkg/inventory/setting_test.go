package inventory_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func TestSameValue(t *testing.T) {
	const exact, number, coded = inventory.SpelledExactly, inventory.SpelledAsNumber, inventory.SpelledWithCode
	for _, c := range []struct {
		spelling inventory.Spelling
		a, b     string
		same     bool
	}{
		{exact, "UEFI", "UEFI", true},
		{exact, "UEFI", "Uefi", false},
		{exact, "Mode(1)", "1", false},
		{exact, "8", "0x8", false},
		{exact, "", "", true},
		{number, "8", "0x8", true},
		{number, "8", "08", true},
		{number, "0xFF", "255", true},
		{number, "-1", "-0x1", true},
		{number, "18446744073709551615", "0xffffffffffffffff", true},
		{number, "8", "9", false},
		{number, "N/A", "N/A", true},
		{number, "N/A", "0", false},
		{coded, "True(1)", "1", true},
		{coded, "True(1)", "0x1", true},
		{coded, "True(1)", "TRUE", true},
		{coded, "True(1)", "true(1)", true},
		{coded, "ENABLED(1)", "True(1)", true}, // two versions of a tool
		{coded, "True(1)", "0", false},
		{coded, "True(1)", "False", false},
		{coded, "ETH(2)", "IB(1)", false},
		{coded, "ETH(2)", "", false},
		{coded, "0", "", false},
		{coded, "", "", true},
		{coded, "Array[0..7]", "array[0..7]", true},
	} {
		assert.Equal(t, c.same, c.spelling.Same(c.a, c.b), "%q %q", c.a, c.b)
		assert.Equal(t, c.same, c.spelling.Same(c.b, c.a), "%q %q", c.b, c.a)
	}
}

func TestUnknownIsNoValue(t *testing.T) {
	p := inventory.Parameter{Next: inventory.Read("")}
	assert.True(t, p.Stores(""))
	assert.False(t, p.Runs(""))
	assert.False(t, p.Pending())
	assert.Equal(t, "unknown", p.Current.String())
	p.Current = inventory.Read("1")
	assert.True(t, p.Pending())
}

func card() []inventory.Parameter {
	return []inventory.Parameter{
		{Name: "BOARD_REV", Next: inventory.Read("3"), ReadOnly: "the vendor sets it"},
		{
			Name: "LINK_TYPE_P1", Current: inventory.Read("ETH(2)"), Next: inventory.Read("ETH(2)"), Default: inventory.Read("IB(1)"),
			Domain: inventory.Domain{Values: []string{"IB(1)", "ETH(2)"}}, Spelling: inventory.SpelledWithCode, Needs: inventory.ActivateReboot,
		},
		{
			Name: "NUM_OF_VFS", Current: inventory.Read("0"), Next: inventory.Read("8"), Default: inventory.Read("0"), Spelling: inventory.SpelledAsNumber,
			Domain: inventory.Domain{Number: &inventory.Interval{Max: 127}}, Needs: inventory.ActivateDeviceReset,
		},
		{Name: "NV_CONFIG", Next: inventory.Read("a"), Default: inventory.Read("b")},
		{Name: "SRIOV_EN", Next: inventory.Read("1"), Default: inventory.Read("1")},
		{Name: "ASSET", Next: inventory.Read(""), Domain: inventory.Domain{Length: &inventory.Interval{Min: 1, Max: 4}}},
		{Name: "WATTS", Next: inventory.Read("10"), Domain: inventory.Domain{Number: &inventory.Interval{Min: 10, Max: 100, Step: 5}}},
		{Name: "numVFs", Sets: []string{"SRIOV_EN", "NUM_OF_VFS"}, Next: inventory.Read("8"), Default: inventory.Read("0")},
		{Name: "sriov_numvfs", Next: inventory.Read("8"), Default: inventory.Read("0"), Volatile: true},
	}
}

func TestCheckSettingsNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name  string
		given []inventory.Setting
		want  string
	}{
		{"nothing", nil, ""},
		{"good values", []inventory.Setting{{"LINK_TYPE_P1", "eth"}, {"numVFs", "16"}, {"WATTS", "95"}, {"ASSET", "a-17"}}, ""},
		{"unknown name", []inventory.Setting{{"SRIOVEN", "1"}}, "the device has no parameter SRIOVEN: the nearest are SRIOV_EN, ASSET, numVFs"},
		{"no member of the list", []inventory.Setting{{"LINK_TYPE_P1", "ETHERNET"}}, "LINK_TYPE_P1 cannot be ETHERNET: it takes ETH(2), IB(1)"},
		{"above the range", []inventory.Setting{{"NUM_OF_VFS", "0x80"}}, "NUM_OF_VFS cannot be 0x80: it takes numbers from 0 to 127"},
		{"no number", []inventory.Setting{{"NUM_OF_VFS", "many"}}, "NUM_OF_VFS cannot be many: it takes numbers from 0 to 127"},
		{"between two steps", []inventory.Setting{{"WATTS", "12"}}, "WATTS cannot be 12: it takes numbers from 10 to 100 in steps of 5"},
		{"too short", []inventory.Setting{{"ASSET", ""}}, `ASSET cannot be "": it takes texts with a length from 1 to 4`},
		{"read-only", []inventory.Setting{{"BOARD_REV", "4"}}, "BOARD_REV is 3 and cannot be changed to 4: the vendor sets it"},
		{"read-only with the value that it has", []inventory.Setting{{"BOARD_REV", "3"}}, ""},
		{"one name twice", []inventory.Setting{{"WATTS", "10"}, {"WATTS", "10"}}, "WATTS is named twice: name it once"},
		{
			"what a typed one sets", []inventory.Setting{{"numVFs", "16"}, {"NUM_OF_VFS", "16"}},
			"NUM_OF_VFS is what both numVFs and NUM_OF_VFS set: name one of them",
		},
		{
			"all of it", []inventory.Setting{{"BOARD_REV", "4"}, {"WATTS", "1"}},
			"BOARD_REV is 3 and cannot be changed to 4: the vendor sets it; WATTS cannot be 1: it takes numbers from 10 to 100 in steps of 5",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := inventory.CheckSettings(c.given, card())
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			assert.EqualError(t, err, c.want)
		})
	}
	assert.EqualError(t, inventory.CheckSettings([]inventory.Setting{{"A", "1"}}, nil), "the device has no parameter A, and no other")
}

func TestLongListsOfValuesAreCut(t *testing.T) {
	p := inventory.Parameter{Name: "Boot", Domain: inventory.Domain{Values: []string{"Disk", "Network", "CD", "USB", "None"}}}
	err := inventory.CheckSettings([]inventory.Setting{{"Boot", "Netwerk"}}, []inventory.Parameter{p})
	assert.EqualError(t, err, "Boot cannot be Netwerk: it takes Network, None, Disk and 2 more")
}

func TestUnlistedIsWhatHasNotItsDefault(t *testing.T) {
	byDefault := func(names ...string) (out []inventory.Setting) {
		for _, name := range names {
			out = append(out, inventory.Setting{Name: name, Value: inventory.FindParameter(card(), name).Default.Value})
		}
		return out
	}
	assert.Equal(t, byDefault("LINK_TYPE_P1", "NUM_OF_VFS", "NV_CONFIG"), inventory.Unlisted(nil, card()))
	assert.Equal(t, byDefault("NV_CONFIG"), inventory.Unlisted([]inventory.Setting{{"numVFs", "16"}, {"LINK_TYPE_P1", "2"}}, card()))
}

// How a value stands follows from what is in force and what is stored, as far as each is known.
func TestStanding(t *testing.T) {
	read := func(value string) inventory.Reading {
		if value == "" {
			return inventory.Reading{}
		}
		return inventory.Read(value)
	}
	for _, c := range []struct {
		current, next string
		is            inventory.Standing
		has           string
	}{
		{"1", "1", inventory.InForce, "1"}, {"1", "", inventory.InForce, "1"}, {"1", "2", inventory.Leaving, "2"},
		{"2", "1", inventory.Waiting, "2"}, {"", "1", inventory.Stored, "1"},
		{"2", "2", inventory.Missing, "2"}, {"2", "", inventory.Missing, "2"}, {"2", "3", inventory.Missing, "2"},
		{"", "2", inventory.Missing, "2"}, {"", "", inventory.Missing, ""},
	} {
		is, has := inventory.Parameter{Current: read(c.current), Next: read(c.next)}.Standing("1")
		assert.Equal(t, c.is, is, "%+v", c)
		assert.Equal(t, read(c.has), has, "%+v", c)
	}
}

func TestWhatIsToBeWrittenAndWhatItCosts(t *testing.T) {
	all := card()
	given := []inventory.Setting{{"NUM_OF_VFS", "8"}, {"LINK_TYPE_P1", "2"}, {"WATTS", "15"}, {"OTHER", "1"}}
	assert.Equal(t, []inventory.Setting{{"WATTS", "15"}, {"OTHER", "1"}}, inventory.Differing(given, all))
	assert.Equal(t, inventory.ActivateDeviceReset, inventory.NeededFor(given, all), "what is stored waits for it")
	assert.Equal(t, inventory.ActivateReboot, inventory.NeededFor([]inventory.Setting{{"LINK_TYPE_P1", "1"}, {"NUM_OF_VFS", "9"}}, all))
	assert.Equal(t, inventory.ActivateNone, inventory.NeededFor([]inventory.Setting{{"LINK_TYPE_P1", "ETH"}, {"WATTS", "15"}}, all))
	silent := []inventory.Parameter{{Name: "MODE", Next: inventory.Read("1"), Needs: inventory.ActivateReboot}}
	assert.Equal(t, inventory.ActivateReboot, inventory.NeededFor([]inventory.Setting{{"MODE", "2"}}, silent), "what is to be written is not in force")
	assert.Equal(t, inventory.ActivateNone, inventory.NeededFor([]inventory.Setting{{"MODE", "1"}}, silent), "nothing is written")
	half := []inventory.Parameter{{
		Name: "numVFs", Current: inventory.Read("0 of 8"), Next: inventory.Read("0 of 8"), Ready: inventory.Read("8"),
		Needs: inventory.ActivateReboot, Spelling: inventory.SpelledAsNumber,
	}}
	assert.Equal(t, inventory.ActivateNone, inventory.NeededFor([]inventory.Setting{{"numVFs", "0x8"}}, half), "only what costs nothing is missing")
	assert.Equal(t, inventory.ActivateReboot, inventory.NeededFor([]inventory.Setting{{"numVFs", "4"}}, half))
}

func TestSpellingsAreAnEquivalence(t *testing.T) {
	values := rapid.OneOf(
		rapid.SampledFrom([]string{"", "True(1)", "true", "1", "0x1", "01", "ENABLED(1)", "False(0)", "-0", "0", "N/A", "(1)", "x()", "1(1)"}),
		rapid.StringMatching(`[A-Za-z0-9x() -]{0,8}`))
	rapid.Check(t, func(t *rapid.T) {
		s := inventory.Spelling(rapid.IntRange(0, 2).Draw(t, "spelling"))
		a, b := values.Draw(t, "a"), values.Draw(t, "b")
		assert.Equal(t, s.Same(a, b), s.Same(b, a))
		assert.True(t, s.Same(a, a))
	})
}

func TestUndoIsWhatTheDeviceStoredItself(t *testing.T) {
	given := []inventory.Setting{{"numVFs", "16"}, {"LINK_TYPE_P1", "IB"}, {"BOARD_REV", "3"}, {"OTHER", "1"}}
	assert.Equal(t, []inventory.Setting{{"SRIOV_EN", "1"}, {"NUM_OF_VFS", "8"}, {"LINK_TYPE_P1", "ETH(2)"}}, inventory.Undo(given, card()))
}
