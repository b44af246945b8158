package simulation_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
)

func file(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestTakesClusterNodesAsTheyAre(t *testing.T) {
	got, err := simulation.LoadNodes(file(t, "nodes.json", `{"kind":"List","apiVersion":"v1","items":[
	  {"kind":"Node","metadata":{"name":"a","labels":{"pool":"gpu","model":"X"}},"status":{"conditions":[{"type":"Ready","status":"True"}]}},
	  {"kind":"Node","metadata":{"name":"b"},"spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}]}`), "model")
	require.NoError(t, err)
	assert.Equal(t, []simulation.Node{
		{Name: "a", Labels: map[string]string{"pool": "gpu", "model": "X"}, Devices: []simulation.Device{{Model: "X"}}, Ready: true},
		{Name: "b", Devices: []simulation.Device{{}}, Cordoned: true, Taken: got[1].Taken},
	}, got)
	assert.Contains(t, got[1].Taken, "Node b is cordoned, and not by this product.")
}

func TestEveryProblemOfAListOfNodesNamesItsFile(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"List","items":[]}`:              "nodes.json: items: the list has no node",
		`{"kind":"Node","metadata":{"name":"a"}}`: "nodes.json: kind is Node, want a list",
		`NAME STATUS`: "nodes.json: not the output of kubectl get nodes -o json",
		`{"kind":"List","items":[{"kind":"Pod"}]}`:              `nodes.json: items[0].kind is "Pod", want Node`,
		`{"kind":"List","items":[{"kind":"Node"}]}`:             "nodes.json: items[0].metadata.name is missing",
		`{"kind":"List","items":[{"metadata":{"name":["a"]}}]}`: "nodes.json: not the output of kubectl get nodes -o json",
	} {
		_, err := simulation.LoadNodes(file(t, "nodes.json", text), "model")
		assert.ErrorContains(t, err, want)
	}
}

func TestAMadeFleetHasTheSharesThatWereAskedFor(t *testing.T) {
	m := simulation.Made{Nodes: 1000, Seed: 1, Racks: 40, RackLabel: "rack", Models: []simulation.Weighted{{Value: "A", Weight: 3}, {Value: "B", Weight: 1}},
		Labels: map[string][]simulation.Weighted{"pool": {{Value: "gpu", Weight: 1}, {Value: "cpu", Weight: 0}}}}
	racks, models := map[string]int{}, map[string]int{}
	for _, n := range m.Fleet() {
		racks[n.Labels["rack"]]++
		models[n.Devices[0].Model]++
		assert.Equal(t, "gpu", n.Labels["pool"])
		assert.Equal(t, n.Name, n.Labels["kubernetes.io/hostname"])
	}
	assert.Len(t, racks, 40)
	assert.Equal(t, 25, racks["r07"])
	assert.InDelta(t, 750, models["A"], 60)
	again := m.Fleet()
	assert.Equal(t, again, m.Fleet())
}

func TestValuesOfFlags(t *testing.T) {
	d, err := simulation.ParseByModel("25m, B=40m", time.ParseDuration)
	require.NoError(t, err)
	assert.Equal(t, 25*time.Minute, d.Of("A"))
	assert.Equal(t, 40*time.Minute, d.Of("B"))
	for _, wrong := range []string{"", "B=40m", "25m,30m", "25m,B=x"} {
		_, err := simulation.ParseByModel(wrong, time.ParseDuration)
		assert.Error(t, err, wrong)
	}
	for text, want := range map[string]float64{"0": 0, "0.5": 0.5, "2%": 0.02, "100%": 1} {
		got, err := simulation.ParseRate(text)
		require.NoError(t, err)
		assert.InDelta(t, want, got, 1e-9)
	}
	for _, wrong := range []string{"", "-1", "1.1", "101%", "NaN", "x"} {
		_, err := simulation.ParseRate(wrong)
		assert.Error(t, err, wrong)
	}
	w, err := simulation.ParseWeighted("A:3,B")
	require.NoError(t, err)
	assert.Equal(t, []simulation.Weighted{{Value: "A", Weight: 3}, {Value: "B", Weight: 1}}, w)
	for _, wrong := range []string{"", "A:x", "A:-1", ":2", "A,,B"} {
		_, err := simulation.ParseWeighted(wrong)
		assert.Error(t, err, wrong)
	}
	_, err = simulation.ParseLabels([]string{"pool"})
	assert.ErrorContains(t, err, `"pool" is not of the form key=value:weight`)
}
