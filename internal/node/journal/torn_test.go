package journal_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// commit is one change of a journal: the file and what it said before and after.
type commit struct {
	before, after []byte
	was, is       journal.View
}

// randomJob is a job whose size on disk varies from one page to several.
func randomJob(random *rand.Rand, name string) journal.Job {
	job := newJob(name)
	at := noon.Add(time.Duration(random.IntN(1e6)) * time.Second)
	job.Accepted = at
	for range random.IntN(4) {
		job.Record = step.Apply(job.Record, step.Action{Verb: step.Begin, Step: 0}, fmt.Sprint("boot-", random.IntN(9)), at)
	}
	if random.IntN(3) == 0 {
		job.Finished, job.Reported, job.Record.Outcome = &at, true, step.Complete
	}
	job.SupersededBy = strings.Repeat("x", random.IntN(9000))
	return job
}

func randomDevices(random *rand.Rand) []journal.Device {
	var out []journal.Device
	for range random.IntN(3) {
		out = append(out, journal.Device{
			UniqueID: fmt.Sprint("device-", random.IntN(6)), LastGood: fmt.Sprint(random.IntN(100)),
			LastFailure: &journal.Failure{Message: strings.Repeat("m", random.IntN(3000))},
		})
	}
	return out
}

// randomCommit makes a journal, changes it a few times, and then once more.
func randomCommit(t *testing.T, random *rand.Rand) commit {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, journal.FileName)
	j := open(t, dir)
	for range random.IntN(12) {
		require.NoError(t, j.Save(randomJob(random, fmt.Sprint("job-", random.IntN(8))), randomDevices(random)...))
	}
	var c commit
	var err error
	c.before, err = os.ReadFile(path)
	require.NoError(t, err)
	c.was = view(t, j)
	require.NoError(t, j.Save(randomJob(random, fmt.Sprint("job-", random.IntN(8))), randomDevices(random)...))
	c.after, err = os.ReadFile(path)
	require.NoError(t, err)
	c.is = view(t, j)
	require.NoError(t, j.Close())
	return c
}

const sector = 512

// torn is the file after a power cut in the middle of the change. bbolt writes pages that nothing refers to, syncs them,
// and then one of the two pages in front. So either any part of the former is there and the latter is not, or all of the
// former and any part of the latter.
func (c commit) torn(random *rand.Rand) []byte {
	front := 2 * os.Getpagesize()
	out := bytes.Clone(c.before)
	if len(c.after) > len(out) && random.IntN(2) == 0 { // the size is a change of its own
		out = append(out, make([]byte, len(c.after)-len(out))...)
	}
	if random.IntN(2) == 0 {
		survives := 1 + random.IntN(4)
		for at := front; at < len(c.after); at += sector {
			if random.IntN(survives) == 0 {
				continue
			}
			if end := at + sector; end <= len(out) {
				copy(out[at:end], c.after[at:end])
			}
		}
		return out
	}
	out = append(out[:front:front], c.after[front:]...)
	return tear(random, out, c.after[:front])
}

// tear overwrites a part of what changed in front: a beginning, an end or single bytes, with the new or with zeros.
func tear(random *rand.Rand, file, front []byte) []byte {
	first, last := len(front), 0
	for i := range front {
		if file[i] != front[i] {
			first, last = min(first, i), max(last, i+1)
		}
	}
	if first >= last {
		return file
	}
	from, to := first, first+random.IntN(last-first+1)
	if random.IntN(3) == 0 {
		from, to = to, last
	}
	for i := from; i < to; i++ {
		switch {
		case random.IntN(50) == 0 && from != first:
			file[i] = 0
		default:
			file[i] = front[i]
		}
	}
	return file
}

// Each cut of each change leaves a journal that says what it said before or after it, and that can be written.
// It proves R002-33.
func TestPowerCutAnywhereInAChangeLeavesTheOldOrTheNewView(t *testing.T) { // F2
	const commits, cuts = 10, 24
	outcomes := map[string]int{}
	for seed := range uint64(commits) {
		random := rand.New(rand.NewPCG(seed, 5))
		c := randomCommit(t, random)
		states := [][]byte{c.before, c.after}
		for range cuts {
			states = append(states, c.torn(random))
		}
		for i, state := range states {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, journal.FileName), state, 0o600))
			j, err := journal.Open(dir)
			require.NoError(t, err, "seed %d, cut %d", seed, i)
			require.NoError(t, j.Check(), "seed %d, cut %d", seed, i)
			v := view(t, j)
			switch {
			case assert.ObjectsAreEqual(c.was, v):
				outcomes["old"]++
			case assert.ObjectsAreEqual(c.is, v):
				outcomes["new"]++
			default:
				require.Fail(t, "neither old nor new", "seed %d, cut %d: %+v", seed, i, v)
			}
			if i%4 == 0 {
				require.NoError(t, j.Save(newJob("after")))
			}
			require.NoError(t, j.Close())
		}
	}
	assert.Greater(t, outcomes["old"], commits)
	assert.Greater(t, outcomes["new"], commits)
}

