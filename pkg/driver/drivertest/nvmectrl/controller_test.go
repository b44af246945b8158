package nvmectrl_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

const model = "lab drive"

// newController is a controller with three slots that runs revision 1.0 from the first.
func newController(p nvmectrl.Profile) *nvmectrl.Controller {
	p.Model, p.Serial = model, "S1"
	return &nvmectrl.Controller{
		Profile:  p,
		Firmware: nvmectrl.NewFirmware(nvmectrl.Slot{Revision: "1.0", Security: 1}, nvmectrl.Slot{}, nvmectrl.Slot{}),
	}
}

// image is of two pages.
func image(t require.TestingT, revision string, security uint32) []byte {
	b, err := nvmectrl.MakeImage(nvmectrl.Image{
		Model: model, Revision: revision, Security: security, Payload: make([]byte, nvmectrl.PageSize),
	})
	require.NoError(t, err)
	return b
}

func download(t *testing.T, c *nvmectrl.Controller, image []byte) {
	t.Helper()
	require.Equal(t, nvmectrl.Success, c.Download(0, image))
}

func TestPiecesHaveTheGranularityThatIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		profile        nvmectrl.Profile
		offset, length int
		want           nvmectrl.Status
	}{
		"no granularity":           {nvmectrl.Profile{}, 4, 8, nvmectrl.Success},
		"any granularity":          {nvmectrl.Profile{FWUG: 255}, 4, 8, nvmectrl.Success},
		"no whole dwords":          {nvmectrl.Profile{}, 4, 6, nvmectrl.InvalidField},
		"between dwords":           {nvmectrl.Profile{}, 2, 4, nvmectrl.InvalidField},
		"nothing":                  {nvmectrl.Profile{}, 0, 0, nvmectrl.InvalidField},
		"two pages":                {nvmectrl.Profile{FWUG: 2}, 8192, 8192, nvmectrl.Success},
		"between two pages":        {nvmectrl.Profile{FWUG: 2}, 4096, 8192, nvmectrl.InvalidField},
		"half of two pages":        {nvmectrl.Profile{FWUG: 2}, 8192, 4096, nvmectrl.InvalidField},
		"a short end":              {nvmectrl.Profile{FWUG: 2, AnyLength: true}, 8192, 12, nvmectrl.Success},
		"the most at a time":       {nvmectrl.Profile{MDTS: 1}, 0, 8192, nvmectrl.Success},
		"more than the most":       {nvmectrl.Profile{MDTS: 1}, 0, 8196, nvmectrl.InvalidField},
		"the end of all images":    {nvmectrl.Profile{}, 32<<20 - 4, 4, nvmectrl.Success},
		"beyond all images":        {nvmectrl.Profile{}, 32<<20 - 4, 8, nvmectrl.InvalidField},
		"a drive without download": {nvmectrl.Profile{NoDownload: true}, 0, 4, nvmectrl.InvalidOpcode},
	} {
		t.Run(name, func(t *testing.T) {
			c := newController(test.profile)
			assert.Equal(t, test.want, c.Download(uint64(test.offset), make([]byte, test.length)))
			assert.Len(t, c.Buffer.Pieces, map[bool]int{true: 1}[test.want == nvmectrl.Success])
		})
	}
}

// NVMe Base Specification 2.0, section 5.13.
func TestWhatWasDownloadedLastsUntilADownloadAfterACommitOrAReset(t *testing.T) {
	c := newController(nvmectrl.Profile{})
	download(t, c, image(t, "2.0", 1))
	assert.Equal(t, nvmectrl.OverlappingRange, c.Download(0, image(t, "3.0", 1)), "an image that was given up is in the way")
	assert.Equal(t, nvmectrl.InvalidFirmwareSlot, c.Commit(4, nvmectrl.Store))
	assert.Equal(t, nvmectrl.InvalidFirmwareImage, c.Commit(3, nvmectrl.ActivateAtReset))
	assert.Equal(t, nvmectrl.Success, c.Commit(2, nvmectrl.Store), "a commit that stores nothing leaves it")
	assert.Equal(t, nvmectrl.InvalidFirmwareImage, c.Commit(3, nvmectrl.Store), "an image is stored once")

	download(t, c, image(t, "3.0", 1))
	assert.Equal(t, nvmectrl.InvalidFirmwareSlot, c.Commit(4, nvmectrl.Store))
	download(t, c, image(t, "4.0", 1))
	assert.Equal(t, nvmectrl.Success, c.Commit(3, nvmectrl.Store))
	assert.Equal(t, "4.0", c.Revision(3), "the download after a commit drops what is left")

	for _, r := range []nvmectrl.Reset{nvmectrl.ControllerReset, nvmectrl.SubsystemReset, nvmectrl.ConventionalReset, nvmectrl.PowerCycle} {
		download(t, c, image(t, "5.0", 1))
		assert.False(t, c.Reset(r))
		assert.Equal(t, nvmectrl.InvalidFirmwareImage, c.Commit(3, nvmectrl.Store))
	}
}

