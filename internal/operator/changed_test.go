package operator

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// images makes the source "bios" with an image of each version.
func (p *process) images(versions ...string) *v1alpha1.FirmwareSource {
	p.t.Helper()
	src := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "bios"}}
	for _, v := range versions {
		image, file := []byte("bios version "+v), filepath.Join(p.conf.FileSourceDir, v+".cab")
		require.NoError(p.t, os.WriteFile(file, image, 0o600))
		src.Spec.Files = append(src.Spec.Files, v1alpha1.FirmwareFile{
			URL: "file://" + file, Digest: v1alpha1.Digest(fmt.Sprintf("sha256:%x", sha256.Sum256(image))),
			Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassBIOS, Models: []string{"7X21"}, Version: v}},
		})
	}
	require.NoError(p.t, p.env.Client.Create(p.t.Context(), src))
	return src
}

// template assigns a version to every BIOS.
func (p *process) template(version string) *v1alpha1.FirmwareTemplate {
	p.t.Helper()
	t := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "bios"}, Spec: v1alpha1.FirmwareTemplateSpec{Rules: []v1alpha1.FirmwareRule{{
		Name: "bios", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS, Vendor: v1alpha1.AnyVendor}, Version: version,
		SourceRef: v1alpha1.SourceReference{Name: "bios"},
	}}}}
	require.NoError(p.t, p.env.Client.Create(p.t.Context(), t))
	return t
}

// policy makes the default policy admit every node at once, or none.
func (p *process) policy(state string) {
	p.t.Helper()
	r := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	p.eventually("the default policy is there", func() bool { return p.get(r) })
	p.patch(r, fmt.Sprintf(`{"spec":{"maxUnavailable":"100%%","state":%q}}`, state))
}

func (p *process) patch(o client.Object, body string) {
	p.t.Helper()
	require.NoError(p.t, p.env.Client.Patch(p.t.Context(), o, client.RawPatch(types.MergePatchType, []byte(body))))
}

// join adds nodes whose BIOS runs the version and was put there by what is assigned to it.
func (d *daemons) join(version string, names ...string) {
	d.t.Helper()
	for _, name := range names {
		d.add(name, version)
	}
	for _, name := range names {
		d.eventually("the device is assigned", func() bool { return d.isAssigned(name, version) })
		d.flashed(name)
	}
	for _, name := range names {
		d.eventually("nothing is obsolete", func() bool { return d.isCurrent(name) })
	}
}

func (d *daemons) firmware(node string) *v1alpha1.NodeFirmware {
	n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if !d.get(n) {
		return &v1alpha1.NodeFirmware{}
	}
	return n
}

// pin replaces the pins of a node by pins of the versions.
func (d *daemons) pin(node string, versions ...string) {
	d.t.Helper()
	pins := ""
	for i, v := range versions {
		if i > 0 {
			pins += ","
		}
		pins += fmt.Sprintf(`{"name":"p%d","selector":{"class":"BIOS"},"downgrade":"Allow","version":%q,"sourceRef":{"name":"bios"}}`, i, v)
	}
	d.patch(&v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: node}}, `{"spec":{"pins":[`+pins+`]}}`)
}

// isCurrent reports whether a NodeFirmware says in its present generation that nothing is obsolete: condition, label and list.
func (d *daemons) isCurrent(node string) bool {
	n := d.firmware(node)
	c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionCurrent)
	_, labelled := n.Labels[v1alpha1.ObsoleteLabel]
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == n.Generation && !labelled && len(n.Status.Obsolete) == 0
}

// obsolete gives the list of a node that bears the label as "kind/name reason", and nothing where it does not.
func (d *daemons) obsolete(node string) []string {
	n := d.firmware(node)
	if n.Labels[v1alpha1.ObsoleteLabel] != "true" {
		return nil
	}
	var out []string
	for _, r := range n.Status.Obsolete {
		out = append(out, fmt.Sprintf("%s/%s %s", r.Kind, r.Name, r.Reason))
	}
	return out
}

