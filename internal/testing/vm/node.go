package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

// nodeName is the machine's Node.
const nodeName = "lab-vm"

// Ports of hostAddress.
const (
	apiPort   = 6443
	imagePort = 8444
)

// accessDir is where the machine finds the access that a pod would get.
const accessDir = "/etc/lab/access"

// daemonService is the daemon's name as a service of the machine.
const daemonService = "firmware-daemon"

// overlay writes the part that differs in every run: programs, access, configuration.
func overlay(path string, b base, binDir string, l *lab.Lab, m *lab.Member) error {
	kubeconfig, err := kubeconfigOf(l)
	if err != nil {
		return err
	}
	_, caFile := l.ImageServer()
	config, err := json.Marshal(guestConfig(b))
	if err != nil {
		return err
	}
	return b.initrd(path, func(a *rootfs.Archive) {
		a.Copy("init", filepath.Join(binDir, "firmware-lab-guest"))
		a.Link("usr/bin/systemctl", "/init")
		a.Link("var/run", "/run")
		a.Link("lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu") // where cryptsetup looks for what opens tokens
		a.Copy("usr/bin/firmware-daemon", filepath.Join(binDir, "firmware-daemon"))
		a.File(guest.ConfigPath, 0o644, config)
		a.File(accessDir+"/kubeconfig", 0o600, kubeconfig)
		a.File(accessDir+"/token", 0o600, []byte(m.Token))
		a.File(accessDir+"/image-token", 0o600, []byte(m.ImageToken))
		a.Copy(accessDir+"/image-ca.crt", caFile)
		a.File("etc/machine-id", 0o644, []byte("00000000000000000000000000000001\n"))
		a.File("etc/dbus-1/lab.conf", 0o644, []byte(busConfig))
		a.File("etc/fwupd/fwupd.conf", 0o644, []byte(fwupdConfig))
		a.File("etc/node-firmware/profiles/fwupd-test.yaml", 0o644, []byte(fwupdProfile))
		a.File("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\n"))
		a.File("etc/group", 0o644, []byte("root:x:0:\n"))
	})
}

// kubeconfigOf reaches the API server the way the machine does.
func kubeconfigOf(l *lab.Lab) ([]byte, error) {
	_, ca := l.APIServer()
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{
		Server: fmt.Sprintf("https://%s:%d", hostAddress, apiPort), CertificateAuthorityData: ca, TLSServerName: "127.0.0.1",
	}
	config.AuthInfos["lab"] = &clientcmdapi.AuthInfo{TokenFile: accessDir + "/token"}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "lab"}
	config.CurrentContext = "lab"
	return clientcmd.Write(*config)
}

// deferredModules are loaded when a check plugs their device in.
var deferredModules = map[string]guest.Module{
	// One disk, whose identity does not tell how many controllers there were before it; every command takes a while, so that an image
	// takes seconds.
	"scsi_debug": {Parameters: "dev_size_mb=8 ndelay=4000000 vpd_use_hostno=0 inq_rev={scsi}"},
	// One adapter with one port.
	"netdevsim": {
		Parameters: "fw_running={netdevsim} fw_stored={netdevsim}",
		After:      []guest.Write{{Path: "/sys/bus/netdevsim/new_device", Value: "1 1"}},
	},
}

func modulesOf(b base) []guest.Module {
	var out []guest.Module
	for _, path := range b.Modules {
		m, deferred := deferredModules[strings.TrimSuffix(filepath.Base(path), ".ko")]
		m.Path, m.Deferred = path, deferred
		out = append(out, m)
	}
	return out
}

