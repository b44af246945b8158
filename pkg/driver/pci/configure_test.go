package pci

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/owntool"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

const first, second = devices + "/0000:3b:00.0", devices + "/0000:3b:00.1"

func set(pairs ...string) driver.Configuration {
	c := driver.Configuration{}
	for i := 0; i < len(pairs); i += 2 {
		c.Set = append(c.Set, inventory.Setting{Name: pairs[i], Value: pairs[i+1]})
	}
	return c
}

// withoutFirmware is an adapter that no driver knows, of two ports.
func withoutFirmware(t *testing.T) (fakeKernel, *Driver, driver.Configurer) {
	t.Helper()
	k := newFakeKernel(t, pf{"0000:3b:00.0", "16", "igb"}, pf{"0000:3b:00.1", "16", "igb"})
	d := New(runnerOf(t, k), k.Tree)
	return k, d, d.Supplement(adapterID(), nil)
}

func configure(t *testing.T, c driver.Configurer, pairs ...string) inventory.Activation {
	t.Helper()
	require.NoError(t, c.CheckConfiguration(t.Context(), adapterID(), set(pairs...)))
	needs, err := c.Configure(t.Context(), adapterID(), set(pairs...))
	require.NoError(t, err)
	return needs
}

func parameter(t *testing.T, c driver.Configurer, name string) inventory.Parameter {
	t.Helper()
	all, err := c.Parameters(t.Context(), adapterID(), name)
	require.NoError(t, err)
	p := inventory.FindParameter(all, name)
	require.NotNil(t, p, name)
	return *p
}

// refused asserts that neither call takes the configuration, and that nothing is written.
func refused(t *testing.T, k fakeKernel, c driver.Configurer, says []string, pairs ...string) {
	t.Helper()
	before := k.get(first+"/"+numVFs) + k.get(second+"/"+numVFs)
	check := c.CheckConfiguration(t.Context(), adapterID(), set(pairs...))
	_, err := c.Configure(t.Context(), adapterID(), set(pairs...))
	for _, err := range []error{check, err} {
		require.ErrorAs(t, err, new(*driver.RejectedError))
		for _, s := range says {
			require.ErrorContains(t, err, s)
		}
	}
	assert.Equal(t, before, k.get(first+"/"+numVFs)+k.get(second+"/"+numVFs))
}

func TestEachPortCanHaveItsOwnNumber(t *testing.T) {
	k, _, c := withoutFirmware(t)
	assert.Equal(t, inventory.ActivateNone, configure(t, c, "sriov_numvfs[1]", "4"))
	assert.Equal(t, []string{"0", "4"}, []string{k.get(first + "/" + numVFs), k.get(second + "/" + numVFs)})
	assert.Equal(t, "0,4", parameter(t, c, inventory.SettingNumVFs).Current.Value)
	for spelled, want := range map[string]string{" 0X5 ": "5", "005": "5"} {
		configure(t, c, "sriov_numvfs[1]", spelled)
		assert.Equal(t, want, k.get(second+"/"+numVFs), "%q is not taken for nothing", spelled)
		configure(t, c, "sriov_numvfs[1]", "4")
	}
	configure(t, c, inventory.SettingNumVFs, "6")
	assert.Equal(t, "6", parameter(t, c, inventory.SettingNumVFs).Current.Value, "the second port went from 4 to 6 by way of 0")
	refused(t, k, c, []string{"sriov_numvfs[1] is what both", "numVFs", "name one of them"}, "sriov_numvfs[1]", "4", inventory.SettingNumVFs, "4")
}

