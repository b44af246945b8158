package lab

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOnlyTheNodeThatGotTheImageMayHaveBeenCutOff(t *testing.T) {
	node := func(name string, cut time.Duration, dropped int) *Node {
		return &Node{Name: name, uplink: &uplink{traffic: Traffic{CutOff: cut, Dropped: dropped}}}
	}
	nodes := []*Node{node("node-0", 70*time.Second, 2), node("node-1", 0, 0)}
	never := make([]Traffic, 2)
	r := &CutOffReport{Node: "node-0"}
	require.NoError(t, r.judge(nodes, never))
	assert.InDelta(t, 70, r.CutOffSeconds, 0.01)
	assert.Equal(t, 2, r.DroppedConnections)

	assert.ErrorContains(t, (&CutOffReport{Node: "node-1"}).judge(nodes, never), "node-1 was cut off for 0s only")
	assert.ErrorContains(t, (&CutOffReport{}).judge(nodes, never), "node-0 was cut off for 1m10s without having got the image")
	before := []Traffic{nodes[0].Traffic(), nodes[1].Traffic()}
	assert.NoError(t, (&CutOffReport{}).judge(nodes, before), "what an earlier act did does not count")
	assert.Error(t, r.judge(nodes, before))
}
