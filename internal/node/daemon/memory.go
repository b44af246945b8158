package daemon

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
)

// settleTime is how long the daemon takes to start: by then it has scanned, filled its caches and published its
// objects.
const settleTime = 10 * time.Second

// trimMemory releases memory that only the start of the daemon needed: freed heap, and the pages of the program that
// registered kinds and set up clients. The kernel reads a page again from its file cache when it is needed.
func trimMemory(ctx context.Context, log logr.Logger) {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	debug.FreeOSMemory()
	if err := forgetProgramPages(); err != nil {
		log.V(1).Info("Could not release pages of the program", "cause", err.Error())
	}
}

// forgetProgramPages drops the program's read-only pages from this process. They are clean copies of the file.
func forgetProgramPages() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find program: %w", err)
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("read mappings: %w", err)
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var from, to uintptr
		var rights string
		line := lines.Text()
		if !strings.HasSuffix(line, " "+program) {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil || rights[0] != 'r' || rights[1] == 'w' {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("release pages: %w", errno)
		}
	}
	return lines.Err()
}
