package simhost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Scope is a scope unit of the machine's systemd: a group of processes that does not end with the container they were
// started in.
type Scope struct {
	Unit string
	// PID is the process that was moved into it, and Start its start time, in clock ticks since the boot.
	PID   int
	Start uint64
	// Live are the processes in it now: that process, its descendants and its session. It is empty when the unit is gone.
	Live []int `json:"-"`
}

// Scopes lists the scopes created since the machine booted, with the processes that still run in them.
func (m *Machine) Scopes() ([]Scope, error) {
	files, err := filepath.Glob(m.path("scopes", "*.scope"))
	if err != nil {
		return nil, fmt.Errorf("list scopes: %w", err)
	}
	if len(files) == 0 {
		return nil, nil
	}
	table, err := readProcesses()
	if err != nil {
		return nil, err
	}
	var scopes []Scope
	for _, file := range files {
		var s Scope
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &s)
		}
		if err != nil {
			return nil, fmt.Errorf("read scope: %w", err)
		}
		for pid := range table {
			if s.contains(table, pid) {
				s.Live = append(s.Live, pid)
			}
		}
		slices.Sort(s.Live)
		scopes = append(scopes, s)
	}
	return scopes, nil
}

// contains reports whether a process is in the scope: children are in the scope of their parent. A session outlives the
// process that created it.
func (s Scope) contains(table processes, pid int) bool {
	for seen := 0; pid > 1 && seen < len(table); seen++ {
		p, ok := table[pid]
		if !ok {
			return false
		}
		if leader, ok := table[s.PID]; ok && leader.start != s.Start {
			return false // the process id was used again
		}
		if pid == s.PID || p.session == s.PID {
			return true
		}
		pid = p.parent
	}
	return false
}

// scopeOf is the unit a process is in; empty when it is in none.
func (m *Machine) scopeOf(pid int) (string, error) {
	scopes, err := m.Scopes()
	if err != nil {
		return "", err
	}
	for _, s := range scopes {
		if slices.Contains(s.Live, pid) {
			return s.Unit, nil
		}
	}
	return "", nil
}

// addScope makes a scope of a running process.
func (m *Machine) addScope(unit string, pid int, start uint64) error {
	if err := os.MkdirAll(m.path("scopes"), 0o755); err != nil {
		return err
	}
	data, err := json.Marshal(Scope{Unit: unit, PID: pid, Start: start})
	if err != nil {
		return err
	}
	return m.replace(m.path("scopes", unit), data, 0o644)
}

// inScopes lists the processes that live in any scope.
func (m *Machine) inScopes() (map[int]bool, error) {
	scopes, err := m.Scopes()
	if err != nil {
		return nil, err
	}
	live := map[int]bool{}
	for _, s := range scopes {
		for _, pid := range s.Live {
			live[pid] = true
		}
	}
	return live, nil
}

// endScopes kills the processes in scopes, as the end of the machine does, and removes the scopes.
func (m *Machine) endScopes() error {
	live, err := m.inScopes()
	if err != nil {
		return err
	}
	delete(live, os.Getpid())
	if err := kill(live); err != nil {
		return err
	}
	return os.RemoveAll(m.path("scopes"))
}

// KillPod acts as a container runtime when a pod ends: it kills the processes, everything they started and the tools of
// this machine, except processes in a scope. It returns when they are gone.
func (m *Machine) KillPod(pids ...int) error {
	doomed := map[int]bool{}
	for {
		more, err := m.podProcesses(pids, doomed)
		if err != nil {
			return fmt.Errorf("kill pod: %w", err)
		}
		if len(more) == 0 {
			break
		}
		for pid := range more { // as in a frozen control group, none starts another one from here on
			if err := unix.Kill(pid, unix.SIGSTOP); err != nil && err != unix.ESRCH {
				return fmt.Errorf("kill pod: stop process %d: %w", pid, err)
			}
			doomed[pid] = true
		}
	}
	if err := kill(doomed); err != nil {
		return fmt.Errorf("kill pod: %w", err)
	}
	return nil
}

// podProcesses lists the processes of the pod that are not known yet.
func (m *Machine) podProcesses(roots []int, known map[int]bool) (map[int]bool, error) {
	table, err := readProcesses()
	if err != nil {
		return nil, err
	}
	safe, err := m.inScopes()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(m.path("running"))
	if err != nil {
		return nil, err
	}
	roots = slices.Clone(roots)
	for _, e := range entries { // a tool whose parents are gone
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			roots = append(roots, pid)
		}
	}
	found := map[int]bool{}
	for pid := range table {
		if pid != os.Getpid() && !safe[pid] && !known[pid] && table.descends(pid, roots) {
			found[pid] = true
		}
	}
	return found, nil
}

// process is a line of the process table.
type process struct {
	parent, session int
	start           uint64
	zombie          bool
}

// processes is the process table, by process id.
type processes map[int]process

// readProcesses reads the process table of the real machine, without the dead.
func readProcesses() (processes, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("read process table: %w", err)
	}
	table := processes{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil && !p.zombie {
			table[pid] = p
		}
	}
	return table, nil
}

func readProcess(pid int) (process, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return process{}, fmt.Errorf("read process %d: %q", pid, data)
	}
	p := process{zombie: fields[0] == "Z" || fields[0] == "X"}
	p.parent, _ = strconv.Atoi(fields[1])
	p.session, _ = strconv.Atoi(fields[3])
	p.start, err = strconv.ParseUint(fields[19], 10, 64)
	return p, err
}

// descends reports whether a process is one of the roots or was started by one.
func (table processes) descends(pid int, roots []int) bool {
	for seen := 0; pid > 1 && seen < len(table); seen++ {
		if slices.Contains(roots, pid) {
			return true
		}
		pid = table[pid].parent
	}
	return false
}

// kill ends processes and waits until they are gone.
func kill(pids map[int]bool) error {
	for pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
			return fmt.Errorf("end process %d: %w", pid, err)
		}
	}
	for end := time.Now().Add(10 * time.Second); ; {
		table, err := readProcesses()
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(slices.Sorted(maps.Keys(pids)), func(pid int) bool { _, ok := table[pid]; return !ok })
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("end processes: %v do not", left)
		}
		time.Sleep(powerPoll) //nolint:forbidigo // the kernel notifies only the parent of the end of a process
	}
}
