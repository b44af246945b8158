package operator

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// TestAmongFiveHundredPinnedNodesANewPinDisturbsItsOwnOnly is the story of R004-1, R004-3 and R004-33 on a real API server with
// the whole operator: 500 nodes run what their pins say. The pin of the 501st makes one job, and not one object of the others is
// written. Then an edit of the template labels the nodes whose firmware came from it, which is the 501st no more (R004-19).
func TestAmongFiveHundredPinnedNodesANewPinDisturbsItsOwnOnly(t *testing.T) {
	const pinned = 500
	p := start(t, apitest.New(t), "daemon")
	d := p.daemons()
	p.policy("Active")
	p.images("1", "2", "3")
	template := p.template("1")
	began := time.Now()
	nodes := make([]string, pinned+1)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("n%03d", i)
	}
	late := nodes[pinned]
	parallel(nodes, func(name string) {
		version := "2"
		if name == late {
			version = "1"
		} else {
			assert.NoError(t, d.client.Create(t.Context(), &v1alpha1.NodeFirmware{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeFirmwareSpec{Pins: []v1alpha1.FirmwareRule{{
					Name: "p", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS}, Version: version, SourceRef: v1alpha1.SourceReference{Name: "bios"},
				}}},
			}))
		}
		d.add(name, version)
	})
	d.eventually("every device is assigned what it runs", func() bool {
		return d.devices(func(o *v1alpha1.NodeDevice) bool {
			w := o.Spec.Firmware
			return w != nil && w.Digest != "" && o.Status.ObservedGeneration == o.Generation && w.Version == o.Status.Firmware.Running
		}) == len(nodes)
	})
	parallel(nodes, d.flashed)
	d.eventually("nothing is obsolete", func() bool { return d.current() == len(nodes) })
	d.eventually("the template is at rest", func() bool {
		return p.get(template) && hasCondition(template.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue)
	})
	require.Zero(t, d.countJobs())
	before := d.versions()
	t.Logf("%d nodes are up after %s", len(nodes), time.Since(began).Round(time.Second))

	began = time.Now()
	d.pin(late, "2")
	d.eventually("the job has ended", func() bool { return d.executed(late) == 1 })
	d.awaitCurrent(late)
	t.Logf("the pin took effect in %s", time.Since(began).Round(time.Millisecond))
	assert.Equal(t, 1, d.countJobs())
	for name, version := range d.versions() {
		if name != "NodeFirmware "+late && name != "NodeDevice "+late {
			assert.Equal(t, before[name], version, "%s was written", name)
		}
	}
	assert.NotEqual(t, before["NodeDevice "+late], d.versions()["NodeDevice "+late])

	before = d.versions()
	p.patch(template, `{"spec":{"rules":[{"name":"bios","selector":{"class":"BIOS","vendor":"any"},"version":"3","sourceRef":{"name":"bios"}}]}}`)
	d.eventually("the edit was decided", func() bool { return p.get(template) && template.Status.ObservedGeneration == 2 })
	d.pin(nodes[0], "3") // what is done after the edit, is seen after it
	d.eventually("its own pin is flashed", func() bool { return d.executed(nodes[0]) == 1 })
	d.awaitCurrent(nodes[0])
	assert.Equal(t, 2, d.countJobs())
	for name, version := range d.versions() {
		// The operator may still have been at work on the late node, whose job had just ended.
		if !slices.Contains([]string{"NodeFirmware " + nodes[0], "NodeDevice " + nodes[0], "NodeFirmware " + late, "NodeDevice " + late}, name) {
			assert.Equal(t, before[name], version, "%s was written for a template that its pin beats", name)
		}
	}
	p.stop()
	require.NoError(t, <-p.done)
	p.done <- nil
}

// parallel calls f for each name, some at a time.
func parallel(names []string, f func(string)) {
	queue := make(chan string)
	var ended sync.WaitGroup
	for range 16 {
		ended.Go(func() {
			for name := range queue {
				f(name)
			}
		})
	}
	for _, name := range names {
		queue <- name
	}
	close(queue)
	ended.Wait()
}

// add makes a Node and its device, which runs the version.
func (d *daemons) add(name, version string) {
	d.mu.Lock()
	d.running[name] = version
	d.mu.Unlock()
	assert.NoError(d.t, d.client.Create(d.t.Context(), readyNode(name, nil)))
	assert.NoError(d.t, d.client.Create(d.t.Context(), &v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-bios"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: name},
	}, client.FieldOwner(v1alpha1.FieldOwnerDaemon)))
}

func (d *daemons) devices(is func(*v1alpha1.NodeDevice) bool) (n int) {
	var list v1alpha1.NodeDeviceList
	if d.client.List(d.t.Context(), &list) != nil {
		return 0
	}
	for i := range list.Items {
		if is(&list.Items[i]) {
			n++
		}
	}
	return n
}

// current counts the NodeFirmwares that say that nothing is obsolete, and say no more that a pin waits for its device.
func (d *daemons) current() (n int) {
	var list v1alpha1.NodeFirmwareList
	if d.client.List(d.t.Context(), &list) != nil {
		return 0
	}
	for i := range list.Items {
		said := list.Items[i].Status.Conditions
		if hasCondition(said, v1alpha1.ConditionCurrent, metav1.ConditionTrue) && !hasCondition(said, v1alpha1.ConditionPinsUnmatched, metav1.ConditionTrue) {
			n++
		}
	}
	return n
}

// versions are the resource versions of all Nodes, NodeFirmwares and NodeDevices.
func (d *daemons) versions() map[string]string {
	d.t.Helper()
	out := map[string]string{}
	var nodes corev1.NodeList
	var firmwares v1alpha1.NodeFirmwareList
	var devices v1alpha1.NodeDeviceList
	for _, list := range []client.ObjectList{&nodes, &firmwares, &devices} {
		require.NoError(d.t, d.client.List(d.t.Context(), list))
	}
	for _, o := range nodes.Items {
		out["Node "+o.Name] = o.ResourceVersion
	}
	for _, o := range firmwares.Items {
		out["NodeFirmware "+o.Name] = o.ResourceVersion
	}
	for _, o := range devices.Items {
		out["NodeDevice "+o.Spec.NodeName] = o.ResourceVersion
	}
	return out
}
