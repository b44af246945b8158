package devlink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/toolcontract"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// answersOf runs the tool in this process, on a kernel. The search path is a file of the test: this machine's is left alone.
func answersOf(t *testing.T, dial Dialer) toolcontract.Runner {
	path := filepath.Join(t.TempDir(), "path")
	require.NoError(t, os.WriteFile(path, []byte("\n"), 0o600))
	return func(_ context.Context, argv, _ []string) (toolcontract.Answer, error) {
		var stdout, stderr bytes.Buffer
		code := Program{Dial: dial, SearchPath: path}.Run(argv[1:], &stdout, &stderr)
		return toolcontract.Answer{Exit: code, Stdout: stdout.String(), Stderr: stderr.String()}, nil
	}
}

func TestToolKeepsContract(t *testing.T) {
	world := func(t *testing.T) toolcontract.World {
		w, err := toolcontract.NewWorld(t.TempDir(), "")
		require.NoError(t, err)
		return w
	}
	t.Run("on the fake kernel", func(t *testing.T) {
		a, _ := broadcom()
		toolcontract.CheckOwn(t, toolcontract.Devlink(), world(t), answersOf(t, newFakeKernel(t, a).dial))
	})
	t.Run("on the running kernel", func(t *testing.T) {
		var on []toolcontract.Condition
		if err := New(nil, nil, Dial).Usable(); err != nil {
			t.Logf("The kernel of this machine answers no devlink request: %v", err)
			on = append(on, toolcontract.NoDevlink)
		}
		toolcontract.CheckOwn(t, toolcontract.Devlink(), world(t), answersOf(t, Dial), on...)
	})
}

func TestContractHasAllCommands(t *testing.T) {
	absent := Handle{"pci", "{absent}"}
	blank := func(path string) driver.Image {
		return driver.Image{Path: path, Digest: sha256.Sum256(make([]byte, 4096))}
	}
	toolcontract.Covers(t, ".", map[string][][]string{
		"flashCommand": {
			flashCommand(absent, blank("{blank}"), "lock", nil).Argv, flashCommand(absent, blank("{missing}"), "lock", nil).Argv,
		},
		"setCommand":      {setCommand(absent, inventory.Setting{Name: "enable_sriov/permanent", Value: "true"}, "lock").Argv},
		"reinitCommand":   {reinitCommand(absent, "lock").Argv},
		"activateCommand": {activateCommand(absent, "lock").Argv},
	}, toolcontract.Devlink())
}
