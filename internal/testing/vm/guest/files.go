package guest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Ran is how a program ended.
type Ran struct {
	ExitCode       int
	Stdout, Stderr string
}

func readFile(r *http.Request) (any, error) { return os.ReadFile(r.URL.Query().Get("path")) }

// writeFile writes in one piece: a file of sysfs or debugfs takes each write as a value of its own.
func writeFile(r *http.Request) (any, error) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return len(content), os.WriteFile(r.URL.Query().Get("path"), content, 0o755)
}

func runTool(r *http.Request) (any, error) {
	var argv []string
	if err := json.NewDecoder(r.Body).Decode(&argv); err != nil || len(argv) == 0 {
		return nil, errors.Join(errors.New("want a list of arguments"), err)
	}
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(r.Context(), argv[0], argv[1:]...)
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	return Ran{ExitCode: c.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}, nil
}

// processes lists the processes with a name among their arguments, in whatever directory.
func processes(r *http.Request) (any, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	found := []int{}
	named := func(argument string) bool { return filepath.Base(argument) == r.URL.Query().Get("name") }
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && slices.ContainsFunc(strings.Split(string(line), "\x00"), named) {
			found = append(found, pid)
		}
	}
	return found, err
}
