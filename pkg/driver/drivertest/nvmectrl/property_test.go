package nvmectrl_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// Whatever a host sends, and wherever the power goes: what runs changes only by an activation, to a whole image that a slot
// held and that is not older in security; a command that was refused changes nothing; a read-only slot keeps what it has.
func TestNoSequenceOfCommandsBreaksAController(t *testing.T) {
	weakest := map[nvmectrl.Activation]nvmectrl.Reset{
		nvmectrl.Immediately: nvmectrl.ControllerReset, nvmectrl.AtControllerReset: nvmectrl.ControllerReset,
		nvmectrl.AtSubsystemReset: nvmectrl.SubsystemReset, nvmectrl.AtConventionalReset: nvmectrl.ConventionalReset,
		nvmectrl.AtPowerCycle: nvmectrl.PowerCycle,
	}
	rapid.Check(t, func(t *rapid.T) {
		slots := make([]nvmectrl.Slot, rapid.IntRange(1, nvmectrl.MaxSlots).Draw(t, "slots"))
		first := nvmectrl.Slot{Revision: "1.0", Security: 1}
		slots[0] = first
		c := &nvmectrl.Controller{
			Profile: nvmectrl.Profile{
				Model: model, Serial: "S1", FWUG: 1,
				FirstSlotReadOnly: len(slots) > 1 && rapid.Bool().Draw(t, "read-only"),
				Activation:        rapid.SampledFrom(slices.Sorted(maps.Keys(weakest))).Draw(t, "activation"),
				ActivationTime:    time.Duration(rapid.IntRange(0, 2).Draw(t, "time")) * time.Second,
				MTFA:              time.Second,
				RestartsAtZero:    rapid.Bool().Draw(t, "restarts"),
			},
			Firmware: nvmectrl.NewFirmware(slots...),
		}
		before := c.Clone()
		slot := func() int { return rapid.SampledFrom([]int{0, 1, 2, 2, 2, 3, 7}).Draw(t, "slot") }
		action := func() nvmectrl.Action {
			return nvmectrl.Action(rapid.SampledFrom([]int{0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 7}).Draw(t, "action"))
		}
		anyImage := func(t *rapid.T) []byte {
			return image(t, rapid.SampledFrom([]string{"2.0", "3.0"}).Draw(t, "revision"), uint32(rapid.IntRange(0, 2).Draw(t, "security")))
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				require.NoError(t, c.Validate())
				assert.GreaterOrEqual(t, c.Running.Security, before.Running.Security)
				if c.FirstSlotReadOnly {
					assert.Equal(t, first, c.Slots[0])
				}
				want := c.Running
				if c.Next != 0 && !c.Slots[c.Next-1].Torn {
					want = c.Slots[c.Next-1]
				}
				assert.Equal(t, want, c.Stored())
				assert.GreaterOrEqual(t, want.Security, c.Running.Security)
				before = c.Clone()
			},
			"download": func(t *rapid.T) {
				b, half := anyImage(t), nvmectrl.PageSize
				switch rapid.IntRange(0, 2).Draw(t, "pieces") {
				case 0:
					c.Download(0, b[:half])
				case 1:
					c.Download(uint64(half), b[half:])
				default:
					c.Download(0, b)
				}
				assert.Equal(t, before.Firmware, c.Firmware)
			},
			"commit": func(t *rapid.T) {
				if rapid.Bool().Draw(t, "downloads") {
					c.Download(0, anyImage(t))
				}
				slot, action := slot(), action()
				s := c.Commit(slot, action)
				ran := c.Running != before.Running || c.Active != before.Active
				switch {
				case s == nvmectrl.Success && action == nvmectrl.ActivateNow:
					assert.Equal(t, nvmectrl.Immediately, c.Activation)
					assert.Equal(t, c.Slots[c.Active-1], c.Running)
					assert.Zero(t, c.Next)
				case s.Committed():
					assert.False(t, ran)
					if action != nvmectrl.Store {
						assert.NotZero(t, c.Next)
						assert.Equal(t, c.Slots[c.Next-1], c.Stored())
					}
				case s == nvmectrl.ActivationProhibited || s == nvmectrl.ActivationTooLong:
					assert.False(t, ran)
				default:
					assert.Equal(t, before.Firmware, c.Firmware, s)
				}
			},
			"commit that is cut off": func(*rapid.T) {
				c.BeginStore(c.Judge(slot(), action()))
				changed := 0
				for i := range c.Slots {
					if c.Slots[i] != before.Slots[i] {
						changed++
						assert.True(t, c.Slots[i].Torn)
					}
				}
				assert.LessOrEqual(t, changed, 1)
				assert.Equal(t, before.Running, c.Running)
			},
			"reset": func(t *rapid.T) {
				stored := c.Stored()
				r := nvmectrl.Reset(rapid.IntRange(int(nvmectrl.ControllerReset), int(nvmectrl.PowerCycle)).Draw(t, "reset"))
				activated := c.Reset(r)
				assert.Empty(t, c.Buffer)
				assert.True(t, slices.Equal(before.Slots, c.Slots))
				waits := before.Next != 0 && !before.Slots[before.Next-1].Torn
				assert.Equal(t, waits && r >= weakest[c.Activation], activated)
				if activated {
					assert.Equal(t, before.Next, c.Active)
					assert.Equal(t, stored, c.Running)
				} else {
					assert.Equal(t, before.Running, c.Running)
				}
				if r == nvmectrl.PowerCycle {
					assert.Equal(t, stored, c.Running)
					assert.Zero(t, c.Next)
				}
			},
			"file": func(t *rapid.T) {
				data, err := json.Marshal(c)
				require.NoError(t, err)
				c = &nvmectrl.Controller{}
				require.NoError(t, json.Unmarshal(data, c))
				assert.Equal(t, before.Firmware, c.Firmware)
			},
		})
	})
}
