package mstflint

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// reader plays a card that can be read, and what mstflint then says of the file.
type reader struct {
	card              string
	read              func(path string) (command.Result, error)
	imageQuery, image command.Result
}

func newReader(t *testing.T) *reader {
	return &reader{
		card: golden(t, "query-4.21.0-cx6.txt"),
		read: func(path string) (command.Result, error) {
			return command.Result{}, os.WriteFile(path, []byte("what the card runs"), 0o644)
		},
		imageQuery: command.Result{Stdout: []byte(golden(t, "query-4.21.0-image.txt"))},
	}
}

func (p *reader) runner(t *testing.T) *commandtest.Runner {
	return commandtest.NewRunner(t, map[string]commandtest.Tool{
		"mstflint": func(_ context.Context, c command.Command) (command.Result, error) {
			switch {
			case c.Argv[3] == "ri":
				return p.read(c.Argv[4])
			case c.Argv[1] == "-d":
				return command.Result{Stdout: []byte(p.card)}, nil
			case c.Argv[3] == "v":
				return p.image, nil
			}
			return p.imageQuery, nil
		},
		"mstfwreset": func(context.Context, command.Command) (command.Result, error) {
			return command.Result{Stdout: []byte(golden(t, "reset-4.21.0-level3.txt"))}, nil
		},
	})
}

func TestArchiveReadsTheFlashAndChecksWhatItRead(t *testing.T) {
	r := newReader(t).runner(t)
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, New(r, machine).Archive(t.Context(), id, path))
	assert.Equal(t, []string{
		"mstflint -d 0000:3b:00.0 -qq q",
		"mstflint -d 0000:3b:00.0 ri " + path,
		"mstflint -i " + path + " q",
		"mstflint -i " + path + " v",
	}, r.Lines())
	for _, c := range r.Calls() {
		assert.Equal(t, command.Query, c.Kind, "an archive changes nothing and may be killed")
		assert.Positive(t, c.Timeout)
	}
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "what the card runs", string(content))
}

func TestAnArchiveThatIsWorthNothingIsAnErrorAndLeavesNoFile(t *testing.T) {
	died := &command.Error{Argv: []string{"mstflint"}, ExitCode: -1, Err: command.ErrTimeout}
	for name, c := range map[string]struct {
		change func(*reader)
		want   string
	}{
		"the tool failed and left an empty file": {func(p *reader) {
			p.read = func(path string) (command.Result, error) {
				return command.Result{ExitCode: 1, Stdout: []byte("-E- Failed to read image. Flash semaphore is locked\n")}, os.WriteFile(path, nil, 0o644)
			}
		}, "semaphore is locked"},
		"the tool was killed": {func(p *reader) {
			p.read = func(string) (command.Result, error) { return command.Result{}, died }
		}, "killed at its deadline"},
		"it lost its end": {func(p *reader) {
			p.image = command.Result{ExitCode: 1, Stdout: []byte(golden(t, "verify-error-4.21.0-image.txt"))}
		}, "verification failed"},
		"it is empty": {func(p *reader) {
			p.imageQuery = command.Result{ExitCode: 1, Stdout: []byte(golden(t, "query-error-4.21.0-image.txt"))}
		}, "No valid image found"},
		"it is of another version": {func(p *reader) {
			p.imageQuery.Stdout = []byte(strings.ReplaceAll(string(p.imageQuery.Stdout), "20.35.1012", "20.36.1010"))
		}, "20.36.1010"},
		"it is for another board": {func(p *reader) {
			p.imageQuery.Stdout = []byte(strings.ReplaceAll(string(p.imageQuery.Stdout), "MT_0000000228", "MT_0000000359"))
		}, "MT_0000000359"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newReader(t)
			c.change(p)
			path := filepath.Join(t.TempDir(), "image")
			err := New(p.runner(t), machine).Archive(t.Context(), id, path)
			require.ErrorContains(t, err, c.want)
			require.NotErrorIs(t, err, driver.ErrNotSupported, "another try may help")
			require.NotErrorAs(t, err, new(*driver.RejectedError), "no image of anybody is to blame")
			assert.NoFileExists(t, path)
		})
	}
}

func TestArchiveNeverReplacesFile(t *testing.T) {
	r := newReader(t).runner(t)
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, []byte("archived before"), 0o600))
	require.ErrorIs(t, New(r, machine).Archive(t.Context(), id, path), os.ErrExist)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "archived before", string(content))
	assert.Equal(t, []string{"mstflint -d 0000:3b:00.0 -qq q"}, r.Lines())
}

// Only what is stored can be read, and a job must know beforehand what it can restore (R002-1, R002-2).
func TestWhatACardCanBringBackIsSaidBeforehand(t *testing.T) {
	for name, c := range map[string]struct {
		card string
		want inventory.Rollback
		says string
	}{
		"what runs is stored":     {golden(t, "query-4.21.0-cx6.txt"), inventory.RollbackReadBack, ""},
		"another image is stored": {golden(t, "query-4.21.0-cx6-pending.txt"), inventory.RollbackReadBack, "activate 20.35.1012 first"},
		"nothing can be for it":   {golden(t, "query-4.21.0-not-mellanox.txt"), inventory.RollbackNone, "no PSID"},
		"secure firmware":         {golden(t, "query-4.33.0-cx7-full.txt"), inventory.RollbackImage, "FirmwareSource"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newReader(t)
			p.card = c.card
			r := p.runner(t)
			_, fw, err := New(r, machine).Inspect(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, c.want, fw.Rollback)
			assert.Contains(t, fw.RollbackMessage, c.says)
			path := filepath.Join(t.TempDir(), "image")
			err = New(r, machine).Archive(t.Context(), id, path)
			if c.says == "" {
				assert.Empty(t, fw.RollbackMessage)
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, driver.ErrNotSupported)
			require.ErrorContains(t, err, c.says)
			assert.NoFileExists(t, path)
		})
	}
}

// Nothing erases a flash: what is written is always an image (R002-56).
func TestNoCommandErases(t *testing.T) {
	for _, c := range []command.Command{
		queryDevice(card), queryImage("/i"), verifyImage("/i"), readImage(card, "/i"), burn(card, "/i", "l", nil), queryReset(card), reset(card, "3", "l"), reactivate(card, "l"),
	} {
		for _, verb := range []string{"e", "erase", "ww", "wwne", "wb", "wbne", "drom", "brom"} {
			assert.NotContains(t, c.Argv, verb)
		}
		if c.Kind == command.Write && c.Argv[0] == flintTool && c.Argv[3] != "image_reactivation" {
			assert.Contains(t, c.Argv, "-i", "%s writes without an image", c)
		}
	}
}
