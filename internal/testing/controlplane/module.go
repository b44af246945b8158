package controlplane

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

const modulePath = "github.com/nodefirmware/node-firmware-operator"

// ModuleRoot looks for this project's checkout upwards from the working directory, as a test has it, and upwards
// from the running program, as a binary in bin/ has it. It returns "" where there is none.
func ModuleRoot() string {
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			if moduleOf(filepath.Join(dir, "go.mod")) == modulePath {
				return dir
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return ""
}

// moduleOf is the module path a go.mod file declares, "" where there is no such file.
func moduleOf(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if path, ok := strings.CutPrefix(lines.Text(), "module "); ok {
			return strings.TrimSpace(path)
		}
	}
	return ""
}
