package attributes

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/owntool"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

func set(pairs ...string) driver.Configuration {
	c := driver.Configuration{}
	for i := 0; i < len(pairs); i += 2 {
		c.Set = append(c.Set, inventory.Setting{Name: pairs[i], Value: pairs[i+1]})
	}
	return c
}

// machine has the settings of one vendor.
func machine(t *testing.T, of string, settings map[string]attribute) (fakeKernel, *Driver) {
	t.Helper()
	k := newFakeKernel(t)
	k.show(t, of, settings)
	return k, New(runnerOf(t), k.Tree)
}

func configure(t *testing.T, d *Driver, pairs ...string) inventory.Activation {
	t.Helper()
	require.NoError(t, d.CheckConfiguration(t.Context(), systemID(), set(pairs...)))
	needs, err := d.Configure(t.Context(), systemID(), set(pairs...))
	require.NoError(t, err)
	return needs
}

func parameter(t *testing.T, d *Driver, name string) inventory.Parameter {
	t.Helper()
	all, err := d.Parameters(t.Context(), systemID(), name)
	require.NoError(t, err)
	require.Len(t, all, 1, name)
	return all[0]
}

// refused asserts that neither call takes the configuration, and that the kernel is told nothing.
func refused(t *testing.T, k fakeKernel, d *Driver, c driver.Configuration, says ...string) {
	t.Helper()
	before := k.get("log")
	check := d.CheckConfiguration(t.Context(), systemID(), c)
	_, err := d.Configure(t.Context(), systemID(), c)
	for _, err := range []error{check, err} {
		require.ErrorAs(t, err, new(*driver.RejectedError))
		for _, s := range says {
			require.ErrorContains(t, err, s)
		}
	}
	assert.Equal(t, before, k.get("log"))
}

// rejected asserts that the firmware says only while it is written that it does not take the configuration.
func rejected(t *testing.T, d *Driver, c driver.Configuration, says ...string) {
	t.Helper()
	require.NoError(t, d.CheckConfiguration(t.Context(), systemID(), c))
	_, err := d.Configure(t.Context(), systemID(), c)
	require.ErrorAs(t, err, new(*driver.RejectedError))
	for _, s := range says {
		require.ErrorContains(t, err, s)
	}
}

const thinkVT, thinkAlarm = "VirtualizationTechnology", "Alarm\\Time"

// locked is a machine of Lenovo whose settings a password protects, that saves what was changed.
func locked(t *testing.T, password string) (fakeKernel, *Driver) {
	t.Helper()
	k, d := machine(t, lenovo, lenovoSettings())
	require.NoError(t, k.put(devices+lenovo+"/attributes/save_settings", "single\n"))
	k.protect(t, lenovo, "Admin", bySetupPassword, "password", password)
	return k, d
}

func (k fakeKernel) told() []string {
	return strings.Split(strings.ReplaceAll(k.get("log"), lenovo+"/", ""), "\n")
}

// More than one value is saved at once, because the firmware saves a few times between two boots; the password is taken back at the end.
func TestValuesAreSavedAtOnceAndThePasswordIsTakenBack(t *testing.T) {
	k, d := locked(t, "secret")
	d.UnlockWith(passwordFile(t, "secret"))
	assert.Equal(t, inventory.ActivateReboot, configure(t, d, thinkVT, "Enable", thinkAlarm, "06:00:00"))
	assert.Equal(t, []string{
		"authentication/Admin/current_password (password)",
		"attributes/save_settings bulk",
		"attributes/" + thinkVT + "/current_value Enable",
		"attributes/" + thinkAlarm + "/current_value 06:00:00",
		"attributes/save_settings save",
		"attributes/save_settings single",
		"authentication/Admin/current_password",
	}, trimmed(k.told()))
	require.NoError(t, os.Remove(k.path("log")))
	configure(t, d, thinkVT, "Disable")
	assert.Equal(t, []string{
		"authentication/Admin/current_password (password)", "attributes/" + thinkVT + "/current_value Disable", "authentication/Admin/current_password",
	}, trimmed(k.told()), "one value is saved by the driver")
	k.boot(t)
	require.NoError(t, os.Remove(k.path("log")))
	require.NoError(t, k.put(devices+lenovo+"/attributes/save_settings", "bulk\n"))
	configure(t, d, thinkVT, "Enable")
	assert.Equal(t, []string{"attributes/" + thinkVT + "/current_value Enable", "attributes/save_settings save"}, trimmed(k.told())[1:3],
		"somebody has them saved at once, and keeps that")
}

