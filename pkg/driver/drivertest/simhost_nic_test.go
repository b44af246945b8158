package drivertest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/mstflint"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/pci"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// A reset that is not possible or fails leaves the card and its virtual functions as they are, and the image to a reboot.
func TestACardThatIsNotResetIsActivatedByAReboot(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*simhost.NIC)
		spec   func(*simhost.Spec)
		// without are tools that the machine lacks.
		without []string
		// early says that the reason is known before a write.
		early bool
		why   string
	}{
		"it has virtual functions": {
			change: func(n *simhost.NIC) { n.VFs = 8 }, early: true, why: "InUse: 0000:3b:00.0 has 8 virtual functions, which a reset would remove",
		},
		"it has virtual functions and pciutils are missing": {
			change: func(n *simhost.NIC) { n.VFs = 2 }, without: []string{"setpci", "lspci"}, early: true, why: "needs setpci",
		},
		"setpci is missing": {without: []string{"setpci"}, early: true, why: "install the package pciutils"},
		"lspci is missing":  {without: []string{"lspci"}, early: true, why: "install the package pciutils"},
		"another driver has a function": {
			change: func(n *simhost.NIC) { n.VFs, n.Foreign = 0, "uio_pci_generic" }, early: true,
			why: "InUse: 0000:3b:00.1 belongs to the kernel driver uio_pci_generic",
		},
		"the machine is virtual":             {spec: func(s *simhost.Spec) { s.Virtual = true }, why: "not supported on virtual machines"},
		"Secure Boot is on":                  {spec: func(s *simhost.Spec) { s.SecureBoot = true }, why: "only reset-level 4 on UEFI Secure Boot"},
		"other hosts of the card do not ask": {change: func(n *simhost.NIC) { n.MultiHost = true }, why: "fsm sync timed out"},
	} {
		t.Run(name, func(t *testing.T) {
			p := nic(0).change(func(s *simhost.Spec) {
				if c.change != nil {
					c.change(&s.NICs[0])
				}
				if c.spec != nil {
					c.spec(s)
				}
			})
			m, runner := p.machine(t)
			for _, tool := range c.without {
				require.NoError(t, os.Remove(filepath.Join(m.ToolPath(), tool)))
			}
			spec, err := m.Spec()
			require.NoError(t, err)
			d := mstflint.New(runner, sysfs.DirFS(m.Dir()))
			id, fw, err := d.Inspect(t.Context(), p.id(spec))
			require.NoError(t, err)
			if c.early {
				assert.Equal(t, inventory.ActivateReboot, fw.Activation)
				assert.Contains(t, fw.ActivationMessage, c.why)
			}
			before, err := m.Device(p.key)
			require.NoError(t, err)
			_, err = d.Write(t.Context(), id, drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0])), nil)
			require.NoError(t, err)

			need, why, err := driver.StillNeeded(d.Activate(t.Context(), id, inventory.ActivateDeviceReset))
			require.NoError(t, err)
			assert.Equal(t, inventory.ActivateReboot, need)
			assert.Contains(t, why, c.why)
			after, err := m.Device(p.key)
			require.NoError(t, err)
			assert.Equal(t, before.VFs, after.VFs, "no virtual function is lost")
			assert.True(t, after.LinkUp)
			assert.Equal(t, before.Running, after.Running)

			require.NoError(t, m.Boot())
			running, err := m.Running(p.key)
			require.NoError(t, err)
			assert.Equal(t, string(p.versions[0]), running)
		})
	}
}

// The firmware is patched while everything that uses the card goes on.
func TestALivePatchLeavesVirtualFunctionsAlone(t *testing.T) {
	p := nic(0).change(func(s *simhost.Spec) { s.NICs[0].VFs, s.NICs[0].LivePatch = 4, true })
	m, runner := p.machine(t)
	spec, err := m.Spec()
	require.NoError(t, err)
	d, id := mstflint.New(runner, sysfs.DirFS(m.Dir())), p.id(spec)
	_, err = d.Write(t.Context(), id, drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0])), nil)
	require.NoError(t, err)
	need, err := d.Activate(t.Context(), id, inventory.ActivateDeviceReset)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateNone, need)
	now, err := m.Device(p.key)
	require.NoError(t, err)
	assert.Equal(t, string(p.versions[0]), now.Running)
	assert.Equal(t, 4, now.VFs)
}