// A number that the driver does not make is refused by name, and the port has what it had.
func TestADriverThatMakesFewerIsNotBelieved(t *testing.T) {
	k, _, c := withoutFirmware(t)
	configure(t, c, "sriov_numvfs[0]", "2")
	k.fault("refuse", "8")(t)
	_, err := c.Configure(t.Context(), adapterID(), set("sriov_numvfs[0]", "8"))
	require.ErrorAs(t, err, new(*driver.RejectedError))
	require.ErrorContains(t, err, "does not take 8 for sriov_numvfs")
	require.ErrorContains(t, err, "it has 2 again, as before")
	assert.Equal(t, "2", k.get(first+"/"+numVFs))
	k.fault("few", "3")(t)
	for name, before := range map[string]string{"sriov_numvfs[0]": "2", "sriov_numvfs[1]": "0"} {
		_, err = c.Configure(t.Context(), adapterID(), set(name, "6"))
		require.ErrorAs(t, err, new(*driver.RejectedError))
		require.ErrorContains(t, err, "made 3 virtual functions instead of 6")
		require.ErrorContains(t, err, "it has "+before+" again, as before")
		assert.Equal(t, before, parameter(t, c, name).Current.Value)
	}
	k.fault("refuse", "2")(t)
	_, err = c.Configure(t.Context(), adapterID(), set("sriov_numvfs[0]", "6"))
	require.ErrorContains(t, err, "made 3 virtual functions instead of 6")
	require.ErrorContains(t, err, "nor can it have 2 again, as before: the kernel driver of 0000:3b:00.0 does not take 2")
	assert.Equal(t, "0", k.get(first+"/"+numVFs))
}

// use makes something use the first virtual function of the first port.
var use = map[string]struct {
	begin func(t *testing.T, k fakeKernel)
	says  []string
	moved bool
}{
	"a container that has the interface": {
		func(t *testing.T, k fakeKernel) { require.NoError(t, os.RemoveAll(k.path(first+"/virtfn0/net"))) },
		[]string{"0000:3b:01.0 (driver iavf)", "a container or a virtual machine has it"}, true,
	},
	"a virtual machine": {
		func(t *testing.T, k fakeKernel) { vfio(t, k, "../kernel/iommu_groups/12"); holds(t, k, "/dev/vfio/12") },
		[]string{"qemu-system-x86 (process 4711) has 0000:3b:01.0 (driver vfio-pci), by /dev/vfio/12"}, false,
	},
	"a virtual machine in a pod": {
		func(t *testing.T, k fakeKernel) {
			vfio(t, k, "../kernel/iommu_groups/12")
			holds(t, k, "/dev/vfio/12")
			require.NoError(t, k.put("proc/4711/cgroup", "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope\n"))
		},
		[]string{"qemu-system-x86 (process 4711)"}, true,
	},
	"a virtual machine by the newer way": {
		func(t *testing.T, k fakeKernel) {
			vfio(t, k, "../kernel/iommu_groups/12")
			require.NoError(t, os.MkdirAll(k.path(first+"/virtfn0/vfio-dev/vfio3"), 0o700))
			holds(t, k, "/dev/vfio/devices/vfio3")
		},
		[]string{"qemu-system-x86 (process 4711)", "/dev/vfio/devices/vfio3"}, false,
	},
	"a bond": {
		func(t *testing.T, k fakeKernel) {
			require.NoError(t, os.MkdirAll(k.path("sys/class/net/eth0000:3b:01.0/upper_bond0"), 0o700))
		},
		[]string{"bond0 is built on eth0000:3b:01.0"}, false,
	},
}

func vfio(t *testing.T, k fakeKernel, group string) {
	t.Helper()
	vf := k.path(first + "/virtfn0")
	require.NoError(t, os.Remove(vf+"/driver"))
	require.NoError(t, os.Symlink("../../bus/pci/drivers/vfio-pci", vf+"/driver"))
	require.NoError(t, os.Symlink(group, vf+"/iommu_group"))
}

func holds(t *testing.T, k fakeKernel, file string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(k.path("proc/4711/fd"), 0o700))
	require.NoError(t, k.put("proc/4711/comm", "qemu-system-x86\n"))
	require.NoError(t, os.Symlink(file, k.path("proc/4711/fd/9")))
}

