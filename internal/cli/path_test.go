package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/cli"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// climbing wants newer firmware on one card, with what the source says besides.
func (s *stage) climbing(t *testing.T, ofSource string) cli.Applying {
	t.Helper()
	images := ""
	for _, version := range []string{"22.40.1000", "22.41.1000"} {
		path, sum := s.image(t, version, simhost.NICImage, simhost.ImageOptions{Version: version, PSID: "MT_0000000359"})
		images += fmt.Sprintf("  - {url: \"file://%s\", digest: \"sha256:%s\", images: [{class: NIC, boardIDs: [MT_0000000359], version: %s}]}\n", path, sum, version)
	}
	docs, err := cli.Load([]string{s.write(t, fmt.Sprintf(`
apiVersion: nodefirmware.io/v1alpha1
kind: FirmwareTemplate
metadata: {name: cards}
spec:
  rules:
  - name: cx6
    selector: {class: NIC, models: [101d]}
    version: 22.41.1000
    sourceRef: {name: nics}
---
apiVersion: nodefirmware.io/v1alpha1
kind: FirmwareSource
metadata: {name: nics}
spec:
  %s
  files:
%s`, ofSource, images))})
	require.NoError(t, err)
	return cli.Applying{
		Docs: docs, StateDir: filepath.Join(s.dir, "state"), Host: s.hardware, Scan: s.hardware.Host.Scan, Drivers: s.hardware.Drivers,
		Writes: s.hardware.Runner, Steps: io.Discard, Poll: 10 * time.Millisecond,
	}
}

// card is what the plan says about the card.
func card(t *testing.T, s *stage, a cli.Applying) cli.PlannedDevice {
	t.Helper()
	p, err := cli.MakePlan(s.scan(t), a.Docs, cli.Describe(a.Docs.Sources), nil, nil)
	require.NoError(t, err)
	for _, d := range p.Devices {
		if d.Rule != "" {
			return d
		}
	}
	require.Fail(t, "no device is planned")
	return cli.PlannedDevice{}
}

// R002-65: without a cluster a version in between is flashed first too, one with each apply.
func TestApplyFlashesHopFirst(t *testing.T) {
	s := newStage(t)
	running, err := s.Running("nic0")
	require.NoError(t, err)
	a := s.climbing(t, fmt.Sprintf("upgradePaths: [{to: 22.41.1000, from: [%s], via: 22.40.1000}]", running))
	d := card(t, s, a)
	assert.Equal(t, "Flash", d.Action)
	assert.Equal(t, "22.41.1000", d.To)
	assert.Equal(t, "22.40.1000", d.Via)
	assert.Contains(t, d.Image, "22.40.1000")
	assert.Contains(t, d.Reason, "on the way to 22.41.1000")
	var steps bytes.Buffer
	a.Steps = &steps
	for _, version := range []string{"22.40.1000", "22.41.1000"} {
		out, err := cli.Apply(t.Context(), a)
		require.NoError(t, err)
		require.Equal(t, "Complete", out.Result)
		running, err = s.Running("nic0")
		require.NoError(t, err)
		assert.Equal(t, version, running)
	}
	assert.Contains(t, steps.String(), "22.40.1000 first, on the way to 22.41.1000; run apply again")
	out, err := cli.Apply(t.Context(), a)
	require.NoError(t, err)
	assert.Equal(t, "NothingToDo", out.Result)
}

// R002-13, R002-66: what the files forbid is not planned, and the reason says so.
func TestPlanKeepsToThePaths(t *testing.T) {
	s := newStage(t)
	running, err := s.Running("nic0")
	require.NoError(t, err)
	from := func(format string) string { return fmt.Sprintf(format, running) }
	for name, tc := range map[string]struct{ paths, want string }{
		"blocked":             {from("[{to: 22.41.1000, from: [%s]}]"), "must not be flashed over the running"},
		"too old":             {"[{to: 22.41.1000, below: 22.40.1000}]", "needs at least 22.40.1000"},
		"no image in between": {from("[{to: 22.41.1000, from: [%s], via: 22.39.9999}]"), "no image of 22.39.9999"},
	} {
		t.Run(name, func(t *testing.T) {
			d := card(t, s, s.climbing(t, "upgradePaths: "+tc.paths))
			assert.Equal(t, "None", d.Action)
			assert.Contains(t, d.Reason, tc.want)
		})
	}
}

func TestMalformedPathsAreRefused(t *testing.T) { // R002-66
	for paths, want := range map[string]string{
		`[{to: "2", from: ["1", "2"]}]`:                                            "upgradePaths[0] must name versions that differ",
		`[{to: "2", from: ["1"], via: "1.5"}, {to: "2", from: ["1"], via: "1.7"}]`: "contradict each other",
	} {
		s := &stage{dir: t.TempDir()}
		_, err := cli.Load([]string{s.write(t, `apiVersion: nodefirmware.io/v1alpha1
kind: FirmwareSource
metadata: {name: s}
spec:
  upgradePaths: `+paths+`
  files: []
`)})
		require.ErrorContains(t, err, "template.yaml:5: spec.upgradePaths: ")
		require.ErrorContains(t, err, want)
	}
}
