package admintest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
)

// State is what a drive is and holds.
type State struct {
	Node, Model, Serial string
	// Running is the revision that runs, Slots what the slots hold from slot 1 on; empty ones hold nothing.
	Running string
	Slots   []string
	// Active is the slot that runs; Next the one that runs after the next reset, 0 for the active one.
	Active, Next int
	// Buffer is what was downloaded and not committed.
	Buffer []byte

	// NoDownload drives do not have the firmware commands, NoSlotLog ones no log of them either.
	NoDownload, NoSlotLog bool
	FirstSlotReadOnly     bool
	// Strict drives do not begin anew with the first piece of an image: what they hold of an unfinished one is in its way.
	Strict bool
	// ActivatesNow drives run another image without a reset, and stop working for MTFA.
	ActivatesNow bool
	MTFA         time.Duration
	// Settles is how many commands such a drive's kernel turns away afterwards.
	Settles int
	// FWUG and MDTS as Identify Controller has them.
	FWUG, MDTS uint8
	// Commit is what the drive answers to a commit that it carried out.
	Commit admin.Status
	// Refuses is what it answers to a commit that it does not carry out, RefusesNow to one with admin.ActivateNow.
	Refuses, RefusesNow admin.Status
	// ResetActivates: a controller reset is enough.
	ResetActivates bool
	// Resets, Downloads and Actions are what the drive was told so far.
	Resets, Downloads int
	Actions           []admin.Action
}

// Drive is one drive.
type Drive struct{ dir string }

// New plugs in a drive that keeps its state in the directory.
func New(dir string, s State) (*Drive, error) {
	d := At(dir)
	return d, d.save(s)
}

// At is the drive of the directory.
func At(dir string) *Drive { return &Drive{dir} }

const stateFile = "drive.json"

// State is what the drive is and holds now.
func (d *Drive) State() (State, error) {
	var s State
	data, err := os.ReadFile(filepath.Join(d.dir, stateFile))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	return s, err
}

// Change changes the drive behind everybody's back.
func (d *Drive) Change(change func(*State)) error {
	s, err := d.State()
	if err != nil {
		return err
	}
	change(&s)
	return d.save(s)
}

func (d *Drive) save(s State) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	temporary := filepath.Join(d.dir, stateFile+".new")
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(d.dir, stateFile))
}

// Fault is what is wrong with a drive.
type Fault string

// The faults.
const (
	// Garbage: reads bring nonsense.
	Garbage Fault = "garbage"
	// Gone: the drive was pulled.
	Gone Fault = "gone"
	// GoneInDownload: it is pulled while it takes an image.
	GoneInDownload Fault = "gone-in-download"
	// GoneInReset: it does not come back from a reset.
	GoneInReset Fault = "gone-in-reset"
	// Fail: what writes ends in an error of the kernel, whose text is the fault's.
	Fail Fault = "fail"
	// Lie: what writes reports success and changes nothing.
	Lie Fault = "lie"
	// Hang: a download waits until the fault is cleared.
	Hang Fault = "hang"
	// NotReady: the controller does not answer for the number of questions that the fault's text says.
	NotReady Fault = "not-ready"
)

// SetFault begins a fault. Text is what it prints, or empty.
func (d *Drive) SetFault(f Fault, text string) error {
	return os.WriteFile(filepath.Join(d.dir, string(f)), []byte(text), 0o600)
}

// ClearFault ends it.
func (d *Drive) ClearFault(f Fault) error { return os.Remove(filepath.Join(d.dir, string(f))) }

// Hangs reports whether a download waits for the end of Hang.
func (d *Drive) Hangs() bool {
	_, hangs := d.fault("hangs")
	return hangs
}

func (d *Drive) fault(f Fault) (text string, set bool) {
	data, err := os.ReadFile(filepath.Join(d.dir, string(f)))
	return string(data), err == nil
}

// PowerCycle ends what runs and runs what is next.
func (d *Drive) PowerCycle() error {
	return d.Change(func(s *State) { s.activate() })
}

// Stored is the revision that runs after a power cycle.
func (d *Drive) Stored() (string, error) {
	s, err := d.State()
	if err != nil {
		return "", err
	}
	return s.Slots[s.next()-1], nil
}

func (s *State) next() int {
	if s.Next != 0 {
		return s.Next
	}
	return s.Active
}

func (s *State) activate() {
	s.Active, s.Next, s.Buffer = s.next(), 0, nil
	s.Running = s.Slots[s.Active-1]
}

// Open is the admin.Opener of a machine with this drive alone.
func (d *Drive) Open(node string) (admin.Controller, error) {
	s, err := d.State()
	if err != nil {
		return nil, err
	}
	if _, gone := d.fault(Gone); gone || s.Node != node {
		return nil, fmt.Errorf("open /dev/%s: %w", node, admin.ErrGone)
	}
	return &controller{d}, nil
}

// image is what the drive takes: this line, with its model and a revision, and a payload of a known size.
const imageHeader = "admintest firmware\n%s\n%s\n"

const payload = 16 << 10

// ImageBytes is an image for drives of the model.
func ImageBytes(model, revision string) []byte {
	head := fmt.Appendf(nil, imageHeader, model, revision)
	return append(head, make([]byte, payload-len(head))...)
}

var errNoImage = errors.New("no image of this drive")

// revisionOf is the revision of a whole image for the model.
func revisionOf(image []byte, model string) (string, error) {
	var revision string
	head := fmt.Sprintf("admintest firmware\n%s\n", model)
	if len(image) != payload || string(image[:min(len(head), len(image))]) != head {
		return "", errNoImage
	}
	_, err := fmt.Sscanf(string(image[len(head):]), "%s\n", &revision)
	return revision, err
}