// An adapter with processors of its own is theirs in DPU mode, and is never reset: it might come back in another mode.
func TestABlueFieldIsUpdatedInNICModeAloneAndNeverReset(t *testing.T) {
	for name, c := range map[string]struct {
		mode, next simhost.Mode
		fault      *simhost.Fault
		refusal    string
	}{
		"NIC mode":                        {mode: simhost.NICMode},
		"DPU mode":                        {mode: simhost.DPUMode, refusal: "in DPU mode"},
		"NIC mode that ends":              {mode: simhost.NICMode, next: simhost.DPUMode, refusal: "whose mode changes at the next reset"},
		"DPU mode that ends":              {mode: simhost.DPUMode, next: simhost.NICMode, refusal: "in DPU mode"},
		"a mode that cannot be read":      {mode: simhost.NICMode, fault: &simhost.Fault{Kind: simhost.Fail, ExitCode: 3}, refusal: "its mode cannot be read"},
		"settings that mean nothing":      {mode: simhost.NICMode, fault: &simhost.Fault{Kind: simhost.Garbage, Stdout: "?"}, refusal: "its mode cannot be read"},
		"a card that has not the setting": {refusal: "doesn't support INTERNAL_CPU_MODEL"},
	} {
		t.Run(name, func(t *testing.T) {
			p := nic(0).change(func(s *simhost.Spec) {
				s.NICs[0].DeviceID, s.NICs[0].Mode, s.NICs[0].NextMode = "a2d6", c.mode, c.next
			})
			m, runner := p.machine(t)
			if c.fault != nil {
				c.fault.Tool, c.fault.Device, c.fault.Operation = "mstconfig", p.key, "query"
				require.NoError(t, m.SetFault(*c.fault))
			}
			spec, err := m.Spec()
			require.NoError(t, err)
			d := mstflint.New(runner, sysfs.DirFS(m.Dir()))
			id, fw, err := d.Inspect(t.Context(), p.id(spec))
			require.NoError(t, err)
			assert.Equal(t, inventory.ActivateReboot, fw.Activation)
			assert.Contains(t, fw.ActivationMessage, "another mode")
			img := drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0]))
			checked := d.Check(t.Context(), id, img)
			_, err = d.Write(t.Context(), id, img, nil)
			if c.refusal != "" {
				assert.Contains(t, fw.ReadOnly, c.refusal)
				require.ErrorContains(t, checked, c.refusal)
				require.ErrorContains(t, err, c.refusal)
				require.NotErrorAs(t, err, new(*driver.RejectedError), "the image is not to blame")
				now, err := m.Device(p.key)
				require.NoError(t, err)
				assert.Equal(t, now.Running, now.Stored, "nothing was written")
				return
			}
			assert.Empty(t, fw.ReadOnly)
			require.NoError(t, checked)
			require.NoError(t, err)
			need, why, err := driver.StillNeeded(d.Activate(t.Context(), id, inventory.ActivateDeviceReset))
			require.NoError(t, err)
			assert.Equal(t, inventory.ActivateReboot, need)
			assert.Contains(t, why, "another mode")
			ops, err := m.Operations()
			require.NoError(t, err)
			assert.False(t, slices.ContainsFunc(ops, func(op simhost.Operation) bool { return op.Action == "Reset" }))
		})
	}
}

// A locked down kernel does not let the tool reach any card, which is known without trying.
func TestALockedDownKernelIsTheReasonWhyACardCannotBeRead(t *testing.T) {
	for _, level := range []string{"integrity", "confidentiality"} {
		p := nic(0).change(func(s *simhost.Spec) { s.Lockdown = level })
		m, runner := p.machine(t)
		spec, err := m.Spec()
		require.NoError(t, err)
		d := mstflint.New(runner, sysfs.DirFS(m.Dir()))
		require.NoError(t, d.Usable(), "the tool is installed")
		require.ErrorContains(t, d.Reaches(p.id(spec)), "locked down ("+level+")")
		_, _, err = d.Inspect(t.Context(), p.id(spec))
		require.ErrorContains(t, err, "locked down")
	}
	p := nic(0)
	m, runner := p.machine(t)
	spec, err := m.Spec()
	require.NoError(t, err)
	assert.NoError(t, mstflint.New(runner, sysfs.DirFS(m.Dir())).Reaches(p.id(spec)))
}

