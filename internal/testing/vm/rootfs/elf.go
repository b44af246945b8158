package rootfs

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// libraryDirs are where Debian keeps shared libraries, and where the dynamic linker looks.
var libraryDirs = []string{"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64", "lib", "usr/lib"}

// Libraries are the shared libraries the programs need, their interpreter and whatever those need in turn, as paths
// below root. Missing are the names of libraries that are not found below it.
func Libraries(root string, programs []string) (found, missing []string, err error) {
	seen := map[string]bool{}
	queue := slices.Clone(programs)
	for len(queue) > 0 {
		program := queue[0]
		queue = queue[1:]
		path, err := Resolve(root, program)
		if err != nil {
			return nil, nil, err
		}
		needed, origin, err := needs(path)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range needed {
			if seen[name] {
				continue
			}
			seen[name] = true
			at := locate(root, name, append([]string{origin(program)}, libraryDirs...))
			if at == "" {
				missing = append(missing, name)
				continue
			}
			found = append(found, at)
			queue = append(queue, at)
		}
	}
	slices.Sort(found)
	slices.Sort(missing)
	return found, missing, nil
}

// needs are the libraries and the interpreter an ELF file names, and the directory to search first.
func needs(path string) (names []string, origin func(string) string, err error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read libraries of %s: %w", path, err)
	}
	defer file.Close()
	if names, err = file.ImportedLibraries(); err != nil {
		return nil, nil, fmt.Errorf("read libraries of %s: %w", path, err)
	}
	if s := file.Section(".interp"); s != nil {
		interpreter, err := s.Data()
		if err != nil {
			return nil, nil, fmt.Errorf("read interpreter of %s: %w", path, err)
		}
		names = append(names, strings.TrimRight(string(interpreter), "\x00"))
	}
	runpath, err := file.DynString(elf.DT_RUNPATH)
	if err != nil {
		return nil, nil, fmt.Errorf("read run path of %s: %w", path, err)
	}
	return names, func(program string) string {
		if len(runpath) == 0 {
			return filepath.Dir(program)
		}
		return strings.TrimPrefix(strings.ReplaceAll(runpath[0], "$ORIGIN", "/"+filepath.Dir(program)), "/")
	}, nil
}

// locate finds a library, or an interpreter by its path.
func locate(root, name string, dirs []string) string {
	if strings.HasPrefix(name, "/") {
		dirs, name = []string{strings.TrimPrefix(filepath.Dir(name), "/")}, filepath.Base(name)
	}
	for _, dir := range dirs {
		at := filepath.Join(dir, name)
		if _, err := Resolve(root, at); err == nil {
			return at
		}
	}
	return ""
}

// maxLinks is how many symbolic links a name may lead through.
const maxLinks = 20

// Resolve follows the symbolic links a name ends in, absolute ones from root, and returns the file's path on this machine.
func Resolve(root, name string) (string, error) {
	for range maxLinks {
		at := filepath.Join(root, name)
		info, err := os.Lstat(at)
		if err != nil {
			return "", err
		}
		if info.Mode().IsRegular() {
			return at, nil
		}
		target, err := os.Readlink(at)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(name), target)
		}
		name = target
	}
	return "", fmt.Errorf("resolve %s: too many symbolic links", name)
}
