package health

import (
	"context"
	"fmt"
	"slices"

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
	// Checks are the executables that judge too, once nothing else is wrong; nil for none.
	Checks *Checks
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
	worse := b.Compare(devices)
	worse = append(worse, offTarget(devices, targets, worse)...)
	if c.Node != nil {
		ready, message, err := c.Node.Ready(ctx)
		if err != nil {
			return nil, fmt.Errorf("read readiness of the node: %w", err)
		}
		if !ready {
			worse = append(worse, Complaint{Message: "the node is not Ready: " + message})
		}
	}
	if len(worse) > 0 || c.Checks == nil {
		return worse, nil
	}
	return c.Checks.check(ctx, targets)
}

// Before lists what the executables that decide complain about before anything is changed; nil when they all pass. What
// is wrong already would be blamed on the new firmware afterwards, so a host of which it is true must not be updated.
func (c Checker) Before(ctx context.Context) ([]Complaint, error) {
	if c.Checks == nil {
		return nil, nil
	}
	return c.Checks.before(ctx)
}

// offTarget lists the targets that do not run their version, or do not tell, unless it is known that they do not: silence
// is no success.
func offTarget(devices []inventory.Device, targets []Target, known []Complaint) []Complaint {
	var off []Complaint
	for _, t := range targets {
		at := slices.IndexFunc(devices, func(d inventory.Device) bool { return d.UniqueID == t.UniqueID })
		why := ""
		switch {
		case (at < 0 || devices[at].Err != nil) && slices.ContainsFunc(known, func(c Complaint) bool { return c.UniqueID == t.UniqueID }):
		case at < 0:
			why = "is gone"
		default:
			why = t.misses(devices[at])
		}
		if why != "" {
			off = append(off, Complaint{UniqueID: t.UniqueID, Message: t.Device + " " + why})
		}
	}
	return off
}

// misses says how the device misses its target, or "" when it does not.
func (t Target) misses(d inventory.Device) string {
	switch {
	case d.Err != nil:
		return fmt.Sprintf("cannot be read: %v", d.Err)
	case d.Firmware == nil:
		return fmt.Sprintf("does not tell that it runs %s", t.Version)
	case d.Firmware.Running != t.Version:
		return fmt.Sprintf("runs %s instead of %s", d.Firmware.Running, t.Version)
	}
	return ""
}