// nicSettings are those of the only card of a machine.
func nicSettings(m *simhost.Machine) *drivertest.Settings {
	number := func(t *testing.T, name string) int {
		spec, err := m.Spec()
		require.NoError(t, err)
		_, n, err := m.Setting(spec.NICs[0].Key, name)
		require.NoError(t, err)
		return n
	}
	return &drivertest.Settings{
		Set: []inventory.Setting{
			{Name: "PCI_ATOMIC_MODE", Value: "1"}, {Name: inventory.SettingNumVFs, Value: "8"}, {Name: inventory.SettingLinkType, Value: "InfiniBand"},
		},
		Misfits: []inventory.Setting{
			{Name: inventory.SettingNumVFs, Value: "70000"}, {Name: inventory.SettingLinkType, Value: "Omni-Path"},
			{Name: "SRIOV_EN", Value: "2"}, {Name: "HOST_CHAINING_DESCRIPTORS", Value: "1"},
		},
		Stored: func(t *testing.T, name string) string {
			switch {
			case name == inventory.SettingLinkType:
				return map[int]string{1: "InfiniBand", 2: "Ethernet"}[number(t, "LINK_TYPE_P1")]
			case name == inventory.SettingNumVFs && number(t, "SRIOV_EN") == 0:
				return "0"
			case name == inventory.SettingNumVFs:
				name = "NUM_OF_VFS"
			}
			return strconv.Itoa(number(t, name))
		},
	}
}

func nicWithSettings(t *testing.T, change func(*simhost.NIC)) (*simhost.Machine, *mstflint.Driver, inventory.Identity) {
	t.Helper()
	p := nic(0).change(func(s *simhost.Spec) { change(&s.NICs[0]) })
	m, runner := p.machine(t)
	spec, err := m.Spec()
	require.NoError(t, err)
	return m, mstflint.New(runner, sysfs.DirFS(m.Dir())), p.id(spec)
}

func set(name, value string) driver.Configuration {
	return driver.Configuration{Set: []inventory.Setting{{Name: name, Value: value}}}
}

// Arrays are listed as a whole; their elements are read and set by name.
func TestElementsOfArraysAreSetOneByOne(t *testing.T) {
	const element = "HOST_CHAINING_DESCRIPTORS[3]"
	_, d, id := nicWithSettings(t, func(*simhost.NIC) {})
	before, err := d.Parameters(t.Context(), id, element)
	require.NoError(t, err)
	require.Len(t, before, 1)
	assert.True(t, before[0].Runs("9"))
	require.NoError(t, d.CheckConfiguration(t.Context(), id, set(element, "10")))
	_, err = d.Configure(t.Context(), id, set(element, "10"))
	require.NoError(t, err)
	after, err := d.Parameters(t.Context(), id, element)
	require.NoError(t, err)
	assert.True(t, after[0].Stores("10"))
	_, err = d.Configure(t.Context(), id, driver.Configuration{Set: inventory.Undo(set(element, "10").Set, before)})
	require.NoError(t, err)
	after, err = d.Parameters(t.Context(), id, element)
	require.NoError(t, err)
	assert.Equal(t, before, after)
	require.ErrorContains(t, d.CheckConfiguration(t.Context(), id, set("HOST_CHAINING_DESCRIPTORS[8]", "1")), "no parameter HOST_CHAINING_DESCRIPTORS[8]")
}

