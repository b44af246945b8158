package reboot

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot is for how long the kernel has run, with the time in which it was suspended. Nobody sets this clock, and it does
// not end with the process.
func SinceBoot() (time.Duration, error) {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		return 0, fmt.Errorf("read the clock of the boot: %w", err)
	}
	return time.Duration(at.Nano()), nil
}
