package journal_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// full sets every field that can be set, so that the golden file has each member.
func full(v reflect.Value, name string) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(noon))
		return
	case v.Type() == reflect.TypeFor[time.Duration]():
		v.SetInt(int64(90 * time.Second))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		full(v.Elem(), name)
	case reflect.Struct:
		for i := range v.NumField() {
			full(v.Field(i), v.Type().Field(i).Name)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		full(v.Index(0), name)
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		full(value, name)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.String:
		v.SetString("a " + name)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(1)
	default:
		panic(v.Type().String())
	}
}

func fullJob() journal.Job {
	var j journal.Job
	full(reflect.ValueOf(&j).Elem(), "job")
	j.Record.Outcome, j.Record.Updates[0].Device = step.Failed, "nic"
	s := &j.Record.Steps[0]
	s.State, s.Kind, s.Device = step.Running, plan.Flash, "nic"
	return j
}

func fullDevice() journal.Device {
	var d journal.Device
	full(reflect.ValueOf(&d).Elem(), "device")
	return d
}

// records are the bytes of a journal, one record a line.
func records(t *testing.T, dir string) string {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(dir, journal.FileName), 0o600, nil)
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(bucket []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(key, raw []byte) error {
				if string(bucket) == "begun" {
					raw = fmt.Appendf(nil, "%x", raw)
				}
				_, err := fmt.Fprintf(&out, "%s/%s\t%s\n", bucket, key, raw)
				return err
			})
		})
	}))
	require.NoError(t, db.Close())
	return out.String()
}

// A field of the API that gets another name changes no byte on disk: the journal has types of its own, with these members.
func TestBytesOnDisk(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	require.NoError(t, j.Save(fullJob(), fullDevice()))
	require.NoError(t, j.Note("moved aside"))
	require.NoError(t, j.Close())
	const golden = "testdata/journal.golden"
	got := records(t, dir)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)

	v := view(t, open(t, dir))
	assert.Equal(t, fullJob(), v.Jobs[0])
	assert.Equal(t, fullDevice(), v.Devices["a UniqueID"])
}

// No type that reaches the disk is one of the API or of Kubernetes.
func TestTypesAreItsOwn(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(r reflect.Type) {
		if seen[r] {
			return
		}
		seen[r] = true
		assert.NotContains(t, r.PkgPath(), "node-firmware-operator/api/", r.String())
		assert.NotContains(t, r.PkgPath(), "k8s.io/", r.String())
		switch r.Kind() {
		case reflect.Map:
			walk(r.Key())
			walk(r.Elem())
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(r.Elem())
		case reflect.Struct:
			for i := range r.NumField() {
				walk(r.Field(i).Type)
			}
		}
	}
	walk(reflect.TypeFor[journal.Job]())
	walk(reflect.TypeFor[journal.Device]())
	walk(reflect.TypeFor[journal.View]())
	assert.Greater(t, len(seen), 30)
}

// strangers adds an unknown member to each object of a record, and returns how many.
func strangers(tree any) int {
	n := 0
	switch v := tree.(type) {
	case map[string]any:
		for _, value := range v {
			n += strangers(value)
		}
		if v["key"] == nil { // a map has no members, only keys
			v["future"] = json.Number("12345678901234567890")
			n++
		}
	case []any:
		for _, value := range v {
			n += strangers(value)
		}
	}
	return n
}

// plant makes the records of a journal those of a newer daemon, and returns how many members it added.
func plant(t *testing.T, dir string) int {
	t.Helper()
	n := 0
	for line := range strings.Lines(records(t, dir)) {
		place, raw, _ := strings.Cut(line, "\t")
		bucket, key, _ := strings.Cut(place, "/")
		if bucket == "begun" || key == "schema" || key == "note" {
			continue
		}
		var tree any
		require.NoError(t, json.Unmarshal([]byte(raw), &tree))
		n += strangers(tree)
		planted, err := json.Marshal(tree)
		require.NoError(t, err)
		edit(t, dir, bucket, key, string(planted))
	}
	return n
}

const future = `"future":12345678901234567890`

// What an older daemon does not know is there for the newer one that comes back.
func TestUnknownMembersStay(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	require.NoError(t, j.Save(fullJob(), fullDevice()))
	require.NoError(t, j.Close())
	planted := plant(t, dir)
	require.Greater(t, planted, 30)

	j = open(t, dir)
	v := view(t, j)
	job := *v.Job("a UID")
	job.Reported = false
	job.Record.Steps = append(job.Record.Steps, step.Step{Step: plan.Step{Kind: plan.Reboot}, State: step.Pending})
	job.Record.Steps[0].Attempt++
	require.NoError(t, j.Save(job, v.Devices["a UniqueID"]))
	assert.Equal(t, job, *view(t, j).Job("a UID"))
	require.NoError(t, j.Close())
	assert.Equal(t, planted, strings.Count(records(t, dir), future), records(t, dir))
}

// An unknown member goes with the thing that it was said of.
func TestUnknownMemberGoesWithOwner(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	d := fullDevice()
	require.NoError(t, j.Save(newJob("a"), d))
	require.NoError(t, j.Close())
	plant(t, dir)

	d.LastFailure.Job, d.Unhealthy = "another", nil
	d.Attempts.Writes++
	j = open(t, dir)
	require.NoError(t, j.Save(newJob("a"), d))
	require.NoError(t, j.Close())
	var raw string
	for line := range strings.Lines(records(t, dir)) {
		if rest, ok := strings.CutPrefix(line, "devices/a UniqueID\t"); ok {
			raw = rest
		}
	}
	var got struct {
		Future      json.Number
		LastFailure struct{ Job, Future string }
		Unhealthy   any
		Attempts    struct{ Future json.Number }
		LastApplied struct{ Future json.Number }
	}
	require.NoError(t, json.Unmarshal([]byte(raw), &got))
	assert.Equal(t, "another", got.LastFailure.Job)
	assert.Empty(t, got.LastFailure.Future)
	assert.Nil(t, got.Unhealthy)
	for _, kept := range []json.Number{got.Future, got.Attempts.Future, got.LastApplied.Future} {
		assert.Equal(t, json.Number("12345678901234567890"), kept)
	}
}

func TestJournalOfADevelopmentBuild(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, open(t, dir).Close())
	edit(t, dir, "meta", "schema", "1")
	before := records(t, dir)
	_, err := journal.Open(dir)
	require.ErrorIs(t, err, journal.ErrEarlier)
	_, err = journal.Peek(dir)
	require.ErrorIs(t, err, journal.ErrEarlier)
	assert.Equal(t, before, records(t, dir))
}

// A note is what a person reads until a job has something to say.
func TestNoteUntilAJobEnds(t *testing.T) {
	j := open(t, t.TempDir())
	require.NoError(t, j.Note("moved aside"))
	assert.Equal(t, "moved aside", view(t, j).LastError())
	job := newJob("a")
	job.Finished, job.Record.Outcome = &noon, step.Complete
	require.NoError(t, j.Save(job))
	assert.Empty(t, view(t, j).LastError())
}
