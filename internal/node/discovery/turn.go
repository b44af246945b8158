package discovery

import (
	"errors"
	"reflect"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
)

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