func TestVirtualFunctionsInUseAreNotRemoved(t *testing.T) {
	for name, u := range use {
		t.Run(name, func(t *testing.T) {
			k, _, c := withoutFirmware(t)
			configure(t, c, inventory.SettingNumVFs, "4")
			u.begin(t, k)
			refused(t, k, c, append([]string{"InUse: the 4 virtual functions of 0000:3b:00.0"}, u.says...), "sriov_numvfs[0]", "5")
			refused(t, k, c, u.says, inventory.SettingNumVFs, "0")
			rejected := (*driver.RejectedError)(nil)
			require.ErrorAs(t, c.CheckConfiguration(t.Context(), adapterID(), set(inventory.SettingNumVFs, "0")), &rejected)
			assert.Equal(t, u.moved, rejected.InUse, "a drain moves pods, and nothing of the host")
			assert.Equal(t, inventory.ActivateNone, configure(t, c, inventory.SettingNumVFs, "4"), "what they are already disturbs nobody")
			configure(t, c, "sriov_numvfs[1]", "5")
		})
	}
}

// A virtual machine may start between the check and the write: the tool looks again, because the kernel would not.
func TestTheToolLooksItselfForWhatUsesVirtualFunctions(t *testing.T) {
	k, _, c := withoutFirmware(t)
	configure(t, c, inventory.SettingNumVFs, "4")
	vfio(t, k, "../kernel/iommu_groups/12")
	require.NoError(t, c.CheckConfiguration(t.Context(), adapterID(), set(inventory.SettingNumVFs, "0")), "nobody has it open")
	holds(t, k, "/dev/vfio/12")
	var stderr strings.Builder
	tool := Program{Open: func(string) Host { return k }}
	code := tool.Run([]string{"set", k.Dir(), "0000:3b:00.0", numVFs, "0"}, &stderr, &stderr)
	assert.Equal(t, owntool.Rejected, code)
	assert.Contains(t, stderr.String(), "InUse: ")
	assert.Equal(t, "4", k.get(first+"/"+numVFs))
}

// signalled is a kernel in the middle of whose writes the process is asked to end.
type signalled struct{ fakeKernel }

func (s signalled) Store(name, value string) error {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			return err
		}
	}
	return s.fakeKernel.Store(name, value)
}

func TestSignalsDoNotEndAChange(t *testing.T) {
	k, _, c := withoutFirmware(t)
	configure(t, c, numVFs, "4")
	var out strings.Builder
	tool := Program{Open: func(string) Host { return signalled{k} }}
	assert.Equal(t, owntool.OK, tool.Run([]string{"set", k.Dir(), "0000:3b:00.0", numVFs, "6"}, &out, &out), out.String())
	assert.Equal(t, "6", k.get(first+"/"+numVFs), "and not the 0 between")
}

// The kernel lets nobody read the number while it changes it: it is not asked before the change has ended, whatever is to be set.
func TestAnAdapterThatIsWrittenIsNotAsked(t *testing.T) {
	k, d, c := withoutFirmware(t)
	k.fault("hang", "")(t)
	go func() { _, _ = c.Configure(t.Context(), adapterID(), set(numVFs, "4")) }()
	hangs := func() bool {
		_, hangs := k.faulty("hangs")
		return hangs
	}
	require.Eventually(t, hangs, time.Minute, 5*time.Millisecond)
	_, err := c.Parameters(t.Context(), adapterID())
	require.ErrorIs(t, err, command.ErrBusy)
	require.ErrorIs(t, c.CheckConfiguration(t.Context(), adapterID(), set(numVFs, "0")), command.ErrBusy)
	_, err = c.Configure(t.Context(), adapterID(), set(numVFs, "0"))
	require.ErrorIs(t, err, command.ErrBusy, "0 is what it still has")
	require.NoError(t, os.Remove(k.path("faults/hang")))
	require.Eventually(t, func() bool { return owntool.Idle(d.runner, adapterID().UniqueID) == nil }, time.Minute, 5*time.Millisecond)
}