// Once it has saved at once, Lenovo's driver takes no values in that way until the boot: what a failed job takes back is saved one by one.
func TestWhatWasSavedAtOnceIsTakenBackBeforeTheBoot(t *testing.T) {
	for _, mode := range []string{"single", "bulk"} {
		k, d := locked(t, "secret")
		require.NoError(t, k.put(devices+lenovo+"/attributes/save_settings", mode+"\n"))
		d.UnlockWith(passwordFile(t, "secret"))
		configure(t, d, thinkVT, "Enable", thinkAlarm, "06:00:00")
		configure(t, d, thinkVT, "Disable", thinkAlarm, "00:00:00")
		assert.Equal(t, []string{"Disable", "00:00:00"}, []string{k.value(lenovo, thinkVT), k.value(lenovo, thinkAlarm)})
		assert.Equal(t, mode, k.get(devices+lenovo+"/attributes/save_settings"))
	}
	k, d := machine(t, lenovo, many(60))
	require.NoError(t, k.put(devices+lenovo+"/attributes/save_settings", "single\n"))
	var first, second []string
	for i := range 50 {
		name := "Option00" + strconv.Itoa(i/10) + strconv.Itoa(i%10)
		first, second = append(first, name, "Enabled"), append(second, name, "Disabled")
	}
	configure(t, d, first...)
	refused(t, k, d, set(second...), "50 settings are to be changed", "restart the machine first")
	k.boot(t)
	configure(t, d, second...)
}

// HP's driver forgets the password with each value that it is told, and says of almost no value that it waits for the boot.
func TestHPIsToldThePasswordBeforeEachValue(t *testing.T) {
	k, d := machine(t, hp, hpSettings())
	k.protect(t, hp, "Setup Password", bySetupPassword, "password", "secret")
	d.UnlockWith(passwordFile(t, "secret"))
	assert.False(t, parameter(t, d, "Fast Boot").Current.Known, "nothing says what runs")
	assert.Equal(t, inventory.ActivateReboot, configure(t, d, "Fast Boot", "Enable", "UEFI Boot Order", "USB;NVMe;Network"))
	const told = "hp-bioscfg/authentication/Setup Password/current_password (password)"
	log := strings.Split(k.get("log"), "\n")
	assert.Equal(t, []string{
		told, "hp-bioscfg/attributes/Fast Boot/current_value Enable", told, "hp-bioscfg/attributes/UEFI Boot Order/current_value USB;NVMe;Network",
	}, log)
	assert.Empty(t, k.get(devices+hp+"/authentication/Setup Password/current_password"))
	assert.Equal(t, "0", k.get(devices+hp+"/attributes/pending_reboot"))
	p := parameter(t, d, "Fast Boot")
	standing, _ := p.Standing("Enable")
	assert.Equal(t, inventory.Stored, standing)
	k.boot(t)
	assert.Equal(t, inventory.ActivateNone, configure(t, d, "Fast Boot", "Enable"))
	d.UnlockWith(passwordFile(t, "wr0ng"))
	rejected(t, d, set("Fast Boot", "Disable"), "or its password is another")
	assert.Empty(t, k.get(devices+hp+"/authentication/Setup Password/current_password"))
}

// The firmware of each vendor takes a password of every length that it may have, and is told an empty one in the way that its driver understands.
func TestThePasswordIsToldAsItIs(t *testing.T) {
	for of, settings := range map[string]map[string]attribute{dell: dellSettings(), lenovo: lenovoSettings(), hp: hpSettings()} {
		name, value := map[string]string{dell: "FanSpeed", lenovo: thinkVT, hp: "Fast Boot"}[of], map[string]string{dell: "50", lenovo: "Enable", hp: "Enable"}[of]
		for _, password := range []string{"four", "exactly sixteen!"} {
			k, d := machine(t, of, settings)
			k.protect(t, of, "Admin", bySetupPassword, "password", password)
			d.UnlockWith(passwordFile(t, password))
			configure(t, d, name, value)
			assert.Equal(t, value, k.value(of, name))
			assert.Empty(t, k.get(devices+of+"/authentication/Admin/current_password"), "%s goes on knowing %q", of, password)
		}
	}
}

