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

// forgetProgramPages drops the pages of the program that are clean copies of its file. Of a program with relocations, some read-only pages
// were written to at its start; they count as anonymous memory and must stay.
func forgetProgramPages() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find program: %w", err)
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("read mappings: %w", err)
	}
	defer maps.Close()
	var from, to uintptr
	var rights string
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasSuffix(line, " "+program):
			if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil || rights[0] != 'r' || rights[1] == 'w' {
				from, to = 0, 0
			}
		case strings.Contains(strings.SplitN(line, " ", 2)[0], "-"): // another mapping
			from, to = 0, 0
		case strings.HasPrefix(line, "Anonymous:") && strings.Join(strings.Fields(line), " ") != "Anonymous: 0 kB":
			from, to = 0, 0
		case to > 0 && strings.HasPrefix(line, "Swap:") && strings.Join(strings.Fields(line), " ") == "Swap: 0 kB":
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); errno != 0 {
				return fmt.Errorf("release pages: %w", errno)
			}
		}
	}
	return lines.Err()
}
