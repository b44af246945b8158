package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs/sysfstest"
)

const exampleProfiles = "../../docs/examples/profiles"

func TestProfilesBecomeDriversBesideTheBuiltInOnes(t *testing.T) {
	drivers, err := driversOf(config.Machine{ProfileDir: exampleProfiles}, nil)
	require.NoError(t, err)
	all := drivers(nil, nil)
	assert.Greater(t, len(all), len(builtin(nil, nil, false, config.Machine{})))
	for vendor, want := range map[string]string{"Dell Inc.": "dell-bios", "Lenovo": "lenovo-bios", "Fujitsu": "fwupd"} {
		d, err := all.For(inventory.Identity{Class: inventory.BIOS, Vendor: vendor})
		require.NoError(t, err)
		assert.Equal(t, want, d.Name())
	}
}

func TestNoProfilesAreNeeded(t *testing.T) {
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "missing")} {
		drivers, err := driversOf(config.Machine{ProfileDir: dir}, nil)
		require.NoError(t, err)
		assert.Len(t, drivers(nil, nil), len(builtin(nil, nil, false, config.Machine{})))
	}
}

func TestABadProfileRefusesToStart(t *testing.T) {
	good, err := os.ReadFile(filepath.Join(exampleProfiles, "dell-bios.yaml"))
	require.NoError(t, err)
	_, afterName, found := strings.Cut(string(good), "\nname: dell-bios\n")
	require.True(t, found)
	dir := t.TempDir()
	save := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	save("a.yaml", "name: nvme\n"+afterName)
	_, err = driversOf(config.Machine{ProfileDir: dir}, nil)
	require.ErrorContains(t, err, `profile "nvme" in `+dir+" has the name of a driver")
	save("b.yaml", "name: x\nbogus: 1\n")
	for _, command := range []string{"run", "discover", "steps"} {
		c := root()
		args := []string{command, "--state-dir", t.TempDir(), "--profile-dir", dir}
		if command == "run" {
			args = append(args, "--node-name", "n1")
		}
		c.SetArgs(args)
		require.ErrorContains(t, c.Execute(), filepath.Join(dir, "b.yaml")+":2: bogus: no such field", command)
	}
}

func TestFlagLeavesDriverOut(t *testing.T) {
	drivers, err := driversOf(config.Machine{ProfileDir: exampleProfiles, DisabledDrivers: []string{"dell-bios"}}, nil)
	require.NoError(t, err)
	d, err := drivers(nil, nil).For(inventory.Identity{Class: inventory.BIOS, Vendor: "Dell Inc."})
	require.NoError(t, err)
	assert.Equal(t, "fwupd", d.Name())
	_, err = driversOf(config.Machine{DisabledDrivers: []string{"dell-bios"}}, nil)
	assert.ErrorContains(t, err, `--disable-driver: leave out driver "dell-bios"`)
}

// The driver of system firmware's settings is given the file of --firmware-password-file, and asks for it where a password is set.
func TestTheFileWithTheFirmwarePasswordReachesItsDriver(t *testing.T) {
	const dir = "sys/devices/virtual/firmware-attributes/thinklmi"
	m := sysfstest.NewMachine()
	m.Link("sys/class/firmware-attributes/thinklmi", dir)
	m.Files(dir+"/attributes/WakeOnLAN", map[string]string{"type": "string", "current_value": "Enable"})
	m.MapFS[dir+"/attributes/WakeOnLAN/current_value"].Mode = 0o600
	m.Files(dir+"/authentication/Admin", map[string]string{"is_enabled": "1", "role": "bios-admin", "mechanism": "password"})
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	system := inventory.Identity{Class: inventory.BIOS, Vendor: "Lenovo", UniqueID: "1"}
	for args, locked := range map[string]string{
		"": "no file with it is given", "--firmware-password-file=" + file: "", "--firmware-password-file=" + file + "2": "the file with it cannot be used",
	} {
		var of config.Machine
		c := &cobra.Command{}
		machineFlags(c, &of, "/")
		require.NoError(t, c.ParseFlags([]string{args}))
		set := builtin(nil, m, true, of)
		i := slices.IndexFunc(set, func(d driver.Driver) bool { return d.Name() == "firmware-attributes" })
		all, err := set[i].(driver.Supplement).Supplement(system, nil).Parameters(t.Context(), system)
		require.NoError(t, err)
		require.Len(t, all, 1)
		assert.Contains(t, all[0].ReadOnly, locked, args)
		assert.Equal(t, locked == "", all[0].ReadOnly == "", args)
	}
}

func TestTheDaemonDoesNotStartWhileTwoDriversClaimADevice(t *testing.T) {
	m, err := simhost.Create(filepath.Join(t.TempDir(), "n1"), simhost.DefaultSpec("n1", 1))
	require.NoError(t, err)
	dell, err := os.ReadFile(filepath.Join(exampleProfiles, "dell-bios.yaml"))
	require.NoError(t, err)
	profiles := t.TempDir()
	for _, name := range []string{"first", "second"} {
		text := strings.NewReplacer("name: dell-bios", "name: "+name, `"Dell Inc."`, `"Lenovo"`).Replace(string(dell))
		require.NoError(t, os.WriteFile(filepath.Join(profiles, name+".yaml"), []byte(text), 0o600))
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"none": {Server: "http://127.0.0.1:1"}},
		Contexts:       map[string]*clientcmdapi.Context{"none": {Cluster: "none"}},
		CurrentContext: "none",
	}, kubeconfig))
	run := root()
	run.SetArgs([]string{
		"run", "--node-name=n1", "--kubeconfig=" + kubeconfig, "--host-root=" + m.Dir(), "--profile-dir=" + profiles,
		"--state-dir=" + filepath.Join(t.TempDir(), "state"), "--tool-path=" + m.ToolPath(), "--health-probe-bind-address=0",
	})
	err = run.ExecuteContext(t.Context())
	require.ErrorContains(t, err, "choose driver for BIOS")
	require.ErrorContains(t, err, "first and second claim it equally")
	assert.ErrorContains(t, err, "--disable-driver")
}