// A kernel module that is unloaded meanwhile refuses nothing: another try may help.
func TestAnAttributeThatIsGoneIsNotRefused(t *testing.T) {
	k, _ := machine(t, dell, dellSettings())
	var out strings.Builder
	tool := Program{Open: func(string) Host { return vanishing{k} }}
	assert.Equal(t, owntool.Failed, tool.Run([]string{"set", "--root", k.Dir(), "--interface", dell, "--", "FanSpeed", "50"}, &out, &out))
	assert.Contains(t, out.String(), "no such file")
}

// vanishing is a kernel whose driver goes when it is told something.
type vanishing struct{ fakeKernel }

func (vanishing) Store(string, string) error { return syscall.ENOENT }

// signalled is a kernel in the middle of whose writes the process is asked to end.
type signalled struct{ fakeKernel }

func (s signalled) Store(name, value string) error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			return err
		}
	}
	return s.fakeKernel.Store(name, value)
}

func TestSignalsDoNotEndAChange(t *testing.T) {
	k, _ := locked(t, "secret")
	var out strings.Builder
	tool := Program{Open: func(string) Host { return signalled{k} }}
	args := []string{"set", "--root", k.Dir(), "--interface", lenovo, "--authentication", "Admin", "--password-file", passwordFile(t, "secret"), "--"}
	assert.Equal(t, owntool.OK, tool.Run(append(args, thinkVT, "Enable", thinkAlarm, "06:00:00"), &out, &out), out.String())
	assert.Equal(t, "06:00:00", k.value(lenovo, thinkAlarm))
	assert.Empty(t, k.get(devices+lenovo+"/authentication/Admin/current_password"))
}

// While a write goes on, what is stored may not be saved, and what is not may come.
func TestFirmwareThatIsWrittenIsNotJudged(t *testing.T) {
	k, d := machine(t, dell, dellSettings())
	k.fault("hang", "")(t)
	go func() { _, _ = d.Configure(t.Context(), systemID(), set("FanSpeed", "50")) }()
	hangs := func() bool {
		_, hangs := k.faulty("hangs")
		return hangs
	}
	require.Eventually(t, hangs, time.Minute, 5*time.Millisecond)
	_, err := d.Configure(t.Context(), systemID(), set("FanSpeed", "20"))
	require.ErrorIs(t, err, command.ErrBusy, "20 is what it still has")
	require.NoError(t, os.Remove(k.path("faults/hang")))
	require.Eventually(t, func() bool { return owntool.Idle(d.runner, systemID().UniqueID) == nil }, time.Minute, 5*time.Millisecond)
}

// nothing is a runner of no tools.
type nothing struct{ t *testing.T }

func (n nothing) Run(_ context.Context, c command.Command) (command.Result, error) {
	n.t.Errorf("%s was run", c)
	return command.Result{}, errors.New("there are no tools")
}

// Where nothing is declared, or only what is so already, no tool runs and no password is told.
func TestNoToolRunsAtRest(t *testing.T) {
	k, _ := locked(t, "secret")
	d := New(nothing{t}, k.Tree).UnlockWith(passwordFile(t, "secret"))
	_, err := d.Parameters(t.Context(), systemID())
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateNone, configure(t, d))
	assert.Equal(t, inventory.ActivateNone, configure(t, d, thinkVT, "Disable"))
	assert.Empty(t, k.get("log"))
}

