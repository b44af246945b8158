package guest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ask sends a request to the agent and decodes what it answers.
func ask(t *testing.T, s *server, method, path, body string, into any) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, r)
	if w.Code == http.StatusOK && into != nil {
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), into))
	}
	return w.Code
}

func TestRestartsKilledService(t *testing.T) {
	v := &supervisor{service: Service{Name: "x", Argv: []string{"/bin/sleep", "600"}, Log: filepath.Join(t.TempDir(), "log/x")}}
	s := &server{supervisors: map[string]*supervisor{"x": v}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- v.run(ctx) }()
	runs := func(starts int) func() bool {
		return func() bool { return v.status().PID != 0 && v.status().Starts == starts }
	}
	require.Eventually(t, runs(1), time.Minute, 10*time.Millisecond)
	pid := 0
	require.Equal(t, http.StatusOK, ask(t, s, http.MethodPost, "/service/x/kill", "", &pid))
	require.Eventually(t, runs(2), time.Minute, 10*time.Millisecond)
	assert.NotEqual(t, pid, v.status().PID)
	assert.Equal(t, http.StatusInternalServerError, ask(t, s, http.MethodPost, "/service/y/kill", "", nil))
	cancel()
	require.NoError(t, <-ended)
	assert.Zero(t, v.status().PID, "it ends with the machine")
}

func TestAgentReadsAndWritesFiles(t *testing.T) {
	s, path := &server{}, filepath.Join(t.TempDir(), "knob")
	var n int
	require.Equal(t, http.StatusOK, ask(t, s, http.MethodPut, "/file?path="+path, "Y", &n))
	var content []byte
	require.Equal(t, http.StatusOK, ask(t, s, http.MethodGet, "/file?path="+path, "", &content))
	assert.Equal(t, "Y", string(content))
	assert.Equal(t, http.StatusInternalServerError, ask(t, s, http.MethodGet, "/file?path="+path+"-missing", "", nil))
}

func TestAgentFindsAndRunsPrograms(t *testing.T) {
	s := &server{}
	var ran Ran
	require.Equal(t, http.StatusOK, ask(t, s, http.MethodPost, "/run", `["/bin/sh","-c","echo out; echo err >&2; exit 5"]`, &ran))
	assert.Equal(t, Ran{ExitCode: 5, Stdout: "out\n", Stderr: "err\n"}, ran)
	assert.Equal(t, http.StatusInternalServerError, ask(t, s, http.MethodPost, "/run", `["/missing"]`, nil))
	assert.Equal(t, http.StatusInternalServerError, ask(t, s, http.MethodPost, "/run", `[]`, nil))
	var pids []int
	require.Equal(t, http.StatusOK, ask(t, s, http.MethodGet, "/processes?name="+filepath.Base(os.Args[0]), "", &pids))
	assert.Contains(t, pids, os.Getpid())
}
