package main

import (
	"context"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/plugintool"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// TestMain makes this test the tool that speaks to plugins, and the plugin itself, when it is started as one.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case plugin.Tool:
		os.Exit(plugintool.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	case name:
		main()
		return
	}
	os.Exit(m.Run())
}

const (
	unique   = "eui.0011223344556677"
	board    = "AF-1"
	patience = 5 * time.Minute
	tick     = 10 * time.Millisecond
)

// bench is a drive, the plugin as a process of its own, and a daemon's view of it.
type bench struct {
	dir, drive string
	runner     *command.ExecRunner
	driver     driver.Driver
	process    *exec.Cmd
}

var drive = inventory.Identity{Class: inventory.Disk, UniqueID: unique, Model: "ACME Filedrive", Transport: "sas", Node: "sg2"}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "plug") //nolint:usetesting // the path of a socket has to be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &bench{dir: dir, drive: filepath.Join(dir, "drives", unique)}
	bin := filepath.Join(dir, "bin")
	require.NoError(t, os.MkdirAll(b.drive, 0o700))
	require.NoError(t, os.MkdirAll(bin, 0o700))
	require.NoError(t, os.Mkdir(b.plugins(), 0o700))
	self, err := os.Executable()
	require.NoError(t, err)
	for _, tool := range []string{plugin.Tool, name} {
		require.NoError(t, os.Symlink(self, filepath.Join(bin, tool)))
	}
	require.NoError(t, os.WriteFile(b.file(runningFile), newImage(board, "1.0.0", payload), 0o600))
	b.runner, err = command.NewExecRunner(command.Config{Path: []string{bin}, StateDir: filepath.Join(dir, "state")})
	require.NoError(t, err)
	b.start(t)
	directory := plugin.New(plugin.Config{Dir: b.plugins()})
	set := directory.Drivers(b.runner)
	_, err = directory.Refresh(t.Context())
	require.NoError(t, err)
	b.driver, err = set.For(drive)
	require.NoError(t, err)
	require.NotNil(t, b.driver, "the plugin claims the drive")
	return b
}

func (b *bench) plugins() string         { return filepath.Join(b.dir, "plugins") }
func (b *bench) socket() string          { return filepath.Join(b.plugins(), name+".sock") }
func (b *bench) file(name string) string { return filepath.Join(b.drive, name) }

// start starts the plugin as its README says.
func (b *bench) start(t *testing.T) {
	t.Helper()
	before, _ := os.Lstat(b.socket())
	b.process = exec.Command(filepath.Join(b.dir, "bin", name), "--socket", b.socket(), "--dir", filepath.Join(b.dir, "drives"))
	require.NoError(t, b.process.Start())
	p := b.process
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	require.Eventually(t, func() bool {
		now, err := os.Lstat(b.socket())
		return err == nil && (before == nil || !os.SameFile(before, now))
	}, patience, tick)
}

func image(t *testing.T, board string, version inventory.Version) driver.Image {
	t.Helper()
	return save(t, version, newImage(board, version, payload))
}

func save(t *testing.T, version inventory.Version, content []byte) driver.Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return driver.Image{Path: path, Version: version, Digest: sha256.Sum256(content), Size: int64(len(content))}
}

