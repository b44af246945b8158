package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/engine"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// What the API server, or nobody, answers.
var (
	errAway   = errors.New("connection refused")
	errServer = errors.New("etcdserver: request timed out")
)

// host is what the engine sees of the world apart from its drivers.
type host struct{ *world }

// Find implements engine.Host.
func (h host) Find(ctx context.Context, class inventory.Class, uid string) (inventory.Device, bool, error) {
	h.point(opFind, Before, uid)
	if err := ctx.Err(); err != nil {
		return inventory.Device{}, false, err
	}
	if !slices.Contains(inventory.Classes(), class) {
		return inventory.Device{}, false, fmt.Errorf("list %s devices: unknown class", class)
	}
	h.advance(readTime)
	d := h.device(uid)
	if d == nil || d.gone || d.id.Class != class {
		return inventory.Device{}, false, nil
	}
	read := h.look(ctx, d)
	e := Event{Kind: EventRead, Device: uid}
	if read.Err != nil {
		e.Detail = read.Err.Error()
	} else {
		e.Version = read.Firmware.Running
	}
	h.note(e)
	return read, true, nil
}

// Scan implements engine.Host and health.Scanner.
func (h host) Scan(ctx context.Context) ([]inventory.Device, error) {
	h.point(opScan, Before, "")
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h.advance(readTime)
	var out []inventory.Device
	for _, d := range h.devices {
		if !d.gone {
			out = append(out, h.look(ctx, d))
		}
	}
	return out, nil
}

// look reads a device with its port.
func (h host) look(ctx context.Context, d *device) inventory.Device {
	read := inventory.Device{Identity: d.id, Driver: driverName}
	if _, fw, err := h.sim.Inspect(ctx, d.id); err != nil {
		read.Err = err
	} else {
		read.Firmware = &fw
	}
	state := inventory.LinkUp
	if h.sim.LinkDown(d.id.UniqueID) || d.bystander && h.now < h.wellAgain {
		state = inventory.LinkDown
	}
	read.Ports = []inventory.Port{{MAC: "mac-" + d.id.UniqueID, NetDevice: "net-" + d.id.UniqueID, State: state}}
	return read
}

// Neighbours implements health.Network: the gateway is behind the NIC that leads to the API server.
func (h host) Neighbours(ctx context.Context) ([]health.Neighbour, error) {
	var out []health.Neighbour
	for _, d := range h.devices {
		if d.spec.Uplink && !d.gone {
			out = append(out, health.Neighbour{Address: "192.0.2.1", Ports: []string{"net-" + d.id.UniqueID}, Answers: h.carries(d)})
		}
	}
	return out, ctx.Err()
}

// Ready implements health.NodeReadiness.
func (h host) Ready(ctx context.Context) (bool, string, error) {
	h.point(opReady, Before, "")
	if h.apiAway() {
		return false, "", h.errAPI()
	}
	return true, "", ctx.Err()
}

// Fetch implements engine.Images.
func (h host) Fetch(ctx context.Context, digest inventory.Digest) (string, int64, error) {
	h.point(opFetch, Before, "")
	if err := ctx.Err(); err != nil {
		return "", 0, err
	}
	if kind, _ := h.takePending(); kind == FetchRefused {
		return "", 0, driver.Rejectf("the source does not have it any more")
	}
	if h.now < h.imagesBack && !h.fetched[digest] {
		return "", 0, fmt.Errorf("fetch %s: 503 Service Unavailable", digest)
	}
	content, ok := h.images[digest]
	if !ok || h.apiAway() && !h.fetched[digest] {
		return "", 0, fmt.Errorf("fetch %s: %w", digest, h.errAPI())
	}
	h.fetched[digest] = true
	size := int64(len(content))
	h.advance(readTime)
	h.point(opFetch, After, "")
	switch kind, _ := h.takePending(); kind {
	case Truncate:
		content = content[:len(content)/2]
	case Flip:
		content = append(content[:len(content)-1:len(content)-1], '!')
	}
	h.damaged++
	path := filepath.Join(h.dir, fmt.Sprintf("image-%d", h.damaged))
	return path, size, os.WriteFile(path, content, 0o600)
}

// checked is the health of the host with the executables of required.d, which are asked when nothing else is wrong.
type checked struct {
	engine.Health
	*world
}

// Check implements engine.Health.
func (c checked) Check(ctx context.Context, b health.Baseline, targets []health.Target) ([]health.Complaint, error) {
	worse, err := c.Health.Check(ctx, b, targets)
	if err != nil || len(worse) > 0 {
		return worse, err
	}
	return c.executables(), nil
}

