package nvmetcp_test

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/nvmetcp"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest/nvmectrl"
)

func testConfig() nvmetcp.Config {
	return nvmetcp.Config{Profile: nvmectrl.Profile{Model: "lab drive", Serial: "S1"}, Revision: "1.0"}
}

// testImage is an image for the drive of testConfig. Its first byte of payload is that of the revision.
func testImage(t testing.TB, revision string, size int) []byte {
	t.Helper()
	image, err := nvmectrl.MakeImage(nvmectrl.Image{
		Model: "lab drive", Revision: revision, Security: 1, Payload: bytes.Repeat([]byte(revision), size/len(revision)),
	})
	require.NoError(t, err)
	return image
}

// testDrive is a drive that is served.
type testDrive struct {
	*nvmetcp.Drive
	addr string
	stop func()
}

func serve(t *testing.T, state string, config nvmetcp.Config) *testDrive {
	t.Helper()
	drive, err := nvmetcp.Open(state, config)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- nvmetcp.Serve(ctx, listener, drive) }()
	stopped := false
	d := &testDrive{Drive: drive, addr: listener.Addr().String()}
	d.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			assert.NoError(t, <-served)
			assert.NoError(t, drive.Close())
		}
	}
	t.Cleanup(d.stop)
	return d
}

func newDrive(t *testing.T, change func(*nvmetcp.Config)) *testDrive {
	t.Helper()
	config := testConfig()
	if change != nil {
		change(&config)
	}
	return serve(t, filepath.Join(t.TempDir(), "state.json"), config)
}
