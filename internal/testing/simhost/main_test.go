package simhost

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

// TestMain lets the test binary be the tools: machines link them to it.
func TestMain(m *testing.M) {
	if IsTool(os.Args[0]) {
		os.Exit(RunTool(os.Args, os.Stdout, os.Stderr))
	}
	// A machine is hundreds of small files: keep them in memory where the system offers it.
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() && os.Getenv("TMPDIR") == "" {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	os.Exit(m.Run())
}

// newMachine makes a machine whose writes take no time.
func newMachine(t testing.TB, change ...func(*Spec)) *Machine {
	t.Helper()
	spec := DefaultSpec("node-7", 7)
	spec.WriteTime, spec.ResetTime = 0, 0
	for _, c := range change {
		c(&spec)
	}
	m, err := Create(filepath.Join(t.TempDir(), "machine"), spec)
	require.NoError(t, err)
	binary, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, m.InstallTools(binary))
	for _, v := range fwupdTold(t, spec) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	return m
}

// fwupdTold are the variables that fwupdtool needs in a container.
func fwupdTold(t testing.TB, spec Spec) []string {
	t.Helper()
	dir := t.TempDir()
	text := []byte("[" + spec.BIOS.GUID + "]\nVersionFormat = triplet\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "version.quirk"), text, 0o600))
	return []string{"FWUPD_UEFI_ESP_PATH=/boot/efi", "FWUPD_LOCALSTATEDIR_QUIRKS=" + dir}
}

type output struct {
	code           int
	stdout, stderr string
}

// run runs a tool in this process.
func run(m *Machine, argv ...string) output {
	var stdout, stderr bytes.Buffer
	argv[0] = filepath.Join(m.ToolPath(), argv[0])
	code := RunTool(argv, &stdout, &stderr)
	return output{code, stdout.String(), stderr.String()}
}

// start runs a tool as a process of its own.
func start(t *testing.T, m *Machine, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(filepath.Join(m.ToolPath(), argv[0]), argv[1:]...)
	cmd.Env = []string{"PATH=" + m.ToolPath(), "LC_ALL=C", "HOME=/"}
	for _, name := range []string{"FWUPD_UEFI_ESP_PATH", "FWUPD_LOCALSTATEDIR_QUIRKS"} {
		cmd.Env = append(cmd.Env, name+"="+os.Getenv(name))
	}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

func device(t *testing.T, m *Machine, key string) Device {
	t.Helper()
	d, err := m.Device(key)
	require.NoError(t, err)
	return d
}

func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, 5*time.Millisecond, what)
}

// image writes an image for a default part to a file.
func image(t *testing.T, key, version string) string {
	t.Helper()
	return save(t, imageFor(key, version))
}

func imageFor(key, version string) []byte {
	spec := DefaultSpec("", 0)
	switch key {
	case "nic0":
		return BuildImage(NICImage, ImageOptions{Version: version, PSID: spec.NICs[0].PSID})
	case "nic1":
		return BuildImage(NICImage, ImageOptions{Version: version, PSID: spec.NICs[1].PSID})
	case "nvme0":
		return BuildImage(NVMeImage, ImageOptions{Version: version, Model: spec.NVMe[0].Model})
	case "nvme1":
		return BuildImage(NVMeImage, ImageOptions{Version: version, Model: spec.NVMe[1].Model})
	case "sda":
		return BuildImage(SCSIImage, ImageOptions{Version: version, Model: spec.SCSI[0].Model})
	default:
		return BuildImage(BIOSImage, ImageOptions{Version: version, GUID: spec.BIOS.GUID})
	}
}

func save(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.bin")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// golden compares with a file in testdata; -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update")
	assert.Equal(t, string(want), got, path)
}

// actions lists what was done to a device and how it ended.
func actions(t *testing.T, m *Machine, key string) []string {
	t.Helper()
	ops, err := m.Operations()
	require.NoError(t, err)
	var out []string
	for _, o := range ops {
		if o.Device == key {
			out = append(out, o.Action+" "+string(o.Result))
		}
	}
	return out
}
