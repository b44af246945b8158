package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newJob(name string) journal.Job {
	targets := []plan.Target{{Device: "nic", Class: inventory.NIC}}
	return journal.Job{
		Name: name, UID: "uid-" + name, Accepted: noon, Retry: plan.Clearance("after reseating").InForce(),
		Updates: []journal.Update{{Class: inventory.NIC, Device: "nic", UniqueID: "u", Version: "2"}},
		Record:  step.New(plan.DefaultCatalog().Steps(targets), step.Update{Device: "nic", Version: "2"}),
	}
}

func open(t *testing.T, dir string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func view(t *testing.T, j *journal.Journal) journal.View {
	t.Helper()
	v, err := j.View()
	require.NoError(t, err)
	return v
}

func edit(t *testing.T, dir, bucket, key, value string) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(dir, journal.FileName), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte(key), []byte(value)) }))
	require.NoError(t, db.Close())
}

// TestSavedStateSurvivesReopen proves R000-61.
func TestSavedStateSurvivesReopen(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	job := newJob("a")
	job.Record = step.Apply(job.Record, step.Action{Verb: step.Begin, Step: 0}, "boot-1", noon)
	applied := &journal.Applied{Version: "2", Job: "a"}
	require.NoError(t, j.Save(job, journal.Device{UniqueID: "u", LastApplied: applied}))
	require.NoError(t, j.Close())
	v := view(t, open(t, dir))
	require.NotNil(t, v.Active())
	assert.Equal(t, job, *v.Active())
	assert.Equal(t, applied, v.Devices["u"].LastApplied)
	assert.Equal(t, plan.Preflight, v.Active().CurrentStep().Kind)
}

func TestRefusesLiveDaemonsJournal(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	_, err := journal.Open(dir)
	require.ErrorIs(t, err, journal.ErrLocked)
}

// TestRefusesNewerJournal proves R002-10.
func TestRefusesNewerJournal(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, open(t, dir).Close())
	edit(t, dir, "meta", "schema", "3")
	_, err := journal.Open(dir)
	require.ErrorIs(t, err, journal.ErrNewer)
}

func TestEmptyFileIsAFreshJournal(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, journal.FileName), nil, 0o600))
	assert.Nil(t, view(t, open(t, dir)).Active())
}

// TestUnknownFieldsAreToleratedAndUnknownValuesRefused proves R002-32.
func TestUnknownFieldsAreToleratedAndUnknownValuesRefused(t *testing.T) {
	for name, c := range map[string]struct{ json, want string }{
		"field":   {`{"name":"a","uid":"x","record":{"outcome":"Complete"},"future":1}`, ""},
		"state":   {`{"name":"a","uid":"x","record":{"steps":[{"kind":"reboot","state":"Paused"}]}}`, "unknown state"},
		"step":    {`{"name":"a","uid":"x","record":{"steps":[{"kind":"erase","state":"Pending"}]}}`, "unknown step"},
		"outcome": {`{"name":"a","uid":"x","record":{"outcome":"Perhaps"}}`, "unknown outcome"},
		"device":  {`{"name":"a","uid":"x","record":{"steps":[{"kind":"flash","device":"d","state":"Pending"}]}}`, "does not update"},
		"garbage": {`{`, "decode job"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, open(t, dir).Close())
			edit(t, dir, "jobs", "x", c.json)
			_, err := open(t, dir).View()
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A verdict with a result that this daemon does not know is refused, not taken for one it knows (R002-32).
func TestRefusesUnknownVerdict(t *testing.T) {
	for result, want := range map[string]string{"Healthy": "", "Unhealthy": "", "Fine": "unknown result", "": "unknown result"} {
		dir := t.TempDir()
		require.NoError(t, open(t, dir).Close())
		edit(t, dir, "meta", "verdict", fmt.Sprintf(`{"result":%q,"bootID":"b","job":"j"}`, result))
		v, err := open(t, dir).View()
		if want == "" {
			require.NoError(t, err)
			assert.EqualValues(t, result, v.Verdict.Result)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

func TestHistoryBoundedNewestFirst(t *testing.T) {
	j := open(t, t.TempDir())
	for i := range 13 {
		job := newJob(fmt.Sprintf("job-%02d", i))
		at := noon.Add(time.Duration(i) * time.Minute)
		job.Accepted, job.Finished, job.Reported, job.Record.Outcome = at, &at, true, step.Complete
		require.NoError(t, j.Save(job))
	}
	v := view(t, j)
	require.Len(t, v.History, 10)
	assert.Equal(t, "job-12", v.History[0].Job)
	assert.Len(t, v.Jobs, 10)
	assert.Nil(t, v.Job("uid-job-00"))
}

func TestUnreportedJobsAreKept(t *testing.T) {
	j := open(t, t.TempDir())
	for i := range 12 {
		job := newJob(fmt.Sprintf("job-%02d", i))
		job.Finished, job.Record.Outcome = &noon, step.Complete
		require.NoError(t, j.Save(job))
	}
	assert.Len(t, view(t, j).Jobs, 12)
}

// A crash between the two would leave a job that holds the node after its successor has returned it to service.
func TestTakingOverIsOneChange(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	held := newJob("held")
	held.Finished, held.Reported, held.Record.Outcome = &noon, true, step.Failed
	held.Record.Failure = &step.Failure{Reason: step.WriteFailed, Message: "tool failed", Held: true}
	require.NoError(t, j.Save(held))
	require.NoError(t, j.TakeOver(newJob("next"), held))
	require.NoError(t, j.Close())
	v := view(t, open(t, dir))
	assert.Equal(t, "next", v.Active().Name)
	assert.Nil(t, v.Held())
	assert.Equal(t, "next", v.Job(held.UID).SupersededBy)
	assert.False(t, v.Job(held.UID).Reported, "the API server hears of it")
	assert.Contains(t, v.History[0].Message, "taken over by next")
}

func TestRunningJobComesBeforeTheOneItTakesOver(t *testing.T) {
	j := open(t, t.TempDir())
	held := newJob("held")
	held.Finished, held.Record.Outcome = &noon, step.Failed
	held.Record.Failure = &step.Failure{Reason: step.WriteFailed, Message: "tool failed", Held: true}
	require.NoError(t, j.Save(held))
	require.NotNil(t, view(t, j).Held())
	assert.Equal(t, "held", view(t, j).Active().Name)
	assert.Equal(t, "WriteFailed: tool failed", view(t, j).LastError())
	require.NoError(t, j.Save(newJob("next")))
	assert.Equal(t, "next", view(t, j).Active().Name)
}