// nothing is a runner of no tools.
type nothing struct{ t *testing.T }

func (n nothing) Run(_ context.Context, c command.Command) (command.Result, error) {
	n.t.Errorf("%s was run", c)
	return command.Result{}, errors.New("there are no tools")
}

// Where nothing is declared, or only what is so already, no tool runs.
func TestNoToolRunsAtRest(t *testing.T) {
	k := newFakeKernel(t, pf{"0000:3b:00.0", "16", "igb"}, pf{"0000:3b:00.1", "16", "igb"})
	c := New(nothing{t}, k.Tree).Supplement(adapterID(), nil)
	_, err := c.Parameters(t.Context(), adapterID())
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateNone, configure(t, c))
	assert.Equal(t, inventory.ActivateNone, configure(t, c, numVFs, "0", autoprobe, "1"))
}

func TestWhatCannotBeLookedAtIsNotTakenForUnused(t *testing.T) {
	k, _, c := withoutFirmware(t)
	configure(t, c, inventory.SettingNumVFs, "4")
	vfio(t, k, "../kernel/iommu_groups/12")
	require.NoError(t, os.MkdirAll(k.path("proc/1/fd/3"), 0o700)) // no link: fails as what may not be read does
	require.NoError(t, os.Mkdir(k.path("proc/2"), 0o700))
	require.NoError(t, k.put("proc/2/fd", ""))
	err := c.CheckConfiguration(t.Context(), adapterID(), set(inventory.SettingNumVFs, "0"))
	require.ErrorContains(t, err, "look for programs that have virtual functions of 0000:3b:00.0")
	require.NotErrorAs(t, err, new(*driver.RejectedError))
	_, err = c.Configure(t.Context(), adapterID(), set(inventory.SettingNumVFs, "0"))
	require.Error(t, err)
	assert.Equal(t, "4", k.get(first+"/"+numVFs))
}

// The sriov-network-operator keeps what it gave a port in a file of the host.
func TestPortsOfTheSRIOVNetworkOperatorAreKnownByTheHost(t *testing.T) {
	k, _, c := withoutFirmware(t)
	require.NoError(t, os.MkdirAll(k.path(appliedByOperator), 0o700))
	applied := appliedByOperator + "/0000:3b:00.1"
	require.NoError(t, k.put(applied, `{"pciAddress":"0000:3b:00.1","numVfs":5,"name":"ens1f1"}`))
	refused(t, k, c, []string{"port 0000:3b:00.1 is set up by the sriov-network-operator (/etc/sriov-operator/pci/0000:3b:00.1)"}, inventory.SettingNumVFs, "4")
	configure(t, c, "sriov_numvfs[0]", "4")
	k.express(t, "0000:3b:00.1")
	configure(t, c, inventory.SettingMaxReadRequestBytes, "4096")
	for _, unread := range []string{"", "[]", "{"} {
		require.NoError(t, k.put(applied, unread))
		refused(t, k, c, []string{"it is not known whether the sriov-network-operator sets up port 0000:3b:00.1", "/" + applied}, "sriov_numvfs[1]", "4")
	}
	require.NoError(t, k.put(applied, `{"pciAddress":"0000:3b:00.1","numVfs":5,"externallyManaged":true}`))
	configure(t, c, "sriov_numvfs[1]", "4")
}