// Every write beyond a limit fails, as on a full disk; with limit zero all fail, as on one that became read-only. The limit
// holds for the whole process, so that it is one of its own.
func TestFullDiskKeepsOldView(t *testing.T) { // F5
	if flag.NArg() > 0 {
		fillDisk(t)
		return
	}
	out, err := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "fill the disk").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "failed and")
}

func fillDisk(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	dir := t.TempDir()
	j := open(t, dir)
	for i := range 12 {
		require.NoError(t, j.Save(randomJob(random, fmt.Sprint("job-", i)), randomDevices(random)...))
	}
	info, err := os.Stat(filepath.Join(dir, journal.FileName))
	require.NoError(t, err)
	failed, saved := 0, 0
	for limit := int64(0); limit <= info.Size()+int64(os.Getpagesize()); limit += int64(os.Getpagesize()) / 2 {
		was := view(t, j)
		next := newJob(fmt.Sprint("next-", limit))
		next.SupersededBy = strings.Repeat("x", random.IntN(12000))
		err := withFileLimit(t, limit, func() error { return j.Save(next) })
		if err == nil {
			saved++
			require.NotNil(t, view(t, j).Job(next.UID))
			continue
		}
		failed++
		require.ErrorContains(t, err, syscall.EFBIG.Error())
		require.Equal(t, was, view(t, j), "limit %d: this process still sees the old one", limit)
		now, statErr := os.Stat(filepath.Join(dir, journal.FileName))
		require.NoError(t, statErr)
		require.GreaterOrEqual(t, now.Size(), info.Size(), "nothing is truncated")
		require.NoError(t, j.Close())
		j = open(t, dir)
		require.Equal(t, was, view(t, j), "limit %d: and so does the next", limit)
	}
	assert.Positive(t, failed)
	assert.Positive(t, saved)
	t.Logf("%d failed and %d were saved", failed, saved)
	require.NoError(t, j.Save(newJob("last")), "all is well once there is room")
}

// withFileLimit lets no file of this process be written beyond a size. The soft limit alone is lowered, to be raised again.
func withFileLimit(t *testing.T, limit int64, do func() error) error {
	t.Helper()
	var was syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(limit), Max: was.Max}))
	err := do()
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was))
	return err
}

func TestReadOnlyJournalIsUntouched(t *testing.T) { // F5
	dir := t.TempDir()
	j := open(t, dir)
	require.NoError(t, j.Save(newJob("a")))
	require.NoError(t, j.Close())
	path := filepath.Join(dir, journal.FileName)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o400))
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		require.NoError(t, f.Close())
		t.Skip("this user may write everything")
	}
	_, err = journal.Open(dir)
	require.ErrorIs(t, err, os.ErrPermission)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

func TestDamagedPagesDoNotPanic(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	for i := range 5 {
		require.NoError(t, j.Save(newJob(fmt.Sprint("job-", i))))
	}
	require.NoError(t, j.Close())
	whole, err := os.ReadFile(filepath.Join(dir, journal.FileName))
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(9, 9))
	for range 80 {
		bad := bytes.Clone(whole)
		for range 1 + random.IntN(3) {
			at := random.IntN(len(bad)/sector) * sector
			if random.IntN(2) == 0 {
				clear(bad[at : at+sector])
			} else {
				for i := range sector {
					bad[at+i] = byte(random.Uint32())
				}
			}
		}
		if random.IntN(5) == 0 {
			bad = bad[:random.IntN(len(bad))]
		}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, journal.FileName), bad, 0o600))
		_, _ = journal.Peek(dir)
		j, err := journal.Open(dir)
		if err == nil {
			_ = j.Check()
			require.NoError(t, j.Close())
		}
	}
}
