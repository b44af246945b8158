package simhost

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// FaultKind is a way in which a machine misbehaves.
type FaultKind string

// The kinds of faults.
const (
	// Fail makes the tool print Stderr and exit with ExitCode (1 when zero) and changes nothing. For the operation
	// "boot" the device drops its pending image, keeps the old one and, for a BIOS, reports ExitCode as the status of
	// the attempt.
	Fail FaultKind = "Fail"
	// Hang makes the tool wait, in the middle of a write, until the fault is cleared; then it continues.
	Hang FaultKind = "Hang"
	// Lie makes the tool report success and change nothing. A tool that reads an image writes half of it.
	Lie FaultKind = "Lie"
	// FailAfterSuccess makes the change and then fails as Fail does. For the operation "boot" a BIOS runs the pending image
	// and reports ExitCode as the status of the attempt.
	FailAfterSuccess FaultKind = "FailAfterSuccess"
	// Garbage makes the tool print Stdout instead of its output, and exit with ExitCode.
	Garbage FaultKind = "Garbage"
	// LinkDown leaves the ports of a NIC down after an activation, until the next.
	LinkDown FaultKind = "LinkDown"
)

// Fault is a fault of a machine and where it applies. It can be set and cleared at any time, while tools run too.
type Fault struct {
	// ID names the fault; setting a fault replaces the one with its ID. Empty IDs are numbered.
	ID   string
	Kind FaultKind
	// Tool, Device and Operation say where the fault applies; empty ones match all. Operations are "query", "verify",
	// "read", "write", "reactivate", "download", "commit", "activate", "reset", "sanitize", "erase", "reboot", "scope", "inhibit" and
	// "boot"; Fail and FailAfterSuccess apply to a boot only when Operation is "boot".
	Tool      string `json:",omitempty"`
	Device    string `json:",omitempty"`
	Operation string `json:",omitempty"`
	// Skip is the number of first matches that are ignored; Count is how often the fault applies after that, always
	// when zero.
	Skip  int `json:",omitempty"`
	Count int `json:",omitempty"`
	// ExitCode, Stderr and Stdout are the tool's exit code and output.
	ExitCode int    `json:",omitempty"`
	Stderr   string `json:",omitempty"`
	Stdout   string `json:",omitempty"`
	// Matches counts how often the fault matched; read only.
	Matches int `json:",omitempty"`
}

// SetFault adds a fault, or replaces the one with its ID and counts from zero.
func (m *Machine) SetFault(f Fault) error {
	if !f.isOneOf([]FaultKind{Fail, Hang, Lie, FailAfterSuccess, Garbage, LinkDown}) {
		return fmt.Errorf("set fault: %q is no kind of fault", f.Kind)
	}
	return m.changeFaults(func(faults []Fault) []Fault {
		f.Matches = 0
		if f.ID == "" {
			f.ID = fmt.Sprintf("fault-%d", len(faults)+1)
		}
		for i := range faults {
			if faults[i].ID == f.ID {
				faults[i] = f
				return faults
			}
		}
		return append(faults, f)
	})
}

// ClearFault removes a fault and frees tools that hang on it. Clearing an unknown fault is not an error.
func (m *Machine) ClearFault(id string) error {
	return m.changeFaults(func(faults []Fault) []Fault {
		kept := faults[:0]
		for _, f := range faults {
			if f.ID != id {
				kept = append(kept, f)
			}
		}
		return kept
	})
}

// ClearFaults removes all faults.
func (m *Machine) ClearFaults() error {
	return m.changeFaults(func([]Fault) []Fault { return nil })
}

// Faults lists the faults with their counts of matches.
func (m *Machine) Faults() ([]Fault, error) {
	data, err := os.ReadFile(m.path("faults.json"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read faults: %w", err)
	}
	var faults []Fault
	if err := json.Unmarshal(data, &faults); err != nil {
		return nil, fmt.Errorf("read faults: %w", err)
	}
	return faults, nil
}

func (m *Machine) changeFaults(change func([]Fault) []Fault) error {
	unlock, err := lockFile(m.path("faults.lock"), unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	faults, err := m.Faults()
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(change(faults), "", " ")
	if err != nil {
		return fmt.Errorf("encode faults: %w", err)
	}
	return m.replace(m.path("faults.json"), data, 0o644)
}

// strike counts a match of every fault for the place and returns the first that applies. Kinds limits the kinds.
func (m *Machine) strike(tool, device, operation string, kinds ...FaultKind) (*Fault, error) {
	// Most machines have no faults; then there is nothing to write.
	if faults, err := m.Faults(); err != nil || len(faults) == 0 {
		return nil, err
	}
	var hit *Fault
	err := m.changeFaults(func(faults []Fault) []Fault {
		for i := range faults {
			f := &faults[i]
			if !f.matches(tool, device, operation) || !f.isOneOf(kinds) {
				continue
			}
			f.Matches++
			if f.Matches > f.Skip && (f.Count == 0 || f.Matches <= f.Skip+f.Count) && hit == nil {
				copied := *f
				hit = &copied
			}
		}
		return faults
	})
	return hit, err
}

// matches reports whether the fault is for the place. Most faults apply to a boot only if they name it.
func (f *Fault) matches(tool, device, operation string) bool {
	if operation == "boot" && f.Operation == "" && (f.Kind == Fail || f.Kind == FailAfterSuccess) {
		return false
	}
	return (f.Tool == "" || f.Tool == tool) && (f.Device == "" || f.Device == device) &&
		(f.Operation == "" || f.Operation == operation)
}

func (f *Fault) isOneOf(kinds []FaultKind) bool { return slices.Contains(kinds, f.Kind) }
