package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// isolationTimeout is the shortest time that a node which its update cut off may wait for the API server.
const isolationTimeout = time.Minute

// The results of the acts that are rolled back. Quarantined is that of a directory in which an earlier demo had that rolled back: no node
// gets it any more.
const (
	actRolledBack  = "RolledBack"
	actQuarantined = "Quarantined"
	actFailed      = "Failed"
)

// CutOffReport is the outcome of an image that takes a node's only way to the API server away.
type CutOffReport struct {
	// Result is RolledBack, Quarantined or Failed.
	Result  string `json:"result"`
	Version string `json:"version"`
	// Node that got the image.
	Node string `json:"node,omitempty"`
	// Reboots of that node for it.
	Reboots int `json:"reboots"`
	// CutOffSeconds is how long that node reached nothing, and DroppedConnections is how many connections broke by that.
	CutOffSeconds      float64 `json:"cutOffSeconds"`
	DroppedConnections int     `json:"droppedConnections"`
	// Spared nodes never got it.
	Spared int `json:"spared"`
	// DurationSeconds from the change of the template until the image was quarantined everywhere and every node in service.
	DurationSeconds float64 `json:"durationSeconds"`
}

// cutOff declares firmware that takes the link of the adapter down through which a node reaches the API server. It watches
// that the first node, which can ask nobody, rolls back by itself and returns, the image is quarantined and the other nodes
// are spared. In the end it restores the template.
func (l *Lab) cutOff(ctx context.Context, o DemoOptions, list []target) (*CutOffReport, error) {
	t := trial{policy: policy(1), good: list[1], bad: badTarget(list[1], "22.42.1000")}
	before := make([]Traffic, len(l.Nodes))
	for i, n := range l.Nodes {
		before[i] = n.Traffic()
	}
	known, err := l.got(t.bad.keys[0], func(op simhost.Operation) bool { return op.Version == t.bad.image.Version })
	if err != nil {
		return nil, err
	}
	l.say("\nDeclaring NIC firmware %s, which takes down the only link through which a node reaches the API server, for %d nodes,\n"+
		"one at a time. A node that is cut off waits for %s before it restores what ran before.",
		t.bad.image.Version, len(l.Nodes), isolationTimeout)
	rolledBack, err := l.try(ctx, o, list, t)
	report := &CutOffReport{Result: actRolledBack, Version: t.bad.image.Version}
	if rolledBack != nil {
		report.Node, report.Reboots, report.Spared = rolledBack.Node, rolledBack.Reboots, rolledBack.Spared
		report.DurationSeconds = rolledBack.DurationSeconds
	}
	if len(known) > 0 {
		report.Result, report.Node, report.Reboots, report.Spared = actQuarantined, "", 0, len(l.Nodes)
	}
	if err == nil {
		err = report.judge(l.Nodes, before)
	}
	if err != nil {
		report.Result = actFailed
	}
	return report, err
}

// got are the nodes on whose device such an operation was ever made, in an earlier demo too.
func (l *Lab) got(key string, such func(simhost.Operation) bool) ([]string, error) {
	var out []string
	for _, n := range l.Nodes {
		operations, err := n.Machine.Operations()
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(operations, func(op simhost.Operation) bool { return op.Device == key && such(op) }) {
			out = append(out, n.Name)
		}
	}
	return out, nil
}

// judge reads the relays: the node that got the image was cut off for as long as it had to wait, and no other was.
func (r *CutOffReport) judge(nodes []*Node, before []Traffic) error {
	var problems []error
	for i, n := range nodes {
		now := n.Traffic()
		cut := now.CutOff - before[i].CutOff
		if n.Name != r.Node {
			if cut > 0 {
				problems = append(problems, fmt.Errorf("%s was cut off for %s without having got the image", n.Name, cut))
			}
			continue
		}
		r.CutOffSeconds = cut.Seconds()
		r.DroppedConnections = now.Dropped - before[i].Dropped
		if cut < isolationTimeout || r.DroppedConnections == 0 {
			problems = append(problems, fmt.Errorf("%s was cut off for %s only, and lost %d connections", n.Name, cut, r.DroppedConnections))
		}
	}
	return errors.Join(problems...)
}
