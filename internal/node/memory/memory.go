// Package memory gives memory of this process back that it does not need at the moment.
package memory

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// Release gives back freed heap and the pages of the program itself. The kernel reads a page again from its file cache when it
// is needed. It takes milliseconds, and is worth it after work that is done once in minutes.
func Release() error {
	debug.FreeOSMemory()
	return forgetProgramPages()
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
