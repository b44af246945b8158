package simulation_test

import (
	"os"
	"path/filepath"
	"strings"
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

const head = "apiVersion: nodefirmware.io/v1alpha1\nkind: RolloutPolicy\n"

func TestPoliciesAreReadAsTheAPIServerWouldStoreThem(t *testing.T) {
	got, err := simulation.LoadPolicies([]string{file(t, "p.yaml", head+"metadata: {name: a}\nspec: {maxUnavailable: 10%}\n---\n"+head+
		"metadata: {name: b}\nstatus: {admitted: [{node: n1, job: j1, jobUID: u }]}\n")})
	require.NoError(t, err)
	require.Len(t, got, 2)
	assert.Equal(t, "10%", got[0].Spec.MaxUnavailable.String())
	assert.Equal(t, "1", got[1].Spec.MaxUnavailable.String(), "the default of the definition")
	assert.EqualValues(t, "60s", got[1].Spec.HealthyFor)
	assert.Empty(t, got[1].Status.Admitted, "the rollout begins with no node admitted")
}

func TestReadsKubectlList(t *testing.T) {
	list := "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(head, "\n", "\n  ") + "metadata: {name: a, resourceVersion: \"7\", generation: 2}\n" +
		"- " + strings.ReplaceAll(head, "\n", "\n  ") + "metadata: {name: b}\n  spec:\n    healthyFor: 2h\n"
	got, err := simulation.LoadPolicies([]string{file(t, "p.yaml", list)})
	assert.ErrorContains(t, err, "p.yaml:11: RolloutPolicy b: spec.healthyFor: ")
	require.Len(t, got, 2)
	assert.Equal(t, "a", got[0].Name)
}

func TestEveryProblemOfAPolicyNamesItsFileAndField(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"an unknown field":     {head + "metadata: {name: a}\nspec:\n  maxUnavailabel: 1\n", `p.yaml:5: unknown field "spec.maxUnavailabel"`},
		"a budget":             {head + "metadata: {name: a}\nspec:\n  maxUnavailable: 110%\n", `p.yaml:5: RolloutPolicy a: spec.maxUnavailable: Invalid value: maxUnavailable must be a number of nodes from 0 or a percentage`},
		"a selector":           {head + "metadata: {name: a}\nspec:\n  nodeSelector:\n    matchLabels: {\"not a key\": x}\n", "p.yaml:5: RolloutPolicy a: spec.nodeSelector: "},
		"a duration":           {head + "metadata: {name: a}\nspec:\n  healthyFor: 2h\n", "healthyFor must be a duration from 0s to 1h"},
		"a state":              {head + "metadata: {name: a}\nspec:\n  state: Quick\n", `p.yaml:5: RolloutPolicy a: spec.state: Unsupported value: "Quick"`},
		"another kind":         {"apiVersion: v1\nkind: Node\n", `p.yaml:1: apiVersion is "v1", want "nodefirmware.io/v1alpha1"`},
		"another kind of ours": {"apiVersion: nodefirmware.io/v1alpha1\nkind: FirmwareSource\n", `p.yaml:2: kind is "FirmwareSource", want RolloutPolicy`},
		"a name given twice":   {head + "metadata: {name: a}\n---\n" + head + "metadata: {name: a}\n", "p.yaml:7: RolloutPolicy a is given twice"},
		"no name":              {head, "p.yaml:1: metadata.name is missing"},
		"an empty file":        {"# nothing\n", "p.yaml: there is no RolloutPolicy in the file"},
		"no YAML":              {"a: [", "p.yaml: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := simulation.LoadPolicies([]string{file(t, "p.yaml", c.text)})
			assert.ErrorContains(t, err, c.want)
		})
	}
	_, err := simulation.LoadPolicies([]string{"/no/such.yaml"})
	assert.ErrorContains(t, err, "read policy: open /no/such.yaml")
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
