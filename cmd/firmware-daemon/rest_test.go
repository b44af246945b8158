package main_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// restsQuietly: at rest, a daemon reads its devices at each scan with the same command lines, and runs nothing else: what a job has to know
// of the host, a scan does not ask. It writes nothing to the API: no device, no Node, no Lease and no event.
func restsQuietly(t *testing.T, c *cluster, m *machine) {
	calls := m.recordTools(t)
	m.start(t, append(slices.Clone(c.args), "--scan-interval=1s")...)
	c.device(t, byBoard(nic0PSID))
	c.device(t, byBoard(nic1PSID))
	scans := func() int { return slices.Max(append(slices.Collect(maps.Values(calls())), 0)) }
	await := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return scans() >= n }, 5*time.Minute, 50*time.Millisecond, "the daemon scans")
	}
	await(scans() + 2) // what followed from the first scan is written
	before, written := calls(), c.versions(t)
	await(scans() + 5)
	assert.Equal(t, written, c.versions(t))

	tools := map[string]bool{}
	for line, n := range calls() {
		if n > before[line] {
			name, _, _ := strings.Cut(line, " ")
			tools[name] = true
			assert.Positive(t, before[line], "a command line that earlier scans had not: %s", line)
		}
	}
	assert.Equal(t, []string{"fwupdtool", "mstflint", "mstfwreset", "nvme", "sg_inq", "sg_logs", "sg_opcodes", "sg_read_buffer"}, slices.Sorted(maps.Keys(tools)),
		"the tools with which drivers read")
}

// recordTools has the tools of the machine note their command lines. What it returns counts them.
func (m *machine) recordTools(t *testing.T) func() map[string]int {
	t.Helper()
	dir := t.TempDir()
	record, calls := filepath.Join(dir, "record"), filepath.Join(dir, "calls")
	script := fmt.Sprintf("#!/bin/bash\necho \"${0##*/} $*\" >>%s\nexec -a \"$0\" %s \"$@\"\n", calls, filepath.Join(m.bin, "firmware-simtools"))
	require.NoError(t, os.WriteFile(record, []byte(script), 0o755))
	require.NoError(t, m.InstallTools(record))
	return func() map[string]int {
		text, err := os.ReadFile(calls)
		if err != nil && !os.IsNotExist(err) {
			require.NoError(t, err)
		}
		out := map[string]int{}
		for line := range strings.Lines(string(text)) {
			out[strings.TrimSpace(line)]++
		}
		return out
	}
}

// versions are the resource versions of the objects of the node: of all that a daemon may write.
func (c *cluster) versions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, list := range []client.ObjectList{
		&corev1.NodeList{}, &v1alpha1.NodeFirmwareList{}, &v1alpha1.NodeDeviceList{}, &coordinationv1.LeaseList{}, &eventsv1.EventList{},
	} {
		require.NoError(t, c.Client.List(t.Context(), list))
		require.NoError(t, meta.EachListItem(list, func(o runtime.Object) error {
			if object := o.(client.Object); object.GetName() == c.node || strings.HasPrefix(object.GetName(), c.node+"-") || strings.HasPrefix(object.GetName(), c.node+".") {
				out[fmt.Sprintf("%T %s", o, object.GetName())] = object.GetResourceVersion()
			}
			return nil
		}))
	}
	return out
}
