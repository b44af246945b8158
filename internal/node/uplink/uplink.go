package uplink

import (
	"context"
	"fmt"
	"io/fs"
	"net/netip"

	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/pkg/sysfs"
)

// Host is the network of one host.
type Host struct {
	// FS is the host's file system.
	FS fs.FS
	// Kernel says that the host is the machine of the running kernel, whose network namespace this process is in: the kernel
	// is asked then. Other hosts are read from the files of their first process.
	Kernel bool
}

// hop is the next hop of a default route.
type hop struct {
	address netip.Addr
	device  string
}

// neighbours are the next hops with a link-layer address that the kernel takes for valid.
type neighbours map[hop]bool

// Neighbours implements health.Network. Where a neighbour is not known to answer, the kernel of this machine is made to ask
// it; the answer is seen by the next call.
func (h Host) Neighbours(context.Context) ([]health.Neighbour, error) {
	hops, known, err := h.read()
	if err != nil {
		return nil, err
	}
	var out []health.Neighbour
	seen := map[hop]bool{}
	for _, hop := range hops {
		if seen[hop] {
			continue
		}
		seen[hop] = true
		ports, err := sysfs.Underlying(h.FS, hop.device)
		if err != nil {
			return nil, fmt.Errorf("find the hardware below %s: %w", hop.device, err)
		}
		out = append(out, health.Neighbour{Address: hop.address.String(), Ports: ports, Answers: known[hop]})
	}
	return out, nil
}

func (h Host) read() ([]hop, neighbours, error) {
	if h.Kernel {
		return askKernel()
	}
	return readFiles(h.FS)
}