// What the firmware keeps of such a port, and the number that it has, are not the operator's.
func TestTheLimitOfAPortOfTheSRIOVNetworkOperatorIsNot(t *testing.T) {
	k, n, c := withFirmware(t, "8")
	configure(t, c, inventory.SettingNumVFs, "8")
	require.NoError(t, os.MkdirAll(k.path(appliedByOperator), 0o700))
	require.NoError(t, k.put(appliedByOperator+"/0000:3b:00.1", `{"numVfs":8}`))
	why := []string{"set up by the sriov-network-operator"}
	for _, name := range []string{inventory.SettingNumVFs, numVFs, autoprobe, "sriov_numvfs[1]", "sriov_drivers_autoprobe[1]"} {
		assert.Contains(t, parameter(t, c, name).ReadOnly, why[0], name)
		refused(t, k, c, why, name, "0")
	}
	assert.Equal(t, inventory.ActivateNone, configure(t, c, inventory.SettingNumVFs, "8"), "it has so many")
	for _, name := range []string{"NUM_OF_VFS", "sriov_numvfs[0]", "sriov_drivers_autoprobe[0]"} {
		assert.Empty(t, parameter(t, c, name).ReadOnly, name)
	}
	assert.Equal(t, inventory.ActivateReboot, configure(t, c, "NUM_OF_VFS", "16"))
	assert.Equal(t, "8", k.get(second+"/"+numVFs))
	n.reboot(t)
	p := parameter(t, c, inventory.SettingNumVFs)
	assert.Equal(t, "0 of 16", p.Current.Value)
	assert.Contains(t, p.ReadOnly, why[0], "a boot takes them away, and the operator makes them again")
	configure(t, c, "sriov_numvfs[0]", "4")
	assert.Equal(t, "0", k.get(second+"/"+numVFs))
}

// An adapter whose virtual functions are used can be told another limit: they go with the activation of that, of which others are asked.
func TestADeferredNumberDisturbsNobody(t *testing.T) {
	k, n, c := withFirmware(t, "4")
	configure(t, c, inventory.SettingNumVFs, "4")
	use["a bond"].begin(t, k)
	refused(t, k, c, use["a bond"].says, numVFs, "2")
	assert.Equal(t, inventory.ActivateReboot, configure(t, c, inventory.SettingNumVFs, "8"), "it is checked as it is set")
	assert.Equal(t, "4", k.get(first+"/"+numVFs))
	refused(t, k, c, use["a bond"].says, numVFs, "2")
	assert.Equal(t, inventory.ActivateReboot, configure(t, c, numVFs, "8"), "there will be room for so many after the boot")
	n.reboot(t)
	assert.Equal(t, inventory.ActivateNone, configure(t, c, inventory.SettingNumVFs, "8"))
}

func TestAPortNeedsAKernelDriver(t *testing.T) {
	k := newFakeKernel(t, pf{"0000:3b:00.0", "16", ""}, pf{"0000:3b:00.1", "", "igb"})
	c := New(runnerOf(t, k), k.Tree).Supplement(adapterID(), nil)
	refused(t, k, c, []string{"port 0000:3b:00.0 has no kernel driver"}, inventory.SettingNumVFs, "1")
	all, err := c.Parameters(t.Context(), adapterID())
	require.NoError(t, err)
	assert.Nil(t, inventory.FindParameter(all, "sriov_numvfs[1]"), "the second function has no SR-IOV")
}

// The firmware is told first, and the virtual functions are made when that is in force, which costs nothing more.
func TestTheFirmwareIsToldBeforeVirtualFunctionsAreMade(t *testing.T) {
	k, n, c := withFirmware(t, "4")
	assert.Equal(t, "0 of 4", parameter(t, c, inventory.SettingNumVFs).Current.Value)
	assert.Equal(t, inventory.ActivateReboot, configure(t, c, inventory.SettingNumVFs, "8"))
	assert.Equal(t, "8", k.get("nv.next"))
	assert.Equal(t, "0", k.get(first+"/"+numVFs), "not before the firmware has it in force")
	n.reboot(t)
	p := parameter(t, c, inventory.SettingNumVFs)
	assert.Equal(t, "0 of 8", p.Current.Value)
	assert.False(t, p.Pending())
	declared := set(inventory.SettingNumVFs, "8").Set
	assert.Equal(t, inventory.ActivateNone, inventory.NeededFor(declared, []inventory.Parameter{p}), "what a boot took away costs no reboot")
	assert.Equal(t, inventory.ActivateReboot, inventory.NeededFor(set(inventory.SettingNumVFs, "6").Set, []inventory.Parameter{p}))
	assert.Equal(t, inventory.ActivateNone, configure(t, c, inventory.SettingNumVFs, "8"))
	assert.True(t, parameter(t, c, inventory.SettingNumVFs).Runs("8"))
}

