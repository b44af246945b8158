package pluginserver_test

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/pluginserver"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/v1"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/plugin/wire"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

const (
	card     = "e41d2d0300fa7b10"
	board    = "MT_0000000359"
	patience = 5 * time.Minute
	tick     = 10 * time.Millisecond
)

var matches = []pluginserver.Match{{Class: inventory.NIC, Support: driver.SupportVendor}}

// acme is a simulated card whose archive can be made to wait.
type acme struct {
	*drivertest.Simulated
	// archiving is closed by an archive that waits for its context, or with stubborn for the channel alone.
	archiving, release chan struct{}
	stubborn           bool
}

// Archive waits until it is cancelled.
func (a *acme) Archive(ctx context.Context, _ inventory.Identity, _ string) error {
	close(a.archiving)
	if a.stubborn {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.release:
		return nil
	}
}

func newAcme() *acme {
	a := &acme{Simulated: drivertest.NewSimulated("acme-nic"), archiving: make(chan struct{}), release: make(chan struct{})}
	a.Add(inventory.Identity{Class: inventory.NIC, UniqueID: card, BoardID: board},
		inventory.Firmware{Running: "1.0.0", Activation: inventory.ActivateDeviceReset, Rollback: inventory.RollbackReadBack})
	return a
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "plug") //nolint:usetesting // the path of a socket has to be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// serve serves the driver and connects to it.
func serve(t *testing.T, d driver.Driver) pluginv1.DriverClient {
	t.Helper()
	socket := filepath.Join(shortDir(t), "acme-nic.sock")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- pluginserver.Serve(ctx, d, socket, pluginserver.Options{Matches: matches}) }()
	t.Cleanup(func() { cancel(); assert.NoError(t, <-ended) })
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return pluginv1.NewDriverClient(conn)
}

var device = &pluginv1.Identity{
	Class: pluginv1.Class_CLASS_NIC, UniqueId: card, PciAddresses: []string{"0000:3b:00.0"}, Node: "eth0",
}

func ref(id string) *pluginv1.TaskRef { return &pluginv1.TaskRef{Id: id, DriverVersion: "1"} }

func cancelTask(t *testing.T, c pluginv1.DriverClient, id string, grace int32, mode pluginv1.CancelMode) *pluginv1.CancelTaskResponse {
	t.Helper()
	answer, err := c.CancelTask(t.Context(), &pluginv1.CancelTaskRequest{Id: id, GraceSeconds: grace, Mode: mode})
	require.NoError(t, err)
	return answer
}

// R000-65, R000-66, R000-67: every answer to a cancellation has a status with a code and how the task stands.
func TestCancelledReaderEndsInGrace(t *testing.T) {
	a := newAcme()
	c := serve(t, a)
	stream, err := c.Archive(t.Context(), &pluginv1.ArchiveRequest{Task: ref("read"), Identity: device, Path: "/nowhere"})
	require.NoError(t, err)
	<-a.archiving
	listed, err := c.ListTasks(t.Context(), &pluginv1.ListTasksRequest{})
	require.NoError(t, err)
	require.Len(t, listed.Tasks, 1)
	assert.Equal(t, pluginv1.TaskState_TASK_STATE_RUNNING, listed.Tasks[0].State)

	answer := cancelTask(t, c, "read", 30, pluginv1.CancelMode_CANCEL_MODE_GRACEFUL)
	assert.Equal(t, pluginv1.Code_CODE_OK, answer.Status.Code)
	assert.Equal(t, pluginv1.TaskState_TASK_STATE_ENDED, answer.Task.State)
	assert.Equal(t, pluginv1.Code_CODE_CANCELLED, answer.Task.Result.Status.Code)
	assert.Equal(t, pluginv1.Code_CODE_CANCELLED, result(t, stream).Status.Code, "the follower gets the result")

	again := cancelTask(t, c, "read", 0, pluginv1.CancelMode_CANCEL_MODE_FORCE)
	assert.Equal(t, pluginv1.Code_CODE_OK, again.Status.Code, "what has ended stays so")
}