// awaitObsolete waits until exactly that is listed.
func (d *daemons) awaitObsolete(node string, want ...string) {
	d.t.Helper()
	d.eventually(fmt.Sprintf("%s is obsolete because of %v", node, want), func() bool { return assert.ObjectsAreEqual(want, d.obsolete(node)) })
}

func (d *daemons) awaitCurrent(nodes ...string) {
	d.t.Helper()
	for _, node := range nodes {
		d.eventually(node+" is current", func() bool { return d.isCurrent(node) })
	}
}

func (d *daemons) countJobs() int {
	d.t.Helper()
	var list v1alpha1.FirmwareJobList
	require.NoError(d.t, d.client.List(d.t.Context(), &list))
	return len(list.Items)
}

// R004-6, R004-7, R004-8, R004-13, R004-17, R004-25, R004-26, R004-31, R004-39: an edit of the template that changes no content labels
// nobody. One that changes it labels every node whose firmware came from it and lists the rule; nothing is flashed while the policy is
// paused, and taking the edit back takes label and list away.
func TestOnlyContentEditLabelsNodes(t *testing.T) {
	p := start(t, apitest.New(t), "daemon")
	d := p.daemons()
	p.policy("Paused")
	p.images("1", "2")
	template := p.template("1")
	nodes := []string{"n1", "n2", "n3"}
	d.join("1", nodes...)

	p.patch(template, `{"spec":{"nodeSelector":{},"priority":7}}`)
	require.EqualValues(t, 2, template.Generation)
	version := func(v string) {
		p.patch(template, fmt.Sprintf(`{"spec":{"rules":[{"name":"bios","selector":{"class":"BIOS","vendor":"any"},"version":%q,"sourceRef":{"name":"bios"}}]}}`, v))
	}
	version("2")
	for _, node := range nodes {
		d.awaitObsolete(node, "FirmwareTemplate/bios Updated")
	}
	assert.Equal(t, "bios", d.firmware("n1").Status.Obsolete[0].Rule)
	version("1")
	d.awaitCurrent(nodes...)
	for _, node := range nodes {
		assert.EqualValues(t, 1, d.device(node).Status.Applied.Origin[0].Generation)
		assert.Empty(t, d.executed(node))
	}
	p.stop()
	require.NoError(t, <-p.done)
	p.done <- nil
}