func TestLimitAndNumberCanBeDeclaredApart(t *testing.T) {
	k, n, c := withFirmware(t, "4")
	refused(t, k, c, []string{"sriov_numvfs[0] cannot be 6", "can have 4 virtual functions", "told how many by NUM_OF_VFS"}, numVFs, "6")
	assert.Equal(t, inventory.ActivateNone, configure(t, c, numVFs, "2"))
	apart := []string{"NUM_OF_VFS", "64", numVFs, "3"}
	assert.Equal(t, inventory.ActivateReboot, configure(t, c, apart...))
	assert.Equal(t, "2", k.get(first+"/"+numVFs), "the boot takes them away in any case")
	assert.Equal(t, inventory.ActivateReboot, configure(t, c, numVFs, "6"), "there will be room for so many")
	assert.Equal(t, "2", k.get(first+"/"+numVFs))
	assert.Equal(t, inventory.ActivateNone, configure(t, c, numVFs, "3"), "there is room for so many, and nothing else was asked for")
	assert.Equal(t, "3", k.get(first+"/"+numVFs))
	n.reboot(t)
	apart = []string{"NUM_OF_VFS", "64", numVFs, "6"}
	assert.Equal(t, inventory.ActivateNone, configure(t, c, apart...))
	assert.Equal(t, "6 of 64", parameter(t, c, inventory.SettingNumVFs).Current.Value)
	configure(t, c, numVFs, "3")
	assert.Equal(t, "64", k.get("nv.next"))
}

