package policyfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/policyfile"
)

func file(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

const head = "apiVersion: nodefirmware.io/v1alpha1\nkind: RolloutPolicy\n"

func TestPoliciesAreReadAsTheAPIServerWouldStoreThem(t *testing.T) {
	got, err := policyfile.Load([]string{file(t, "p.yaml", head+"metadata: {name: a}\nspec: {maxUnavailable: 10%}\n---\n"+head+
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
	got, err := policyfile.Load([]string{file(t, "p.yaml", list)})
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
		"another kind":         {"apiVersion: v1\nkind: Node\n", `p.yaml:1: apiVersion is "v1", want "nodefirmware.io/v1beta1" or "nodefirmware.io/v1alpha1"`},
		"another kind of ours": {"apiVersion: nodefirmware.io/v1alpha1\nkind: FirmwareSource\n", `p.yaml:2: kind is "FirmwareSource", want RolloutPolicy`},
		"a name given twice":   {head + "metadata: {name: a}\n---\n" + head + "metadata: {name: a}\n", "p.yaml:7: RolloutPolicy a is given twice"},
		"no name":              {head, "p.yaml:1: metadata.name is missing"},
		"an empty file":        {"# nothing\n", "p.yaml: there is no RolloutPolicy in the file"},
		"no YAML":              {"a: [", "p.yaml: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policyfile.Load([]string{file(t, "p.yaml", c.text)})
			assert.ErrorContains(t, err, c.want)
		})
	}
	_, err := policyfile.Load([]string{"/no/such.yaml"})
	assert.ErrorContains(t, err, "read policy: open /no/such.yaml")
}

func TestAWindowThatCannotBeIsRefusedInTheWordsOfTheOperator(t *testing.T) {
	for spec, want := range map[string]string{
		`{name: w, schedule: "0 22 30 2 *", duration: 4h}`:                       "spec.windows[0].schedule: ",
		`{name: w, schedule: "0 22 * * 6", duration: 4h, timeZone: Mars/Crater}`: "spec.windows[0].timeZone: ",
	} {
		_, err := policyfile.Load([]string{file(t, "p.yaml", head+"metadata: {name: a}\nspec:\n  windows:\n  - "+spec+"\n")})
		assert.ErrorContains(t, err, "p.yaml:6: RolloutPolicy a: "+want)
	}
}
