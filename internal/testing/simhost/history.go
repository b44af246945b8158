package simhost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Operation is one thing that changed the machine.
type Operation struct {
	// ID counts the operations of a machine from 1.
	ID     int
	Time   time.Time
	BootID string
	// Tool is empty for operations of the power switch.
	Tool   string   `json:",omitempty"`
	Argv   []string `json:",omitempty"`
	Device string   `json:",omitempty"`
	// Action is Write, Download, Commit, Activate, Reset, Reboot, PowerLoss, Boot or PowerCycle.
	Action string
	// Version and Digest of the image; Bytes is its size.
	Version string `json:",omitempty"`
	Digest  string `json:",omitempty"`
	Bytes   int    `json:",omitempty"`
	Result  OperationResult
	// Detail explains a result other than Done.
	Detail string `json:",omitempty"`
}

// OperationResult is how an operation ended.
type OperationResult string

// The results of operations. Started operations are running, or the process that ran them was killed.
const (
	Started OperationResult = "Started"
	Done    OperationResult = "Done"
	Failed  OperationResult = "Failed"
	Lied    OperationResult = "Lied"
)

// Operations lists the operations of the machine, oldest first.
func (m *Machine) Operations() ([]Operation, error) {
	data, err := os.ReadFile(m.path("operations.jsonl"))
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("read history: %w", err)
	}
	var ops []Operation
	for line := range bytes.Lines(data) {
		var op Operation
		if err := json.Unmarshal(line, &op); err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		// The last record of an ID says how the operation ended. A process killed before it could save the state lets
		// the next operation take its ID again.
		if last := len(ops) - 1; op.Result != Started && op.Action != "" {
			for i := last; i >= 0 && ops[i].ID >= op.ID; i-- {
				if ops[i].ID == op.ID && ops[i].Result == Started {
					ops[i].Result, ops[i].Detail = op.Result, op.Detail
					op.ID = 0
					break
				}
			}
		}
		if op.ID != 0 {
			ops = append(ops, op)
		}
	}
	return ops, nil
}

// record appends the operation with a new ID; the lock is held.
func (m *Machine) record(s *state, op Operation) (Operation, error) {
	s.Operations++
	op.ID, op.Time, op.BootID = s.Operations, time.Now().UTC(), s.BootID
	return op, m.appendHistory(op)
}

func (m *Machine) appendHistory(op Operation) error {
	line, err := json.Marshal(op)
	if err != nil {
		return fmt.Errorf("encode history: %w", err)
	}
	f, err := os.OpenFile(m.path("operations.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open history: %w", err)
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}