// TestOnlyForceAbandonsReader proves R000-66.
func TestOnlyForceAbandonsReader(t *testing.T) {
	a := newAcme()
	a.stubborn = true
	c := serve(t, a)
	_, err := c.Archive(t.Context(), &pluginv1.ArchiveRequest{Task: ref("read"), Identity: device, Path: "/nowhere"})
	require.NoError(t, err)
	<-a.archiving
	answer := cancelTask(t, c, "read", 0, pluginv1.CancelMode_CANCEL_MODE_GRACEFUL)
	assert.Equal(t, pluginv1.Code_CODE_STILL_RUNNING, answer.Status.Code)
	answer = cancelTask(t, c, "read", 0, pluginv1.CancelMode_CANCEL_MODE_FORCE)
	assert.Equal(t, pluginv1.Code_CODE_OK, answer.Status.Code)
	close(a.release)
}

// TestWriteIsNeverBrokenOff proves R000-66, R000-67.
func TestWriteIsNeverBrokenOff(t *testing.T) {
	a := newAcme()
	a.Inject(card, drivertest.HangWrite)
	c := serve(t, a)
	img := drivertest.NewImage(t, board, "2.0.0")
	follow, leave := context.WithCancel(t.Context())
	_, err := c.Write(follow, &pluginv1.WriteRequest{Task: ref("write"), Identity: device, Image: wire.ImageTo(img)})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return a.Busy(card) }, patience, tick)

	forced := cancelTask(t, c, "write", 30, pluginv1.CancelMode_CANCEL_MODE_FORCE)
	assert.Equal(t, pluginv1.Code_CODE_REFUSED_WRITING, forced.Status.Code)
	assert.Contains(t, forced.Status.Message, "wait until it ends")
	waited := cancelTask(t, c, "write", 0, pluginv1.CancelMode_CANCEL_MODE_GRACEFUL)
	assert.Equal(t, pluginv1.Code_CODE_STILL_RUNNING, waited.Status.Code)
	assert.True(t, a.Busy(card))

	leave() // who follows a write may go
	for name, m := range map[string]*pluginv1.Identity{
		"by its id":      device,
		"by its address": {Class: device.Class, UniqueId: "mac", PciAddresses: device.PciAddresses},
		"by its node":    {Class: device.Class, UniqueId: "mac", Node: device.Node},
	} {
		read, err := c.Inspect(t.Context(), &pluginv1.InspectRequest{Identity: m})
		require.NoError(t, err)
		assert.Equal(t, pluginv1.Code_CODE_STILL_RUNNING, read.Status.Code, name)
	}
	sibling, err := c.Inspect(t.Context(), &pluginv1.InspectRequest{Identity: &pluginv1.Identity{
		Class: device.Class, UniqueId: "sibling", PciAddresses: device.PciAddresses, Node: "eth7",
	}})
	require.NoError(t, err)
	assert.Equal(t, pluginv1.Code_CODE_FAILED, sibling.Status.Code, "the driver is asked, and does not know it")
	other, err := c.Write(t.Context(), &pluginv1.WriteRequest{Task: ref("other"), Identity: device, Image: wire.ImageTo(img)})
	require.NoError(t, err)
	assert.Equal(t, pluginv1.Code_CODE_BUSY, result(t, other).Status.Code, "one writer a device")
	same, err := c.Write(t.Context(), &pluginv1.WriteRequest{Task: ref("write"), Identity: device, Image: wire.ImageTo(img)})
	require.NoError(t, err)
	_, err = same.Recv() // the plugin follows it
	require.NoError(t, err)
	a.Release(card)
	got := result(t, same)
	assert.Equal(t, pluginv1.Code_CODE_OK, got.Status.Code)
	assert.Equal(t, pluginv1.Activation_ACTIVATION_DEVICE_RESET, got.Activation)
	assert.Equal(t, 1, a.Count(drivertest.OpWrite, card), "the second caller followed the first write")

	done, err := c.GetTask(t.Context(), &pluginv1.GetTaskRequest{Id: "write"})
	require.NoError(t, err)
	assert.Equal(t, pluginv1.TaskKind_TASK_KIND_WRITE, done.Task.Kind)
	assert.Equal(t, int32(100), done.Task.Percent)
}