func TestNewFirmwareOfACardBringsAParameter(t *testing.T) {
	const brought = "ROCE_ADAPTIVE_ROUTING_EN"
	p := nic(0)
	m, d, id := nicWithSettings(t, func(*simhost.NIC) {})
	spec, err := m.Spec()
	require.NoError(t, err)
	rejected := new(driver.RejectedError)
	require.ErrorAs(t, d.CheckConfiguration(t.Context(), id, set(brought, "0")), &rejected)
	assert.Contains(t, rejected.Reason, "no parameter "+brought)
	need, err := d.Write(t.Context(), id, drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0])), nil)
	require.NoError(t, err)
	_, err = d.Activate(t.Context(), id, need)
	require.NoError(t, err)
	require.NoError(t, d.CheckConfiguration(t.Context(), id, set(brought, "0")))
	_, err = d.Configure(t.Context(), id, set(brought, "0"))
	require.NoError(t, err)
	_, n, err := m.Setting(p.key, brought)
	require.NoError(t, err)
	assert.Zero(t, n)
}

func TestAFlashThatResetsTheSettingsIsSeen(t *testing.T) {
	p := nic(0)
	m, d, id := nicWithSettings(t, func(n *simhost.NIC) { n.FlashResets = true })
	spec, err := m.Spec()
	require.NoError(t, err)
	need, err := d.Configure(t.Context(), id, set("numVFs", "8"))
	require.NoError(t, err)
	_, err = d.Activate(t.Context(), id, need)
	require.NoError(t, err)
	need, err = d.Write(t.Context(), id, drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0])), nil)
	require.NoError(t, err)
	_, err = d.Activate(t.Context(), id, need)
	require.NoError(t, err)
	all, err := d.Parameters(t.Context(), id, "numVFs")
	require.NoError(t, err)
	assert.True(t, inventory.FindParameter(all, "numVFs").Runs("0"))
}

// One reset loads the image and the settings; a patch of the running firmware loads the image alone.
func TestAResetLoadsImageAndSettings(t *testing.T) {
	for _, patches := range []bool{false, true} {
		p := nic(0)
		m, d, id := nicWithSettings(t, func(n *simhost.NIC) { n.LivePatch = patches })
		spec, err := m.Spec()
		require.NoError(t, err)
		_, err = d.Write(t.Context(), id, drivertest.SaveImage(t, p.versions[0], p.bytes(p.options(spec), p.versions[0])), nil)
		require.NoError(t, err)
		need, err := d.Configure(t.Context(), id, set("numVFs", "8"))
		require.NoError(t, err)
		require.Equal(t, inventory.ActivateDeviceReset, need)
		need, err = d.Activate(t.Context(), id, need)
		require.NoError(t, err)
		assert.Equal(t, inventory.ActivateNone, need)
		all, err := d.Parameters(t.Context(), id, "numVFs")
		require.NoError(t, err)
		assert.True(t, inventory.FindParameter(all, "numVFs").Runs("8"))
		now, err := m.Device(p.key)
		require.NoError(t, err)
		assert.Equal(t, string(p.versions[0]), now.Running)
	}
}

func TestACardIsNotPatchedForItsSettings(t *testing.T) {
	m, d, id := nicWithSettings(t, func(n *simhost.NIC) { n.LivePatch = true })
	need, err := d.Configure(t.Context(), id, set("numVFs", "8"))
	require.NoError(t, err)
	need, err = d.Activate(t.Context(), id, need)
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateNone, need)
	ops, err := m.Operations()
	require.NoError(t, err)
	assert.False(t, slices.ContainsFunc(ops, func(op simhost.Operation) bool { return op.Action == "Patch" }), "a patch loads no settings")
}

func TestSettingsOfAColdCardNeedAPowerCycle(t *testing.T) {
	m, d, id := nicWithSettings(t, func(n *simhost.NIC) { n.ColdSettings = true })
	need, err := d.Configure(t.Context(), id, set("numVFs", "8"))
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivatePowerCycle, need)
	runs := func() bool {
		all, err := d.Parameters(t.Context(), id, "numVFs")
		require.NoError(t, err)
		return inventory.FindParameter(all, "numVFs").Runs("8")
	}
	need, _, err = driver.StillNeeded(d.Activate(t.Context(), id, inventory.ActivateDeviceReset))
	require.NoError(t, err)
	assert.Greater(t, need, inventory.ActivateDeviceReset)
	require.NoError(t, m.Boot())
	assert.False(t, runs())
	require.NoError(t, m.PowerCycle())
	assert.True(t, runs())
}

