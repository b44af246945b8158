package artifact_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

func TestStreamHasFetchLimits(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			_, _ = io.WriteString(w, "content")
		case "/large":
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, strings.Repeat("x", 4096))
		case "/hangs":
			_, _ = io.WriteString(w, "con")
			w.(http.Flusher).Flush()
			<-hang
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hang) })
	f := artifact.NewFetcher(artifact.FetchConfig{AllowLoopback: true, MaxBytes: 1024, StallTimeout: time.Second})
	read := func(path string) (string, error) {
		body, err := f.Open(t.Context(), server.URL+path, nil)
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(body)
		require.NoError(t, body.Close())
		require.NoError(t, body.Close())
		return string(text), err
	}
	text, err := read("/good")
	require.NoError(t, err)
	assert.Equal(t, "content", text)
	for path, want := range map[string]artifact.Reason{"/large": artifact.DownloadFailed, "/hangs": artifact.DownloadFailed, "/gone": artifact.DownloadFailed} {
		_, err := read(path)
		require.Error(t, err, path)
		reason, _ := artifact.ReasonOf(err)
		assert.Equal(t, want, reason, path)
		if path == "/hangs" {
			assert.ErrorContains(t, err, "interrupted after 3 bytes: no data for 1s")
		}
	}
	closed := artifact.NewFetcher(artifact.FetchConfig{})
	_, err = closed.Open(t.Context(), server.URL+"/good", nil)
	require.Error(t, err, "a loopback address is refused")
}
