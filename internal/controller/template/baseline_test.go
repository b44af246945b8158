package template

import (
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/baseline"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
)

// reportBaseline plays the daemon of a node whose machine is of the model and has the device.
func (f *fleet) reportBaseline(node, device string) string {
	f.Helper()
	m := &v1alpha1.Machine{Vendor: "Lenovo", Model: "7X21", SerialNumber: "J-" + node}
	is := baseline.Of(m, []baseline.Device{baseline.DeviceOf(&f.device(device).Status)})
	require.NoError(f, fieldset.ApplyNode(f.Context(), f.Client, node, v1alpha1.NodeFirmwareStatus{ObservedGeneration: 1, Machine: m, Baseline: is}))
	return is
}

// R003-3: once all is as desired, the template says whether the nodes are equal, and names the one that is not and its setting, whichever of the
// objects is seen first.
func TestNodesThatDifferAreNamed(t *testing.T) {
	f := newFleet(t)
	f.source("s", imageFor(board, v1, 1))
	f.template("t", "gpu", v1, "s")
	numVFs := func(value string) func(*v1alpha1.NodeDeviceStatus) {
		return func(s *v1alpha1.NodeDeviceStatus) {
			s.SerialNumber = s.UniqueID
			s.Parameters = []v1alpha1.ObservedParameter{{Name: "numVFs", Current: &value, Next: &value}}
		}
	}
	devices := map[string]string{}
	for _, n := range []string{"a", "b", "c"} {
		f.node(n, map[string]string{"pool": "gpu"})
		f.create(&v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: n}})
		devices[n] = f.discover(n, board, v1, numVFs("8"))
	}
	equal := f.reportBaseline("a", devices["a"])
	assert.Equal(t, equal, f.reportBaseline("b", devices["b"]))
	f.startOperator()
	says := func(baselines int32, message string) {
		t.Helper()
		f.awaitTemplate("t", func(c *assert.CollectT, o *v1alpha1.FirmwareTemplate) {
			assert.Equal(c, baselines, o.Status.Nodes.Baselines)
			ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
			require.NotNil(c, ready)
			assert.Equal(c, message, ready.Message)
		})
		f.awaitReady("t", v1alpha1.ReasonSucceeded, status.CurrentStatus)
	}
	says(1, "3 of 3 assigned devices run the desired firmware.")

	f.discover("c", board, v1, numVFs("4"))
	f.reportBaseline("c", devices["c"])
	f.discover("c", board, v1, numVFs("2"))
	says(2, "3 of 3 assigned devices run the desired firmware. 1 node differs from most of its machine model. "+
		"c differs from a in NIC ConnectX-6 Dx ("+v1+" [numVFs=2], not "+v1+" [numVFs=8]).")

	f.discover("c", board, v1, numVFs("8"))
	assert.Equal(t, equal, f.reportBaseline("c", devices["c"]))
	says(1, "3 of 3 assigned devices run the desired firmware.")
	assert.ErrorContains(t, fieldset.ApplyNode(f.Context(), f.Client, "c", v1alpha1.NodeFirmwareStatus{Baseline: "9F2C"}), "status.baseline")
}