// R004-33 to R004-38, R004-4, R004-15, R004-18, R004-23, R004-27, R004-29, R004-35: the life of pins on a real API server, with
// all controllers. Each change labels its own node and reboots it once, nothing else is labelled or rebooted, and the label goes
// with the end of the job.
func TestPinChangeConcernsItsNode(t *testing.T) {
	p := start(t, apitest.New(t), "daemon")
	d := p.daemons()
	p.policy("Active")
	p.images("1", "2", "3")
	p.template("1")
	d.join("1", "n1", "n2", "n3")
	assert.Zero(t, d.countJobs())

	release := d.holdJobs()
	d.pin("n1", "2") // added after the node is up
	d.awaitObsolete("n1", "FirmwareTemplate/bios Superseded")
	d.eventually("the job runs", func() bool { return d.countJobs() == 1 && d.jobs0("n1").Status.StartTime != nil })
	d.pin("n1", "3") // while the node is at work
	d.eventually("the new pin is assigned", func() bool { return d.isAssigned("n1", "3") })
	assert.Equal(t, 1, d.countJobs(), "a node at work is left alone")
	assert.NotEmpty(t, d.obsolete("n1"))
	release()
	d.eventually("it is looked at again when the job has ended", func() bool { return d.executed("n1") == 2 })
	d.awaitCurrent("n1")
	assert.Equal(t, "3", d.device("n1").Status.Firmware.Running)
	applied := d.device("n1").Status.Applied
	assert.Equal(t, v1alpha1.OriginPin, applied.Origin[0].Kind)
	assert.Equal(t, "bios", applied.Origin[1].Name)

	d.pin("n2", "2") // one by one
	d.eventually("the second one is flashed", func() bool { return d.executed("n2") == 1 })
	d.awaitCurrent("n1", "n2", "n3")

	d.pin("n2", "7") // there is no such image
	d.eventually("the device says so", func() bool {
		return hasCondition(d.device("n2").Status.Conditions, v1alpha1.ConditionBlocked, metav1.ConditionTrue)
	})
	d.awaitObsolete("n2", "NodeFirmware/n2 Updated")
	assert.Equal(t, 1, d.executed("n2"))
	d.pin("n2", "3") // corrected
	d.eventually("the corrected pin is flashed", func() bool { return d.executed("n2") == 2 })
	d.awaitCurrent("n2")

	d.pin("n2", "1", "2") // two that match
	d.eventually("they conflict", func() bool {
		return hasCondition(d.device("n2").Status.Conditions, v1alpha1.ConditionConflict, metav1.ConditionTrue)
	})
	d.awaitObsolete("n2", "NodeFirmware/n2 Updated")
	assert.Equal(t, "3", d.device("n2").Spec.Firmware.Version)
	assert.Equal(t, 2, d.executed("n2"))

	release = d.holdJobs()
	d.pin("n2") // removed
	d.awaitObsolete("n2", "NodeFirmware/n2 Deleted")
	release()
	d.eventually("the template counts", func() bool { return d.executed("n2") == 3 })
	d.awaitCurrent("n1", "n2", "n3")
	assert.Equal(t, "1", d.device("n2").Status.Firmware.Running)
	assert.Equal(t, 2, d.executed("n1"))
	assert.Zero(t, d.executed("n3"))
	p.stop()
	require.NoError(t, <-p.done)
	p.done <- nil
}

// jobs0 is the first job of a node.
func (d *daemons) jobs0(node string) *v1alpha1.FirmwareJob {
	if jobs := d.process.jobs(node); len(jobs) > 0 {
		return &jobs[0]
	}
	return &v1alpha1.FirmwareJob{}
}

// R004-2, R004-14, R004-22: who reboots nodes by other means follows the label by a watch, while a paused policy keeps the product
// from doing anything.
func TestLabelsWithoutRollout(t *testing.T) {
	env := apitest.New(t)
	p := start(t, env, "daemon")
	d := p.daemons()
	p.policy("Paused")
	p.images("1", "2")
	p.template("1")
	d.join("1", "n1", "n2")

	watcher, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	require.NoError(t, err)
	labelled, err := watcher.Watch(t.Context(), &v1alpha1.NodeFirmwareList{}, client.HasLabels{v1alpha1.ObsoleteLabel})
	require.NoError(t, err)
	defer labelled.Stop()
	next := func() (watch.EventType, string) {
		for {
			select {
			case e := <-labelled.ResultChan():
				n, ok := e.Object.(*v1alpha1.NodeFirmware)
				require.True(t, ok, "%v", e.Object)
				if e.Type != watch.Modified {
					return e.Type, n.Name
				}
			case <-time.After(5 * time.Minute):
				require.Fail(t, "no event")
			}
		}
	}
	d.pin("n2", "2")
	kind, name := next()
	assert.Equal(t, watch.Added, kind)
	assert.Equal(t, "n2", name)
	d.eventually("the job waits", func() bool {
		jobs := d.process.jobs("n2")
		c := func() *metav1.Condition {
			return meta.FindStatusCondition(jobs[0].Status.Conditions, v1alpha1.ConditionAdmitted)
		}
		return len(jobs) == 1 && c() != nil && c().Reason == v1alpha1.ReasonPaused
	})
	assert.NotEmpty(t, d.obsolete("n2"))

	d.flashed("n2") // by somebody else's means, who reports it
	kind, name = next()
	assert.Equal(t, watch.Deleted, kind)
	assert.Equal(t, "n2", name)
	d.awaitCurrent("n1", "n2")
	p.stop()
	require.NoError(t, <-p.done)
	p.done <- nil
}
