package simulation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
	"github.com/nodefirmware/node-firmware-operator/internal/simulation"
)

// mixed are nodes with a card, of which every other one has a drive too.
func mixed(nodes int) []simulation.Node {
	var out []simulation.Node
	for i := range nodes {
		n := simulation.Node{Name: fmt.Sprintf("n%02d", i), Ready: true, Labels: map[string]string{}, Devices: []simulation.Device{{Model: "card", Version: "1"}}}
		if i%2 == 1 {
			n.Devices = append(n.Devices, simulation.Device{Model: "drive", Version: "1"})
		}
		out = append(out, n)
	}
	return out
}

// A node with two devices waits for the waves of both: the canary of the cards must not be overtaken by a drive, nor the other way.
func TestANodeWithTwoDevicesWaitsForTheWavesOfBoth(t *testing.T) {
	p := policy("default", "10")
	p.Spec.Waves = []v1alpha1.RolloutWave{{Name: "canary", Size: ptrTo(intstrOne), Soak: "24h"}}
	r := run(t, options(mixed(20), p))
	require.Equal(t, simulation.Complete, r.Report.Ending)
	got := r.Report.Policies[0]
	assert.Equal(t, 20, got.Jobs.Succeeded, "one job for each node, whatever it has")
	html := picture(t, r)
	assert.Contains(t, html, "waves of card to 2.0")
	assert.Contains(t, html, "waves of drive to 2.0", "each model has waves of its own")
	assert.GreaterOrEqual(t, got.Makespan, (48 * time.Hour).Seconds(), "the first node has a card alone; the drives begin with a canary after that")
	assert.GreaterOrEqual(t, got.Ratio, 1.0)
}

// The image of one model is quarantined: its devices wait, and the others of the same nodes are updated.
func TestADeviceWithABadImageKeepsNoOtherOfItsNodeWaiting(t *testing.T) {
	o := options(mixed(20), policy("default", "1"))
	o.Work.BadImage = simulation.ByModel[float64]{Models: map[string]float64{"drive": 1}}
	r := run(t, o)
	p := r.Report.Policies[0]
	assert.Equal(t, simulation.Stuck, r.Report.Ending)
	assert.Equal(t, 1, p.Jobs.RolledBack)
	assert.Equal(t, 10, p.Done, "those with a card alone")
	assert.Equal(t, 9, p.Waiting[schedule.Quarantined].Nodes, "they updated their card and wait with their drive")
	assert.Equal(t, 19, p.Jobs.Succeeded)

	o.Work.BadImage.Models["drive"], o.Work.Person = 0.3, time.Hour
	r = run(t, o)
	assert.Equal(t, simulation.Complete, r.Report.Ending, "a person lifts it")
}

// The job of a node takes as long as the device that takes longest.
func TestSlowestDeviceSetsJobTime(t *testing.T) {
	o := options(mixed(2), policy("default", "1"))
	o.Work.Duration = simulation.ByModel[time.Duration]{Default: 20 * time.Minute, Models: map[string]time.Duration{"drive": time.Hour}}
	assert.InDelta(t, (80 * time.Minute).Seconds(), run(t, o).Report.Makespan, 0)
}

// maxQueued refuses nodes as the operator does, and costs nothing while there is work for every place.
func TestLimitedQueueAdmitsAllNodes(t *testing.T) {
	p := policy("default", "5")
	limit := int32(7)
	p.Spec.MaxQueued = &limit
	r := run(t, options(fleet(100), p))
	got := r.Report.Policies[0]
	require.Equal(t, simulation.Complete, r.Report.Ending)
	assert.Equal(t, 100, got.Jobs.Succeeded)
	assert.InDelta(t, (400 * time.Minute).Seconds(), got.Makespan, 0)

	o := options(fleet(100), p)
	o.Horizon = time.Minute
	got = run(t, o).Report.Policies[0]
	assert.Equal(t, 7, got.Waiting[schedule.BudgetExhausted].Nodes)
	full := got.Waiting[schedule.Reason(v1alpha1.ReasonQueueFull)]
	assert.Equal(t, 88, full.Nodes)
	assert.Contains(t, picture(t, run(t, o)), "</i>"+simulation.Refused.String()+"</li>", "they do not wait for the budget")
	assert.Contains(t, full.Message, "maxQueued of the policy default allows (7)")
	assert.Contains(t, got.Ready, "88 more nodes are refused until fewer than maxQueued wait.")
}

