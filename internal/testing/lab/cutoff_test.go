package lab

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"syscall"
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

// killWhileCutOff kills the daemon of the first node that says that it is cut off, and then says which it was.
func (l *Lab) killWhileCutOff(t *testing.T) <-chan string {
	killed := make(chan string, 1)
	go func() {
		defer close(killed)
		for tick := time.NewTicker(3 * time.Second); ; {
			for _, n := range l.Nodes {
				pid := n.DaemonPID()
				if cut := n.uplink.down() && len(n.waits()) > 0; cut && pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
					killed <- n.Name
					return
				}
			}
			select {
			case <-t.Context().Done():
				return
			case <-tick.C:
			}
		}
	}()
	return killed
}

// waits are for how long the daemons of the node had been cut off, each time that one began to wait.
func (n *Node) waits() []time.Duration {
	data, _ := os.ReadFile(n.logPath)
	var out []time.Duration
	for line := range bytes.Lines(data) {
		var entry struct {
			Message string        `json:"msg"`
			Waited  time.Duration `json:"waited"`
		}
		if json.Unmarshal(line, &entry) == nil && strings.HasPrefix(entry.Message, "Node is cut off") {
			out = append(out, entry.Waited)
		}
	}
	return out
}