// TestBadCallsGetACode proves R000-67.
func TestBadCallsGetACode(t *testing.T) {
	c := serve(t, newAcme())
	for name, answer := range map[string]struct {
		got, want pluginv1.Code
	}{
		"unknown task": {cancelTask(t, c, "none", 0, pluginv1.CancelMode_CANCEL_MODE_GRACEFUL).Status.Code, pluginv1.Code_CODE_NOT_FOUND},
		"task id":      {write(t, c, &pluginv1.WriteRequest{Task: ref("with blanks"), Identity: device, Image: someImage()}), pluginv1.Code_CODE_FAILED},
		"other version": {write(t, c, &pluginv1.WriteRequest{Task: &pluginv1.TaskRef{Id: "w", DriverVersion: "2"}, Identity: device, Image: someImage()}),
			pluginv1.Code_CODE_VERSION_CHANGED},
		"no class": {write(t, c, &pluginv1.WriteRequest{Task: ref("w"), Identity: &pluginv1.Identity{UniqueId: card}, Image: someImage()}),
			pluginv1.Code_CODE_FAILED},
		"no image":          {write(t, c, &pluginv1.WriteRequest{Task: ref("w"), Identity: device}), pluginv1.Code_CODE_FAILED},
		"no file":           {write(t, c, &pluginv1.WriteRequest{Task: ref("w"), Identity: device, Image: someImage()}), pluginv1.Code_CODE_IMAGE_CHANGED},
		"another file":      {write(t, c, &pluginv1.WriteRequest{Task: ref("changed"), Identity: device, Image: changedImage(t)}), pluginv1.Code_CODE_IMAGE_CHANGED},
		"nothing to follow": {write(t, c, &pluginv1.WriteRequest{Task: &pluginv1.TaskRef{Id: "x", Follow: true}, Identity: device, Image: someImage()}), pluginv1.Code_CODE_NOT_FOUND},
	} {
		assert.Equal(t, answer.want, answer.got, name)
	}
	begun, err := c.Archive(t.Context(), &pluginv1.ArchiveRequest{Task: ref("a"), Identity: device, Path: "/nowhere"})
	require.NoError(t, err)
	_, err = begun.Recv()
	require.NoError(t, err)
	for name, m := range map[string]*pluginv1.CancelTaskRequest{
		"mode":  {Id: "a"},
		"grace": {Id: "a", GraceSeconds: 3601, Mode: pluginv1.CancelMode_CANCEL_MODE_FORCE},
	} {
		answer, err := c.CancelTask(t.Context(), m)
		require.NoError(t, err)
		assert.Equal(t, pluginv1.Code_CODE_FAILED, answer.Status.Code, name)
		assert.Equal(t, pluginv1.TaskState_TASK_STATE_RUNNING, answer.Task.State, name)
	}
}

func someImage() *pluginv1.Image {
	return &pluginv1.Image{Path: "/nowhere", Version: "1", Digest: inventory.Digest{}.String(), Size: 1}
}

// changedImage is an image whose file has other content by now.
func changedImage(t *testing.T) *pluginv1.Image {
	t.Helper()
	img := drivertest.NewImage(t, board, "2.0.0")
	require.NoError(t, os.WriteFile(img.Path, make([]byte, img.Size), 0o600))
	return wire.ImageTo(img)
}

func write(t *testing.T, c pluginv1.DriverClient, m *pluginv1.WriteRequest) pluginv1.Code {
	t.Helper()
	stream, err := c.Write(t.Context(), m)
	require.NoError(t, err)
	return result(t, stream).GetStatus().GetCode()
}

func result(t *testing.T, stream interface {
	Recv() (*pluginv1.TaskEvent, error)
}) *pluginv1.TaskResult {
	t.Helper()
	for {
		m, err := stream.Recv()
		require.NoError(t, err)
		if r := m.GetResult(); r != nil {
			return r
		}
	}
}

// panicking is a driver with a bug.
type panicking struct{ *acme }

func (panicking) Inspect(context.Context, inventory.Identity) (inventory.Identity, inventory.Firmware, error) {
	panic("index out of range")
}

func (panicking) Write(context.Context, inventory.Identity, driver.Image, driver.Progress) (inventory.Activation, error) {
	panic("index out of range")
}