// R003-40, R000-64: the example, as a process of its own, passes the suite built-in drivers pass.
func TestExampleConforms(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Harness {
		b := newBench(t)
		damaged := newImage(board, "2.0.0", payload)
		return drivertest.Harness{
			Driver:         b.driver,
			ID:             drive,
			Image:          image(t, board, "2.0.0"),
			Other:          image(t, board, "3.0.0"),
			Previous:       image(t, board, "1.0.0"),
			WrongBoard:     image(t, "AF-2", "2.0.0"),
			Damaged:        save(t, "2.0.0", damaged[:len(damaged)-100]),
			SelfDescribing: true,
			Reboot:         func(t *testing.T) { b.reset(t) },
			Garbage: func(t *testing.T) {
				require.NoError(t, os.WriteFile(b.file(runningFile), []byte("\x00\xffnonsense"), 0o600))
			},
			Unreadable: func(t *testing.T) { require.NoError(t, os.Remove(b.file(runningFile))) },
			FailWrite: func(t *testing.T, stderr string) {
				require.NoError(t, os.WriteFile(b.file(lockedFile), []byte(stderr), 0o600))
			},
			LieWrite: func(t *testing.T) {
				for _, file := range []string{stagedFile, stagedCacheFile} {
					require.NoError(t, os.Symlink("/dev/null", b.file(file)))
				}
			},
			HangWrite: b.hang,
			WriteRunning: func(t *testing.T, lock string) bool {
				running, err := b.runner.WriteRunning(lock)
				require.NoError(t, err)
				return running
			},
			FailRead: func(t *testing.T) { require.NoError(t, os.Truncate(b.file(runningFile), 500)) },
			Stored:   b.stored,
			Settings: &drivertest.Settings{
				Set:     []inventory.Setting{{Name: writeCache, Value: "Off"}},
				Misfits: []inventory.Setting{{Name: writeCache, Value: "Maybe"}},
				Stored: func(t *testing.T, _ string) string {
					d := drives{filepath.Join(b.dir, "drives")}
					inForce, err := d.value(drive, cacheFile, inventory.Read("On"))
					require.NoError(t, err)
					value, err := d.value(drive, stagedCacheFile, inForce)
					require.NoError(t, err)
					return value.Value
				},
			},
		}
	})
}

func (b *bench) reset(t *testing.T) {
	t.Helper()
	for staged, file := range map[string]string{stagedFile: runningFile, stagedCacheFile: cacheFile} {
		if _, err := os.Stat(b.file(staged)); err == nil {
			require.NoError(t, os.Rename(b.file(staged), b.file(file)))
		}
	}
}

func (b *bench) stored(t *testing.T) inventory.Version {
	t.Helper()
	for _, file := range []string{stagedFile, runningFile} {
		if h, err := readHeader(b.file(file)); err == nil {
			return h.version
		}
	}
	require.Fail(t, "the drive holds nothing")
	return ""
}

// hang makes the drive slow in the middle of its next write.
func (b *bench) hang(t *testing.T) (started func() bool, release func()) {
	t.Helper()
	require.NoError(t, os.WriteFile(b.file(busyFile), nil, 0o600))
	return func() bool {
			w, err := b.runner.Writing(unique)
			return err == nil && w != nil && strings.HasPrefix(w.LastLine, plugin.ProgressPrefix)
		}, func() {
			require.NoError(t, os.Remove(b.file(busyFile)))
		}
}

func TestKilledExampleIsADriveThatCannotBeRead(t *testing.T) {
	b := newBench(t)
	_, fw, err := b.driver.Inspect(t.Context(), drive)
	require.NoError(t, err)
	assert.Equal(t, inventory.Version("1.0.0"), fw.Running)
	require.NoError(t, b.process.Process.Kill())
	_ = b.process.Wait()
	_, _, err = b.driver.Inspect(t.Context(), drive)
	require.ErrorIs(t, err, plugin.ErrUnavailable)
	b.start(t)
	_, _, err = b.driver.Inspect(t.Context(), drive)
	require.NoError(t, err)
}

func TestIDsStayInDirectory(t *testing.T) {
	d := drives{t.TempDir()}
	for _, id := range []string{"", "..", "../x", "a/b", "."} {
		_, _, err := d.Inspect(t.Context(), inventory.Identity{Class: inventory.Disk, UniqueID: id})
		require.ErrorContains(t, err, "not the id of a drive", id)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(newImage(board, "1.0.0", payload))
	f.Add([]byte(magic + "\n\n\n\n\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		h, _, err := parse(content)
		if err == nil {
			require.NotEmpty(t, h.board)
			require.NotEmpty(t, h.version)
		}
	})
}
