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

// settleTime is when the daemon has started: it has scanned, its caches are filled and its objects are published.
const settleTime = 10 * time.Second

// trimMemory gives back, once the daemon has settled, what only its start needed: freed heap, and the pages of the
// program that registered kinds and set up clients. The kernel reads a page again from its file cache when it is needed.
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
		log.V(1).Info("Could not give pages of the program back", "cause", err.Error())
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
			return fmt.Errorf("give pages back: %w", errno)
		}
	}
	return lines.Err()
}
