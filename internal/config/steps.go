package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// StepPriorities are settings of --step-priority, each as key=value: the interface and the name of a step, and its
// priority.
type StepPriorities []string

// Parse returns the priorities by key, and an error that names every invalid setting.
func (s StepPriorities) Parse() (map[string]int32, error) {
	out := map[string]int32{}
	var errs []error
	for _, setting := range s {
		key, value, ok := strings.Cut(setting, "=")
		n, err := strconv.ParseInt(value, 10, 32)
		_, again := out[key]
		switch {
		case !ok || key == "":
			errs = append(errs, fmt.Errorf("--step-priority %q: want INTERFACE.STEP=PRIORITY, such as nic.flash=820", setting))
		case err != nil:
			errs = append(errs, fmt.Errorf("--step-priority %q: the priority must be a whole number; 0 disables the step", setting))
		case again:
			errs = append(errs, fmt.Errorf("--step-priority %q: the priority of %s is given twice", setting, key))
		default:
			out[key] = int32(n)
		}
	}
	return out, errors.Join(errs...)
}
