package kubectl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
)

// A simulation plays what plan foretells, with chance. The file is what docs/kubectl-firmware.md shows.
func TestSimulationOfFiles(t *testing.T) {
	file, dir := planFile(t, plannedTemplate), t.TempDir()
	api := world(t, interceptor.Funcs{}, plannedFleet()...)
	report, picture := filepath.Join(dir, "r.json"), filepath.Join(dir, "rollout.html")
	out, said, err := typesWith(t.Context(), api, "", "simulate", "-f", file, "--waves", "--report", report, "--out", picture)
	require.NoError(t, err)
	said = regexp.MustCompile(`decisions in \S+\.`).ReplaceAllString(said, "decisions in 3ms.")
	golden.Equal(t, "testdata/simulate.golden", "$ kubectl firmware simulate -f objects.yaml --waves --out rollout.html\n"+out+"(error stream) "+said+"\n")
	assert.FileExists(t, picture)
	require.Error(t, api.Get(t.Context(), client.ObjectKey{Name: "gpu"}, &v1alpha1.FirmwareTemplate{}), "nothing is written to the cluster")

	text, err := os.ReadFile(report)
	require.NoError(t, err)
	var r simulation.Report
	require.NoError(t, json.Unmarshal(text, &r))
	assert.Equal(t, simulation.NotDue{v1alpha1.ReasonDeviceUnhealthy: 1, v1alpha1.ReasonNotUpdatable: 1}, r.NotDue)

	_, said, err = typesWith(t.Context(), api, "", "simulate", "-f", file, "--held-rate", "100%", "--person", "0", "--duration", "20m")
	require.NoError(t, err)
	assert.NotContains(t, said, "Nobody knows", "the person said how long jobs take")
}

// The name of a model is what a device says of itself.
func TestASimulationPrintsNoModelAsItIs(t *testing.T) {
	all := plannedFleet()
	for _, o := range all {
		if d, is := o.(*v1alpha1.NodeDevice); is {
			d.Status.Model = "\x1b[2JConnectX"
		}
	}
	out, said, err := typesWith(t.Context(), world(t, interceptor.Funcs{}, all...), "", "simulate", "-f", planFile(t, plannedTemplate), "--waves")
	require.NoError(t, err)
	assert.Contains(t, out, "ConnectX to 22.41.1000")
	assert.NotContains(t, out+said, "\x1b")
}

func TestSimulationOfWrongInput(t *testing.T) {
	api := world(t, interceptor.Funcs{}, plannedFleet()...)
	for args, says := range map[string][2]string{
		"file":     {"template.yaml", "name files with -f, such as: kubectl firmware simulate -f template.yaml"},
		"start":    {"--start=tomorrow", "--start: "},
		"duration": {"--duration=fast", "--duration: "},
		"rate":     {"--held-rate=2", "--held-rate: "},
	} {
		_, _, err := typesWith(t.Context(), api, "", "simulate", says[0])
		require.ErrorContains(t, err, says[1], args)
	}
	out, _, err := typesWith(t.Context(), api, "", "simulate")
	require.NoError(t, err, "nothing is declared")
	assert.Contains(t, out, "nothing")
}
