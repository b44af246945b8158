package main_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// Two processes with state directories of their own meet at one lock: a device of a machine is written by one of them at a
// time, and the other one waits.
func TestProcessesWithDifferentStateDirectoriesNeverWriteOneDeviceAtOnce(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, child.Build(bin, "firmware-daemon", "firmware-simtools"))
	m := newMachine(t, bin, 1)
	template := m.template(t)
	require.NoError(t, m.SetFault(simhost.Fault{ID: "slow", Kind: simhost.Hang, Operation: "write"}))

	first := m.apply(t, t.TempDir(), template)
	require.Eventually(t, func() bool { return len(m.writes(t)) == 1 }, 5*time.Minute, 20*time.Millisecond, "%v", first)
	second := m.apply(t, t.TempDir(), template)
	require.Eventually(t, func() bool {
		return len(m.writes(t)) > 1 || bytes.Contains(second.bytes(), []byte("still running"))
	}, 5*time.Minute, 20*time.Millisecond, "%v", second)
	assert.Len(t, m.writes(t), 1, "%v", second)

	require.NoError(t, m.ClearFault("slow"))
	<-first.ended
	<-second.ended
	assert.Contains(t, string(first.bytes()), "Done: every device was read back at its target.", "%v", first)
	for _, w := range m.writes(t) {
		assert.Equal(t, simhost.Done, w.Result, "%+v", w)
	}
}

// template writes a file that desires other firmware on the first card.
func (m *machine) template(t *testing.T) string {
	t.Helper()
	image := simhost.BuildImage(simhost.NICImage, simhost.ImageOptions{Version: "22.41.1000", PSID: nic0PSID})
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nic0.bin"), image, 0o600))
	file := filepath.Join(dir, "template.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
apiVersion: nodefirmware.io/v1alpha1
kind: FirmwareTemplate
metadata: {name: card}
spec:
  nodeSelector: {}
  rules:
  - name: card
    selector: {class: NIC, boardIDs: [%s]}
    version: 22.41.1000
    sourceRef: {name: card}
---
apiVersion: nodefirmware.io/v1alpha1
kind: FirmwareSource
metadata: {name: card}
spec:
  files:
  - url: file://%s
    digest: sha256:%x
    images: [{class: NIC, version: 22.41.1000, boardIDs: [%s]}]
`, nic0PSID, filepath.Join(dir, "nic0.bin"), sha256.Sum256(image), nic0PSID), 0o600))
	return file
}

// applying is a process that applies a template.
type applying struct {
	mu    sync.Mutex
	out   bytes.Buffer
	ended chan struct{}
}

// apply starts it with a state directory of its own, and kills it at the end of the test.
func (m *machine) apply(t *testing.T, state, template string) *applying {
	t.Helper()
	a := &applying{ended: make(chan struct{})}
	c := exec.Command(filepath.Join(m.bin, "firmware-daemon"), "apply", "-f", template,
		"--host-root="+m.Dir(), "--state-dir="+state, "--tool-path="+m.ToolPath())
	c.Stdout, c.Stderr = a, a
	require.NoError(t, c.Start())
	go func() { _ = c.Wait(); close(a.ended) }()
	t.Cleanup(func() { _ = c.Process.Kill(); <-a.ended })
	return a
}

// Write implements io.Writer.
func (a *applying) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.Write(p)
}

func (a *applying) bytes() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return bytes.Clone(a.out.Bytes())
}

// String is what it has printed so far.
func (a *applying) String() string { return string(a.bytes()) }
