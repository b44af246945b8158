package guest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVersionSurvivesPowerLoss(t *testing.T) {
	dir, source := t.TempDir(), filepath.Join(t.TempDir(), "inq_rev")
	flash := []Flash{{Name: "scsi", Default: "0001", Source: source}, {Name: "away", Default: "7", Source: source + "-missing"}}
	got, err := parameters("delay=1 inq_rev={scsi} x={away}", dir, flash)
	require.NoError(t, err)
	assert.Equal(t, "delay=1 inq_rev=0001 x=7", got, "as it left the factory")

	require.NoError(t, os.WriteFile(source, []byte("0002\n"), 0o600))
	require.NoError(t, saveFlash(dir, flash))
	require.NoError(t, os.Remove(source))
	require.NoError(t, saveFlash(dir, flash), "the module is unloaded")
	got, err = parameters("inq_rev={scsi} x={away}", dir, flash)
	require.NoError(t, err)
	assert.Equal(t, "inq_rev=0002 x=7", got)
}

func TestSystemctlKnowsRebootAlone(t *testing.T) {
	assert.Equal(t, 1, Main([]string{"/usr/bin/systemctl", "poweroff"}))
}
