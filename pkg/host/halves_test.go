package host_test

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/mstflint"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

const (
	socketDirect = "b8:3f:d2:00:00:70"
	newFirmware  = "22.42.1000"
)

// socketDirectMachine has one card, which is in two slots.
func socketDirectMachine() simhost.Spec {
	spec := simhost.DefaultSpec("node-0", 7)
	spec.NICs, spec.NVMe, spec.SCSI = spec.NICs[:1], nil, nil
	spec.Uplink, spec.WriteTime, spec.ResetTime = "", 0, 0
	spec.NICs[0].Second = &simhost.Half{
		Slot: "0000:af:00", Ports: []simhost.Port{{NetDevice: "ens9f0np0"}, {NetDevice: "ens9f1np1"}},
	}
	return spec
}

func nicsOf(t *testing.T, h *host.Host) (nics []inventory.Device) {
	for _, d := range scan(t, h).Devices {
		if d.Class == inventory.NIC {
			nics = append(nics, d)
		}
	}
	return nics
}

// One card on two roots of the machine has one flash: it is one device, written once, and is not reset by a tool that knows one
// half of it only.
func TestACardInTwoSlotsIsOneDevice(t *testing.T) {
	m, h := machineOf(t, socketDirectMachine())
	nics := nicsOf(t, h)
	require.Len(t, nics, 1)
	found, ok, err := h.Find(t.Context(), inventory.NIC, socketDirect)
	require.NoError(t, err)
	require.True(t, ok)
	for _, d := range []inventory.Device{nics[0], found} {
		require.NoError(t, d.Err)
		assert.Equal(t, socketDirect, d.UniqueID)
		var functions []string
		for _, f := range d.PCI {
			functions = append(functions, f.String())
		}
		assert.Equal(t, []string{"0000:3b:00.0", "0000:3b:00.1", "0000:af:00.0", "0000:af:00.1"}, functions)
		assert.Len(t, d.Ports, 4)
		require.NotNil(t, d.Firmware)
		assert.Equal(t, inventory.ActivateReboot, d.Firmware.Activation)
		assert.Contains(t, d.Firmware.ActivationMessage, "0000:3b:00.0 and 0000:af:00.0 (Socket-Direct)")
	}

	run, err := command.NewExecRunner(command.Config{Path: []string{m.ToolPath()}, StateDir: t.TempDir()})
	require.NoError(t, err)
	drv := mstflint.New(run, os.DirFS(m.Dir()))
	need, err := drv.Write(t.Context(), found.Identity, nicImage(t, "MT_0000000359"), nil)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, need)
	_, why, err := driver.StillNeeded(drv.Activate(t.Context(), found.Identity, inventory.ActivateDeviceReset))
	require.NoError(t, err)
	assert.Contains(t, why, "Socket-Direct")
	require.NoError(t, m.Boot())
	done := map[string]int{}
	ops, err := m.Operations()
	require.NoError(t, err)
	for _, op := range ops {
		if op.Device == "nic0" && op.Result == simhost.Done {
			done[op.Action]++
		}
	}
	assert.Equal(t, map[string]int{"Write": 1}, done)
	assert.Equal(t, inventory.Version(newFirmware), nicsOf(t, h)[0].Firmware.Running)
}

func nicImage(t *testing.T, psid string) driver.Image {
	content := simhost.BuildImage(simhost.NICImage, simhost.ImageOptions{Version: newFirmware, PSID: psid})
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return driver.Image{Path: path, Version: newFirmware, Digest: sha256.Sum256(content), Size: int64(len(content))}
}

// While the card is written nobody reads it, and it stays the one device that it is.
func TestTwoSlotCardIsGuardedAsOne(t *testing.T) {
	_, h := machineOf(t, socketDirectMachine())
	inv, err := h.ScanGuarded(t.Context(), func(id inventory.Identity) error {
		if id.Class == inventory.NIC {
			return command.ErrBusy
		}
		return nil
	})
	require.NoError(t, err)
	var nics []inventory.Device
	for _, d := range inv.Devices {
		if d.Class == inventory.NIC {
			nics = append(nics, d)
		}
	}
	require.Len(t, nics, 1)
	assert.Equal(t, socketDirect, nics[0].UniqueID)
	require.ErrorIs(t, nics[0].Err, command.ErrBusy)
	assert.Len(t, nics[0].PCI, 4)
}

// A virtual machine that has one half uses the whole card.
func TestACardOfWhichAVirtualMachineHasAHalfIsNotTouched(t *testing.T) {
	spec := socketDirectMachine()
	spec.NICs[0].Foreign = "vfio-pci"
	_, h := machineOf(t, spec)
	nics := nicsOf(t, h)
	require.Len(t, nics, 1)
	assert.Nil(t, nics[0].Firmware)
	assert.Empty(t, nics[0].Driver)
}