// What is to be updated on the nodes of a cluster is what their NodeDevices say.
func TestTheDevicesOfAClusterSayWhatIsToBeUpdated(t *testing.T) {
	const digest = "sha256:0000000000000000000000000000000000000000000000000000000000000001"
	device := func(name, node, running, desired, more string) string {
		return fmt.Sprintf(`{"kind":"NodeDevice","metadata":{"name":%q},"spec":{"nodeName":%q,"firmware":{"version":%q,"digest":%q,"policy":"Apply"}},
		  "status":{"pciID":"15b3:101d","firmware":{"running":%q,"driver":"mstflint","activation":"Reboot"}%s}}`, name, node, desired, digest, running, more)
	}
	validate := strings.Replace(device("a-validate", "a", "1.0", "2.0", ""), "Apply", "Validate", 1)
	nodes := []simulation.Node{{Name: "a", Ready: true, Labels: map[string]string{}}, {Name: "b", Ready: true, Labels: map[string]string{}}}
	left, err := simulation.LoadDevices(file(t, "devices.json", `{"kind":"List","items":[`+
		device("a-nic", "a", "1.0", "2.0", "")+","+device("a-same", "a", "2.0", "2.0", "")+","+device("b-same", "b", "2.0", "2.0", "")+","+
		validate+","+device("a-failed", "a", "1.0", "2.0", `,"failure":{"digest":"`+digest+`"}`)+","+
		device("a-blocked", "a", "1.0", "2.0", `,"conditions":[{"type":"Blocked","status":"True","reason":"PathBlocked"}]`)+","+
		`{"kind":"NodeDevice","metadata":{"name":"a-bios"},"spec":{"nodeName":"a"},"status":{"firmware":{"running":"1"}}}`+","+device("c-nic", "c", "1.0", "2.0", "")+`]}`), nodes)
	require.NoError(t, err)
	assert.Equal(t, simulation.NotDue{"Validate": 1, "UpdateFailed": 1, "PathBlocked": 1}, left)
	assert.Equal(t, []simulation.Device{{Name: "a-nic", Model: "15b3:101d", Version: "1.0", To: "2.0", Digest: digest, Then: []simulation.Image{}}}, nodes[0].Devices)
	assert.Empty(t, nodes[1].Devices)
	r := run(t, options(nodes, policy("default", "1")))
	assert.Equal(t, simulation.Complete, r.Report.Ending)
	assert.Equal(t, 1, r.Report.Policies[0].Jobs.Admitted, "a node that has everything is done")
	assert.Equal(t, 2, r.Report.Policies[0].Done)

	const hop = "sha256:0000000000000000000000000000000000000000000000000000000000000002"
	via := strings.Replace(device("a-nic", "a", "1.0", "3.0", ""), `"policy"`, `"path":[{"to":"3.0","from":["1.0"],"via":"2.0","digest":"`+hop+`"}],"policy"`, 1)
	_, err = simulation.LoadDevices(file(t, "devices.json", `{"kind":"List","items":[`+via+`]}`), nodes)
	require.NoError(t, err)
	assert.Equal(t, []simulation.Device{{Name: "a-nic", Model: "15b3:101d", Version: "1.0", To: "2.0", Digest: hop,
		Then: []simulation.Image{{Version: "3.0", Digest: digest}}}}, nodes[0].Devices)
	p := policy("default", "1")
	p.Spec.Waves = []v1alpha1.RolloutWave{{Name: "canary", Size: ptrTo(intstrOne), Soak: "24h"}}
	r = run(t, options(nodes, p))
	assert.Equal(t, simulation.Complete, r.Report.Ending)
	assert.Equal(t, 2, r.Report.Policies[0].Jobs.Succeeded, "one job to the version in between, and one after it")
	assert.Contains(t, picture(t, r), "waves of 15b3:101d to 3.0", "it has waves of its own")

	for text, want := range map[string]string{
		`{"kind":"List","items":[` + device("c-nic", "c", "1.0", "2.0", "") + `]}`: "devices.json: items: no device belongs to a node of the fleet",
		`{"kind":"NodeDevice","metadata":{"name":"a"}}`:                            "devices.json: kind is NodeDevice, want a list",
		`NAME NODE`: "devices.json: not the output of kubectl get nodedevices -o json",
		`{"kind":"List","items":[{"kind":"Pod"}]}`: `devices.json: items[0].kind is "Pod", want NodeDevice`,
	} {
		_, err := simulation.LoadDevices(file(t, "devices.json", text), nodes)
		assert.ErrorContains(t, err, want)
	}
}

// summary is what is printed about a rollout.
func summary(r *simulation.Result) string {
	var b strings.Builder
	r.Summarize(&b)
	return b.String()
}

// A device that is only validated is no device that runs what is desired.
func TestSaysWhatIsOnlyValidated(t *testing.T) {
	const validated = `{"kind":"NodeDevice","metadata":{"name":%q},"spec":{"nodeName":"a","firmware":{"version":"2.0","policy":"Validate"}},
	  "status":{"firmware":{"running":%q,"driver":"mstflint"}}}`
	nodes := []simulation.Node{{Name: "a", Ready: true}, {Name: "b", Ready: true}}
	left, err := simulation.LoadDevices(file(t, "d.json", `{"kind":"List","items":[`+fmt.Sprintf(validated, "a-0", "1.0")+","+fmt.Sprintf(validated, "a-1", "1.1")+","+
		fmt.Sprintf(validated, "a-2", "2.0")+`]}`), nodes)
	require.NoError(t, err)
	o := options(nodes, policy("default", "1"))
	o.NotDue = left
	r := run(t, o)
	assert.Equal(t, "Nothing is to be updated on the 2 nodes, though not every device runs the firmware that is desired: 2 devices are only validated.\n"+
		"  default: nothing to update on its 2 nodes\n", summary(r))
	p := r.Report.Policies[0]
	assert.Zero(t, p.Makespan)
	assert.Nil(t, p.Finished)
	html := picture(t, r)
	assert.Contains(t, html, "nothing to update</small>")
	assert.NotContains(t, html, "-9,223")

	o.Fleet[1].Devices = []simulation.Device{{Model: "A", Version: "1.0"}}
	assert.Contains(t, summary(run(t, o)), "Left out though they do not run the firmware that is desired: 2 devices are only validated.\n")

	o.Fleet[1].Devices, o.NotDue = nil, nil
	assert.Contains(t, summary(run(t, o)), "Nothing is to be updated on the 2 nodes: no device with desired firmware runs another version.")
}
