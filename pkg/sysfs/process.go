package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Process is a program that runs on the host (proc/<pid>/).
type Process struct {
	// Name is at most 15 bytes long (comm).
	Name string
	// Args are its program and arguments (cmdline).
	Args []string
	// Files are the paths of what it has open, in its own mounts and without links on the way (fd/).
	Files []string
	// Hidden says that these files may not be read.
	Hidden bool
	// Mounts are what it sees: a container has its own (mountinfo).
	Mounts []Mount
}

// maxCommandLine bounds a command line in bytes.
const maxCommandLine = 1 << 20

// Processes lists the processes that have one of the names. One that ends meanwhile is left out, or has no files.
func Processes(fsys fs.FS, names ...string) ([]Process, error) {
	ids, err := list(fsys, "proc")
	if err != nil {
		return nil, err
	}
	var out []Process
	for _, pid := range ids {
		if strings.Trim(pid, "0123456789") != "" {
			continue
		}
		name, err := readFile(fsys, path.Join("proc", pid, "comm"))
		p := Process{Name: strings.TrimSuffix(string(name), "\n")}
		if err != nil && !ended(err) && !errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("read the name of process %s: %w", pid, err)
		}
		if err != nil || !slices.Contains(names, p.Name) {
			continue // also one whose name another user may not read, which is none of the system
		}
		if err := p.read(fsys, path.Join("proc", pid)); err != nil {
			return nil, fmt.Errorf("read process %s (%s): %w", pid, p.Name, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// Holder is a program that has a file open.
type Holder struct {
	// Name is its name and process id.
	Name string
	// Pod says that it runs in a pod of this node.
	Pod bool
}

// Holders returns a program that has the file open for each of the files that are open. Where several have it, it is one that runs in no pod.
func Holders(fsys fs.FS, files ...string) (map[string]Holder, error) {
	ids, err := list(fsys, "proc")
	if err != nil {
		return nil, err
	}
	holders := map[string]Holder{}
	for _, pid := range ids {
		if strings.Trim(pid, "0123456789") != "" {
			continue
		}
		dir := path.Join("proc", pid, "fd")
		open, err := list(fsys, dir)
		if err != nil && !ended(err) {
			return nil, err
		}
		for _, fd := range open {
			file, err := fs.ReadLink(fsys, path.Join(dir, fd))
			if err != nil && !ended(err) {
				return nil, named("read link", path.Join(dir, fd), err)
			}
			if is, known := holders[file]; err == nil && slices.Contains(files, file) && (!known || is.Pod) {
				holders[file] = holder(fsys, pid)
			}
		}
	}
	return holders, nil
}

// holder describes a process. Its id says enough without its name, and a process whose control group cannot be read is taken for one of the host.
func holder(fsys fs.FS, pid string) Holder {
	name, _ := readFile(fsys, path.Join("proc", pid, "comm"))
	group, _ := readFile(fsys, path.Join("proc", pid, "cgroup"))
	return Holder{
		Name: fmt.Sprintf("%s (process %s)", cmp.Or(clean(string(name)), "a program"), pid),
		Pod:  strings.Contains(string(group), "kubepods"), // the kubelet's node allocatable cgroup, under both of its drivers
	}
}

func (p *Process) read(fsys fs.FS, dir string) (err error) {
	if p.Args, err = arguments(fsys, path.Join(dir, "cmdline")); err != nil {
		return err
	}
	if p.Mounts, err = mountsOf(fsys, path.Base(dir)); ended(err) {
		return nil
	}
	if err != nil {
		return err
	}
	open, err := list(fsys, path.Join(dir, "fd"))
	for _, fd := range open {
		var file string
		if file, err = fs.ReadLink(fsys, path.Join(dir, "fd", fd)); err != nil && !ended(err) {
			break
		}
		if strings.HasPrefix(file, "/") { // not a socket, a pipe or the like
			p.Files = append(p.Files, strings.TrimSuffix(file, " (deleted)"))
		}
	}
	if p.Hidden = errors.Is(err, fs.ErrPermission); p.Hidden || ended(err) {
		return nil
	}
	return err
}

// ended reports whether the error is that of a process that ended, or of a file that it closed.
func ended(err error) bool {
	return absent(err) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EINVAL)
}

// arguments reads a list of strings that a zero byte ends.
func arguments(fsys fs.FS, name string) ([]string, error) {
	f, err := fsys.Open(name)
	if ended(err) {
		return nil, nil
	}
	if err != nil {
		return nil, named("read", name, err)
	}
	defer f.Close()
	line, err := io.ReadAll(io.LimitReader(f, maxCommandLine))
	if err != nil && !ended(err) {
		return nil, named("read", name, err)
	}
	text := strings.TrimRight(string(line), "\x00\n")
	if text == "" {
		return nil, nil
	}
	return strings.Split(text, "\x00"), nil
}

// Flag is the values of a flag on the command line of the process, written as --name=value or --name value, with one hyphen or two.
func (p Process) Flag(name string) []string {
	var values []string
	for i, arg := range p.Args {
		flag, value, assigned := strings.Cut(arg, "=")
		switch {
		case flag != "-"+name && flag != "--"+name:
		case assigned:
			values = append(values, value)
		case i+1 < len(p.Args):
			values = append(values, p.Args[i+1])
		}
	}
	return values
}