// twoAdaptersMachine has two adapters on one board, which say the same about the board and have a flash each.
func twoAdaptersMachine() simhost.Spec {
	spec := socketDirectMachine()
	second := spec.NICs[0]
	spec.NICs[0].Second = nil
	second.Key, second.Slot, second.Second = "nic1", "0000:af:00", nil
	second.BaseMAC, second.BaseGUID = 0xb83fd2000100, 0xb83fd20300000100
	second.Ports = []simhost.Port{{NetDevice: "ens9f0np0"}, {NetDevice: "ens9f1np1"}}
	spec.NICs = append(spec.NICs, second)
	return spec
}

// While one of two adapters on a board is written, the other is still there.
func TestAnAdapterIsThereWhileItsNeighbourOnTheBoardIsWritten(t *testing.T) {
	_, h := machineOf(t, twoAdaptersMachine())
	require.Len(t, nicsOf(t, h), 2)
	inv, err := h.ScanGuarded(t.Context(), func(id inventory.Identity) error {
		if id.UniqueID == socketDirect {
			return command.ErrBusy
		}
		return nil
	})
	require.NoError(t, err)
	var ids []string
	for _, d := range inv.Devices {
		if d.Class == inventory.NIC {
			ids = append(ids, d.UniqueID)
			assert.Equal(t, d.UniqueID == socketDirect, d.Err != nil, "%s: %v", d.UniqueID, d.Err)
			assert.Len(t, d.PCI, 2)
		}
	}
	assert.Equal(t, []string{socketDirect, "b8:3f:d2:00:01:00"}, ids)
}

func TestOneBoardCanBeTwoDevices(t *testing.T) {
	_, h := machineOf(t, twoAdaptersMachine())
	nics := nicsOf(t, h)
	require.Len(t, nics, 2)
	for i, want := range []string{socketDirect, "b8:3f:d2:00:01:00"} {
		require.NoError(t, nics[i].Err)
		assert.Equal(t, want, nics[i].UniqueID)
		assert.Len(t, nics[i].PCI, 2)
		assert.Equal(t, inventory.ActivateDeviceReset, nics[i].Firmware.Activation)
		found, ok, err := h.Find(t.Context(), inventory.NIC, want)
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, found.Err)
		assert.Len(t, found.PCI, 2)
	}
}

// productDataCounter counts how often product data are read.
type productDataCounter struct {
	sysfs.Tree
	reads *atomic.Int32
}

func (c productDataCounter) Open(name string) (fs.File, error) {
	if path.Base(name) == "vpd" {
		c.reads.Add(1)
	}
	return c.Tree.Open(name)
}

// unreadable cannot read the product data of cards while it is told so.
type unreadable struct {
	sysfs.Tree
	now *atomic.Bool
}

func (u unreadable) Open(name string) (fs.File, error) {
	if path.Base(name) == "vpd" && u.now.Load() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EIO}
	}
	return u.Tree.Open(name)
}

// A card does not answer for its product data while its firmware is busy: it does not become two cards by that.
func TestACardInTwoSlotsStaysOneWhileItsProductDataCannotBeRead(t *testing.T) {
	m, _ := machineOf(t, socketDirectMachine())
	run, err := command.NewExecRunner(command.Config{Path: []string{m.ToolPath()}, StateDir: t.TempDir()})
	require.NoError(t, err)
	var now atomic.Bool
	root := unreadable{sysfs.DirFS(m.Dir()), &now}
	h, err := host.New(host.Config{FS: root, Drivers: driver.Set{mstflint.New(run, root)}})
	require.NoError(t, err)
	for _, fails := range []bool{false, true} {
		now.Store(fails)
		nics := nicsOf(t, h)
		require.Len(t, nics, 1, "product data unreadable: %v", fails)
		require.NoError(t, nics[0].Err)
		assert.Len(t, nics[0].PCI, 4)
	}
}

// A guard that says no after the first half was read keeps the other half from being read: a write may begin in between. It
// is asked about the whole card, because that is what jobs are for.
func TestAsksGuardForEveryHalf(t *testing.T) {
	_, h := machineOf(t, socketDirectMachine())
	asked := 0
	inv, err := h.ScanGuarded(t.Context(), func(id inventory.Identity) error {
		if id.Class != inventory.NIC {
			return nil
		}
		assert.Len(t, id.PCI, 4)
		if asked++; asked > 1 {
			return command.ErrBusy
		}
		return nil
	})
	require.NoError(t, err)
	for _, d := range inv.Devices {
		if d.Class == inventory.NIC {
			require.ErrorIs(t, d.Err, command.ErrBusy)
			assert.Nil(t, d.Firmware)
		}
	}
	assert.Equal(t, 2, asked)
}