// Before implements engine.Health.
func (c checked) Before(context.Context) ([]health.Complaint, error) { return c.executables(), nil }

func (c checked) executables() []health.Complaint {
	c.point(opRequired, Before, "")
	if c.now < c.checksPass {
		return []health.Complaint{{
			Message: "required.d/50-site: exit code 1", Subject: step.Subject{Kind: step.CheckSubject, Name: "50-site"},
		}}
	}
	return nil
}

// WriteRunning implements engine.Writes.
func (h host) WriteRunning(lock string) (bool, error) {
	d := h.device(lock)
	return d != nil && d.running(), nil
}

// CanReboot implements engine.Rebooter.
func (h host) CanReboot(context.Context) error { return nil }

// refusals are for how long a host refuses to reboot, by the variant of the fault: a moment, a while, and for ever.
var refusals = []time.Duration{time.Second, 10 * time.Minute, 1000 * time.Hour}

// Reboot implements engine.Rebooter.
func (h host) Reboot(context.Context) error {
	h.point(opReboot, Before, "")
	kind, arg := h.takePending()
	if kind == RefuseReboot {
		h.refuses = h.now + refusals[arg%len(refusals)]
	}
	if h.now < h.refuses {
		h.note(Event{Kind: EventRefused})
		return errors.New("the init system does not answer")
	}
	h.note(Event{Kind: EventReboot})
	switch kind {
	case IgnoreReboot:
		return nil
	case SlowReboot:
		h.rebootAt = h.disturbed(2 * time.Minute)
		panic(death{Fault{Kind: KillDaemon}})
	}
	h.rebootAt = h.now + time.Hour
	h.stop()
	h.point(opReboot, After, "")
	return nil
}

// window is the maintenance of the node.
type window struct {
	phase   step.Maintenance
	changes time.Duration
	stolen  bool
}

// maintainer implements maintenance.Window.
type maintainer struct{ *world }

const windowTime = time.Minute

// Schedule implements maintenance.Window.
func (m maintainer) Schedule(context.Context) error {
	m.point(opSchedule, Before, "")
	if m.apiAway() {
		return m.errAPI()
	}
	m.note(Event{Kind: EventSchedule})
	if m.settle() == step.MaintenanceNone {
		m.window.phase, m.window.changes = step.MaintenanceRequested, m.now+max(windowTime, m.windowTakes)
		m.windowTakes = 0
	}
	m.point(opSchedule, After, "")
	return nil
}

// lapse makes a maintenance that is ready not ready for a while.
func (w *world) lapse(d time.Duration) {
	if (maintainer{w}).settle() == step.MaintenanceReady {
		w.window.phase, w.window.changes = step.MaintenanceRequested, w.disturbed(d)
		w.window.stolen = true
	}
}

// settle returns the current state of the maintenance.
func (m maintainer) settle() step.Maintenance {
	if m.now >= m.window.changes {
		switch m.window.phase {
		case step.MaintenanceRequested:
			m.window.phase = step.MaintenanceReady
		case step.MaintenanceEnding:
			m.window.phase = step.MaintenanceNone
		}
	}
	return m.window.phase
}

// State implements maintenance.Window.
func (m maintainer) State(ctx context.Context) (maintenance.State, error) {
	m.point(opState, Before, "")
	if err := ctx.Err(); err != nil {
		return maintenance.State{}, err
	}
	if m.apiAway() {
		m.note(Event{Kind: EventMaintenance, Maintenance: step.MaintenanceUnknown, Detail: "unknown"})
		return maintenance.State{}, m.errAPI()
	}
	phase := m.settle()
	m.note(Event{Kind: EventMaintenance, Maintenance: phase, Detail: fmt.Sprint(phase)})
	return maintenance.State{Phase: phase}, nil
}

// Fail implements maintenance.Window.
func (m maintainer) Fail(context.Context, string) error { return nil }

// Release implements maintenance.Window.
func (m maintainer) Release(context.Context) error {
	m.point(opRelease, Before, "")
	if m.apiAway() {
		return m.errAPI()
	}
	m.note(Event{Kind: EventRelease})
	if phase := m.settle(); phase != step.MaintenanceNone && phase != step.MaintenanceEnding {
		m.window.phase, m.window.changes = step.MaintenanceEnding, m.now+windowTime
	}
	m.point(opRelease, After, "")
	return nil
}
