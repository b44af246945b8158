package toolcontract_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/toolcontract"
)

// TestMain lets the test binary be the tools of the simulated machines.
func TestMain(m *testing.M) {
	if simhost.IsTool(os.Args[0]) {
		os.Exit(simhost.RunTool(os.Args, os.Stdout, os.Stderr))
	}
	// A machine is hundreds of small files: keep them in memory where the system offers it.
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() && os.Getenv("TMPDIR") == "" {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	os.Exit(m.Run())
}

func world(t *testing.T) toolcontract.World {
	w, err := toolcontract.NewWorld(t.TempDir(), "")
	require.NoError(t, err)
	return w
}

func machine(t *testing.T, spec simhost.Spec) *simhost.Machine {
	m, err := simhost.Create(filepath.Join(t.TempDir(), "machine"), spec)
	require.NoError(t, err)
	binary, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, m.InstallTools(binary))
	return m
}

// simulated runs the tools of a simulated machine.
func simulated(t *testing.T, change func(*simhost.Spec)) toolcontract.Runner {
	spec := simhost.DefaultSpec("contract", 0)
	change(&spec)
	return runOn(machine(t, spec))
}

func runOn(m *simhost.Machine) toolcontract.Runner {
	return func(ctx context.Context, argv, env []string) (toolcontract.Answer, error) {
		cmd := exec.CommandContext(ctx, filepath.Join(m.ToolPath(), argv[0]), argv[1:]...)
		cmd.Env = append([]string{"PATH=" + m.ToolPath(), "LC_ALL=C", "HOME=/"}, env...)
		return toolcontract.Finish(ctx, cmd)
	}
}

// The machine of the test may be a virtual one, on which some tools refuse their work: the conditions say so.
func TestRealToolsKeepContract(t *testing.T) {
	for _, tool := range toolcontract.Tools() {
		t.Run(tool.Name, func(t *testing.T) {
			toolcontract.CheckReal(t, tool, world(t), toolcontract.Exec(), false)
		})
	}
}

func TestSimulatedToolsAnswerAsTheContractSays(t *testing.T) {
	for _, tool := range toolcontract.Tools() {
		t.Run(tool.Name, func(t *testing.T) {
			toolcontract.CheckSimulated(t, tool, world(t), simulated(t, func(*simhost.Spec) {}))
		})
		t.Run(tool.Name+" on a virtual machine", func(t *testing.T) {
			run := simulated(t, func(s *simhost.Spec) { s.Virtual = true })
			toolcontract.CheckSimulated(t, tool, world(t), run, toolcontract.Virtual)
		})
		t.Run(tool.Name+" under Secure Boot", func(t *testing.T) {
			run := simulated(t, func(s *simhost.Spec) { s.SecureBoot = true })
			toolcontract.CheckSimulated(t, tool, world(t), run, toolcontract.SecureBoot)
		})
	}
}

func TestRecordingsKeepContract(t *testing.T) {
	for _, tool := range toolcontract.Tools() {
		t.Run(tool.Name, func(t *testing.T) { toolcontract.CheckRecorded(t, tool) })
	}
}

// The same list runs in an image or a chroot: what stands before the command line makes no difference.
func TestRealToolsBehindPrefix(t *testing.T) {
	toolcontract.CheckReal(t, toolcontract.Mstflint(), world(t), toolcontract.Exec("nice", "-n", "1"), false)
}
