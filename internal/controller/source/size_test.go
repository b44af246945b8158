package source

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// A source that describes more than one object should hold says so, and keeps offering what it listed before.
func TestOversizedSourceSaysSo(t *testing.T) {
	b := newBench(t)
	var files []v1alpha1.FirmwareFile
	for i := range 12 {
		f := b.file(fmt.Sprintf("fw-%d.bin", i), fmt.Sprintf("FIRMWARE %d", i))
		f.Images[0].Version = fmt.Sprintf("22.41.%d", i)
		for m := range 64 {
			f.Images[0].Models = append(f.Images[0].Models, fmt.Sprintf("%d-%d-%s", i, m, strings.Repeat("m", 120)))
		}
		files = append(files, f)
	}
	b.create("src", files[:6]...)
	_, err := b.reconcile("src")
	require.NoError(t, err)
	require.Len(t, b.get("src").Status.Images, 6)
	b.requireStatus("src", status.CurrentStatus)

	s := b.get("src")
	s.Spec.Files, s.Generation = files, 2
	require.NoError(t, b.client.Update(t.Context(), s))
	_, err = b.reconcile("src")
	require.NoError(t, err, "a person has to correct it")
	assert.Equal(t, "False InvalidSpec", b.reason("src", "Ready"))
	b.requireStatus("src", status.FailedStatus)
	s = b.get("src")
	assert.Len(t, s.Status.Images, 6, "devices keep the images that they have assigned")
	out, err := json.Marshal(s)
	require.NoError(t, err)
	assert.Less(t, len(out), 256<<10)
	for _, c := range s.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			assert.Contains(t, c.Message, "the limit is 128 KiB; split it")
		}
	}
}
