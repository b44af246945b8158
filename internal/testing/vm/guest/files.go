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

func readFile(w http.ResponseWriter, r *http.Request) {
	content, err := os.ReadFile(r.URL.Query().Get("path"))
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, content)
}

// writeFile writes in one piece: a file of sysfs or debugfs takes each write as a value of its own.
func writeFile(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, err)
		return
	}
	file, err := os.OpenFile(r.URL.Query().Get("path"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err == nil {
		_, err = file.Write(content)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, len(content))
}

func runTool(w http.ResponseWriter, r *http.Request) {
	var argv []string
	if err := json.NewDecoder(r.Body).Decode(&argv); err != nil || len(argv) == 0 {
		refuse(w, errors.Join(errors.New("want a list of arguments"), err))
		return
	}
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(r.Context(), argv[0], argv[1:]...)
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		refuse(w, err)
		return
	}
	answer(w, Ran{ExitCode: c.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()})
}

// processes lists the processes with a name among their arguments, in whatever directory.
func processes(w http.ResponseWriter, r *http.Request) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		refuse(w, err)
		return
	}
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
	answer(w, found)
}

func refuse(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// answer ends the request. The client notices if the answer cannot be sent.
func answer(w http.ResponseWriter, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	_, _ = w.Write(raw)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}
