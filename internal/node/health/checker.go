package health

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Scanner reads the host.
type Scanner interface {
	// Scan reads all devices again.
	Scan(ctx context.Context) ([]inventory.Device, error)
}

// ErrUnanswered says that the API server did not say how the Node is. An error that it answers is no answer: its database, or a load
// balancer in front of it, may miss what this host takes away.
var ErrUnanswered = errors.New("the API server does not say how the Node is")

// ErrAnswered is the error of a NodeReadiness that only learns whether the API server answers, and that it does.
var ErrAnswered = errors.New("the API server answers; the guard leaves the job to the daemon")

// ErrUnreadable says that the host could not be read, so that the API server was not asked.
var ErrUnreadable = errors.New("the host cannot be read")

// NodeReadiness reports the state of the node in the cluster.
type NodeReadiness interface {
	// Ready reports whether the Node is Ready; message says why it is not. With any error but ErrAnswered that is not known.
	Ready(ctx context.Context) (ready bool, message string, err error)
}

// Network reads how the host reaches the networks around it.
type Network interface {
	// Neighbours lists the next hops of the host's default routes and what is known of each one. It does not wait for an
	// answer: it asks for one that the next call may find. A host that cannot tell has none.
	Neighbours(ctx context.Context) ([]Neighbour, error)
}

// Neighbour is the next hop of a default route.
type Neighbour struct {
	Address string
	// Ports are the network devices of the hardware that leads to it: below a bond, a VLAN or a bridge, those at the bottom.
	Ports []string
	// Answers says that its link-layer address is known.
	Answers bool
}

// Arrays reads the redundant arrays of the host.
type Arrays interface {
	// Arrays lists them, in order of name.
	Arrays(ctx context.Context) ([]inventory.Array, error)
}

// Checker checks the health of a host.
type Checker struct {
	Scanner Scanner
	// Node is nil without a cluster.
	Node NodeReadiness
	// Network is nil where the network of the host cannot be read.
	Network Network
	// Arrays is nil where the arrays of the host cannot be read.
	Arrays Arrays
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
	// UniqueID of the device it concerns; empty if it concerns the host, or an array of which the job has no drive. Class is that of the
	// device; empty if it concerns the host.
	UniqueID string
	Class    inventory.Class
	Message  string
	// Subject tells it from others.
	Subject step.Subject
}

// readyTimeout bounds the question to the API server: a network that swallows packets gives no answer at all.
const readyTimeout = 30 * time.Second

// Check lists what is worse than in the baseline or differs from the targets; nil when the host is healthy. It checks
// once; the caller decides how long to wait for a host to become healthy. If the host or the API server cannot be read,
// the health is not known and Check returns an error. One that wraps ErrUnanswered comes with what is worse on the host
// itself, its gateways included.
func (c Checker) Check(ctx context.Context, b Baseline, targets []Target) ([]Complaint, error) {
	devices, worse, err := c.look(ctx, b, targets)
	if err != nil {
		return nil, err
	}
	if c.Node != nil {
		unready, err := c.unready(ctx)
		switch {
		case err == nil:
		case errors.Is(err, ErrAnswered) || ctx.Err() != nil:
			return nil, fmt.Errorf("read readiness of the node: %w", err)
		default:
			return append(worse, c.silent(ctx, b, devices)...), fmt.Errorf("%w: %w", ErrUnanswered, err)
		}
		worse = append(worse, unready...)
	}
	if len(worse) > 0 || c.Checks == nil {
		return worse, nil
	}
	return c.Checks.check(ctx, targets)
}

// Look is the part of Check that the host answers by itself: it asks neither the API server nor an executable.
func (c Checker) Look(ctx context.Context, b Baseline, targets []Target) ([]Complaint, error) {
	_, worse, err := c.look(ctx, b, targets)
	return worse, err
}

// LookAlone is Look on a host whose API server does not answer: a gateway that is silent counts too. It asks neither the API
// server nor an executable.
func (c Checker) LookAlone(ctx context.Context, b Baseline, targets []Target) ([]Complaint, error) {
	devices, worse, err := c.look(ctx, b, targets)
	if err != nil {
		return nil, err
	}
	return append(worse, c.silent(ctx, b, devices)...), nil
}

func (c Checker) look(ctx context.Context, b Baseline, targets []Target) ([]inventory.Device, []Complaint, error) {
	devices, err := c.Scanner.Scan(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("scan devices for the health check: %w: %w", ErrUnreadable, err)
	}
	worse := b.Compare(devices)
	broken, err := c.broken(ctx, b)
	if err != nil {
		return nil, nil, fmt.Errorf("look at the arrays for the health check: %w: %w", ErrUnreadable, err)
	}
	worse = append(worse, broken...)
	return devices, append(worse, offTarget(devices, targets, worse)...), nil
}

// Before asks the API server and runs the deciding executables before anything is changed, and lists the complaints; nil when all is
// well. A host with complaints must not be updated, because they would be blamed on the new firmware afterwards. An API server that says
// nothing is not waited for.
func (c Checker) Before(ctx context.Context) ([]Complaint, error) {
	var wrong []Complaint
	if c.Network != nil { // a gateway that nobody talked to for a while is asked, and has answered when the baseline is taken
		_, _ = c.Network.Neighbours(ctx)
	}
	if c.Node != nil {
		wrong, _ = c.unready(ctx)
	}
	if c.Checks == nil {
		return wrong, ctx.Err()
	}
	failed, err := c.Checks.before(ctx)
	return append(wrong, failed...), err
}

// unready asks the API server, and complains of a Node that is not Ready.
func (c Checker) unready(ctx context.Context) ([]Complaint, error) {
	asking, done := context.WithTimeout(ctx, readyTimeout)
	defer done()
	ready, message, err := c.Node.Ready(asking)
	if err != nil || ready {
		return nil, err
	}
	return []Complaint{{Message: "the node is not Ready: " + message, Subject: step.Subject{Kind: step.ReadySubject}}}, nil
}

// offTarget lists the targets that do not run their version or do not report one, unless there is a complaint about
// them already: a missing version is not a success.
func offTarget(devices []inventory.Device, targets []Target, known []Complaint) []Complaint {
	var off []Complaint
	for _, t := range targets {
		at := slices.IndexFunc(devices, func(d inventory.Device) bool { return d.UniqueID == t.UniqueID })
		why, kind := "", step.VersionSubject
		switch {
		case (at < 0 || devices[at].Err != nil) && slices.ContainsFunc(known, func(c Complaint) bool { return c.UniqueID == t.UniqueID }):
		case at < 0:
			why, kind = "is gone", step.DeviceSubject
		default:
			if why = t.misses(devices[at]); devices[at].Err != nil {
				kind = step.DeviceSubject
			}
		}
		if why != "" {
			off = append(off, Complaint{UniqueID: t.UniqueID, Message: t.Device + " " + why, Subject: step.Subject{Kind: kind, Of: t.UniqueID}})
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
