package profile_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/profile"
)

// seen is a runner that notes how commands that name an image get it.
type seen struct {
	command.Runner
	path        string
	held, files int
}

func (s *seen) Run(ctx context.Context, c command.Command) (command.Result, error) {
	switch {
	case c.Image != nil:
		s.held++
	case strings.Contains(c.String(), s.path):
		s.files++
	}
	return s.Runner.Run(ctx, c)
}

func TestToolGetsImageAsProfiled(t *testing.T) {
	text := golden(t, "simflash.yaml")
	for name, tc := range map[string]struct {
		change      func(string) string
		held, files int
	}{
		"by default": {func(s string) string { return s }, 3, 0}, // two checks, of Check and of Write, and the write
		"a descriptor": {func(s string) string {
			return strings.Replace(s, "  progress:", "  imageAs: Descriptor\n  progress:", 1)
		}, 3, 0},
		"a file": {func(s string) string { return strings.Replace(s, "  progress:", "  imageAs: File\n  progress:", 1) }, 2, 1},
		"files for all": {func(s string) string {
			s = strings.Replace(s, "  progress:", "  imageAs: File\n  progress:", 1)
			return strings.Replace(s, "  exits: {ok: [0], rejected: [4]}\n  format: regex", "  exits: {ok: [0], rejected: [4]}\n  imageAs: File\n  format: regex", 1)
		}, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := profile.Parse("p.yaml", []byte(tc.change(text)))
			require.NoError(t, err)
			img := drivertest.NewImage(t, "SIM 0001", "1.1.0")
			dir := newTool(t)
			runner, err := command.NewExecRunner(command.Config{Path: []string{dir}, StateDir: t.TempDir()})
			require.NoError(t, err)
			s := &seen{Runner: runner, path: img.Path}
			d := profile.New(s, p)
			require.NoError(t, d.Check(t.Context(), cardID(), img))
			_, err = d.Write(t.Context(), cardID(), img, nil)
			require.NoError(t, err)
			assert.Equal(t, tc.held, s.held)
			assert.Equal(t, tc.files, s.files)
			c, err := loadCard(dir)
			require.NoError(t, err)
			assert.Equal(t, "1.1.0", c.holds())
		})
	}
	_, err := profile.Parse("p.yaml", []byte(strings.Replace(text, "  progress:", "  imageAs: Copy\n  progress:", 1)))
	require.ErrorContains(t, err, `write.imageAs: "Copy": want Descriptor, File`)
	_, err = profile.Parse("p.yaml", []byte(strings.Replace(text, "  kind: DeviceReset", "  imageAs: File\n  kind: DeviceReset", 1)))
	require.ErrorContains(t, err, "activate.imageAs: no such field")
}

// Whichever way a tool gets its image: one that changed after its check is not written.
func TestToolGetsNoChangedImage(t *testing.T) {
	text := golden(t, "simflash.yaml")
	for _, as := range []profile.ImageAs{profile.AsDescriptor, profile.AsFile} {
		p, err := profile.Parse("p.yaml", []byte(strings.Replace(text, "  progress:", "  imageAs: "+string(as)+"\n  progress:", 1)))
		require.NoError(t, err)
		p.Check = nil // nothing looks at the image before the write
		img := drivertest.NewImage(t, "SIM 0001", "1.1.0")
		dir := newTool(t)
		runner, err := command.NewExecRunner(command.Config{Path: []string{dir}, StateDir: t.TempDir()})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(img.Path, drivertest.ImageBytes("SIM 0001", "1.2.0"), 0o600))
		_, err = profile.New(runner, p).Write(t.Context(), cardID(), img, nil)
		require.ErrorIs(t, err, command.ErrImage)
		assert.NotErrorAs(t, err, new(*driver.RejectedError), "the image that the source provides is not at fault")
		c, err := loadCard(dir)
		require.NoError(t, err)
		assert.Equal(t, "1.0.0", c.holds(), as)
	}
}

// A script finds itself by its path: what it carries is in the file behind it.
func TestAScriptIsAFile(t *testing.T) {
	p, err := profile.Parse("p.yaml", []byte(strings.Replace(golden(t, "simflash.yaml"),
		`[simflash, -d, "{{device.pciAddress}}", "--image={{image.path}}", write]`, `[sh, "{{image.path}}", -q]`, 1)))
	require.NoError(t, err)
	p.Check = nil
	img := drivertest.NewImage(t, "SIM 0001", "1.1.0")
	var ran []command.Command
	runner := commandtest.NewRunner(t, map[string]commandtest.Tool{
		"simflash": commandtest.Prints(`{"Controllers": [{"Status": "Success", "Address": "0000:3b:00.0", "Running": "1.0.0", "Board Id": "SIM 0001", "MAC": "b8:59:9f:00:00:01"}]}`),
		"sh": func(_ context.Context, c command.Command) (command.Result, error) {
			ran = append(ran, c)
			return command.Result{ExitCode: 4}, nil
		},
	})
	_, err = profile.New(runner, p).Write(t.Context(), cardID(), img, nil)
	require.ErrorAs(t, err, new(*driver.RejectedError))
	require.Len(t, ran, 1)
	assert.Equal(t, []string{"sh", img.Path, "-q"}, ran[0].Argv)
	assert.Nil(t, ran[0].Image)

	require.NoError(t, os.WriteFile(img.Path, []byte("rm -rf /"), 0o600))
	_, err = profile.New(runner, p).Write(t.Context(), cardID(), img, nil)
	require.ErrorIs(t, err, command.ErrImage)
	require.Len(t, ran, 1, "a script that changed is not run")

	require.NoError(t, os.Remove(img.Path))
	_, err = profile.New(runner, p).Write(t.Context(), cardID(), img, nil)
	require.ErrorIs(t, err, command.ErrImage, "nor is it a failed write when the file cannot be read")
}