// The kernel's driver knows a card by the addresses of its ports, which differ between the halves.
func TestACardInTwoSlotsIsOneDeviceForADriverThatDoesNotKnowTheCardsOwnId(t *testing.T) {
	m, _ := machineOf(t, socketDirectMachine())
	h, err := host.New(host.Config{FS: os.DirFS(m.Dir()), Drivers: driver.Set{&generic{}}})
	require.NoError(t, err)
	nics := nicsOf(t, h)
	require.Len(t, nics, 1)
	require.NoError(t, nics[0].Err)
	assert.Equal(t, socketDirect, nics[0].UniqueID)
	assert.Len(t, nics[0].PCI, 4)
}

// Product data take a second to read: to list cards whose MACs are far apart does not need them.
func TestOnlyCardsThatMayBeOneAreAskedForTheirProductData(t *testing.T) {
	for base, want := range map[uint64]int32{0xb83fd2000100: 2, 0xb83fd2aa0000: 0} {
		spec := socketDirectMachine()
		second := spec.NICs[0]
		spec.NICs[0].Second = nil
		second.Key, second.Slot, second.Second, second.BaseMAC = "nic1", "0000:af:00", nil, base
		second.Ports = []simhost.Port{{NetDevice: "ens9f0np0"}}
		spec.NICs = append(spec.NICs, second)
		m, _ := machineOf(t, spec)
		var reads atomic.Int32
		h, err := host.New(host.Config{FS: productDataCounter{sysfs.DirFS(m.Dir()), &reads}})
		require.NoError(t, err)
		require.NoError(t, h.Ties(t.Context()))
		assert.Equal(t, want, reads.Load(), "%x", base)
	}
}

// Two cards with one base address are not one card unless they say so: which of them an update is for is not known.
func TestTwoCardsWithOneAddressAreStillNotUpdated(t *testing.T) {
	spec := socketDirectMachine()
	second := spec.NICs[0]
	spec.NICs[0].Second = nil
	second.Key, second.Slot, second.Second, second.Serial = "nic1", "0000:af:00", nil, "MT9999X00000"
	second.Ports = []simhost.Port{{NetDevice: "ens9f0np0"}}
	spec.NICs = append(spec.NICs, second)
	_, h := machineOf(t, spec)
	nics := nicsOf(t, h)
	require.Len(t, nics, 2)
	for _, d := range nics {
		require.ErrorContains(t, d.Err, "2 devices claim the unique id")
	}
}

// generic reads every adapter, less well than the vendor's driver.
type generic struct{ reader }

func (*generic) Name() string { return "generic" }

func (*generic) Support(id inventory.Identity) driver.Support {
	if id.Class == inventory.NIC {
		return driver.SupportGeneric
	}
	return driver.SupportNone
}

// Under a locked down kernel the vendor's tool is installed and reaches no card: another driver reads it, and the reason is told.
func TestUnderLockdownADriverThatReachesTheCardIsChosen(t *testing.T) {
	for level, want := range map[string]string{"": "mstflint", "integrity": "generic", "confidentiality": "generic"} {
		spec := socketDirectMachine()
		spec.NICs[0].Second, spec.Lockdown = nil, level
		m, _ := machineOf(t, spec)
		run, err := command.NewExecRunner(command.Config{Path: []string{m.ToolPath()}, StateDir: t.TempDir()})
		require.NoError(t, err)
		root := os.DirFS(m.Dir())
		drivers, reasons := driver.Set{mstflint.New(run, root), &generic{}}.Probed()
		assert.Empty(t, reasons, "both work on this machine")
		var choice host.Choice
		h, err := host.New(host.Config{FS: root, Drivers: drivers, Chosen: func(c host.Choice) { choice = c }})
		require.NoError(t, err)
		d, ok, err := h.Find(t.Context(), inventory.NIC, socketDirect)
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, d.Err)
		assert.Equal(t, want, d.Driver)
		writer, err := drivers.Of(d)
		require.NoError(t, err)
		assert.Equal(t, want, writer.Name(), "what reads the card writes it")
		if level == "" {
			assert.Empty(t, choice.Passed)
			assert.Empty(t, d.DriverMessage)
			continue
		}
		assert.Contains(t, d.DriverMessage, "mstflint supports the device better: the kernel is locked down ("+level+")")
		require.ErrorContains(t, choice.Passed["mstflint"], "the kernel is locked down ("+level+")")
	}
}
