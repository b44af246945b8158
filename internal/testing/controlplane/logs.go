package controlplane

import (
	"fmt"
	"os"
	"strings"
)

// logFiles are the open logs of both programs.
type logFiles struct {
	etcd, apiServer *os.File
}

// openLogs opens the log files for a start of the programs, which keep their own descriptors.
func (d *directory) openLogs() (*logFiles, error) {
	const flags = os.O_CREATE | os.O_APPEND | os.O_WRONLY
	etcd, err := os.OpenFile(d.logPath(etcdBinary), flags, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	apiServer, err := os.OpenFile(d.logPath(apiServerBinary), flags, 0o644)
	if err != nil {
		etcd.Close()
		return nil, fmt.Errorf("open log: %w", err)
	}
	return &logFiles{etcd: etcd, apiServer: apiServer}, nil
}

func (f *logFiles) close() {
	f.etcd.Close()
	f.apiServer.Close()
}

// logTail is the end of both logs, for the error of a start that failed.
func (d *directory) logTail() string {
	var out []string
	for _, binary := range []string{etcdBinary, apiServerBinary} {
		if text, err := os.ReadFile(d.logPath(binary)); err == nil && len(text) > 0 {
			out = append(out, fmt.Sprintf("end of the log of %s:\n%s", binary, tail(string(text), 15)))
		}
	}
	return strings.Join(out, "\n")
}