func guestConfig(b base) guest.Config {
	return guest.Config{
		Modules:    modulesOf(b),
		Address:    guestAddress + "/24",
		StateDisk:  "/dev/vda",
		Persistent: []string{"/var/lib/node-firmware", "/var/lib/fwupd"},
		Flash: []guest.Flash{
			{Name: "scsi", Default: "0001", Source: "/sys/module/scsi_debug/parameters/inq_rev"},
			{Name: "netdevsim", Default: "1.0.0", Source: "/sys/module/netdevsim/parameters/fw_stored"},
		},
		Drives: drives,
		Services: []guest.Service{
			{Name: "dbus", Argv: []string{"/usr/bin/dbus-daemon", "--config-file=/etc/dbus-1/lab.conf", "--nofork"}, Log: guest.StateDir + "/dbus.log"},
			{Name: "fwupd", Argv: []string{"/usr/libexec/fwupd/fwupd", "--no-timestamp"}, Log: guest.StateDir + "/fwupd.log"},
			{Name: daemonService, Log: guest.DaemonLog, Argv: []string{
				"/usr/bin/firmware-daemon", "run", "--node-name=" + nodeName, "--kubeconfig=" + accessDir + "/kubeconfig",
				"--namespace=" + cluster.Namespace, "--host-root=/", "--state-dir=/var/lib/node-firmware", "--tool-path=/usr/sbin:/usr/bin",
				"--scan-interval=10s", "--nvme-transports=pcie,tcp", "--health-timeout=3m", "--health-probe-bind-address=0", "--metrics-bind-address=0",
				fmt.Sprintf("--image-server=https://%s:%d", hostAddress, imagePort),
				"--image-server-ca=" + accessDir + "/image-ca.crt", "--image-token-file=" + accessDir + "/image-token",
			}},
		},
	}
}

// node is the machine as a member of the cluster.
type node struct {
	machine *machine
	kubelet *cluster.Kubelet

	mu    sync.Mutex
	boots []string
}

// joinMachine makes the machine a node of the lab and starts it.
func joinMachine(ctx context.Context, l *lab.Lab, b base, dir, binDir string) (*node, error) {
	member, err := l.Join(ctx, nodeName, map[string]string{"kubernetes.io/hostname": nodeName})
	if err != nil {
		return nil, err
	}
	initrd := filepath.Join(dir, "initrd")
	if err := errors.Join(overlay(initrd, b, binDir, l, member), makeState(ctx, filepath.Join(dir, "state.img"))); err != nil {
		return nil, err
	}
	server, _ := l.APIServer()
	api, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("start machine: %w", err)
	}
	images, _ := l.ImageServer()
	agentAddress, err := controlplane.FreeAddress()
	if err != nil {
		return nil, err
	}
	m, err := startMachine(machineOptions{
		base: b, dir: dir, initrd: initrd, agentAddress: agentAddress, sealed: true,
		// Through /proc: the path of the program may contain any character, and its file may be replaced meanwhile.
		relay: []string{fmt.Sprintf("/proc/%d/exe", os.Getpid()), "vm", "relay"}, forwards: map[int]string{apiPort: api.Host, imagePort: images},
	})
	if err != nil {
		return nil, err
	}
	return &node{machine: m, kubelet: member.Kubelet}, nil
}

// live acts as the kubelet: the Node is Ready while the machine answers, with its current boot id.
func (n *node) live(ctx context.Context) {
	go n.kubelet.Reap(ctx, 500*time.Millisecond)
	ready := ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		asked, cancel := context.WithTimeout(ctx, 10*time.Second)
		state, err := n.machine.agent.State(asked)
		cancel()
		switch {
		case err != nil && ready != "":
			if n.kubelet.Report(ctx, corev1.ConditionUnknown, ready) == nil {
				ready = ""
			}
		case err == nil && state.BootID != ready:
			n.note(state.BootID)
			if n.kubelet.Report(ctx, corev1.ConditionTrue, state.BootID) == nil {
				ready = state.BootID
			}
		}
	}, 500*time.Millisecond)
}

// note records a boot.
func (n *node) note(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.boots) == 0 || n.boots[len(n.boots)-1] != id {
		n.boots = append(n.boots, id)
	}
}

// bootCount returns how often the machine booted.
func (n *node) bootCount() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.boots)
}

// Relay connects standard input and output with an address. QEMU starts one for each connection out of the machine.
func Relay(address string, in io.Reader, out io.Writer) error {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	defer connection.Close()
	go func() {
		_, _ = io.Copy(connection, in)
		if c, ok := connection.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
	}()
	_, err = io.Copy(out, connection)
	return err
}