func TestPanicFailsOnlyItsCall(t *testing.T) {
	c := serve(t, panicking{newAcme()})
	_, err := c.Inspect(t.Context(), &pluginv1.InspectRequest{Identity: device})
	require.ErrorContains(t, err, "panicked")
	img := drivertest.NewImage(t, board, "2.0.0")
	assert.Equal(t, pluginv1.Code_CODE_FAILED, write(t, c, &pluginv1.WriteRequest{Task: ref("w"), Identity: device, Image: wire.ImageTo(img)}))
	info, err := c.GetInfo(t.Context(), &pluginv1.GetInfoRequest{})
	require.NoError(t, err)
	assert.Equal(t, "acme-nic", info.Name)
}

func TestSocketIsItsOwnersAlone(t *testing.T) {
	dir := shortDir(t)
	socket := filepath.Join(dir, "acme-nic.sock")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	serve := func() { ended <- pluginserver.Serve(ctx, newAcme(), socket, pluginserver.Options{Matches: matches}) }
	go serve()
	require.Eventually(t, func() bool { _, err := os.Lstat(socket); return err == nil }, patience, tick)
	info, err := os.Lstat(socket)
	require.NoError(t, err)
	assert.Equal(t, fs.ModeSocket|0o600, info.Mode())
	require.ErrorContains(t, pluginserver.Serve(t.Context(), newAcme(), socket, pluginserver.Options{Matches: matches}), "another process serves")

	cancel()
	require.NoError(t, <-ended)
	_, err = os.Lstat(socket)
	require.NoError(t, err, "it is still installed")
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	go serve()
	require.Eventually(t, func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", socket)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, patience, tick)
	cancel()
	require.NoError(t, <-ended)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing is left behind")
}

// In containers all plugins are process 1, and they begin together when a node boots.
func TestPluginLeavesTheSocketAnotherOneMakesAlone(t *testing.T) {
	dir := shortDir(t)
	for _, name := range []string{strconv.Itoa(os.Getpid()), "1", "rival.new"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "."+name), nil, 0o600))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- pluginserver.Serve(ctx, newAcme(), filepath.Join(dir, "acme-nic.sock"), pluginserver.Options{Matches: matches})
	}()
	require.Eventually(t, func() bool { _, err := os.Lstat(filepath.Join(dir, "acme-nic.sock")); return err == nil }, patience, tick)
	cancel()
	require.NoError(t, <-ended)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 4)
}

func TestRefusesUnservablePlugin(t *testing.T) {
	dir := shortDir(t)
	taken := filepath.Join(dir, "taken")
	require.NoError(t, os.Mkdir(taken, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(taken, "acme-nic.sock"), []byte("precious"), 0o600))
	for name, c := range map[string]struct {
		socket  string
		options pluginserver.Options
		want    string
	}{
		"name":         {"other.sock", pluginserver.Options{Matches: matches}, "acme-nic.sock"},
		"no match":     {"acme-nic.sock", pluginserver.Options{}, "0 matches"},
		"bad match":    {"acme-nic.sock", pluginserver.Options{Matches: []pluginserver.Match{{Class: "Toaster", Support: driver.SupportVendor}}}, "Toaster"},
		"not told":     {"acme-nic.sock", pluginserver.Options{Matches: []pluginserver.Match{{Class: inventory.NIC, Support: driver.SupportVendor, SubsystemVendorIDs: []string{"1028"}}}}, "no vendors of subsystems"},
		"no level":     {"acme-nic.sock", pluginserver.Options{Matches: []pluginserver.Match{{Class: inventory.NIC}}}, "level of support"},
		"no directory": {"missing/acme-nic.sock", pluginserver.Options{Matches: matches}, "directory of the socket"},
		"a file":       {"taken/acme-nic.sock", pluginserver.Options{Matches: matches}, "is not a socket"},
	} {
		err := pluginserver.Serve(t.Context(), newAcme(), filepath.Join(dir, c.socket), c.options)
		assert.ErrorContains(t, err, c.want, name)
	}
	content, err := os.ReadFile(filepath.Join(taken, "acme-nic.sock"))
	require.NoError(t, err)
	assert.Equal(t, "precious", string(content))
}
