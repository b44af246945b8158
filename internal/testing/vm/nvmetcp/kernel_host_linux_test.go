package nvmetcp_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/nvmetcp"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

// The tests of this file let the kernel that runs them connect to a drive. They are for a machine that can be thrown away:
// the lab VM, where the compiled tests run as root with the module nvme-tcp loaded.
var withKernel = flag.Bool("kernel", false, "connect this machine's kernel to a drive (root, module nvme-tcp)")

const (
	hostNQN = "nqn.2014-08.org.nvmexpress:uuid:5ad1a7a2-5a5d-4f5d-9b8f-0d8b5a4c0001"
	// kernelTime is how long the kernel may take to notice and to reconnect.
	kernelTime = time.Minute
)

// kernelDrive is a drive that the kernel is connected to.
type kernelDrive struct {
	t      *testing.T
	config nvmetcp.Config
	state  string
	drive  *nvmetcp.Drive
	addr   string
	stop   func()
	// name is the kernel's, as in nvme0.
	name string
}

func connectKernel(t *testing.T, config nvmetcp.Config) *kernelDrive {
	if !*withKernel {
		t.Skip("needs a machine that can be thrown away: compile with go test -c, run there with -test.v -kernel")
	}
	k := &kernelDrive{t: t, config: config, state: filepath.Join(t.TempDir(), "state.json"), addr: "127.0.0.1:0"}
	k.powerOn()
	host, port, err := net.SplitHostPort(k.addr)
	require.NoError(t, err)
	fabrics, err := os.OpenFile("/dev/nvme-fabrics", os.O_RDWR, 0)
	require.NoError(t, err)
	defer fabrics.Close()
	_, err = fmt.Fprintf(fabrics, "transport=tcp,traddr=%s,trsvcid=%s,nqn=%s,hostnqn=%s,reconnect_delay=1,ctrl_loss_tmo=600",
		host, port, k.drive.NQN(), hostNQN)
	require.NoError(t, err)
	reply := make([]byte, 100)
	n, err := fabrics.Read(reply)
	require.NoError(t, err)
	var instance, id int
	_, err = fmt.Sscanf(string(reply[:n]), "instance=%d,cntlid=%d", &instance, &id)
	require.NoError(t, err, "%q", reply[:n])
	k.name = fmt.Sprintf("nvme%d", instance)
	t.Cleanup(func() {
		assert.NoError(t, os.WriteFile(k.sysfs("delete_controller"), []byte("1"), 0))
		k.powerOff()
	})
	k.waitLive()
	return k
}

func (k *kernelDrive) powerOn() {
	var err error
	k.drive, err = nvmetcp.Open(k.state, k.config)
	require.NoError(k.t, err)
	listener, err := net.Listen("tcp", k.addr)
	require.NoError(k.t, err)
	k.addr = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- nvmetcp.Serve(ctx, listener, k.drive) }()
	k.stop = func() { cancel(); assert.NoError(k.t, <-served) }
}

func (k *kernelDrive) powerOff() {
	k.stop()
	assert.NoError(k.t, k.drive.Close())
}

func (k *kernelDrive) sysfs(attribute string) string {
	return filepath.Join("/sys/class/nvme", k.name, attribute)
}

func (k *kernelDrive) attribute(name string) string {
	content, err := os.ReadFile(k.sysfs(name))
	if err != nil {
		return err.Error()
	}
	return strings.TrimRight(string(content), "\n")
}

func (k *kernelDrive) waitLive() {
	require.Eventually(k.t, func() bool { return k.attribute("state") == "live" }, kernelTime, 50*time.Millisecond)
}

// adminCommand is struct nvme_admin_cmd of linux/nvme_ioctl.h.
type adminCommand struct {
	opcode, flags         uint8
	reserved              uint16
	namespace, cdw2, cdw3 uint32
	metadata, address     uint64
	metadataLen, dataLen  uint32
	cdw10, cdw11, cdw12   uint32
	cdw13, cdw14, cdw15   uint32
	timeoutMS, result     uint32
}

const ioctlAdmin = 0xc0484e41

// admin has the kernel send a command, and is the status of it without the bit "do not retry".
func (k *kernelDrive) admin(c adminCommand, data []byte) nvmectrl.Status {
	device, err := os.OpenFile("/dev/"+k.name, os.O_RDWR, 0)
	require.NoError(k.t, err)
	defer device.Close()
	var pin runtime.Pinner
	defer pin.Unpin()
	if len(data) > 0 {
		pin.Pin(&data[0])
		c.address, c.dataLen = uint64(uintptr(unsafe.Pointer(&data[0]))), uint32(len(data))
	}
	status, _, errno := unix.Syscall(unix.SYS_IOCTL, device.Fd(), ioctlAdmin, uintptr(unsafe.Pointer(&c)))
	require.Zero(k.t, errno, "opcode %#x", c.opcode)
	return nvmectrl.Status(status & 0x7ff)
}

func (k *kernelDrive) identify() []byte {
	data := make([]byte, 4096)
	require.Equal(k.t, nvmectrl.Success, k.admin(adminCommand{opcode: 0x06, cdw10: 1}, data))
	return data
}

func (k *kernelDrive) revision() string { return strings.TrimRight(string(k.identify()[64:72]), " ") }

func (k *kernelDrive) slots() []byte {
	data := make([]byte, 512)
	require.Equal(k.t, nvmectrl.Success, k.admin(adminCommand{opcode: 0x02, namespace: 0xffffffff, cdw10: 3 | (512/4-1)<<16}, data))
	return data
}

func (k *kernelDrive) download(image []byte, unit int) {
	for at := 0; at < len(image); at += unit {
		piece := bytes.Clone(image[at:min(at+unit, len(image))])
		s := k.admin(adminCommand{opcode: 0x11, cdw10: uint32(len(piece)/4 - 1), cdw11: uint32(at / 4)}, piece)
		require.Equal(k.t, nvmectrl.Success, s, "offset %d", at)
	}
}

func (k *kernelDrive) commit(slot, action uint32) nvmectrl.Status {
	return k.admin(adminCommand{opcode: 0x10, cdw10: slot | action<<3}, nil)
}

func (k *kernelDrive) resetController() {
	require.NoError(k.t, os.WriteFile(k.sysfs("reset_controller"), []byte("1"), 0))
	k.waitLive()
}