func trimmed(lines []string) []string {
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

// Whatever happens, the kernel does not go on knowing the password, and what was stored before a refusal is saved.
func TestThePasswordIsTakenBackAfterAnError(t *testing.T) {
	for name, c := range map[string]struct {
		fault, text, password string
		says                  string
		refusal               bool
	}{
		"a value that is refused": {"refuse", thinkAlarm, "secret", "the system firmware refuses to change " + thinkAlarm, true},
		"a failure":               {"fail", "flash controller is locked", "secret", "flash controller is locked", false},
		"another password":        {"none", "", "wr0ng", "it is locked, or its password is another", true},
	} {
		t.Run(name, func(t *testing.T) {
			k, d := locked(t, "secret")
			d.UnlockWith(passwordFile(t, c.password))
			k.fault(c.fault, c.text)(t)
			_, err := d.Configure(t.Context(), systemID(), set(thinkVT, "Enable", thinkAlarm, "06:00:00"))
			require.ErrorContains(t, err, c.says)
			assert.NotContains(t, err.Error(), c.password)
			assert.Equal(t, c.refusal, isRejected(err))
			assert.Empty(t, k.get(devices+lenovo+"/authentication/Admin/current_password"))
			assert.Equal(t, "single", k.get(devices+lenovo+"/attributes/save_settings"))
			assert.Equal(t, c.fault == "refuse", slices.Contains(k.told(), "attributes/save_settings save"))
		})
	}
	k, d := locked(t, "secret")
	d.UnlockWith(passwordFile(t, "secret"))
	k.fault("refuse-save", "")(t)
	rejected(t, d, set(thinkVT, "Enable", thinkAlarm, "06:00:00"), "does not save settings", "its password is another") // some firmware looks at it only then
	assert.Equal(t, "single", k.get(devices+lenovo+"/attributes/save_settings"))
	k, d = locked(t, "secret")
	d.UnlockWith(passwordFile(t, "secret"))
	k.fault("forgets-not", "the kernel is out of memory")(t)
	_, err := d.Configure(t.Context(), systemID(), set(thinkVT, "Enable"))
	require.ErrorContains(t, err, "the kernel still knows the password of Admin, for every process: the kernel is out of memory")
	assert.False(t, isRejected(err))
}

func isRejected(err error) bool { return errors.As(err, new(*driver.RejectedError)) }

// The password is in the file alone: not on a command line, which every process can read, nor in what is kept of the write.
func TestThePasswordIsNoArgument(t *testing.T) {
	k, d := locked(t, "s3cret")
	d.UnlockWith(passwordFile(t, "s3cret"))
	configure(t, d, thinkVT, "Enable")
	w, err := d.runner.(*command.ExecRunner).Writing(systemID().UniqueID)
	require.NoError(t, err)
	assert.NotContains(t, strings.Join(w.Argv, " "), "s3cret")
	assert.NotContains(t, w.LastLine, "s3cret")
	assert.NotContains(t, k.get("log"), "s3cret")
}

func TestLockedSettingsAreRefusedByName(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct {
		role, mechanism, file string
		says                  []string
	}{
		"no password is given":   {bySetupPassword, "password", "", []string{"Locked: ", "administrator's password (Admin of thinklmi)", "no file with it"}},
		"the file is not there":  {bySetupPassword, "password", missing, []string{"Locked: ", "Admin of thinklmi", "the file with it cannot be used", missing}},
		"a certificate":          {bySetupPassword, "certificate", missing, []string{"Locked: ", "changes have to be signed", "mechanism certificate"}},
		"the way of HP's sealed": {bySignature, "password", missing, []string{"Locked: ", "changes have to be signed", "role enhanced-bios-auth"}},
	} {
		t.Run(name, func(t *testing.T) {
			k, d := machine(t, lenovo, lenovoSettings())
			k.protect(t, lenovo, "Admin", c.role, c.mechanism, "secret")
			d.UnlockWith(c.file)
			refused(t, k, d, set(thinkVT, "Enable"), append(c.says, thinkVT)...)
			assert.Equal(t, inventory.ActivateNone, configure(t, d, thinkVT, "Disable"), "it has that value")
			assert.Contains(t, parameter(t, d, thinkVT).ReadOnly, "Locked: ")
		})
	}
	k, d := machine(t, lenovo, lenovoSettings())
	k.protect(t, lenovo, "Power-on", "power-on", "password", "secret")
	require.NoError(t, os.Remove(k.path(devices+lenovo+"/authentication/Power-on/secret")))
	configure(t, d, thinkVT, "Enable")
	assert.Equal(t, "Enable", k.value(lenovo, thinkVT), "what protects the start of the machine protects no setting")
}

func TestAFileThatHoldsNoPasswordIsRefused(t *testing.T) {
	for _, content := range []string{"", "\n", "a\nb\n", "a\x00"} {
		k, d := locked(t, "secret")
		file := filepath.Join(t.TempDir(), "password")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err := d.UnlockWith(file).Configure(t.Context(), systemID(), set(thinkVT, "Enable"))
		require.ErrorContains(t, err, "does not hold one line", "%q", content)
		assert.Empty(t, k.get("log"))
	}
}

// A password that everybody may read is none, and nothing that could keep the tool waiting is opened.
func TestAFileThatOthersCanReadIsRefused(t *testing.T) {
	k, d := locked(t, "secret")
	file := passwordFile(t, "secret")
	for _, mode := range []os.FileMode{0o644, 0o404, 0o602} {
		require.NoError(t, os.Chmod(file, mode))
		refused(t, k, d.UnlockWith(file), set(thinkVT, "Enable"), "everybody may read or change "+file, "chmod o= "+file)
		_, err := readPassword(file)
		require.ErrorContains(t, err, "everybody may read")
		assert.NotContains(t, err.Error(), "secret")
	}
	require.NoError(t, os.Chmod(file, 0o440))
	configure(t, d, thinkVT, "Enable")
	require.NoError(t, os.Chmod(file, 0o600))
	require.NoError(t, os.WriteFile(file, []byte("an0ther\n"), 0o600))
	rejected(t, d, set(thinkVT, "Disable"), "its password is another")
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	refused(t, k, d.UnlockWith(pipe), set(thinkVT, "Disable"), pipe+" is no file")
}

// What the firmware makes of a value is read back from it.
func TestAValueThatTheFirmwareChangesIsRefused(t *testing.T) {
	k, d := machine(t, dell, dellSettings())
	k.fault("round", "40")(t)
	rejected(t, d, set("FanSpeed", "50"), `stored "40" for FanSpeed instead of "50"`)
	k, d = machine(t, dell, dellSettings())
	k.fault("lie", "")(t)
	rejected(t, d, set("FanSpeed", "50"), `took "50" for FanSpeed, and kept "20"`)
	k, d = machine(t, dell, dellSettings())
	k.fault("late", "")(t)
	assert.Equal(t, inventory.ActivateReboot, configure(t, d, "FanSpeed", "50"), "it may show the value after the boot")
	assert.False(t, parameter(t, d, "FanSpeed").Current.Known)
}

// pending_reboot is the memory of the kernel: after the boot it is 0, whatever the firmware made of the value.
func TestWhatRunsIsReadAfterTheBoot(t *testing.T) {
	k, d := machine(t, dell, dellSettings())
	k.fault("forget", "FanSpeed")(t)
	configure(t, d, "FanSpeed", "50", "SriovGlobalEnable", "Enabled")
	p := parameter(t, d, "FanSpeed")
	assert.True(t, p.Stores("50"))
	assert.False(t, p.Runs("50"))
	k.boot(t)
	assert.True(t, parameter(t, d, "SriovGlobalEnable").Runs("Enabled"))
	p = parameter(t, d, "FanSpeed")
	assert.False(t, p.Runs("50"))
	assert.True(t, p.Runs("20"))
}

// A job that was cut off after the write finds the values stored, and the boot still to be made.
func TestAWriteThatWasCutOffStillNeedsTheBoot(t *testing.T) {
	k, d := machine(t, dell, dellSettings())
	assert.Equal(t, inventory.ActivateReboot, configure(t, d, "FanSpeed", " 0x32 "))
	assert.Equal(t, "50", k.value(dell, "FanSpeed"), "the kernel is told decimal digits")
	assert.Equal(t, inventory.ActivateReboot, configure(t, d, "FanSpeed", "50"))
	k.boot(t)
	assert.Equal(t, inventory.ActivateNone, configure(t, d, "FanSpeed", "50"))
}

// A driver that does not say whether something was changed since the boot does not say what runs.
func TestWhatRunsIsUnknownWhereNothingSaysThatAChangeWaits(t *testing.T) {
	k, d := machine(t, dell, dellSettings())
	require.NoError(t, os.Remove(k.path(devices+dell+"/attributes/pending_reboot")))
	p := parameter(t, d, "FanSpeed")
	assert.False(t, p.Current.Known)
	assert.True(t, p.Stores("20"))
	require.NoError(t, d.CheckConfiguration(t.Context(), systemID(), set("FanSpeed", "50")))
	needs, err := d.Configure(t.Context(), systemID(), set("FanSpeed", "50"))
	require.NoError(t, err)
	assert.Equal(t, inventory.ActivateReboot, needs, "it was written")
	assert.Equal(t, inventory.ActivateNone, configure(t, d, "FanSpeed", "50"), "nothing is written")
}

// Dell's firmware takes values that have no effect as long as another setting forbids it.
func TestSettingsThatHaveNoEffectAreSaid(t *testing.T) {
	k, d := machine(t, dell, dellSettings())
	refused(t, k, d, set("LegacyOrom", "Enabled"), "LegacyOrom is Disabled", "makes it Disabled (ForceIf:SecureBoot=Enabled): change SecureBoot first")
	refused(t, k, d, set("AutoOnFri", "Enabled"), "it has no effect (SuppressIfNot:AutoOn=SelectDays): change AutoOn first")
	configure(t, d, "LegacyOrom", "Enabled", "SecureBoot", "Disabled", "AutoOnFri", "Enabled", "AutoOn", "SelectDays")
	var order []string
	for _, line := range k.told() {
		order = append(order, strings.Split(line, "/")[2])
	}
	assert.Equal(t, []string{"SecureBoot", "AutoOn", "LegacyOrom", "AutoOnFri"}, order, "what others depend on comes first")
	assert.Empty(t, parameter(t, d, "LegacyOrom").ReadOnly)
	assert.Equal(t, inventory.Reading{}, parameter(t, d, "LegacyOrom").Default, "an empty text is no default of it")
	refused(t, k, d, set("SecureBoot", "Enabled", "LegacyOrom", "Disabled"), "ForceIf:SecureBoot=Enabled")
}

// A name that two kernel drivers have is told apart.
func TestTwoInterfacesWithTheSameName(t *testing.T) {
	k, d := machine(t, dell, map[string]attribute{"Mode": enumeration("A", "A", "A;B"), "FanSpeed": {"type": "string", "current_value": "1"}})
	k.show(t, "other", map[string]attribute{"Mode": enumeration("A", "A", "A;B"), "Light": enumeration("On", "On", "On;Off")})
	all, err := d.Parameters(t.Context(), systemID())
	require.NoError(t, err)
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	assert.Equal(t, []string{"FanSpeed", "Light", dell + "/Mode", "other/Mode"}, names)
	refused(t, k, d, set("Mode", "B"), "no parameter Mode", "other/Mode")
	configure(t, d, "other/Mode", "B", "FanSpeed", "2", "Light", "Off")
	assert.Equal(t, []string{"A", "B", "2", "Off"},
		[]string{k.value(dell, "Mode"), k.value("other", "Mode"), k.value(dell, "FanSpeed"), k.value("other", "Light")})
}

func TestASettingThatCannotBeReadHidesNoOther(t *testing.T) {
	settings := dellSettings()
	settings["Huge"] = attribute{"type": "string", "current_value": strings.Repeat("a", 5000)}
	settings["Odd"] = attribute{"type": "matrix", "current_value": "1"}
	settings["Bounds"] = attribute{"type": "integer", "current_value": "1", "min_value": "low"}
	settings["Fixed"] = attribute{"type": "string", "current_value": "1"}
	settings["Blind"] = attribute{"type": "string"}
	k, d := machine(t, dell, settings)
	require.NoError(t, os.Chmod(k.path(devices+dell+"/attributes/Fixed/current_value"), 0o400))
	require.NoError(t, os.MkdirAll(k.path(devices+dell+"/attributes/Sure_Start"), 0o700), "HP's log is no setting")
	all, err := d.Parameters(t.Context(), systemID())
	require.NoError(t, err)
	assert.Len(t, all, len(settings))
	for name, says := range map[string]string{
		"Huge": "more than 4096 bytes", "Odd": `"matrix" is no known type`, "Bounds": `"low" is not a number`, "Fixed": "the kernel lets nobody write it",
		"Blind": "current_value: no such file",
	} {
		p := inventory.FindParameter(all, name)
		require.NotNil(t, p, name)
		assert.Contains(t, p.ReadOnly, says)
		if name == "Fixed" {
			refused(t, k, d, set(name, "2"), name, says)
			continue
		}
		_, err := d.Configure(t.Context(), systemID(), set(name, "2", "FanSpeed", "50"))
		require.ErrorContains(t, err, says, "another try may help")
		assert.False(t, isRejected(err))
		assert.Empty(t, k.get("log"))
	}
	configure(t, d, "FanSpeed", "50")
}

// unreadable is a kernel that fails to answer about some files.
func unreadable(k fakeKernel, names ...string) sysfstest.Broken {
	errs := map[string]error{}
	for _, name := range names {
		errs[devices+name] = syscall.EIO
	}
	return sysfstest.Broken{FS: k.Tree, Errors: errs}
}

// What decides whether a setting can be changed and cannot be read is not taken for something that does not: another try may help.
func TestWhatDecidesAndCannotBeReadIsNoLeaveToWrite(t *testing.T) {
	k, _ := machine(t, dell, dellSettings())
	k.protect(t, dell, "Admin", bySetupPassword, "password", "secret")
	for broken, c := range map[string]driver.Configuration{
		dell + "/authentication/Admin/role":       set("FanSpeed", "50"),
		dell + "/authentication/Admin/is_enabled": set("FanSpeed", "50"),
		dell + "/attributes/AutoOn/current_value": set("AutoOnFri", "Enabled"),
	} {
		d := New(runnerOf(t), unreadable(k, broken)).UnlockWith(passwordFile(t, "secret"))
		_, err := d.Configure(t.Context(), systemID(), c)
		require.ErrorIs(t, err, syscall.EIO, broken)
		require.ErrorContains(t, err, "it is not known whether", broken)
		assert.False(t, isRejected(err))
		assert.Equal(t, "20", parameter(t, d, "FanSpeed").Next.Value)
		require.NoError(t, d.CheckConfiguration(t.Context(), systemID(), set("FanSpeed", "20", "AutoOnFri", "Disabled")), "they have these values")
	}
	assert.Empty(t, k.get("log"))
}

// Where changes have to be signed, no password helps, in whatever order the kernel lists them; and the password of the drives says nothing.
func TestWhatHasToBeProvenFirst(t *testing.T) {
	way := func(name, role string, enabled bool) sysfs.FirmwareAuthentication {
		return sysfs.FirmwareAuthentication{Name: name, Role: role, Enabled: enabled, Mechanism: "password"}
	}
	setup, sealed, drive := way("Setup Password", bySetupPassword, true), way("SPM", bySignature, true), way("Drive", "HDD", true)
	unread := sysfs.FirmwareAuthentication{Name: "Unread", Enabled: true, Err: syscall.EIO}
	for want, ways := range map[string][]sysfs.FirmwareAuthentication{
		"":               {drive, way("Setup Password", bySetupPassword, false), way("SPM", bySignature, false)},
		"Setup Password": {drive, setup, way("SPM", bySignature, false)},
		"SPM":            {drive, setup, unread, sealed},
		"Unread":         {drive, setup, unread},
	} {
		got := administrator(sysfs.FirmwareInterface{Authentications: ways})
		if want == "" {
			assert.Nil(t, got)
			continue
		}
		require.NotNil(t, got, want)
		assert.Equal(t, want, got.Name)
	}
}

func TestHostileNamesAndValues(t *testing.T) {
	k, d := machine(t, dell, dellSettings())
	require.NoError(t, k.put("outside", "1\n"))
	for _, name := range []string{"..", "../../../outside", "FanSpeed/..", "", "pending_reboot", "--", "-x", dell + "/FanSpeed"} {
		refused(t, k, d, set(name, "1"), "the device has no parameter")
	}
	for _, value := range []string{"a\nb", "a\x00b", " a", "a ", "\t"} {
		refused(t, k, d, set("AssetTag", value), "AssetTag cannot be")
	}
	of, settings := lenovo, lenovoSettings()
	l, ld := machine(t, of, settings)
	for _, value := range []string{"06:00:00,secret", "06:00:00;"} {
		refused(t, l, ld, set(thinkAlarm, value), thinkAlarm+" cannot be", "no commas and semicolons")
	}
	configure(t, d, "AssetTag", "--help")
	assert.Equal(t, "--help", k.value(dell, "AssetTag"))
	assert.Equal(t, "1", k.get("outside"))
}

func TestFourThousandSettings(t *testing.T) {
	const n, dir = 4000, devices + dell
	m := fstest.MapFS{"sys/class/firmware-attributes/" + dell: {Data: []byte("../../devices/virtual/firmware-attributes/" + dell), Mode: fs.ModeSymlink | 0o777}}
	for name, files := range many(n) {
		for file, content := range files {
			m[dir+"/attributes/"+name+"/"+file] = &fstest.MapFile{Data: []byte(content + "\n"), Mode: 0o644}
		}
	}
	d := New(nil, m)
	all, err := d.Parameters(t.Context(), systemID())
	require.NoError(t, err)
	assert.Len(t, all, n)
	require.NoError(t, d.CheckConfiguration(t.Context(), systemID(), set("Option0000", "Enabled", "Option3999", "Enabled")))
	err = d.CheckConfiguration(t.Context(), systemID(), set("Option99999", "Enabled"))
	require.ErrorContains(t, err, "the nearest are Option")
	assert.True(t, isRejected(err))
}

// opens counts the files of settings that are read.
type opens struct {
	sysfs.Tree
	values *int
}

func (o opens) Open(name string) (fs.File, error) {
	if filepath.Base(name) == "current_value" {
		*o.values++
	}
	return o.Tree.Open(name)
}

func TestOnlyWhatIsAskedForIsRead(t *testing.T) {
	k, _ := machine(t, dell, many(50))
	n := 0
	d := New(nil, opens{k.Tree, &n})
	assert.Zero(t, n)
	require.NoError(t, d.CheckConfiguration(t.Context(), systemID(), set("Option0001", "Disabled")))
	assert.LessOrEqual(t, n, 2)
}

// Old kernels have Lenovo's firmware save each value, which it does 48 times between two boots.
func TestNotMoreIsChangedThanTheFirmwareSaves(t *testing.T) {
	k, d := machine(t, lenovo, many(60))
	var pairs []string
	for i := range 49 {
		pairs = append(pairs, "Option00"+strconv.Itoa(i/10)+strconv.Itoa(i%10), "Enabled")
	}
	refused(t, k, d, set(pairs...), "49 settings are to be changed", "saves only 48 between two boots")
	configure(t, d, pairs[:96]...)
	k, d = machine(t, lenovo, many(60))
	require.NoError(t, k.put(devices+lenovo+"/attributes/save_settings", "single\n"))
	configure(t, d, pairs...)
}

// HP's driver shows unsigned bounds as signed numbers.
func TestBoundsThatHoldNothingAreNone(t *testing.T) {
	_, d := machine(t, hp, map[string]attribute{"Delay": {"type": "integer", "current_value": "5", "min_value": "0", "max_value": "-1", "scalar_increment": "1"}})
	configure(t, d, "Delay", "4294967295")
	require.ErrorContains(t, d.CheckConfiguration(t.Context(), systemID(), set("Delay", "long")), "Delay cannot be long: it takes numbers")
}

func TestOtherDevicesAndMachinesHaveNone(t *testing.T) {
	k := newFakeKernel(t)
	d := New(runnerOf(t), k.Tree)
	assert.Nil(t, d.Supplement(inventory.Identity{Class: inventory.NIC}, nil))
	own := New(nil, k.Tree)
	assert.Same(t, own, d.Supplement(systemID(), own), "what the vendor's tool sets is not set twice")
	_, err := d.Parameters(t.Context(), systemID())
	require.ErrorIs(t, err, driver.ErrNotSupported)
	require.ErrorIs(t, d.CheckConfiguration(t.Context(), systemID(), driver.Configuration{}), driver.ErrNotSupported)
	_, err = d.Configure(t.Context(), systemID(), driver.Configuration{})
	require.ErrorIs(t, err, driver.ErrNotSupported)
	k.show(t, dell, nil)
	_, err = d.Parameters(t.Context(), systemID())
	require.ErrorIs(t, err, driver.ErrNotSupported, "there is an interface without settings")
}

func TestToolTakesNothingElse(t *testing.T) {
	k, _ := machine(t, dell, dellSettings())
	on := []string{"set", "--root", k.Dir(), "--interface", dell}
	for _, args := range [][]string{
		nil, {"get"}, on, append(on[:3:3], "--", "FanSpeed", "1"), append(on[:5:5], "--", "FanSpeed"), append(on[:5:5], "--", "../../x", "1"),
		append(on[:5:5], "--", "FanSpeed/..", "1"), append(on[:4:4], "../x", "--", "FanSpeed", "1"), append(on[:5:5], "--force", "FanSpeed", "1"),
		append(on[:5:5], "--authentication", "Admin", "--", "FanSpeed", "1"), append(on[:5:5], "--password-file", "/x", "--", "FanSpeed", "1"),
		append(on[:5:5], "--authentication", "..", "--password-file", "/x", "--", "FanSpeed", "1"),
	} {
		var out strings.Builder
		assert.Equal(t, owntool.Usage, Program{Open: func(root string) Host { return kernelIn(root) }}.Run(args, &out, &out), args)
		assert.NotEmpty(t, out.String())
	}
	assert.Empty(t, k.get("log"))
}

func FuzzRules(f *testing.F) {
	f.Add("[ReadOnlyIf:A=1][SuppressIfNot:B=x y]")
	f.Add("Disabled[ForceIf:SecureBoot=Enabled];Enabled[ForceIfNot:A=];")
	f.Add("[[ReadOnlyIf:=]")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range parseRules(text) {
			assert.NotEmpty(t, r.kind)
			assert.NotContains(t, r.attribute+r.value, "]")
		}
		s := setting{FirmwareAttribute: sysfs.FirmwareAttribute{Modifier: text, ValueModifier: text}}
		why, err := s.modified(func(*sysfs.FirmwareInterface, string) (*string, error) { return nil, nil })
		require.NoError(t, err)
		assert.Empty(t, why)
	})
}
