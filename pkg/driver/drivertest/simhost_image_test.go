package drivertest_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// watched is a runner that counts the commands which read an image, and lists those which read it by its path.
type watched struct {
	command.Runner
	path   string
	read   int
	byPath []string
}

func (w *watched) Run(ctx context.Context, c command.Command) (command.Result, error) {
	if strings.Contains(c.String(), w.path) {
		w.read++
		if c.Image == nil {
			w.byPath = append(w.byPath, c.String())
		}
	}
	return w.Runner.Run(ctx, c)
}

// A file that changes after the check of a driver is not written, and every tool reads the image as it was verified.
func TestNoDriverWritesAnImageThatChangedAfterItsCheck(t *testing.T) {
	for name, p := range map[string]part{"mstflint": nic(0), "nvme": drive(0), "scsi": disk(), "fwupd-ata": sata(), "fwupd": bios()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, runner := p.machine(t)
			spec, err := m.Spec()
			require.NoError(t, err)
			content := p.bytes(p.options(spec), p.versions[0])
			img := drivertest.SaveImage(t, p.versions[0], content)
			w := &watched{Runner: runner, path: img.Path}
			d, id := p.driver(w, m), p.id(spec)
			require.NoError(t, d.Check(t.Context(), id, img))
			before, err := m.Device(p.key)
			require.NoError(t, err)

			changed := bytes.Clone(content)
			changed[len(changed)/2] ^= 1
			require.NoError(t, os.WriteFile(img.Path, changed, 0o600))
			_, err = d.Write(t.Context(), id, img, nil)
			require.ErrorIs(t, img.Judge(err), command.ErrImage)
			after, err := m.Device(p.key)
			require.NoError(t, err)
			assert.Equal(t, before, after)

			require.NoError(t, os.WriteFile(img.Path, content, 0o600))
			_, err = d.Write(t.Context(), id, img, nil)
			require.NoError(t, err)
			after, err = m.Device(p.key)
			require.NoError(t, err)
			assert.Equal(t, p.versions[0], inventory.Version(after.Stored))
			assert.NotZero(t, w.read)
			assert.Empty(t, w.byPath, "who can change the file meanwhile chooses what these write")
		})
	}
}