// The danger of action 3: whoever means to activate a slot may overwrite it.
func TestActivationNowStoresWhatIsLeftOfADownload(t *testing.T) {
	c := newController(nvmectrl.Profile{Activation: nvmectrl.Immediately})
	c.Slots[1] = nvmectrl.Slot{Revision: "2.0", Security: 1}
	download(t, c, image(t, "3.0", 1))
	assert.Equal(t, nvmectrl.Success, c.Commit(2, nvmectrl.ActivateAtReset))
	assert.Equal(t, nvmectrl.Success, c.Commit(2, nvmectrl.ActivateNow))
	assert.Equal(t, "3.0", c.Running.Revision)
	assert.Equal(t, "3.0", c.Revision(2))
}

func TestEveryActivationHasItsStatusAndItsReset(t *testing.T) {
	for activation, test := range map[nvmectrl.Activation]struct {
		atReset, now nvmectrl.Status
		reset        nvmectrl.Reset
	}{
		"":                           {nvmectrl.Success, nvmectrl.NeedsControllerReset, nvmectrl.ControllerReset},
		nvmectrl.Immediately:         {nvmectrl.Success, nvmectrl.Success, nvmectrl.ControllerReset},
		nvmectrl.AtControllerReset:   {nvmectrl.Success, nvmectrl.NeedsControllerReset, nvmectrl.ControllerReset},
		nvmectrl.AtSubsystemReset:    {nvmectrl.NeedsSubsystemReset, nvmectrl.NeedsSubsystemReset, nvmectrl.SubsystemReset},
		nvmectrl.AtConventionalReset: {nvmectrl.NeedsConventionalReset, nvmectrl.NeedsConventionalReset, nvmectrl.ConventionalReset},
		nvmectrl.AtPowerCycle:        {nvmectrl.NeedsConventionalReset, nvmectrl.NeedsConventionalReset, nvmectrl.PowerCycle},
	} {
		for action, want := range map[nvmectrl.Action]nvmectrl.Status{
			nvmectrl.StoreAndActivateAtReset: test.atReset, nvmectrl.ActivateAtReset: test.atReset, nvmectrl.ActivateNow: test.now,
		} {
			c := newController(nvmectrl.Profile{Activation: activation})
			require.NoError(t, c.Validate())
			download(t, c, image(t, "2.0", 1))
			if action == nvmectrl.ActivateAtReset {
				require.Equal(t, nvmectrl.Success, c.Commit(2, nvmectrl.Store))
			}
			assert.Equal(t, want, c.Commit(2, action), "%s, action %d", activation, action)
			assert.True(t, want.Committed())
			if activation == nvmectrl.Immediately && action == nvmectrl.ActivateNow {
				assert.Equal(t, "2.0", c.Running.Revision)
				assert.Equal(t, byte(2|2<<4), c.AFI())
				continue
			}
			assert.Equal(t, byte(1|2<<4), c.AFI())
			for r := nvmectrl.ControllerReset; r <= nvmectrl.PowerCycle; r++ {
				again := c.Clone()
				assert.Equal(t, r >= test.reset, again.Reset(r), "%s, reset %d", activation, r)
				assert.Equal(t, r >= test.reset, again.Running.Revision == "2.0", "%s, reset %d", activation, r)
			}
		}
	}
}

func TestAnActivationThatTakesTooLongIsRefusedAndTheImageKept(t *testing.T) {
	c := newController(nvmectrl.Profile{
		Activation: nvmectrl.Immediately, MTFA: time.Second, ActivationTime: 2 * time.Second,
	})
	download(t, c, image(t, "2.0", 1))
	assert.Equal(t, nvmectrl.ActivationTooLong, c.Commit(2, nvmectrl.ActivateNow))
	assert.Equal(t, "2.0", c.Revision(2))
	assert.Zero(t, c.Next)
	c.MTFA = 0
	j := c.Judge(2, nvmectrl.ActivateNow)
	assert.True(t, j.Activates, "there is no bound where none is reported")
	assert.Equal(t, 2*time.Second, j.Pause)
}

func TestDriveChoosesIdleSlot(t *testing.T) {
	c := newController(nvmectrl.Profile{FirstSlotReadOnly: true})
	download(t, c, image(t, "2.0", 1))
	assert.Equal(t, nvmectrl.Success, c.Commit(0, nvmectrl.StoreAndActivateAtReset))
	require.True(t, c.Reset(nvmectrl.ControllerReset))
	assert.Equal(t, 2, c.Active)
	assert.Equal(t, 3, c.Judge(0, nvmectrl.Store).Slot, "neither the active nor the read-only one")
	c.Slots = c.Slots[:2]
	assert.Equal(t, 2, c.Judge(0, nvmectrl.Store).Slot, "there is no other")
}

func TestAnImageThatMayNotRunDoesNotTakeThePlaceOfTheOneThatAwaitsAReset(t *testing.T) {
	c := newController(nvmectrl.Profile{})
	download(t, c, image(t, "2.0", 1))
	require.Equal(t, nvmectrl.Success, c.Commit(2, nvmectrl.StoreAndActivateAtReset))
	download(t, c, image(t, "0.9", 0))
	assert.Equal(t, nvmectrl.ActivationProhibited, c.Commit(2, nvmectrl.StoreAndActivateAtReset))
	assert.Equal(t, "0.9", c.Revision(2), "it is stored")
	assert.False(t, c.Reset(nvmectrl.PowerCycle))
	assert.Equal(t, "1.0", c.Running.Revision)
}