// The largest number is known to the card alone, which says so when it is told a larger one.
func TestTheCardRejectsWhatItCannotHave(t *testing.T) {
	_, d, id := nicWithSettings(t, func(*simhost.NIC) {})
	require.NoError(t, d.CheckConfiguration(t.Context(), id, set("numVFs", "500")))
	_, err := d.Configure(t.Context(), id, set("numVFs", "500"))
	rejected := new(driver.RejectedError)
	require.ErrorAs(t, err, &rejected)
	assert.Contains(t, rejected.Error(), "settings rejected: mstconfig says: Parameter NUM_OF_VFS' value is larger than maximum allowed 127")
	err = d.CheckConfiguration(t.Context(), id, set("PCI_ATOMIC_MODE", "7"))
	require.ErrorAs(t, err, &rejected)
	assert.Contains(t, rejected.Reason, "Unknown value 7")
}

// The firmware of a card is told how many virtual functions it can have, and the kernel makes them when that is in force. They keep the card
// from being reset, so that the next number takes a reboot, after which they are made again.
func TestVirtualFunctionsFollowTheFirmwareOfACard(t *testing.T) {
	p := nic(0)
	m, _ := p.machine(t)
	self, err := os.Executable()
	require.NoError(t, err)
	runner, err := command.NewExecRunner(command.Config{
		Path: []string{m.ToolPath()}, StateDir: t.TempDir(), Own: map[string][]string{pci.Tool: {self, asPCITool}},
	})
	require.NoError(t, err)
	spec, err := m.Spec()
	require.NoError(t, err)
	card, tree := mstflint.New(runner, sysfs.DirFS(m.Dir())), sysfs.DirFS(m.Dir())
	id, fw, err := card.Inspect(t.Context(), p.id(spec))
	require.NoError(t, err)
	c, err := driver.Set{card, pci.New(runner, tree)}.Configurer(inventory.Device{Identity: id, Firmware: &fw, Driver: card.Name()})
	require.NoError(t, err)
	made := func() []int {
		var out []int
		for _, port := range id.PCI {
			state, err := sysfs.ReadSRIOV(tree, port)
			require.NoError(t, err)
			out = append(out, state.NumVFs)
		}
		return out
	}
	configure := func(n string) inventory.Activation {
		require.NoError(t, c.CheckConfiguration(t.Context(), id, set(inventory.SettingNumVFs, n)))
		need, err := c.Configure(t.Context(), id, set(inventory.SettingNumVFs, n))
		require.NoError(t, err)
		return need
	}
	all, err := c.Parameters(t.Context(), id, inventory.SettingNumVFs)
	require.NoError(t, err)
	assert.Equal(t, []string{"SRIOV_EN", "NUM_OF_VFS", "sriov_numvfs[0]", "sriov_numvfs[1]"}, inventory.FindParameter(all, inventory.SettingNumVFs).Sets)

	require.Equal(t, inventory.ActivateDeviceReset, configure("8"))
	assert.Equal(t, []int{0, 0}, made())
	need, err := card.Activate(t.Context(), id, inventory.ActivateDeviceReset)
	require.NoError(t, err)
	require.Equal(t, inventory.ActivateNone, need)
	assert.Equal(t, inventory.ActivateNone, configure("8"))
	assert.Equal(t, []int{8, 8}, made())

	configure("4")
	assert.Equal(t, []int{8, 8}, made())
	need, why, err := driver.StillNeeded(card.Activate(t.Context(), id, inventory.ActivateDeviceReset))
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, need)
	assert.Contains(t, why, "virtual functions")
	require.NoError(t, m.Boot())
	for _, port := range id.PCI { // the simulated machine does not know what was written into its files
		require.NoError(t, tree.Store("sys/bus/pci/devices/"+port.String()+"/sriov_numvfs", "0\n"))
	}
	all, err = c.Parameters(t.Context(), id, inventory.SettingNumVFs)
	require.NoError(t, err)
	assert.Equal(t, "0 of 4", inventory.FindParameter(all, inventory.SettingNumVFs).Current.Value)
	assert.Equal(t, inventory.ActivateNone, configure("4"))
	assert.Equal(t, []int{4, 4}, made())
}
