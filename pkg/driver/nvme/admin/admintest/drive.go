package admintest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/nvme/admin"
)

// State is what a drive is and holds.
type State struct {
	// Node is the kernel's name of the controller.
	Node string
	nvmectrl.Controller
	// IgnoresResets drives activate nothing at a controller reset, whatever they answered to the commit.
	IgnoresResets bool
	// Settles is how many commands the kernel turns away after an activation without a reset.
	Settles int
	// Answer replaces the answer to a commit that the drive carried out, unless its action is nvmectrl.ActivateNow.
	Answer admin.Status
	// Refuses is the answer to every commit but those with nvmectrl.ActivateNow, and RefusesNow to those. The drive does not
	// carry such a commit out.
	Refuses, RefusesNow admin.Status
	// Resets, Downloads and Actions record the commands so far.
	Resets, Downloads int
	Actions           []admin.Action
}

// Slots are slots that hold the revisions; an empty one is an empty slot.
func Slots(revisions ...string) []nvmectrl.Slot {
	slots := make([]nvmectrl.Slot, len(revisions))
	for i, revision := range revisions {
		slots[i].Revision = revision
	}
	return slots
}

// Revisions are the revisions in the slots, from slot 1 on.
func (s *State) Revisions() []string {
	revisions := make([]string, len(s.Slots))
	for i, slot := range s.Slots {
		revisions[i] = slot.Revision
	}
	return revisions
}

// Drive is one drive.
type Drive struct{ dir string }

// New makes a drive that keeps its state in the directory.
func New(dir string, s State) (*Drive, error) {
	d := At(dir)
	return d, d.save(s)
}

// At is the drive of the directory.
func At(dir string) *Drive { return &Drive{dir} }

const stateFile = "drive.json"

// State reads the state of the drive.
func (d *Drive) State() (State, error) {
	var s State
	data, err := os.ReadFile(filepath.Join(d.dir, stateFile))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	return s, err
}

// Change changes the drive without a command.
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
	// Garbage: reads return meaningless bytes.
	Garbage Fault = "garbage"
	// Gone: the drive was pulled.
	Gone Fault = "gone"
	// GoneInDownload: it is pulled during a download.
	GoneInDownload Fault = "gone-in-download"
	// GoneInReset: it does not come back from a reset.
	GoneInReset Fault = "gone-in-reset"
	// Fail: commands that write end in an error of the kernel, whose text is the fault's.
	Fail Fault = "fail"
	// Lie: commands that write succeed and change nothing.
	Lie Fault = "lie"
	// Hang: a download waits until the fault is cleared.
	Hang Fault = "hang"
	// NotReady: the controller does not answer as many commands as the fault's text says.
	NotReady Fault = "not-ready"
)

// SetFault begins a fault. Text is its parameter, or empty.
func (d *Drive) SetFault(f Fault, text string) error {
	return os.WriteFile(filepath.Join(d.dir, string(f)), []byte(text), 0o600)
}

// ClearFault ends a fault.
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

// PowerCycle takes the power away for a moment.
func (d *Drive) PowerCycle() error {
	return d.Change(func(s *State) { s.Reset(nvmectrl.PowerCycle) })
}

// Stored is the revision that runs after a power cycle.
func (d *Drive) Stored() (string, error) {
	s, err := d.State()
	return s.Stored().Revision, err
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

// imageSize is the size of images in bytes: four pieces of the smallest size.
const imageSize = 4 * nvmectrl.PageSize

// ImageBytes is an image for drives of the model. It panics where there can be no such image.
func ImageBytes(model, revision string) []byte {
	image, err := nvmectrl.MakeImage(nvmectrl.Image{
		Model: model, Revision: revision, Payload: make([]byte, imageSize-nvmectrl.PageSize),
	})
	if err != nil {
		panic(err)
	}
	return image
}
