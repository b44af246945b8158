package scale

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// seen is what the watches have shown so far.
type seen struct {
	mu                                             sync.Mutex
	firmwares, assigned, unobserved                map[string]struct{}
	jobs, admitted, ended, protected               map[string]struct{}
	done                                           map[string]int32    // applied nodes by template
	newest                                         map[string]int32    // devices that run the newest version, by catalog
	announced                                      map[string]struct{} // catalogs that have an event
	sourceReady                                    bool
	ledger, ledgerPeak                             int
	firstJob, lastJob, firstAdmitted, lastAdmitted time.Time
	largest                                        map[string]int
	places                                         int32 // of the budget
	// counted is up to when places were counted while jobs waited: those there were, and those that admitted jobs filled, each times the
	// seconds; zero before all jobs were queued.
	counted         time.Time
	offered, filled float64
}

func newSeen() *seen {
	s := &seen{done: map[string]int32{}, newest: map[string]int32{}, largest: map[string]int{}}
	for _, set := range []*map[string]struct{}{&s.firmwares, &s.assigned, &s.unobserved, &s.jobs, &s.admitted, &s.ended, &s.protected, &s.announced} {
		*set = map[string]struct{}{}
	}
	return s
}

// put adds the name to the set or takes it out.
func put(set map[string]struct{}, name string, in bool) {
	if in {
		set[name] = struct{}{}
		return
	}
	delete(set, name)
}

func (s *seen) note(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := o.GetName()
	switch o := o.(type) {
	case *v1alpha1.NodeFirmware:
		s.firmwares[name] = struct{}{}
	case *v1alpha1.NodeDevice:
		put(s.assigned, name, o.Spec.Firmware != nil && o.Spec.Firmware.Digest != "")
		put(s.unobserved, name, o.Status.ObservedGeneration < o.Generation)
		return // too many and too small to be measured
	case *v1alpha1.FirmwareJob:
		s.noteJob(o)
	case *v1alpha1.RolloutPolicy:
		if o.Status.Nodes != nil {
			s.places = o.Status.Nodes.Budget
		}
		s.ledger = len(o.Status.Admitted)
		s.ledgerPeak = max(s.ledgerPeak, s.ledger)
	case *v1alpha1.FirmwareTemplate:
		s.done[name] = o.Status.Nodes.UpToDate
	case *v1alpha1.FirmwareCatalog:
		s.newest[name] = newest(o)
	case *eventsv1.Event:
		if o.Regarding.Kind == "FirmwareCatalog" {
			s.announced[o.Regarding.Name] = struct{}{}
		}
		return
	case *v1alpha1.FirmwareSource:
		s.sourceReady = o.Status.ObservedGeneration == o.Generation && len(o.Status.Images) == len(o.Spec.Files)
	}
	if text, err := json.Marshal(o); err == nil {
		kind := fmt.Sprintf("%T", o)[len("*v1alpha1."):]
		s.largest[kind] = max(s.largest[kind], len(text))
	}
}

func (s *seen) noteJob(o *v1alpha1.FirmwareJob) {
	now := time.Now()
	s.countPlaces(now)
	if _, known := s.jobs[o.Name]; !known {
		s.jobs[o.Name] = struct{}{}
		if s.lastJob = now; s.firstJob.IsZero() {
			s.firstJob = now
		}
	}
	if _, known := s.admitted[o.Name]; !known && o.Admitted() {
		s.admitted[o.Name] = struct{}{}
		if s.lastAdmitted = now; s.firstAdmitted.IsZero() {
			s.firstAdmitted = now
		}
	}
	put(s.ended, o.Name, o.Ended())
	put(s.protected, o.Name, len(o.Finalizers) > 0)
}

// countPlaces counts the places since the last time, if jobs waited for them.
func (s *seen) countPlaces(now time.Time) {
	if s.counted.IsZero() {
		return
	}
	if seconds := now.Sub(s.counted).Seconds(); len(s.admitted) < len(s.jobs) {
		s.offered += float64(s.places) * seconds
		s.filled += float64(len(s.admitted)-len(s.ended)) * seconds
	}
	s.counted = now
}

// forget takes an object that was deleted out of what must be there. Jobs count for ever.
func (s *seen) forget(o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := o.(type) {
	case *v1alpha1.NodeDevice:
		delete(s.assigned, o.Name)
		delete(s.unobserved, o.Name)
	case *v1alpha1.FirmwareJob:
		delete(s.protected, o.Name)
	}
}

// has reports whether something is so.
func (s *seen) has(is func(s *seen) bool) func() bool {
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return is(s)
	}
}

func (s *seen) largestKiB() map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]float64{}
	for kind, size := range maps.All(s.largest) {
		out[kind] = float64(size) / 1024
	}
	return out
}

// appliedNodes adds up the nodes on which the templates are applied.
func (s *seen) appliedNodes() int {
	sum := 0
	for _, n := range s.done {
		sum += int(n)
	}
	return sum
}

// newest is how many devices run the newest version by a catalog.
func newest(o *v1alpha1.FirmwareCatalog) int32 {
	var sum int32
	for _, c := range o.Status.Components {
		for _, r := range c.Running {
			if r.Position == v1alpha1.PositionNewest {
				sum += r.Devices
			}
		}
	}
	return sum
}

// catalogsKnow reports whether the catalogs know that so many devices run the newest version, and have said so.
func (s *seen) catalogsKnow(devices int) bool {
	sum := 0
	for _, n := range s.newest {
		sum += int(n)
	}
	return sum == devices && len(s.announced) == len(s.newest)
}