// Undo gives back the limit and the numbers, the latter once there is room for them.
func TestUndoingTakesTheSameWay(t *testing.T) {
	_, n, c := withFirmware(t, "8")
	configure(t, c, inventory.SettingNumVFs, "8")
	before, err := c.Parameters(t.Context(), adapterID())
	require.NoError(t, err)
	declared := set(inventory.SettingNumVFs, "2")
	configure(t, c, inventory.SettingNumVFs, "2")
	n.reboot(t)
	configure(t, c, inventory.SettingNumVFs, "2")
	undo := driver.Configuration{Set: inventory.Undo(declared.Set, before)}
	for _, want := range []inventory.Activation{inventory.ActivateReboot, inventory.ActivateNone} {
		require.NoError(t, c.CheckConfiguration(t.Context(), adapterID(), undo))
		needs, err := c.Configure(t.Context(), adapterID(), undo)
		require.NoError(t, err)
		assert.Equal(t, want, needs)
		n.reboot(t)
		_, err = c.Configure(t.Context(), adapterID(), undo)
		require.NoError(t, err)
	}
	after, err := c.Parameters(t.Context(), adapterID())
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

// Firmware that does not say what it has in force says nothing about the limit that the kernel does not.
func TestALimitThatIsNotReportedIsThatOfTheKernel(t *testing.T) {
	k, n, _ := withFirmware(t, "4")
	n.silent = true
	c := New(n.runner, k.Tree).Supplement(adapterID(), n)
	assert.Equal(t, inventory.ActivateReboot, configure(t, c, inventory.SettingNumVFs, "8"))
	assert.True(t, parameter(t, c, inventory.SettingNumVFs).Pending())
	assert.Equal(t, inventory.ActivateReboot, configure(t, c, inventory.SettingNumVFs, "8"), "it goes on waiting")
	n.reboot(t)
	p := parameter(t, c, inventory.SettingNumVFs)
	assert.Equal(t, "0 of 8", p.Current.Value)
	assert.False(t, p.Pending(), "there is room for 8")
	assert.Equal(t, inventory.ActivateNone, configure(t, c, inventory.SettingNumVFs, "8"))
	assert.True(t, parameter(t, c, inventory.SettingNumVFs).Runs("8"))
}

// A kernel driver may make fewer virtual functions than the firmware allows.
func TestMoreThanTheKernelDriverTakesIsRefused(t *testing.T) {
	k, _, c := withFirmware(t, "8")
	require.NoError(t, k.put(first+"/sriov_totalvfs", "5\n"))
	refused(t, k, c, []string{"sriov_numvfs[0] cannot be 8", "0000:3b:00.0 can have 5 virtual functions"}, inventory.SettingNumVFs, "8")
}

func TestReadRequestsOfEachFunctionHaveALimit(t *testing.T) {
	k, _, c := withoutFirmware(t)
	for _, address := range []string{"0000:3b:00.0", "0000:3b:00.1"} {
		k.express(t, address)
	}
	limits := func() []int {
		rest, one := k.readRequest(t, "0000:3b:00.0")
		assert.Equal(t, 0x0936, rest, "the rest of the register is as it was")
		_, two := k.readRequest(t, "0000:3b:00.1")
		return []int{one, two}
	}
	configure(t, c, "readrq[1]", "0x400")
	assert.Equal(t, []int{512, 1024}, limits())
	assert.Equal(t, "512,1024", parameter(t, c, inventory.SettingMaxReadRequestBytes).Current.Value)
	configure(t, c, inventory.SettingMaxReadRequestBytes, "128")
	assert.Equal(t, []int{128, 128}, limits())
	refused(t, k, c, []string{"readrq cannot be 640", "it takes 128, 256, 512"}, readRequest, "640")
	assert.False(t, parameter(t, c, readRequest).Default.Known, "the system firmware decides it")

	k.fault("lie", "")(t)
	_, err := c.Configure(t.Context(), adapterID(), set(readRequest, "256"))
	require.ErrorAs(t, err, new(*driver.RejectedError))
	require.ErrorContains(t, err, "did not take 256 bytes")
	require.NoError(t, os.Remove(k.path("faults/lie")))
	k.fault("locked", "")(t)
	_, err = c.Configure(t.Context(), adapterID(), set(readRequest, "256"))
	require.ErrorAs(t, err, new(*driver.RejectedError))
	require.ErrorContains(t, err, "does not let the configuration space of 0000:3b:00.0 be written")
	require.NoError(t, os.MkdirAll(k.path("sys/kernel/security"), 0o700))
	require.NoError(t, k.put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"))
	refused(t, k, c, []string{"the kernel is locked down (integrity)"}, readRequest, "256")
	assert.Equal(t, []int{128, 128}, limits())
}

// A kernel without SR-IOV, and a card without it, have the limit alone.
func TestAnAdapterWithoutSRIOVHasTheLimitAlone(t *testing.T) {
	k := newFakeKernel(t, pf{"0000:3b:00.0", "", "r8169"}, pf{"0000:3b:00.1", "", "r8169"})
	k.express(t, "0000:3b:00.0")
	c := New(runnerOf(t, k), k.Tree).Supplement(adapterID(), nil)
	all, err := c.Parameters(t.Context(), adapterID())
	require.NoError(t, err)
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	assert.Equal(t, []string{inventory.SettingMaxReadRequestBytes, readRequest, "readrq[0]"}, names)
	configure(t, c, inventory.SettingMaxReadRequestBytes, "4096")
	refused(t, k, c, []string{"no parameter numVFs"}, inventory.SettingNumVFs, "1")
}

func TestOtherDevicesAreLeftToTheirDrivers(t *testing.T) {
	k, d, _ := withoutFirmware(t)
	n := nv{k: k}
	for name, change := range map[string]func(*inventory.Identity){
		"no adapter":                        func(id *inventory.Identity) { id.Class = inventory.Disk },
		"an adapter off PCI":                func(id *inventory.Identity) { id.PCI = nil },
		"an adapter of a virtual machine's": func(id *inventory.Identity) { id.Kernel = "vfio-pci" },
	} {
		id := adapterID()
		change(&id)
		assert.Equal(t, n, d.Supplement(id, n), name)
		assert.Nil(t, d.Supplement(id, nil), name)
	}
	k = newFakeKernel(t, pf{"0000:3b:00.0", "", "igb"})
	_, err := New(nil, k.Tree).Supplement(adapterID(), nil).Parameters(t.Context(), adapterID())
	require.ErrorContains(t, err, "0000:3b:00.1: file does not exist", "half an adapter is none with half the settings")
	require.NotErrorIs(t, err, driver.ErrNotSupported)
	k = newFakeKernel(t, pf{"0000:3b:00.0", "", "igb"}, pf{"0000:3b:00.1", "", "igb"})
	c := New(runnerOf(t, k), k.Tree).Supplement(adapterID(), nil)
	_, err = c.Parameters(t.Context(), adapterID())
	require.ErrorIs(t, err, driver.ErrNotSupported)
	require.ErrorIs(t, c.CheckConfiguration(t.Context(), adapterID(), driver.Configuration{}), driver.ErrNotSupported)
	_, err = c.Configure(t.Context(), adapterID(), driver.Configuration{})
	require.ErrorIs(t, err, driver.ErrNotSupported)
}

// stuck is a machine whose kernel does not answer about the virtual functions of a port.
type stuck struct {
	sysfs.Tree
	reading chan struct{}
	release chan struct{}
}

func (s stuck) Open(name string) (fs.File, error) {
	if path.Base(name) == numVFs {
		s.reading <- struct{}{}
		<-s.release
	}
	return s.Tree.Open(name)
}

// The kernel holds a reader as long as a change hangs, in a call that cannot be interrupted: the driver gives up, and asks no second time.
func TestAChangeThatHangsHoldsOneReader(t *testing.T) {
	k, _, _ := withoutFirmware(t)
	s := stuck{k.Tree, make(chan struct{}, 1), make(chan struct{})}
	c := New(runnerOf(t, k), s).Supplement(adapterID(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := c.Parameters(ctx, adapterID())
		failed <- err
	}()
	<-s.reading
	cancel()
	require.ErrorContains(t, <-failed, "the kernel does not answer while it changes them")
	_, err := c.Parameters(ctx, adapterID())
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, s.reading, "there is no second reader")
	close(s.release)
}

func TestToolTakesNothingElse(t *testing.T) {
	k, _, _ := withoutFirmware(t)
	for _, args := range [][]string{
		nil, {"set"}, {"set", "/", "0000:3b:00.0", numVFs}, {"set", "/", "0000:3b:00.0", "remove", "1"}, {"set", "/", "../x", numVFs, "1"},
		{"set", "/", "0000:3b:00.0", numVFs, "0x1"}, {"set", "/", "0000:3b:00.0", numVFs, "65536"}, {"get", "/", "0000:3b:00.0", numVFs, "1"},
	} {
		var stderr strings.Builder
		assert.Equal(t, owntool.Usage, Program{Open: func(string) Host { return k }}.Run(args, &stderr, &stderr), args)
		assert.NotEmpty(t, stderr.String())
	}
}

// Many kernel drivers restart the port when virtual functions come or go, which is not done on a node in service.
func TestDriversThatLeaveThePortAloneAreKnown(t *testing.T) {
	k := newFakeKernel(t, pf{"0000:3b:00.0", "16", "mlx5_core"}, pf{"0000:3b:00.1", "16", "igb"})
	c := New(runnerOf(t, k), k.Tree).Supplement(adapterID(), nil)
	for name, want := range map[string]bool{
		"numVFs": true, "sriov_numvfs": true, "sriov_numvfs[1]": true, "sriov_numvfs[0]": false, "sriov_drivers_autoprobe": false,
	} {
		assert.Equal(t, want, parameter(t, c, name).Disturbs, name)
	}
}
