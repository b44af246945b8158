package lab

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

func TestOneNodeAloneMayHaveGotTheSettingThatTakesALinkDown(t *testing.T) {
	nodes := []*Node{{Name: "node-0"}, {Name: "node-1"}}
	r := &SettingsReport{}
	require.NoError(t, r.judge(nodes, nil, nil, []string{"node-1"}))
	assert.Equal(t, SettingsReport{Nodes: 2, RolledBack: 1, Node: "node-1"}, *r)

	assert.ErrorContains(t, (&SettingsReport{}).judge(nodes, nil, nil, nil), "0 nodes got linkType InfiniBand instead of one")
	assert.ErrorContains(t, (&SettingsReport{}).judge(nodes, nil, nil, []string{"node-0", "node-1"}), "2 nodes got linkType InfiniBand instead of one: node-0, node-1")
	earlier := []string{"node-1"}
	r = &SettingsReport{}
	require.NoError(t, r.judge(nodes, nil, earlier, earlier), "an earlier demo had it quarantined")
	assert.Zero(t, r.RolledBack)
	assert.ErrorContains(t, r.judge(nodes, nil, earlier, []string{"node-0", "node-1"}), "1 nodes got", "though it was quarantined")
}

func TestSettingsThatAreNotInForceAreNamed(t *testing.T) {
	m, err := simhost.Create(t.TempDir(), simhost.DefaultSpec("node-0", 0))
	require.NoError(t, err)
	n := &Node{Name: "node-0", Machine: m}
	require.NoError(t, n.unsettled(targetsOf("bios", "pm9a3")), "no network adapters")
	err = n.unsettled(targets())
	require.ErrorContains(t, err, "NUM_OF_VFS of nic0 of node-0 is 0, and 0 is stored, instead of 8")
	require.ErrorContains(t, err, "SRIOV_EN of nic1 of node-0")
	assert.NotContains(t, err.Error(), firstPort, "Ethernet is what a card speaks when it is made")
	r := &SettingsReport{}
	require.Error(t, r.judge([]*Node{n}, targets(), nil, []string{"node-0"}))
	assert.Zero(t, r.Nodes)
}

func TestReportSaysWhatBecameOfTheSettings(t *testing.T) {
	r := &Report{Nodes: make([]NodeReport, 6), Settings: &SettingsReport{Result: actRolledBack, Nodes: 6, RolledBack: 1, Node: "node-3", DurationSeconds: 41}}
	var text bytes.Buffer
	r.Summary(&text)
	assert.Contains(t, text.String(), "linkType InfiniBand took the link of node-3 down: taken back by itself in 41 s, quarantined, 5 nodes spared.")
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	var back map[string]any
	require.NoError(t, json.Unmarshal(raw, &back))
	assert.Equal(t, map[string]any{"result": "RolledBack", "nodes": 6., "rolledBack": 1., "node": "node-3", "durationSeconds": 41.}, back["settings"])

	text.Reset()
	r.Settings = &SettingsReport{Result: actQuarantined, Nodes: 6}
	r.Summary(&text)
	assert.Contains(t, text.String(), "were quarantined already: 6 nodes spared.")
}
