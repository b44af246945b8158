package command_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// playReadImage plays a tool that opens its image late: args are a file, "--image=PATH", and "change" for one that tries to change it
// first. It publishes <file>.started, waits for <file>.go, prints where it read, what it read and whether it could change it, and publishes
// what it read as <file>.done.
func playReadImage(args []string) int {
	file, path := args[0], strings.TrimPrefix(args[1], "--image=")
	publish(file+".started", "")
	for end := time.Now().Add(2 * time.Minute); !exists(file + ".go"); {
		if !exists(filepath.Dir(file)) || time.Now().After(end) {
			return 1 // the test that would let it go on was cut off
		}
		time.Sleep(5 * time.Millisecond) // sleeps: plays a tool that takes its time
	}
	changed := "changed it"
	if len(args) < 3 {
		changed = ""
	} else if f, err := os.OpenFile(path, os.O_WRONLY, 0); err != nil {
		changed = err.Error()
	} else if _, err := f.WriteAt([]byte("mine"), 0); err != nil {
		changed = err.Error()
	}
	content, err := os.ReadFile(path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	target, _ := os.Readlink(path)
	fmt.Printf("path %s\ntarget %s\nread %x\n%s\n", path, target, sha256.Sum256(content), changed)
	publish(file+".done", fmt.Sprintf("%x", sha256.Sum256(content)))
	return 7
}

// playDaemonWithImage gives read-image an image through a worker: args are the tools' directory, the state directory, the file of
// read-image, and the path of the image.
func playDaemonWithImage(args []string) int {
	r, err := command.NewExecRunner(command.Config{
		Path: []string{args[0]}, StateDir: args[1], Worker: []string{filepath.Join(args[0], "worker")},
		Scope: scoper(func(context.Context, int, string) error { return nil }),
	})
	if err != nil {
		return 1
	}
	content, err := os.ReadFile(args[3])
	if err != nil {
		return 1
	}
	_, _ = r.Run(context.Background(), reading(command.Write, args[2], args[3], content))
	return 0
}

// reading is a run of read-image with an image of that content.
func reading(kind command.Kind, file, image string, content []byte) command.Command {
	return command.Command{
		Argv: []string{"read-image", file, "--image=" + image}, Kind: kind, Lock: "card",
		Image: &command.Image{Path: image, Digest: inventory.Digest(sha256.Sum256(content)), Size: int64(len(content))},
	}
}

// image makes an image that was verified.
func (m machine) image(t *testing.T) (path string, content []byte) {
	t.Helper()
	path, content = m.file("image"), bytes.Repeat([]byte("verified"), 1<<10)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path, content
}

// What was verified is what a tool reads, however late it opens it and whatever became of the file.
func TestAToolReadsWhatWasVerified(t *testing.T) {
	onDisk := func(c *command.Config) { c.MaxInMemory = 1 }
	for name, way := range map[string]struct {
		kind   command.Kind
		config func(machine) []func(*command.Config)
		sealed bool
	}{
		"query":                            {command.Query, nil, true},
		"query of a large image":           {command.Query, func(machine) []func(*command.Config) { return []func(*command.Config){onDisk} }, false},
		"write":                            {command.Write, nil, true},
		"write through a worker":           {command.Write, func(m machine) []func(*command.Config) { return []func(*command.Config){m.withWorker} }, true},
		"write of a large image, likewise": {command.Write, func(m machine) []func(*command.Config) { return []func(*command.Config){m.withWorker, onDisk} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			image, content := m.image(t)
			var config []func(*command.Config)
			if way.config != nil {
				config = way.config(m)
			}
			r := m.runner(t, config...)
			ended := make(chan command.Result, 1)
			go func() {
				c := reading(way.kind, m.file("f"), image, content)
				if way.sealed {
					c.Argv = append(c.Argv, "change")
				}
				got, err := r.Run(context.WithoutCancel(t.Context()), c)
				assert.NoError(t, err)
				ended <- got
			}()
			require.Eventually(t, func() bool { return exists(m.file("f.started")) }, patience, tick)
			require.NoError(t, os.WriteFile(image, bytes.Repeat([]byte("tampered"), 1<<10), 0o600)) // the same file, and the same size
			publish(m.file("f.go"), "")
			got := <-ended
			assert.Equal(t, 7, got.ExitCode)
			assert.Contains(t, string(got.Stdout), fmt.Sprintf("read %x\n", sha256.Sum256(content)))
			assert.Contains(t, string(got.Stdout), "path /proc/self/fd/")
			assert.Contains(t, string(got.Stdout), " (deleted)\n", "it has no name under which anybody could open it")
			if way.sealed {
				assert.Contains(t, string(got.Stdout), "operation not permitted", "not even the tool can change it")
			}
			if way.kind == command.Write {
				w, err := r.Writing("card")
				require.NoError(t, err)
				assert.Equal(t, []string{"read-image", m.file("f"), "--image=" + image}, w.Argv[:3], "a person reads the path")
				sum := sha256.Sum256(content)
				assert.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), w.Image)
			}
			left, err := filepath.Glob(filepath.Join(m.files, "*"))
			require.NoError(t, err)
			assert.Subset(t, []string{m.file("f.started"), m.file("f.go"), m.file("f.done"), image}, left)
		})
	}
}

