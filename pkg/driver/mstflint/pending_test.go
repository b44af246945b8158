package mstflint

import (
	"context"
	"crypto/sha256"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/command/commandtest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// waiting is a card that holds an image it has never run. Versions in its flash change as those of a real one do.
type waiting struct {
	kind, security  string
	running, stored string
	// levels is what mstfwreset offers, and loads the levels that really load the stored image.
	levels string
	loads  string
	// refusal is what the card says when it is to take the image back; empty when it does.
	refusal string
	// old is a tool that does not know the command to take back.
	old bool
	// lies says that taking back is reported as done and is not.
	lies bool
}

func (w *waiting) query(running string) string {
	out := "Image type:            " + w.kind + "\nFW Version:            " + w.stored + "\n"
	if running != "" && running != w.stored {
		out += "FW Version(Running):   " + running + "\n"
	}
	return out + "Base MAC:              043f72f04c46            8\nPSID:                  MT_0000000228\n" +
		"Security Attributes:   " + w.security + "\n"
}

func (w *waiting) runner(t *testing.T) *commandtest.Runner {
	say := func(code int, text string) (command.Result, error) {
		return command.Result{ExitCode: code, Stdout: []byte(text)}, nil
	}
	levels := golden(t, w.levels)
	return commandtest.NewRunner(t, map[string]commandtest.Tool{
		"mstconfig": withoutSettings,
		"mstflint": func(_ context.Context, c command.Command) (command.Result, error) {
			verb := c.Argv[len(c.Argv)-1]
			switch {
			case c.Argv[1] == "-i" && verb == "v":
				return say(0, "")
			case c.Argv[1] == "-i":
				img := waiting{kind: "FS4", security: "N/A", stored: imageVersion(t, c.Argv[2])}
				return say(0, img.query(""))
			case verb == "q":
				return say(0, w.query(w.running))
			case verb == "image_reactivation" && w.refusal != "":
				return say(1, "-E- Failed to execute image reactivation on device 0000:3b:00.0. Error: "+w.refusal+".\n")
			case verb == "image_reactivation" && !w.old:
				if !w.lies {
					w.stored = w.running
				}
				return say(0, "\n-I- FW Image Reactivation succeeded.\n\n")
			case verb != "b":
				return say(1, "Invalid command: "+verb+"\nNAME\n    MstFlint - Flash Interface\n")
			}
			w.stored = imageVersion(t, c.Argv[4])
			return say(0, "Writing Boot image component -   OK\n")
		},
		"mstfwreset": func(_ context.Context, c command.Command) (command.Result, error) {
			if c.Argv[len(c.Argv)-1] == "q" {
				return say(0, levels)
			}
			if strings.Contains(w.loads, c.Argv[4]) {
				w.running = w.stored
			}
			return say(0, "-W- see the log\n")
		},
	})
}

// imageVersion is what the image at path holds: these images are their version.
func imageVersion(t *testing.T, path string) string {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

func versioned(t *testing.T, v inventory.Version) driver.Image {
	img := image(t, v)
	require.NoError(t, os.WriteFile(img.Path, []byte(v), 0o600))
	img.Digest, img.Size = sha256.Sum256([]byte(v)), int64(len(v))
	return img
}

// writes are the commands that change the card, without their common beginning.
func writes(r *commandtest.Runner) []string {
	var out []string
	for _, c := range r.Calls() {
		if c.Kind == command.Write {
			out = append(out, c.Argv[0]+" "+strings.Join(c.Argv[3:], " "))
		}
	}
	return out
}

const (
	level3, level4, patch = "reset-4.21.0-level3.txt", "reset-4.21.0-level4.txt", "reset-4.26.1-live-patch.txt"
	unsupported           = "Image reactivation - FW doesn't support this operation"
)

// An image that waits is loaded or taken back before another one is burned over it, by what the card offers.
func TestWaitingImageMakesWay(t *testing.T) {
	const reset, undo, burned = "mstfwreset -l 3 -y r", "mstflint image_reactivation", "mstflint -i IMAGE -y b"
	for name, c := range map[string]struct {
		card waiting
		want inventory.Version
		does []string
	}{
		"a card that resets loads it": {
			waiting{levels: level3, loads: "3"}, "20.36.1010", []string{reset, burned},
		},
		"by a live patch where that is possible": {
			waiting{levels: patch, loads: "0"}, "20.36.1010", []string{"mstfwreset -l 0 -y r", burned},
		},
		"a live patch that does nothing is followed by a reset": {
			waiting{levels: patch, loads: "3"}, "20.36.1010", []string{"mstfwreset -l 0 -y r", reset, burned},
		},
		"a card that needs a reboot takes it back": {
			waiting{levels: level4}, "20.36.1010", []string{undo, burned},
		},
		"so does a card that only says that it resets": {
			waiting{levels: level3}, "20.36.1010", []string{reset, undo, burned},
		},
		"what runs is wanted, and nothing is loaded or burned": {
			waiting{levels: level3, loads: "3"}, "20.34.1002", []string{undo},
		},
		"what runs is wanted and the card takes nothing back": {
			waiting{levels: level3, loads: "3", refusal: unsupported}, "20.34.1002", []string{undo, burned},
		},
		"what waits is wanted": {waiting{levels: level3, loads: "3"}, "20.35.1012", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.card
			w.kind, w.security, w.running, w.stored = "FS4", "secure-fw", "20.34.1002", "20.35.1012"
			r := w.runner(t)
			img := versioned(t, c.want)
			need, err := New(r, machine).Write(t.Context(), id, img, nil)
			require.NoError(t, err)
			assert.Equal(t, string(c.want), w.stored)
			if w.running != w.stored {
				assert.NotEqual(t, inventory.ActivateNone, need)
			}
			var does []string
			for _, line := range writes(r) {
				does = append(does, strings.ReplaceAll(line, img.Path, "IMAGE"))
			}
			assert.Equal(t, c.does, does)
			for _, call := range r.Calls() {
				if call.Kind == command.Write {
					assert.Equal(t, "04:3f:72:f0:4c:46", call.Lock)
				}
			}
		})
	}
}

// A card that neither loads nor takes back what waits says why, and is not written to.
func TestNeverBurnsOverStuckImage(t *testing.T) {
	for name, c := range map[string]struct {
		card waiting
		says []string
	}{
		"it takes nothing back":      {waiting{levels: level4, refusal: unsupported}, []string{"stores 20.35.1012", "reboot the node first"}},
		"it failed at it":            {waiting{levels: level4, refusal: "First page erase failed"}, []string{"First page erase failed"}},
		"it says so and does not":    {waiting{levels: level4, lies: true}, []string{"still holds 20.35.1012"}},
		"no reset, and it is legacy": {waiting{levels: level4, kind: "FS2", refusal: "Operation not supported"}, []string{"reboot the node first"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.card
			if w.kind == "" {
				w.kind = "FS4"
			}
			w.security, w.running, w.stored = "N/A", "20.34.1002", "20.35.1012"
			r := w.runner(t)
			_, err := New(r, machine).Write(t.Context(), id, versioned(t, "20.36.1010"), nil)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
			require.NotErrorAs(t, err, new(*driver.RejectedError), "the image is not to blame, and a reboot helps")
			assert.Equal(t, []string{"mstflint image_reactivation"}, writes(r))
			assert.Equal(t, "20.35.1012", w.stored)
		})
	}
}

// A tool that does not know the command says nothing about the card.
func TestAToolThatCannotTakeBackIsNotACardThatCannot(t *testing.T) {
	w := waiting{kind: "FS4", security: "N/A", levels: level3, running: "20.34.1002", stored: "20.35.1012", old: true}
	r := w.runner(t)
	_, err := New(r, machine).Write(t.Context(), id, versioned(t, "20.34.1002"), nil)
	require.ErrorContains(t, err, "Invalid command: image_reactivation")
	require.ErrorContains(t, err, "install a newer mstflint")
	require.NotErrorIs(t, err, driver.ErrNotSupported)
	assert.Equal(t, []string{"mstflint image_reactivation"}, writes(r), "nothing is burned instead")
}

// What is known beforehand is said before the node is taken out of service.
func TestCheckRefusesBlockedCard(t *testing.T) {
	for name, c := range map[string]struct {
		kind, levels string
		want         inventory.Version
		blocked      bool
	}{
		"legacy and no reset":                 {"FS2", level4, "20.36.1010", true},
		"legacy, but it resets":               {"FS2", level3, "20.36.1010", false},
		"it may take the image back":          {"FS4", level4, "20.36.1010", false},
		"what waits is wanted":                {"FS2", level4, "20.35.1012", false},
		"what runs is wanted and burned over": {"FS2", level4, "20.34.1002", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := waiting{kind: c.kind, security: "N/A", levels: c.levels, running: "20.34.1002", stored: "20.35.1012"}
			r := w.runner(t)
			img := versioned(t, c.want)
			err := New(r, machine).Check(t.Context(), id, img)
			assert.Empty(t, writes(r))
			if !c.blocked {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "reboot the node first")
			require.NotErrorAs(t, err, new(*driver.RejectedError), "it passes with a reboot")
		})
	}
}

func TestSecureFirmwareIsNotReadOut(t *testing.T) {
	p := newReader(t)
	p.read = func(path string) (command.Result, error) {
		return command.Result{ExitCode: 1, Stdout: []byte("-E- Failed to read image. Unsupported operation under Secure FW\n")},
			os.WriteFile(path, nil, 0o600)
	}
	path := t.TempDir() + "/image"
	err := New(p.runner(t), machine).Archive(t.Context(), id, path)
	require.ErrorIs(t, err, driver.ErrNotSupported, "also where the query did not say so")
	require.ErrorContains(t, err, "Secure FW")
	assert.NoFileExists(t, path)
}
