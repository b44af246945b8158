package quarantine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Settings that made a device unhealthy are quarantined for its model, by their digest, and the image that ran meanwhile is not.
func TestSettingsAreQuarantinedLikeAnImage(t *testing.T) {
	j := failing("a", 1, model, 1)
	u := &j.Spec.Task.Devices[0]
	u.Version, u.Digest, u.Configuration = "", "", digest(9)
	set := compute(jobs(j))
	q, bad := set.Blocks(digest(9), model, "default")
	assert.True(t, bad)
	assert.Equal(t, v1alpha1.SettingsVersion(digest(9)), q.Status.Version)
	_, bad = set.Blocks(digest(1), model, "default")
	assert.False(t, bad)
	_, bad = set.Blocks(digest(9), "15b3:1021", "default")
	assert.False(t, bad, "another model")
}

// Where a job changed both, both are reported, and as long as nobody knows which of them it was, one node quarantines neither.
func TestFirmwareAndSettingsOfOneJobAreReportedTogether(t *testing.T) {
	j := failing("a", 1, model, 1)
	j.Spec.Task.Devices[0].Configuration = digest(9)
	j.Status.Blamed[0].Evidence = v1alpha1.EvidenceNode
	set := compute(jobs(j))
	for _, content := range j.Spec.Task.Devices[0].Contents() {
		_, bad := set.Blocks(content, model, "default")
		assert.False(t, bad, content)
	}
	var l ledger
	l.record(j)
	assert.Len(t, l, 2)
}

// An image that takes a link down says nothing about the settings that went with it and that the device had before: the job did not touch them.
func TestSettingsThatWereInForceAreNotReportedWithAnImage(t *testing.T) {
	j := failing("a", 1, model, 1)
	j.Spec.Task.Devices[0].Configuration = digest(9)
	j.Status.Steps = []v1alpha1.JobStep{{Name: "configure", Device: "n1-nic", State: v1alpha1.StepSkipped}}
	set := compute(jobs(j))
	_, bad := set.Blocks(digest(1), model, "default")
	assert.True(t, bad)
	assert.False(t, set.Holds(digest(9)))

	j.Status.Steps[0].State = v1alpha1.StepSucceeded
	assert.True(t, compute(jobs(j)).Holds(digest(9)))
}