// The image outlives the daemon as the tool does: also a tool that opens it only after that.
func TestAnImageOutlivesItsDaemon(t *testing.T) {
	m := newMachine(t)
	image, content := m.image(t)
	daemon := exec.Command(filepath.Join(m.bin, "image-daemon"), m.bin, m.state, m.file("f"), image)
	require.NoError(t, daemon.Start())
	require.Eventually(t, func() bool { return exists(m.file("f.started")) }, patience, tick)
	require.NoError(t, daemon.Process.Kill())
	_ = daemon.Wait()
	require.NoError(t, os.Truncate(image, 0))
	require.NoError(t, os.Remove(image))
	publish(m.file("f.go"), "")
	require.Eventually(t, func() bool { return exists(m.file("f.done")) }, patience, tick)
	read, err := os.ReadFile(m.file("f.done"))
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("%x", sha256.Sum256(content)), string(read))
	requireFree(t, m.runner(t), "card")
}

// A file that changed between its verification and the run reaches no tool.
func TestChangedImageStartsNoTool(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, image string, content []byte){
		"another content": func(t *testing.T, image string, content []byte) {
			content = bytes.Clone(content)
			content[len(content)-1] ^= 1
			require.NoError(t, os.WriteFile(image, content, 0o600))
		},
		"more": func(t *testing.T, image string, content []byte) {
			require.NoError(t, os.WriteFile(image, append(bytes.Clone(content), 'x'), 0o600))
		},
		"less": func(t *testing.T, image string, content []byte) {
			require.NoError(t, os.WriteFile(image, content[:len(content)-1], 0o600))
		},
		"nothing": func(t *testing.T, image string, _ []byte) { require.NoError(t, os.Remove(image)) },
	} {
		for _, limit := range []int64{0, 1} {
			for kind, lock := range map[command.Kind]string{command.Query: "query", command.Write: "write"} {
				t.Run(fmt.Sprintf("%s, %s, limit %d", name, lock, limit), func(t *testing.T) {
					m := newMachine(t)
					image, content := m.image(t)
					c := reading(kind, m.file("f"), image, content)
					change(t, image, content)
					publish(m.file("f.go"), "")
					r := m.runner(t, m.withWorker, func(c *command.Config) { c.MaxInMemory = limit })
					_, err := r.Run(t.Context(), c)
					require.ErrorIs(t, err, command.ErrImage)
					assert.ErrorContains(t, err, image)
					assert.NotContains(t, err.Error(), "/proc/self/fd")
					assert.False(t, exists(m.file("f.started")))
					w, err := r.Writing("card")
					require.NoError(t, err)
					assert.Nil(t, w, "no write began")
					requireFree(t, r, "card")
				})
			}
		}
	}
}

// A driver that gives an image to a command that does not name it has a mistake, and the tool would read something else.
func TestRefusesUnnamedImage(t *testing.T) {
	m := newMachine(t)
	image, content := m.image(t)
	c := reading(command.Query, m.file("f"), image, content)
	c.Argv[2] = "--image=" + m.file("other")
	_, err := m.runner(t).Run(t.Context(), c)
	require.ErrorIs(t, err, command.ErrImage)
	assert.ErrorContains(t, err, "no argument names "+image)
	c = reading(command.Query, m.file("f"), "image", content)
	_, err = m.runner(t).Run(t.Context(), c)
	require.ErrorIs(t, err, command.ErrImage)
	assert.False(t, exists(m.file("f.started")))
}

// A tool knows its image by the name of a descriptor, and a person by its path.
func TestFailureNamesImagePath(t *testing.T) {
	m := newMachine(t)
	image, content := m.image(t)
	c := command.Command{
		Argv:  []string{"answer", "3", "", "cannot open " + image},
		Image: &command.Image{Path: image, Digest: inventory.Digest(sha256.Sum256(content)), Size: int64(len(content))},
	}
	for kind, says := range map[command.Kind]string{command.Query: "cannot open /proc/self/fd/3", command.Write: "cannot open /proc/self/fd/4"} {
		c.Kind, c.Lock = kind, "card"
		got, err := m.runner(t, m.withWorker).Run(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, says, string(got.Stderr))
		assert.Contains(t, command.Failed(c, got, os.ErrInvalid).Error(), "(exit code 3): cannot open "+image)
	}
}
