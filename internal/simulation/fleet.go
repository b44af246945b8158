package simulation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodefirmware/node-firmware-operator/internal/neighbour"
)

// Made says which machines a made fleet has.
type Made struct {
	Nodes int
	Seed  uint64
	// Labels are the values of each label of the nodes, with their weights: pool=gpu:3,storage:1 gives three of four to gpu.
	Labels map[string][]Weighted
	// Models and Versions are what the devices of the machines are and run, with their weights. A value "A+B" stands for a machine with
	// two devices.
	Models, Versions []Weighted
	// Racks is among how many racks the nodes are divided evenly, which RackLabel names; 0 for none.
	Racks     int
	RackLabel string
}

// Weighted is a value with its share of a fleet, as a weight.
type Weighted struct {
	Value  string
	Weight int
}

// Fleet makes the machines.
func (m Made) Fleet() []Node {
	dice := rand.New(rand.NewPCG(m.Seed, 0))
	out := make([]Node, m.Nodes)
	digits := len(fmt.Sprint(max(0, m.Nodes-1)))
	for i := range out {
		n := Node{Name: fmt.Sprintf("node-%0*d", digits, i), Ready: true, Labels: map[string]string{}}
		for model := range strings.SplitSeq(pick(dice, m.Models), "+") {
			n.Devices = append(n.Devices, Device{Model: strings.TrimSpace(model), Version: pick(dice, m.Versions)})
		}
		n.Labels[corev1.LabelHostname] = n.Name
		for _, key := range sortedKeys(m.Labels) {
			n.Labels[key] = pick(dice, m.Labels[key])
		}
		if m.Racks > 0 {
			n.Labels[m.RackLabel] = fmt.Sprintf("r%0*d", len(fmt.Sprint(m.Racks-1)), i*m.Racks/m.Nodes)
		}
		out[i] = n
	}
	return out
}

func pick(dice *rand.Rand, values []Weighted) string {
	all := 0
	for _, v := range values {
		all += v.Weight
	}
	if all == 0 {
		return ""
	}
	at := dice.IntN(all)
	for _, v := range values {
		if at -= v.Weight; at < 0 {
			return v.Value
		}
	}
	return ""
}

// LoadNodes reads the output of kubectl get nodes -o json. The label modelLabel says what a machine is, where a node has it.
// Each node keeps its labels, whether it is Ready, whether it is cordoned, and who else has it.
func LoadNodes(file, modelLabel string) ([]Node, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read nodes: %w", err)
	}
	var list struct {
		Kind  string        `json:"kind"`
		Items []corev1.Node `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: not the output of kubectl get nodes -o json: %w", file, err)
	}
	if list.Kind == "Node" {
		return nil, fmt.Errorf("%s: kind is Node, want a list: kubectl get nodes -o json without a name", file)
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("%s: items: the list has no node", file)
	}
	var out []Node
	var errs []error
	for i := range list.Items {
		n := &list.Items[i]
		if n.Kind != "" && n.Kind != "Node" {
			errs = append(errs, fmt.Errorf("%s: items[%d].kind is %q, want Node", file, i, n.Kind))
		}
		if n.Name == "" {
			errs = append(errs, fmt.Errorf("%s: items[%d].metadata.name is missing", file, i))
		}
		ready := false
		for _, c := range n.Status.Conditions {
			ready = ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}
		out = append(out, Node{Name: n.Name, Labels: maps.Clone(n.Labels), Devices: []Device{{Model: n.Labels[modelLabel]}}, Ready: ready, Cordoned: n.Spec.Unschedulable,
			Taken: cmp.Or(neighbour.Has(n), neighbour.Cordoned(n))})
	}
	return out, errors.Join(errs...)
}
