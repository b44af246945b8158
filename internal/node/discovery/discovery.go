package discovery

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/internal/node/memory"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

// Host reads the devices of this machine.
type Host interface {
	// ScanGuarded enumerates the devices and reads each of them that the guard allows at the moment of its reading.
	ScanGuarded(ctx context.Context, guard host.Guard) (host.Inventory, error)
}

// Settings reads the settings of the devices that a scan found, and gives them some.
type Settings interface {
	// Parameters reads all parameters of a device, if the guard allows that at the moment of the reading.
	Parameters(ctx context.Context, d inventory.Device, guard host.Guard) ([]inventory.Parameter, error)
	// Configure gives a device settings that it takes, if the guard allows that at the moment of the writing.
	Configure(ctx context.Context, d inventory.Device, guard host.Guard, set []inventory.Setting) error
}

// Writes lists the writes to devices that are running.
type Writes interface {
	// WriteRunning reports whether a write to the device with the unique id runs, whichever process began it.
	WriteRunning(uniqueID string) (bool, error)
}

// Config is what a Discovery works with.
type Config struct {
	// Node is the name of this machine's Node.
	Node string
	// Interval is the age at which a scan counts as stale where SetThreshold does not say.
	Interval time.Duration
	Host     Host
	// Settings are read with a scan, of the devices for which any are desired. What a boot took is given again to devices of the classes
	// that MayConfigure allows; nil allows none.
	Settings     Settings
	MayConfigure func(inventory.Class) bool
	// Look returns the same string as long as the same devices are plugged in, and is cheap enough to be called every few
	// seconds. Nil leaves hardware that is plugged in or removed to the next scan.
	Look    func() (string, error)
	Journal Journal
	Writes  Writes
	// Turn takes the turn to read the hardware and to publish what was read, until done is called. It is for nodes on which
	// other processes do the same while they execute a job; ok is false while one of them has the turn. Nil where none does.
	Turn func() (done func(), ok bool, err error)
	// Steps are those a job on this node may run, those that are switched off left out, in the order they run.
	Steps []v1alpha1.EnabledStep
	// Tools are the vendors' programs that the drivers of this node run.
	Tools []vendortool.Finding
	// Held says how the maintenance of a held node stood at the last look; nil where nobody looks.
	Held func() maintenance.State
	// Client reads the objects of this node from a cache.
	Client client.Client
	// Reader reads from the API server an object that the cache may lack because it is of another node.
	Reader client.Reader
	Log    logr.Logger
}

// Discovery scans this machine and publishes what it finds.
type Discovery struct {
	config Config
	wanted chan struct{} // a scan is wanted
	dirty  chan struct{} // something to publish may have changed
	timing chan struct{} // the age at which a scan is stale changed

	scanning, publishing sync.Mutex

	mu       sync.Mutex
	snapshot *Snapshot
	look     string // at the start of the last scan
	// seen is the journal as it was at the last scan, where other processes write it.
	seen      journal.View
	threshold time.Duration
	// declared are the settings that are desired, by the name of the object, as they were when it was last published.
	declared map[string]*v1alpha1.DesiredConfiguration
	// given are the settings that were given again, by the unique id of the device.
	given map[string]journal.Configured
	// asBefore is the drift of each device, by unique id, of which nothing was found to be left.
	asBefore map[string][]journal.Setting
	asked    string // the last request of a person for a scan
}

// New makes a Discovery. Nothing happens before RunScans and RunPublisher.
func New(c Config) *Discovery {
	return &Discovery{config: c, wanted: make(chan struct{}, 1), dirty: make(chan struct{}, 1), timing: make(chan struct{}, 1)}
}

// Snapshot is what the last scan found; it reports false before the first one.
func (d *Discovery) Snapshot() (Snapshot, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.snapshot == nil {
		return Snapshot{}, false
	}
	return *d.snapshot, true
}

// Request requests a scan. Requests made while one is waiting are merged into it.
func (d *Discovery) Request() { signal(d.wanted) }

// Follow does what a person wants of the scans of the node: how old one may be, and a scan for each new request. The next scan that
// begins answers the request.
func (d *Discovery) Follow(nfw *v1alpha1.NodeFirmware) {
	d.SetThreshold(nfw.Spec.ScanThreshold.Duration(0))
	wanted := nfw.Spec.Requests.Scan
	d.mu.Lock()
	isNew := wanted != "" && wanted != nfw.Status.Requests.Scan && wanted != d.asked
	d.asked = wanted
	if isNew && d.snapshot != nil {
		d.snapshot.Answers = "" // that scan answered the text at an earlier time
	}
	d.mu.Unlock()
	if isNew {
		d.Request()
	}
}

// Changed says that the journal or an object of this node changed, so that it is published again.
func (d *Discovery) Changed() { signal(d.dirty) }

// SetThreshold says at which age a scan counts as stale; zero leaves it to the interval.
func (d *Discovery) SetThreshold(age time.Duration) {
	d.mu.Lock()
	d.threshold = age
	d.mu.Unlock()
	signal(d.timing)
}

// Refresh scans now and publishes what it finds, because a person or a job requested it.
func (d *Discovery) Refresh(ctx context.Context) error {
	if err := d.scan(ctx, true); err != nil {
		return err
	}
	return d.Publish(ctx)
}

