package drivertest

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
)

// OpStep is one call of a step that the driver provides.
const OpStep OperationKind = "Step"

// Step is a step that a simulated driver provides.
type Step struct {
	driver.Step
	// Calls is how many calls the step takes, each continuing from the data of the last one; 0 means one.
	Calls int
	// Reboot says that the step takes effect with a reboot.
	Reboot bool
	// Padding is added to the data the step keeps, in bytes.
	Padding int
	// Err is the error of every call, and Panic the value it panics with; nil for neither.
	Err   error
	Panic any
}

var _ driver.Stepper = (*Simulated)(nil)

// Offer makes the driver provide the step, replacing one of the same name.
func (s *Simulated) Offer(step Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = slices.DeleteFunc(s.steps, func(o Step) bool { return o.Name == step.Name })
	s.steps = append(s.steps, step)
}

// Steps lists the offered steps.
func (s *Simulated) Steps() []driver.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []driver.Step
	for _, step := range s.steps {
		out = append(out, step.Step)
	}
	return out
}

// RunStep makes one call of a step. The data it keeps is the number of calls, in decimal, and the padding.
func (s *Simulated) RunStep(_ context.Context, c driver.StepCall) (driver.StepResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.steps, func(o Step) bool { return o.Name == c.Name })
	if i < 0 {
		return driver.StepResult{}, fmt.Errorf("run step %s: %w", c.Name, driver.ErrNotSupported)
	}
	step, data := s.steps[i], c.Data
	d, err := s.open(c.Identity)
	if err != nil {
		return driver.StepResult{}, err
	}
	s.operations = append(s.operations, Operation{OpStep, d.id.UniqueID})
	if step.Panic != nil {
		panic(step.Panic)
	}
	if step.Err != nil {
		return driver.StepResult{}, step.Err
	}
	done, calls := 0, max(step.Calls, 1)
	if len(data) > 0 {
		if done, err = strconv.Atoi(string(data[:len(data)-step.Padding])); err != nil {
			return driver.StepResult{}, fmt.Errorf("run step %s: what was kept is not what the step returned: %w", c.Name, err)
		}
	}
	done = min(done+1, calls)
	return driver.StepResult{
		Data:  append([]byte(strconv.Itoa(done)), make([]byte, step.Padding)...),
		Again: done < calls, Reboot: step.Reboot && done == calls, Message: fmt.Sprintf("%d of %d done", done, calls),
	}, nil
}
