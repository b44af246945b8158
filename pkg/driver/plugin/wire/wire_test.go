package wire_test

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/wire"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

func goodIdentity() inventory.Identity {
	return inventory.Identity{
		Class: inventory.NIC, UniqueID: "u", Vendor: "v", VendorID: "15b3", DeviceID: "101d", Model: "m", PartNumber: "p",
		SerialNumber: "s", BoardID: "b", PCI: []inventory.PCIAddress{{Bus: 0x3b}, {Bus: 0x3b, Function: 1}}, Node: "eth0",
		Kernel: "mlx5_core", Transport: "usb",
	}
}

func goodFirmware() inventory.Firmware {
	return inventory.Firmware{
		Running: "1.0", Stored: "1.1", Slots: []inventory.Slot{{Number: 1, Version: "1.0", State: inventory.SlotActive}},
		Activation: inventory.ActivatePowerCycle, Format: inventory.FormatDotted, ReadOnly: "locked",
		Rollback: inventory.RollbackSlot, RollbackMessage: "needs its slot", LastAttempt: "refused",
		ActivationMessage: "InUse: it has 8 virtual functions",
	}
}

func TestValuesSurviveTheWire(t *testing.T) {
	id, err := wire.IdentityTo(goodIdentity())
	require.NoError(t, err)
	gotID, err := wire.IdentityFrom(id)
	require.NoError(t, err)
	assert.Equal(t, goodIdentity(), gotID)

	fw, err := wire.FirmwareTo(goodFirmware())
	require.NoError(t, err)
	gotFW, err := wire.FirmwareFrom(fw)
	require.NoError(t, err)
	assert.Equal(t, goodFirmware(), gotFW)

	info := plugin.Info{Name: "acme-nic", Version: "1.0+2", Matches: []plugin.Match{{
		Class: inventory.Disk, Support: driver.SupportGeneric, Vendors: []string{"a"}, VendorIDs: []string{"b"}, DeviceIDs: []string{"c"},
		Models: []string{"d"}, Transports: []string{"sas"}, Kernel: []string{"e"},
	}}}
	for field, value := range reflect.ValueOf(info.Matches[0]).Fields() {
		assert.Equal(t, field.Name == "SubsystemVendorIDs", value.IsZero(), "%s: what the protocol has not is refused", field.Name)
	}
	m, err := wire.InfoTo(info)
	require.NoError(t, err)
	gotInfo, err := wire.InfoFrom(m)
	require.NoError(t, err)
	assert.Equal(t, info, gotInfo)
}

func goodParameters() []inventory.Parameter {
	return []inventory.Parameter{
		{
			Name: "A", Sets: []string{"B"}, Current: inventory.Read(""), Next: inventory.Read("x y"), Default: inventory.Read("d"), Ready: inventory.Read("r"),
			ReadOnly: "fixed", Domain: inventory.Domain{Values: []string{"v"}, Length: &inventory.Interval{Max: 8}}, Spelling: inventory.SpelledWithCode,
			Needs: inventory.ActivatePowerCycle, Volatile: true, Disturbs: true,
		},
		{Name: "B", Domain: inventory.Domain{Number: &inventory.Interval{Min: -1, Max: 7, Step: 2}}, Spelling: inventory.SpelledAsNumber, Disturbs: true},
	}
}

func TestSettingsSurviveTheWire(t *testing.T) {
	for field, value := range reflect.ValueOf(goodParameters()[0]).Fields() {
		assert.False(t, value.IsZero(), "%s is sent", field.Name)
	}
	all, err := wire.ParametersTo(goodParameters())
	require.NoError(t, err)
	got, err := wire.ParametersFrom(all)
	require.NoError(t, err)
	assert.Equal(t, goodParameters(), got)
	told := []inventory.Setting{{Name: "A", Value: "x y"}, {Name: "B"}}
	back, err := wire.SettingsFrom(wire.SettingsTo(told))
	require.NoError(t, err)
	assert.Equal(t, told, back)
	for name, change := range map[string]func(*pluginv1.Parameter){
		"no name":     func(m *pluginv1.Parameter) { m.Name = "" },
		"order":       func(m *pluginv1.Parameter) { m.Name = "C" },
		"long name":   func(m *pluginv1.Parameter) { m.Name = strings.Repeat("A", 129) },
		"line break":  func(m *pluginv1.Parameter) { m.Current = proto.String("a\nb") },
		"long value":  func(m *pluginv1.Parameter) { m.Default = proto.String(strings.Repeat("A", 513)) },
		"spelling":    func(m *pluginv1.Parameter) { m.Spelling = 0 },
		"activation":  func(m *pluginv1.Parameter) { m.Needs = 99 },
		"many values": func(m *pluginv1.Parameter) { m.Values = make([]string, 1025) },
		"bad value":   func(m *pluginv1.Parameter) { m.Values = []string{" x"} },
	} {
		bad := []*pluginv1.Parameter{proto.CloneOf(all[0]), all[1]}
		change(bad[0])
		got, err := wire.ParametersFrom(bad)
		require.Error(t, err, name)
		assert.Empty(t, got, name)
	}
	_, err = wire.ParametersFrom(make([]*pluginv1.Parameter, 4097))
	require.Error(t, err)
	_, err = wire.SettingsFrom([]*pluginv1.Setting{{Name: "A", Value: "\x1b"}})
	require.Error(t, err)
	_, err = wire.ParametersTo([]inventory.Parameter{{Spelling: 7}})
	require.Error(t, err)
}

