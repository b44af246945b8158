package devlink

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
)

type netlinkMessage = netlink.Message

// patience bounds how long a process may take to start or end on a busy machine.
const (
	patience = 5 * time.Minute
	tick     = 10 * time.Millisecond
)

// run runs the tool in this process.
func run(k *fakeKernel, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = Program{Dial: k.dial, SearchPath: k.searchPath()}.Run(args, &out, &err)
	return code, out.String(), err.String()
}

func (k *fakeKernel) lookedIn(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(k.searchPath())
	require.NoError(t, err)
	return string(content)
}

func TestAFlashShowsItsProgressAndLeavesNoTrace(t *testing.T) {
	a, _ := simulated()
	k := newFakeKernel(t, a)
	img := drivertest.NewImage(t, a.ForImages, "1.1.0")
	code, stdout, stderr := run(k, "flash", a.Handle, "--file", img.Path)
	require.Zero(t, code, stderr)
	assert.Empty(t, stderr)
	assert.Equal(t, "Preparing to flash\n0% Flashing\n42% Flashing\nFlash select (may take 81 seconds)\nflashed netdevsim/netdevsim1\n", stdout)
	a, err := k.load()
	require.NoError(t, err)
	assert.Equal(t, "1.1.0", a.Stored)
	assert.Equal(t, "/lib/vendor", k.lookedIn(t))
	assertOnly(t, filepath.Dir(img.Path), "image.bin")
}

func assertOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	assert.Equal(t, names, found)
}

func TestNamesComponentToKernel(t *testing.T) {
	a, _ := simulated()
	k := newFakeKernel(t, a)
	img := drivertest.NewImage(t, a.ForImages, "1.1.0")
	code, stdout, _ := run(k, "flash", a.Handle, "--component", "fw.mgmt", "--file", img.Path)
	assert.Zero(t, code)
	assert.Contains(t, stdout, "Flash select fw.mgmt (may take 81 seconds)\n")
}

func TestQuotesKernelsRefusal(t *testing.T) {
	a, _ := broadcom()
	good, foreign := drivertest.NewImage(t, a.ForImages, "1.1.0").Path, drivertest.NewImage(t, "another", "1.1.0").Path
	for name, test := range map[string]struct {
		fault, text, file string
		code              int
		want              string
	}{
		"another board": {file: foreign, code: exitRejected, want: "No image for this board in the file (invalid argument)"},
		"failure":       {fault: "fail", text: "flash controller\nis locked", file: good, code: exitFailed, want: "flash controller is locked"},
		"unplugged":     {fault: "gone", file: good, code: exitFailed, want: "no such device"},
	} {
		k := newFakeKernel(t, a)
		if test.fault != "" {
			k.fault(test.fault, test.text)(t)
		}
		code, _, stderr := run(k, "flash", a.Handle, "--file", test.file)
		assert.Equal(t, test.code, code, name)
		assert.Contains(t, stderr, test.want, name)
		assert.Equal(t, 1, strings.Count(stderr, "\n"), name)
		assert.Equal(t, "/lib/vendor", k.lookedIn(t), name)
	}
}

// bnxt_en and ice refuse images by error numbers that mean something else where the kernel itself answers. What EOPNOTSUPP
// means depends on the kernel driver, which the tool does not know.
func TestRefusalsAboutTheImage(t *testing.T) {
	a, _ := broadcom()
	img := drivertest.NewImage(t, a.ForImages, "1.1.0").Path
	for _, test := range []struct {
		errno   syscall.Errno
		message string
		code    int
	}{
		{syscall.EOPNOTSUPP, "PKG install error : Invalid device", exitUnsupported},
		{syscall.ENOPKG, "PKG install error : Invalid package", exitRejected},
		{syscall.ENOPKG, "", exitRejected},
		{syscall.EPERM, "PKG install error : Authentication failed", exitRejected},
		{syscall.ECANCELED, "Firmware has rejected updating component", exitRejected},
		{syscall.EOPNOTSUPP, "", exitUnsupported},
		{syscall.EPERM, "", exitFailed},
		{syscall.ECANCELED, "", exitFailed},
		{syscall.EBUSY, "Pending reset", exitBusy},
		{syscall.EIO, "PKG install error : Internal error", exitFailed},
	} {
		k := newFakeKernel(t, a)
		k.fault("refuse", fmt.Sprintf("%d %s", test.errno, test.message))(t)
		code, _, _ := run(k, "flash", a.Handle, "--file", img)
		assert.Equal(t, test.code, code, "%v %q", test.errno, test.message)
	}
}

