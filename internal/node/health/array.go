package health

import (
	"context"
	"fmt"
	"slices"
)

// Array is a redundant array of drives before a job.
type Array struct {
	Name string `json:"name"`
	// Whole says that it survived the loss of a drive.
	Whole bool `json:"whole,omitempty"`
}

// takeArrays returns the arrays of the host for the baseline. Whether the drives of a job may be disturbed is asked for each of
// them, so that arrays which cannot be read are no error here.
func (c Checker) takeArrays(ctx context.Context) []Array {
	if c.Arrays == nil {
		return nil
	}
	found, err := c.Arrays.Arrays(ctx)
	if err != nil {
		return nil
	}
	var arrays []Array
	for _, a := range found {
		arrays = append(arrays, Array{Name: a.Name, Whole: a.Whole()})
	}
	return arrays
}

// broken lists the arrays that lost a drive since the baseline, and those that are gone. One that is being rebuilt is no
// complaint: that may take a day, and no drive of it is disturbed before it has ended. A reboot may change the names of arrays,
// so one with a new name stands for one that is missing.
func (c Checker) broken(ctx context.Context, b Baseline) ([]Complaint, error) {
	if c.Arrays == nil || len(b.Arrays) == 0 {
		return nil, nil
	}
	now, err := c.Arrays.Arrays(ctx)
	if err != nil {
		return nil, err
	}
	var worse []Complaint
	missing := slices.Clone(b.Arrays)
	for _, a := range now {
		was := slices.IndexFunc(missing, func(m Array) bool { return m.Name == a.Name })
		whole := was < 0 || missing[was].Whole
		if was >= 0 {
			missing = slices.Delete(missing, was, was+1)
		}
		if whole && a.Degraded && a.Rebuilds == "" {
			worse = append(worse, Complaint{Message: fmt.Sprintf("array %s is degraded: it lost a drive", a.Name)})
		}
	}
	if gone := len(b.Arrays) - len(now); gone > 0 {
		for _, m := range missing[len(missing)-gone:] {
			worse = append(worse, Complaint{Message: fmt.Sprintf("array %s is gone", m.Name)})
		}
	}
	return worse, nil
}
