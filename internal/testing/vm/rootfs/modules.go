package rootfs

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Modules are the modules of one kernel.
type Modules struct {
	files   map[string]string
	builtin map[string]bool
}

// OpenModules finds the modules below a tree such as lib/modules/6.1.0-56-amd64. It does not need the files that depmod
// writes, which a package does not have.
func OpenModules(tree string) (*Modules, error) {
	m := &Modules{files: map[string]string{}, builtin: map[string]bool{}}
	err := filepath.WalkDir(filepath.Join(tree, "kernel"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".ko") {
			m.files[moduleName(p)] = p
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find modules: %w", err)
	}
	list, err := os.Open(filepath.Join(tree, "modules.builtin"))
	if err != nil {
		return nil, fmt.Errorf("find modules: %w", err)
	}
	defer list.Close()
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		m.builtin[moduleName(lines.Text())] = true
	}
	return m, lines.Err()
}

// Add adds a module that was built beside those of the kernel, replacing one of the same name.
func (m *Modules) Add(file string) { m.files[moduleName(file)] = file }

// moduleName is the kernel's name of the module in a file.
func moduleName(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(path.Base(file), ".ko"), "-", "_")
}

// Order lists the files of the modules and their dependencies, each after those it needs. Built-in modules are left
// out.
func (m *Modules) Order(names ...string) ([]string, error) {
	var order []string
	var visit func(name string) error
	visit = func(name string) error {
		name = strings.ReplaceAll(name, "-", "_")
		file, ok := m.files[name]
		switch {
		case m.builtin[name] || slices.Contains(order, file):
			return nil
		case !ok:
			return fmt.Errorf("the kernel has no module %s", name)
		}
		needs, err := dependencies(file)
		if err != nil {
			return err
		}
		for _, n := range needs {
			if err := visit(n); err != nil {
				return fmt.Errorf("module %s: %w", name, err)
			}
		}
		order = append(order, file)
		return nil
	}
	for _, name := range names {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// dependencies are the modules whose symbols a module uses, as the kernel's build left them in it.
func dependencies(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", file, err)
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("read module %s: it has no section .modinfo", file)
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", file, err)
	}
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := bytes.CutPrefix(entry, []byte("depends=")); ok && len(list) > 0 {
			return strings.Split(string(list), ","), nil
		}
	}
	return nil, nil
}