// RunScans scans at once, when the last scan is stale and not before, and on request, until the context ends. It does not scan while a device is being written, because a reading tool would disturb a writing one. A
// write that begins during a scan does not wait; the scan leaves out its device.
func (d *Discovery) RunScans(ctx context.Context) error {
	for {
		retry := time.Duration(0)
		if r, err := d.records(); err == nil && r.writing {
			retry = busyRetry
		} else if err := d.scan(ctx, false); errors.Is(err, ErrBusy) {
			retry = busyRetry
		} else if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			retry = min(d.staleAge(), failedRetry)
			d.config.Log.Error(err, "Scan failed; no device is removed until a scan succeeds", "retryIn", retry)
		}
		d.Changed()
		if !d.wait(ctx, retry) {
			return nil
		}
	}
}

// The waits before a scan that failed, or that had to wait for a write, is tried again.
const (
	failedRetry = 30 * time.Second
	busyRetry   = 15 * time.Second
)

// lookEvery is how often Look is called between two scans. A call reads a few hundred directory entries.
const lookEvery = 10 * time.Second

// RunLooks requests a scan when other devices are plugged in than at the last scan, until the context ends. The kernel
// reports hotplug too, but not to every process in a container.
func (d *Discovery) RunLooks(ctx context.Context) error {
	if d.config.Look == nil {
		return nil
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := d.config.Look()
		d.mu.Lock()
		changed := err == nil && d.look != "" && now != d.look
		d.mu.Unlock()
		if changed {
			d.Request()
		}
	}
}

// lookNow is the result of Look; empty where there is none or it fails.
func (d *Discovery) lookNow() string {
	if d.config.Look == nil {
		return ""
	}
	look, err := d.config.Look()
	if err != nil {
		return ""
	}
	return look
}

// RunPublisher publishes whenever something may have changed, until the context ends. A failure is tried again with growing
// pauses.
func (d *Discovery) RunPublisher(ctx context.Context) error {
	const first, last = time.Second, time.Minute
	delay := first
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.dirty:
		}
		if err := d.Publish(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			d.config.Log.Error(err, "Publishing failed and is tried again", "retryIn", delay)
			time.AfterFunc(delay, d.Changed)
			delay = min(2*delay, last)
			continue
		}
		delay = first
	}
}

func (d *Discovery) scan(ctx context.Context, requested bool) error {
	d.scanning.Lock()
	defer d.scanning.Unlock()
	seen, done, err := d.turn()
	if err != nil {
		return fmt.Errorf("scan devices: %w", err)
	}
	defer done()
	look, answers := d.lookNow(), d.lastAsked()
	found, err := d.config.Host.ScanGuarded(ctx, d.guard)
	if err != nil {
		return fmt.Errorf("scan devices: %w", err)
	}
	parameters := d.parameters(ctx, found)
	if err := memory.Release(); err != nil { // a scan leaves megabytes behind, and the next one is minutes away
		d.config.Log.V(1).Info("Could not release memory after a scan", "cause", err.Error())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.look, d.seen = look, seen
	d.snapshot = &Snapshot{Inventory: found, Parameters: parameters, Time: time.Now(), Requested: requested, Answers: answers}
	return nil
}

func (d *Discovery) lastAsked() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// staleAge is the age at which a scan counts as stale.
func (d *Discovery) staleAge() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.threshold > 0 {
		return d.threshold
	}
	return d.config.Interval
}

// left is the time until the last scan is stale. Another may have been made since, because a job requested it.
func (d *Discovery) left() time.Duration {
	last, ok := d.Snapshot()
	if !ok {
		return 0
	}
	return d.staleAge() - time.Since(last.Time)
}

// wait returns true when the last scan is stale or another is requested, and false when the context ended. After an attempt
// that made no scan it waits for retry instead.
func (d *Discovery) wait(ctx context.Context, retry time.Duration) bool {
	for {
		pause := retry
		if pause == 0 {
			pause = d.left()
		}
		if pause <= 0 {
			return true
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-d.wanted:
			timer.Stop()
			return true
		case <-timer.C:
			if retry > 0 {
				return true
			}
		case <-d.timing:
			timer.Stop()
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Snapshot is what one scan found.
type Snapshot struct {
	host.Inventory
	// Parameters are those of the devices for which settings are desired or of which a flash changed settings, by unique id.
	Parameters map[string]Parameters
	// Time is when the scan ended.
	Time time.Time
	// Requested says that a person or a job requested the scan, so that its time is published even if nothing changed.
	Requested bool
	// Answers is the request of a person, spec.requests.scan, that was known when the scan began; empty for none.
	Answers string
}

// complete reports whether every class was enumerated.
func (s Snapshot) complete() bool { return len(s.Incomplete) == 0 }

// enumerated reports whether the absence of a device of the class is a fact. An object whose status was never written has no
// class; its absence is a fact when every class was enumerated.
func (s Snapshot) enumerated(class inventory.Class) bool {
	if class == "" {
		return s.complete()
	}
	return s.Incomplete[class] == nil
}

// ErrBusy says that another process of this node executes a job, and reads the hardware and publishes what it reads meanwhile.
var ErrBusy = errors.New("another process executes a job on this node and reads the devices until the job ends")

// turn keeps other processes from the state directory and reads the journal, which does not change until done is called.
// Where this process is the only one, it does neither.
func (d *Discovery) turn() (view journal.View, done func(), err error) {
	if d.config.Turn == nil {
		return journal.View{}, func() {}, nil
	}
	done, ok, err := d.config.Turn()
	switch {
	case err != nil:
		return journal.View{}, nil, err
	case !ok:
		return journal.View{}, nil, ErrBusy
	}
	if view, err = d.config.Journal.View(); err != nil {
		done()
		return journal.View{}, nil, err
	}
	return view, done, nil
}

// outdated reports whether another process executed a job since the last scan: it changed the hardware, and published that.
func (d *Discovery) outdated(now journal.View) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !reflect.DeepEqual(d.seen, now) // equality.Semantic panics where it meets a time
}
