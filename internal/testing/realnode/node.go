package realnode

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/qemu"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/rootfs"
)

// Serial numbers of the machine's disks.
const (
	rootSerial = "LABROOT"
	seedSerial = "LABSEED"
)

// node is the machine, which may be turned off and on again.
type node struct {
	options qemu.Options
	machine *qemu.Machine
	agent   *guest.Client
}

// newNode makes the disks of a run: a layer on the machine's root disk, and the access of this run.
func newNode(ctx context.Context, m Machine, ca *controlplane.Authority, dir string) (*node, error) {
	seed := filepath.Join(dir, "seed")
	if err := writeSeed(ca, dir, seed); err != nil {
		return nil, err
	}
	root, access := filepath.Join(dir, "root.qcow2"), filepath.Join(dir, "seed.img")
	if err := qemu.MakeDisk(access, 8<<20); err != nil {
		return nil, err
	}
	for _, argv := range [][]string{
		{"qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", m.Root, root},
		{"mke2fs", "-q", "-F", "-t", "ext4", "-d", seed, access},
	} {
		if out, err := exec.CommandContext(ctx, rootfs.Tool(argv[0]), argv[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("make disk: run %s: %w: %s", argv[0], err, out)
		}
	}
	return &node{
		options: qemu.Options{
			Dir: dir, Kernel: m.Kernel, Initrd: m.Initrd, Memory: 3072,
			CommandLine: "root=/dev/vda rw net.ifnames=0 systemd.unified_cgroup_hierarchy=1 mitigations=off",
			Network:     "tap,ifname=" + tapName + ",script=no,downscript=no",
			Disks:       []qemu.Disk{{File: root, Format: "qcow2", Serial: rootSerial, Durable: true}, {File: access, Serial: seedSerial}},
		},
		agent: guest.NewClient(fmt.Sprintf("%s:%d", nodeAddress, guest.AgentPort)),
	}, nil
}

// writeSeed writes the files that differ in each run.
func writeSeed(ca *controlplane.Authority, run, seed string) error {
	kubelet := filepath.Join(run, "kubelet.conf")
	if err := ca.Kubeconfig(serverURL, kubelet, "system:node:"+nodeName, "system:nodes"); err != nil {
		return err
	}
	var files []file
	for to, from := range map[string]string{
		"etc/kubernetes/kubelet.conf": kubelet, "etc/kubernetes/pki/ca.crt": ca.CAFile(),
	} {
		raw, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("write the machine's access: %w", err)
		}
		files = append(files, file{to, 0o600, string(raw)})
	}
	return writeFiles(seed, files...)
}

// start turns the machine on.
func (n *node) start() error {
	m, err := qemu.Start(n.options)
	n.machine = m
	return err
}

// stop cuts the machine's power.
func (n *node) stop() {
	if n.machine != nil {
		n.machine.Kill()
	}
}

// flash is what a device of the lab's tool holds.
func (n *node) flash(ctx context.Context, device string) (guest.FlashState, error) {
	var s guest.FlashState
	ran, err := n.agent.Run(ctx, filepath.Join(toolDir, guest.FlashTool), "-d", device, "show")
	if err != nil {
		return s, err
	}
	return s, decode(ran.Stdout, &s)
}
