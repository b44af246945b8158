package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const exampleProfiles = "../../docs/examples/profiles"

func TestProfilesBecomeDriversBesideTheBuiltInOnes(t *testing.T) {
	drivers, err := driversOf(config.Machine{ProfileDir: exampleProfiles}, nil)
	require.NoError(t, err)
	all := drivers(nil, nil)
	assert.Greater(t, len(all), len(builtin(nil, nil, false, "")))
	for vendor, want := range map[string]string{"Dell Inc.": "dell-bios", "Lenovo": "fwupd"} {
		d, err := all.For(inventory.Identity{Class: inventory.BIOS, Vendor: vendor})
		require.NoError(t, err)
		assert.Equal(t, want, d.Name())
	}
}

func TestNoProfilesAreNeeded(t *testing.T) {
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "missing")} {
		drivers, err := driversOf(config.Machine{ProfileDir: dir}, nil)
		require.NoError(t, err)
		assert.Len(t, drivers(nil, nil), len(builtin(nil, nil, false, "")))
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