func TestTornImageNeverRuns(t *testing.T) {
	c := newController(nvmectrl.Profile{})
	download(t, c, image(t, "2.0", 1))
	c.BeginStore(c.Judge(2, nvmectrl.StoreAndActivateAtReset))
	c.Next = 2
	assert.Empty(t, c.Revision(2))
	assert.Equal(t, make([]byte, 8), c.Log(nvmectrl.SlotLog)[16:24])
	assert.Equal(t, "1.0", c.Stored().Revision)
	assert.Equal(t, nvmectrl.InvalidFirmwareImage, c.Commit(2, nvmectrl.ActivateAtReset))
	assert.Equal(t, nvmectrl.InvalidFirmwareImage, c.Activate(2))
	assert.False(t, c.Reset(nvmectrl.PowerCycle))
	assert.Equal(t, "1.0", c.Running.Revision)
}

func TestAControllerMayHideWhatTheNextResetActivates(t *testing.T) {
	c := newController(nvmectrl.Profile{HidesNext: true})
	download(t, c, image(t, "2.0", 1))
	require.Equal(t, nvmectrl.Success, c.Commit(2, nvmectrl.StoreAndActivateAtReset))
	assert.Equal(t, byte(1), c.Log(nvmectrl.SlotLog)[0])
	assert.True(t, c.Reset(nvmectrl.ControllerReset))
	assert.Equal(t, byte(2), c.Log(nvmectrl.SlotLog)[0])
}

func TestLogs(t *testing.T) {
	c := newController(nvmectrl.Profile{})
	c.Reset(nvmectrl.PowerCycle)
	c.Slots[2].Revision = "12345678"
	assert.Equal(t, byte(1), c.Log(nvmectrl.HealthLog)[112], "power cycles")
	assert.Equal(t, "1.0     \x00\x00\x00\x00\x00\x00\x00\x0012345678", string(c.Log(nvmectrl.SlotLog)[8:32]))
	assert.Nil(t, c.Log(0xc0))
	c.NoSlotLog = true
	assert.Nil(t, c.Log(nvmectrl.SlotLog))
}

func TestIdentification(t *testing.T) {
	c := newController(nvmectrl.Profile{
		VendorID: 0x144d, FirstSlotReadOnly: true, Activation: nvmectrl.Immediately, MTFA: 1300 * time.Millisecond, FWUG: 2, MDTS: 9,
	})
	data := make([]byte, 4096)
	c.Identify(data)
	assert.Equal(t, "\x4d\x14\x00\x00S1                  lab drive                               1.0     ", string(data[:72]))
	assert.Equal(t, []byte{9, 4, 1<<4 | 3<<1 | 1, 13, 0, 2}, []byte{data[77], data[256], data[260], data[270], data[271], data[319]})
	assert.Zero(t, data[76])
	c.NoDownload, c.TwoPorts = true, true
	data = make([]byte, 4096)
	c.Identify(data)
	assert.Zero(t, data[256])
	assert.EqualValues(t, 3, data[76], "several ports and several controllers")
}

func TestRefusesBadControllers(t *testing.T) {
	for name, change := range map[string]func(*nvmectrl.Controller){
		"no serial":          func(c *nvmectrl.Controller) { c.Serial = "" },
		"long model":         func(c *nvmectrl.Controller) { c.Model = string(make([]byte, 41)) },
		"long revision":      func(c *nvmectrl.Controller) { c.Slots[1].Revision = "123456789" },
		"unknown activation": func(c *nvmectrl.Controller) { c.Activation = "never" },
		"nothing to write":   func(c *nvmectrl.Controller) { c.Slots, c.FirstSlotReadOnly = c.Slots[:1], true },
		"no slots":           func(c *nvmectrl.Controller) { c.Slots = nil },
		"eight slots":        func(c *nvmectrl.Controller) { c.Slots = make([]nvmectrl.Slot, 8) },
		"no active slot":     func(c *nvmectrl.Controller) { c.Active = 0 },
		"an empty next slot": func(c *nvmectrl.Controller) { c.Next = 3 },
	} {
		c := newController(nvmectrl.Profile{})
		change(c)
		assert.Error(t, c.Validate(), name)
	}
}

func TestAControllerSurvivesItsFile(t *testing.T) {
	c := newController(nvmectrl.Profile{FWUG: 1})
	download(t, c, image(t, "2.0", 1))
	data, err := json.Marshal(c)
	require.NoError(t, err)
	var again nvmectrl.Controller
	require.NoError(t, json.Unmarshal(data, &again))
	assert.Equal(t, *c, again)
	assert.Equal(t, nvmectrl.Success, again.Commit(2, nvmectrl.Store))
	assert.Empty(t, c.Revision(2))
}