// A container sees files at paths the kernel does not know.
func TestAnImageTheKernelDoesNotFindSaysWhatToCheck(t *testing.T) {
	a, _ := broadcom()
	k := newFakeKernel(t, a)
	img := drivertest.NewImage(t, a.ForImages, "1.1.0")
	inside := Program{Dial: k.dial, SearchPath: filepath.Join(t.TempDir(), "path")} // not the parameter that the kernel reads
	require.NoError(t, os.WriteFile(inside.SearchPath, []byte("\n"), 0o600))
	var stdout, stderr bytes.Buffer
	code := inside.Run([]string{"flash", a.Handle, "--file", img.Path}, &stdout, &stderr)
	assert.Equal(t, exitNotFound, code)
	assert.Contains(t, stderr.String(), "failed to locate the requested firmware file")
	assert.Contains(t, stderr.String(), "check that "+filepath.Dir(img.Path)+" has the same path on the host")
	content, err := os.ReadFile(inside.SearchPath)
	require.NoError(t, err)
	assert.Equal(t, "\x00", string(content), "an empty value is one byte: a write of nothing changes nothing")
}

func TestAnActivationIsReported(t *testing.T) {
	a, _ := broadcom()
	a.Stored = "1.1.0"
	k := newFakeKernel(t, a)
	code, stdout, stderr := run(k, "activate", a.Handle)
	assert.Zero(t, code, stderr)
	assert.Equal(t, "activated firmware of pci/0000:3b:00.0\n", stdout)
	k.fault("no-reset", "")(t)
	code, _, stderr = run(k, "activate", a.Handle)
	assert.Equal(t, exitUnsupported, code)
	assert.Contains(t, stderr, "Requested reload action is not supported by the driver")
}

func TestWrongArgumentsSendNothing(t *testing.T) {
	program := Program{Dial: func() (Conn, error) {
		assert.Fail(t, "the kernel was asked")
		return nil, os.ErrInvalid
	}, SearchPath: "/nowhere"}
	for _, args := range []string{
		"", "flash", "burn pci/0000:3b:00.0 --file x", "flash 0000:3b:00.0 --file x", "flash pci/0000:3b:00.0", "activate pci/0000:3b:00.0 now",
		"flash pci/0000:3b:00.0 --file x --overwrite identifiers", "activate pci/0000:3b:00.0 --file x", "flash pci/a/b --file x",
	} {
		var stdout, stderr bytes.Buffer
		assert.Equal(t, exitUsage, program.Run(strings.Fields(args), &stdout, &stderr), args)
		assert.NotEmpty(t, stderr.String(), args)
	}
	var stdout, stderr bytes.Buffer
	assert.Equal(t, exitFailed, program.Run([]string{"flash", "pci/0000:3b:00.0", "--file", "/missing"}, &stdout, &stderr))
}

// The kernel goes on whatever happens to who asked it, and who asked has to clean up behind it.
func TestSignalsDoNotEndAFlash(t *testing.T) {
	a, _ := broadcom()
	k := newFakeKernel(t, a)
	k.fault("hang", "")(t)
	img := drivertest.NewImage(t, a.ForImages, "1.1.0")
	self, err := os.Executable()
	require.NoError(t, err)
	tool := exec.Command(self, asTool, k.dir, "flash", a.Handle, "--file", img.Path)
	var stdout bytes.Buffer
	tool.Stdout = &stdout
	require.NoError(t, tool.Start())
	require.Eventually(t, func() bool { _, hangs := k.faulty("hangs"); return hangs }, patience, tick)
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		require.NoError(t, tool.Process.Signal(s))
	}
	require.NoError(t, os.Remove(filepath.Join(k.dir, "hang")))
	require.NoError(t, tool.Wait())
	assert.Contains(t, stdout.String(), "flashed pci/0000:3b:00.0")
	assert.Equal(t, "/lib/vendor", k.lookedIn(t))
}

// After that the kernel looks where the tool pointed it to, until the next flash finds the note and puts it right.
func TestAFlashThatWasKilledIsCleanedUpByTheNext(t *testing.T) {
	a, _ := broadcom()
	k := newFakeKernel(t, a)
	k.fault("hang", "")(t)
	img := drivertest.NewImage(t, a.ForImages, "1.1.0")
	self, err := os.Executable()
	require.NoError(t, err)
	tool := exec.Command(self, asTool, k.dir, "flash", a.Handle, "--file", img.Path)
	require.NoError(t, tool.Start())
	require.Eventually(t, func() bool { _, hangs := k.faulty("hangs"); return hangs }, patience, tick)
	require.NoError(t, tool.Process.Kill())
	require.Error(t, tool.Wait())
	require.Equal(t, filepath.Dir(img.Path), k.lookedIn(t))
	require.NoError(t, os.Remove(filepath.Join(k.dir, "hang")))

	for name, next := range map[string]string{
		"the same directory": img.Path, "another directory": drivertest.NewImage(t, a.ForImages, "1.1.0").Path,
	} {
		code, _, stderr := run(k, "flash", a.Handle, "--file", next)
		require.Zero(t, code, stderr)
		assert.Equal(t, "/lib/vendor", k.lookedIn(t), name)
	}
	assertOnly(t, filepath.Dir(img.Path), "image.bin")
}
