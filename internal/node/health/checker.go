package health

import (
	"context"
	"fmt"
	"slices"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// Scanner reads the host.
type Scanner interface {
	// Scan reads all devices again.
	Scan(ctx context.Context) ([]inventory.Device, error)
}

// NodeReadiness reports the state of the node in the cluster.
type NodeReadiness interface {
	// Ready reports whether the Node is Ready; message says why it is not.
	Ready(ctx context.Context) (ready bool, message string, err error)
}

// Checker checks the health of a host.
type Checker struct {
	Scanner Scanner
	// Node is nil without a cluster.
	Node NodeReadiness
	// Checks are executables that run when nothing else is wrong; nil for none.
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
	// UniqueID of the device it concerns; empty if it concerns the host.
	UniqueID string
	Message  string
}

// Check lists what is worse than in the baseline or differs from the targets; nil when the host is healthy. It checks
// once; the caller decides how long to wait for a host to become healthy. If the host or the API server cannot be read,
// the health is not known and Check returns an error.
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

// Before runs the deciding executables before anything is changed and lists their complaints; nil when all pass. A host
// with complaints must not be updated, because they would be blamed on the new firmware afterwards.
func (c Checker) Before(ctx context.Context) ([]Complaint, error) {
	if c.Checks == nil {
		return nil, nil
	}
	return c.Checks.before(ctx)
}

// offTarget lists the targets that do not run their version or do not report one, unless there is a complaint about
// them already: a missing version is not a success.
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

// misses says how the device differs from its target, or "" when it does not.
func (t Target) misses(d inventory.Device) string {
	switch {
	case d.Err != nil:
		return fmt.Sprintf("cannot be read: %v", d.Err)
	case d.Firmware == nil:
		return fmt.Sprintf("does not report that it runs %s", t.Version)
	case d.Firmware.Running != t.Version:
		return fmt.Sprintf("runs %s instead of %s", d.Firmware.Running, t.Version)
	}
	return ""
}
