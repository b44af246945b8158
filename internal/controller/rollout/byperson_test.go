package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func (w *world) byPerson(name, node string, kind v1alpha1.JobType) {
	w.Helper()
	w.create(&v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: node, Task: v1alpha1.JobTask{Type: kind, Devices: []v1alpha1.TaskDevice{{Name: node + "-nic"}}},
	}})
}

// A restore takes a place like an update, and is counted in no rollout. A backup disturbs nobody: it takes none and waits for none.
func TestRestoreTakesAPlaceAndBackupTakesNone(t *testing.T) {
	w := newWorld(t)
	w.nodes("n1", "n2")
	w.create(&v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	w.scanned("n1", "", w.clock)
	w.byPerson("backup", "n1", v1alpha1.JobTypeBackup)
	w.byPerson("restore", "n1", v1alpha1.JobTypeRestore)
	o := w.operator()
	o.pass()
	assert.Equal(t, []string{"restore"}, w.ledger("default"), "a backup of the node is not waited for")
	assert.Empty(t, w.job("backup").Status.Conditions)
	assert.True(t, w.job("backup").MayBegin())
	assert.False(t, w.job("backup").Admitted())
	assert.Empty(t, w.policy("default").Status.Rollouts, "a restore is no rollout")
	w.queue("update", "n2")
	o.pass()
	assert.Equal(t, v1alpha1.ReasonBudgetExhausted, w.reason("update"))
	w.complete("restore")
	o.pass()
	assert.Equal(t, []string{"update"}, w.ledger("default"))
}

// What a job left unhealthy, and holds its node for, is what a restore is for: it takes the place over though nobody asked for a retry.
func TestRestoreTakesOverWhatAFailedJobHolds(t *testing.T) {
	w := newWorld(t)
	w.machine("n1", connectX6)
	w.flash("job-1", "n1", 2)
	o := w.operator()
	o.pass()
	w.hold("job-1")
	w.unhealthy("n1-nic", "job-1")
	w.clock = w.clock.Add(time.Second)
	w.byPerson("restore", "n1", v1alpha1.JobTypeRestore)
	o.pass()
	assert.Equal(t, []string{"restore"}, w.ledger("default"))
}
