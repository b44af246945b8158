package health

import (
	"context"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Scanner reads the host.
type Scanner interface {
	// Scan reads all devices afresh.
	Scan(ctx context.Context) ([]inventory.Device, error)
}

// NodeReadiness is what the cluster thinks of the node.
type NodeReadiness interface {
	// Ready says whether the cluster considers the node Ready; message says why it does not.
	Ready(ctx context.Context) (ready bool, message string, err error)
}

// Checker judges a host.
type Checker struct {
	Scanner Scanner
	// Node is nil where there is no cluster.
	Node NodeReadiness
}

// Target is the version one device should run.
type Target struct {
	Device   string
	UniqueID string
	Version  inventory.Version
}

// Complaint is one thing that is wrong with a host.
type Complaint struct {
	// UniqueID of the device it is about; empty where it is about the host.
	UniqueID string
	Message  string
}

// Check lists what is worse than in the baseline or not as the targets say; nil when the host is healthy. It looks
// once; how long a host is given to become healthy is the caller's business. An unreadable host or an API server
// that is away is an error: then nothing is known.
func (c Checker) Check(ctx context.Context, b Baseline, targets []Target) ([]Complaint, error) {
	devices, err := c.Scanner.Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("scan devices for the health check: %w", err)
	}
	worse := append(b.Compare(devices), offTarget(devices, targets)...)
	if c.Node == nil {
		return worse, nil
	}
	ready, message, err := c.Node.Ready(ctx)
	if err != nil {
		return nil, fmt.Errorf("read readiness of the node: %w", err)
	}
	if !ready {
		worse = append(worse, Complaint{Message: "the node is not Ready: " + message})
	}
	return worse, nil
}

func offTarget(devices []inventory.Device, targets []Target) []Complaint {
	var off []Complaint
	for _, t := range targets {
		for _, d := range devices {
			if d.UniqueID == t.UniqueID && d.Firmware != nil && d.Firmware.Running != t.Version {
				off = append(off, Complaint{UniqueID: t.UniqueID,
					Message: fmt.Sprintf("%s runs %s instead of %s", t.Device, d.Firmware.Running, t.Version)})
			}
		}
	}
	return off
}
