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

// climbing wants newer firmware on one card, with what the source and the rule say besides.
func (s *stage) climbing(t *testing.T, ofSource, ofRule string) cli.Applying {
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
    %s
---
apiVersion: nodefirmware.io/v1alpha1
kind: FirmwareSource
metadata: {name: nics}
spec:
  %s
  files:
%s`, ofRule, ofSource, images))})
	require.NoError(t, err)
	return cli.Applying{
		Docs: docs, StateDir: filepath.Join(s.dir, "state"), Host: s.hardware, Scan: s.hardware.Host.Scan, Drivers: s.hardware.Drivers,
		Writes: s.hardware.Runner, Steps: io.Discard, Poll: 10 * time.Millisecond,
	}
}

// card is what the plan says about the card.
func card(t *testing.T, s *stage, a cli.Applying) cli.PlannedDevice {
	t.Helper()
	p, err := cli.MakePlan(s.scan(t), a.Docs, cli.Describe(a.Docs.Sources), nil)
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
func TestApplyGoesViaTheVersionInBetween(t *testing.T) {
	s := newStage(t)
	running, err := s.Running("nic0")
	require.NoError(t, err)
	a := s.climbing(t, fmt.Sprintf("upgradePaths: {hops: [{to: 22.41.1000, from: [%s], via: 22.40.1000}]}", running), "")
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
	for name, tc := range map[string]struct{ ofSource, ofRule, want string }{
		"blocked by the source": {from("upgradePaths: {blockedEdges: [{to: 22.41.1000, from: [%s]}]}"), "", "must not be flashed over the running"},
		"blocked by the rule":   {"", from("upgradePaths: {blockedEdges: [{to: 22.41.1000, from: [%s]}]}"), "must not be flashed over the running"},
		"too old":               {"", "upgradePaths: {minimumVersions: [{to: 22.41.1000, version: 22.40.1000}]}", "needs at least 22.40.1000"},
		"no image in between":   {from("upgradePaths: {hops: [{to: 22.41.1000, from: [%s], via: 22.39.9999}]}"), "", "no image of 22.39.9999"},
		"two ways": {
			from("upgradePaths: {hops: [{to: 22.41.1000, from: [%s], via: 22.40.1000}]}"),
			from("upgradePaths: {hops: [{to: 22.41.1000, from: [%s], via: 22.39.9999}]}"), "contradict each other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := card(t, s, s.climbing(t, tc.ofSource, tc.ofRule))
			assert.Equal(t, "None", d.Action)
			assert.Contains(t, d.Reason, tc.want)
		})
	}
}

func TestMalformedPathsAreRefused(t *testing.T) { // R002-66
	s := &stage{dir: t.TempDir()}
	_, err := cli.Load([]string{s.write(t, `apiVersion: nodefirmware.io/v1alpha1
kind: FirmwareTemplate
metadata: {name: t}
spec:
  rules:
  - name: a
    selector: {class: NIC, vendor: "15b3"}
    version: "2"
    sourceRef: {name: s}
    upgradePaths:
      blockedEdges: [{to: "2", from: ["1", "2"]}]
`)})
	require.ErrorContains(t, err, "template.yaml:10: spec.rules[0].upgradePaths: blockedEdges[0] must name versions that differ")
}

func TestTheExamplesOfPathsCanBeRead(t *testing.T) {
	_, err := cli.Load([]string{
		"../../docs/examples/firmwaretemplate-upgradepaths.yaml", "../../docs/examples/firmwaresource-upgradepaths.yaml",
	})
	require.NoError(t, err)
}