func TestProtocolHasEveryClass(t *testing.T) {
	for _, class := range inventory.Classes() {
		m, err := wire.IdentityTo(inventory.Identity{Class: class})
		require.NoError(t, err)
		id, err := wire.IdentityFrom(m)
		require.NoError(t, err)
		assert.Equal(t, class, id.Class)
	}
}

func TestWhatIsNotKnownIsAnError(t *testing.T) {
	id, err := wire.IdentityTo(goodIdentity())
	require.NoError(t, err)
	for name, change := range map[string]func(*pluginv1.Identity){
		"no class":       func(m *pluginv1.Identity) { m.Class = 0 },
		"other class":    func(m *pluginv1.Identity) { m.Class = 99 },
		"line break":     func(m *pluginv1.Identity) { m.Model = "a\nb" },
		"blank":          func(m *pluginv1.Identity) { m.UniqueId = " u" },
		"not UTF-8":      func(m *pluginv1.Identity) { m.Vendor = "\xff" },
		"too long":       func(m *pluginv1.Identity) { m.BoardId = strings.Repeat("b", 257) },
		"no PCI address": func(m *pluginv1.Identity) { m.PciAddresses = []string{"3b:00.0"} },
		"too many":       func(m *pluginv1.Identity) { m.PciAddresses = make([]string, 65) },
	} {
		bad := proto.CloneOf(id)
		change(bad)
		got, err := wire.IdentityFrom(bad)
		require.Error(t, err, name)
		assert.Zero(t, got, name)
	}
	fw, err := wire.FirmwareTo(goodFirmware())
	require.NoError(t, err)
	for name, change := range map[string]func(*pluginv1.Firmware){
		"nothing runs":     func(m *pluginv1.Firmware) { m.Running = "" },
		"activation":       func(m *pluginv1.Firmware) { m.Activation = 99 },
		"no activation":    func(m *pluginv1.Firmware) { m.Activation = 0 },
		"format":           func(m *pluginv1.Firmware) { m.Format = 0 },
		"rollback":         func(m *pluginv1.Firmware) { m.Rollback = 99 },
		"slot state":       func(m *pluginv1.Firmware) { m.Slots[0].State = 0 },
		"slot number":      func(m *pluginv1.Firmware) { m.Slots[0].Number = -1 },
		"too many slots":   func(m *pluginv1.Firmware) { m.Slots = make([]*pluginv1.Slot, 17) },
		"version too long": func(m *pluginv1.Firmware) { m.Stored = strings.Repeat("1", 129) },
	} {
		bad := proto.CloneOf(fw)
		change(bad)
		got, err := wire.FirmwareFrom(bad)
		require.Error(t, err, name)
		assert.Zero(t, got, name)
	}
	_, err = wire.ActivationFrom(42)
	require.Error(t, err)
	_, err = wire.IdentityTo(inventory.Identity{Class: "Toaster"})
	require.Error(t, err)
	_, err = wire.FirmwareTo(inventory.Firmware{Activation: -1})
	require.Error(t, err)
}

func TestErrorsSurviveTheWire(t *testing.T) {
	for _, want := range []error{
		driver.ErrNotSupported, command.ErrBusy, command.ErrStillRunning, command.ErrLost, fs.ErrExist, plugin.ErrNotFound,
		plugin.ErrVersionChanged, plugin.ErrCancelled, plugin.ErrWriting, plugin.ErrStopping, command.ErrImage,
	} {
		s := wire.StatusTo(fmt.Errorf("around: %w", want))
		got := wire.StatusFrom(s)
		require.ErrorIs(t, got, want)
		assert.ErrorContains(t, got, "around")
	}
	var rejected *driver.RejectedError
	require.ErrorAs(t, wire.StatusFrom(wire.StatusTo(driver.Rejectf("wrong board"))), &rejected)
	assert.Equal(t, "wrong board", rejected.Reason)
	require.NoError(t, wire.StatusFrom(wire.StatusTo(nil)))
	require.EqualError(t, wire.StatusFrom(wire.StatusTo(errors.New("a\nb"))), "a b")
	for _, code := range []pluginv1.Code{0, 99} {
		require.Error(t, wire.StatusFrom(&pluginv1.Status{Code: code}), "a code that is not known is not a success")
	}
	require.Error(t, wire.StatusFrom(nil))
}

// FuzzAnswer: whatever a plugin sends is refused, or is what can be sent back unchanged.
func FuzzAnswer(f *testing.F) {
	id, _ := wire.IdentityTo(goodIdentity())
	fw, _ := wire.FirmwareTo(goodFirmware())
	seed, err := proto.Marshal(&pluginv1.InspectResponse{Status: wire.OK(), Identity: id, Firmware: fw})
	require.NoError(f, err)
	f.Add(seed)
	f.Add([]byte("HTTP/1.1 200 OK"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m pluginv1.InspectResponse
		if proto.Unmarshal(data, &m) == nil {
			_ = wire.StatusFrom(m.GetStatus())
			if id, err := wire.IdentityFrom(m.GetIdentity()); err == nil {
				again, err := wire.IdentityTo(id)
				require.NoError(t, err)
				back, err := wire.IdentityFrom(again)
				require.NoError(t, err)
				require.Equal(t, id, back)
			}
			if fw, err := wire.FirmwareFrom(m.GetFirmware()); err == nil {
				again, err := wire.FirmwareTo(fw)
				require.NoError(t, err)
				back, err := wire.FirmwareFrom(again)
				require.NoError(t, err)
				require.Equal(t, fw, back)
			}
		}
		var info pluginv1.GetInfoResponse
		if proto.Unmarshal(data, &info) == nil {
			if i, err := wire.InfoFrom(&info); err == nil {
				require.NoError(t, i.Check())
			}
		}
	})
}
