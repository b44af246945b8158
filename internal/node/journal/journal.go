package journal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

const (
	// FileName of the journal in the state directory.
	FileName = "journal.db"
	// schema of the records. A journal with another number is refused: a higher one is of a newer daemon, and a lower one of a
	// development build. Members that are added keep it: an older daemon writes back what it does not know.
	schema = 2
	// lockTimeout is how long to wait for a journal that another process has open.
	lockTimeout = 2 * time.Second
	// maxFinished bounds the finished jobs that are kept, and the history.
	maxFinished = 10
	// maxBegun bounds the jobs of type Steps of which it is remembered that they began, with the drives that they were to erase.
	maxBegun = 1024
)

var (
	bucketMeta    = []byte("meta")
	bucketJobs    = []byte("jobs")
	bucketDevices = []byte("devices")
	bucketBegun   = []byte("begun")
	keySchema     = []byte("schema")
	keyHistory    = []byte("history")
	keyVerdict    = []byte("verdict")
	keyNote       = []byte("note")
)

// ErrLocked says that another process has the journal open.
var ErrLocked = errors.New("another firmware-daemon is using it; stop that one first")

// ErrNewer says that the journal was written by a newer daemon.
var ErrNewer = errors.New("it was written by a newer firmware-daemon; install that version or a later one")

// ErrEarlier says that the journal was written by a development build before the first release.
var ErrEarlier = errors.New("it was written by a development build of firmware-daemon from before the first release, and is not read")

// Journal is the journal of one host. Each change is on disk when the method that makes it returns. It is safe for
// concurrent use.
type Journal struct{ db *bbolt.DB }

// Device is the record of one piece of hardware.
type Device struct {
	UniqueID string `json:"uniqueID"`
	// LastApplied is the last update that was verified by a read-back; nil when there was none.
	LastApplied *Applied `json:"lastApplied,omitempty"`
	// LastFailure is the last update that failed, nil when none did or a later one succeeded.
	LastFailure *Failure `json:"lastFailure,omitempty"`
	// SettingsFailure is the last change of settings that failed, with their digest; nil when none did or a later one succeeded.
	SettingsFailure *Failure `json:"settingsFailure,omitempty"`
	// Unhealthy is set after a job left the device unhealthy, until a person requests a retry; it survives reboots.
	Unhealthy *UnhealthyMark `json:"unhealthy,omitempty"`
	// LastGood is the version a rollback restores while other firmware may be in the device which no health gate has judged
	// healthy: what one judged last, or what ran when the first job began to write. It is empty while what runs is good, and
	// when there is none.
	LastGood string `json:"lastGood,omitempty"`
	// GoodSettings is to settings what LastGood is to firmware: those of the ones that a job began to change which the device had before.
	GoodSettings []Setting `json:"goodSettings,omitempty"`
	// Drift are the settings that flashes changed and no job gave the device, with what they were before.
	Drift []Setting `json:"drift,omitempty"`
	// Configured are the settings that a health gate found good with all of them in force; nil where there are none, and from the first
	// change on that a later job makes.
	Configured *Configured `json:"configured,omitempty"`
	// Attempts counts the writes of one image; nil before the first.
	Attempts *Attempts `json:"attempts,omitempty"`
}

// Configured names settings that were in force in a boot.
type Configured struct {
	Digest string `json:"digest"`
	BootID string `json:"bootID"`
}

// Attempts counts how often one image was written to a device. The counters only grow while the image is the same.
type Attempts struct {
	Digest string `json:"digest"`
	// Writes counts begun writes, and Reboots requested reboots. Cleared is the number of writes before the last retry
	// request, which are no longer counted.
	Writes  int `json:"writes"`
	Reboots int `json:"reboots"`
	Cleared int `json:"cleared"`
	// Last is when the last write was begun, and Retry the request to retry that was in force then.
	Last  time.Time `json:"last"`
	Retry *string   `json:"retry,omitempty"`
}

// Applied is an update that was verified by a read-back.
type Applied struct {
	Version string   `json:"version"`
	Digest  string   `json:"digest"`
	Origin  []Origin `json:"origin,omitempty"`
	Job     string   `json:"job"`
	// BootID of the boot in which the version was read back, at Time.
	BootID string    `json:"bootID"`
	Time   time.Time `json:"time"`
}

// Failure is an update that failed.
type Failure struct {
	Version string    `json:"version"`
	Digest  string    `json:"digest"`
	Reason  string    `json:"reason"`
	Message string    `json:"message,omitempty"`
	Job     string    `json:"job"`
	Time    time.Time `json:"time"`
	// Retry is the request to retry that was in force for the job; another one clears the failure.
	Retry *string `json:"retry,omitempty"`
}

// UnhealthyMark is on a device that a job left unhealthy. Nothing is flashed to it until a person requests a retry.
type UnhealthyMark struct {
	Since   time.Time `json:"since"`
	Job     string    `json:"job"`
	Message string    `json:"message,omitempty"`
	// Retry is the request to retry that was in force for the job; another one clears the mark.
	Retry *string `json:"retry,omitempty"`
}

// Open opens the journal in the state directory, and creates both if they are missing. It returns an error that wraps
// ErrLocked, ErrNewer, ErrEarlier or ErrDamaged in those cases.
func Open(stateDir string) (*Journal, error) {
	path := filepath.Join(stateDir, FileName)
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	db, err := openDB(path, bbolt.Options{Timeout: lockTimeout})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("open journal %s: %w", path, ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("open journal %s: %w", path, err)
	}
	if err := errors.Join(prepare(db), syncDirectory(stateDir)); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal %s: %w", path, err), db.Close())
	}
	return &Journal{db: db}, nil
}

// prepare creates the buckets of a new journal. It writes nothing into an existing one, which may be from a newer
// daemon.
func prepare(db *bbolt.DB) error {
	return guard(func() error {
		if known, err := known(db); err != nil || known {
			return err
		}
		return db.Update(func(tx *bbolt.Tx) error {
			for _, name := range [][]byte{bucketMeta, bucketJobs, bucketDevices} {
				if _, err := tx.CreateBucket(name); err != nil {
					return fmt.Errorf("make bucket %s: %w", name, err)
				}
			}
			return tx.Bucket(bucketMeta).Put(keySchema, []byte(strconv.Itoa(schema)))
		})
	})
}

// known reports whether the journal has been initialised. An unknown schema is an error.
func known(db *bbolt.DB) (made bool, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if made = meta != nil; !made {
			return nil
		}
		return checkSchema(string(meta.Get(keySchema)))
	})
	return made, err
}

func checkSchema(s string) error {
	n, err := strconv.Atoi(s)
	switch {
	case err != nil || n < 1:
		return fmt.Errorf("unknown schema %q; move the file away if it is not a journal", s)
	case n > schema:
		return fmt.Errorf("schema %d: %w", n, ErrNewer)
	case n < schema:
		return fmt.Errorf("schema %d: %w", n, ErrEarlier)
	}
	return nil
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open state directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// Close releases the journal to other processes.
func (j *Journal) Close() error { return j.db.Close() }

// Save writes the job and the devices in one transaction. A job that has just finished enters the history.
func (j *Journal) Save(job Job, devices ...Device) error { return j.save([]Job{job}, devices) }

// TakeOver writes a new job, and the held one that it supersedes, in one transaction.
func (j *Journal) TakeOver(next, held Job) error {
	held.SupersededBy, held.Reported = next.Name, false
	return j.save([]Job{next, held}, nil)
}

func (j *Journal) save(jobs []Job, devices []Device) error {
	err := j.db.Update(func(tx *bbolt.Tx) error {
		for _, d := range devices {
			if err := put(tx, bucketDevices, d.UniqueID, d); err != nil {
				return err
			}
		}
		for _, job := range jobs {
			if err := errors.Join(noteBegun(tx, job), remember(tx, job), judge(tx, job), put(tx, bucketJobs, job.UID, job)); err != nil {
				return err
			}
		}
		return prune(tx)
	})
	if err != nil {
		return fmt.Errorf("write job %s to the journal: %w", jobs[0].Name, err)
	}
	return nil
}

// noteBegun remembers for good that a job of type Steps began, and which drives it was to erase: nothing else would show that
// it must not run again when an API server that was restored from a backup offers it once more, or a manifest is applied again.
func noteBegun(tx *bbolt.Tx, job Job) error {
	if len(job.Requested) == 0 {
		return nil
	}
	err := noteMark(tx, job.UID)
	for _, s := range job.Record.Steps {
		i := slices.IndexFunc(job.Updates, func(u Update) bool { return u.Device == s.Device })
		if s.Kind == plan.Erase && (len(s.Data) > 0 || job.Cancel != nil) && i >= 0 {
			err = errors.Join(err, noteMark(tx, erasedBy(job.Name, job.Updates[i].UniqueID)))
		}
	}
	if err != nil {
		return fmt.Errorf("note that job %s began: %w", job.Name, err)
	}
	return nil
}

// erasedBy is the mark of the erasure of a drive by a job, whose name has no slash.
func erasedBy(job, uniqueID string) string { return "erase/" + job + "/" + uniqueID }

func noteMark(tx *bbolt.Tx, mark string) error {
	begun, err := tx.CreateBucketIfNotExists(bucketBegun)
	if err != nil || begun.Get([]byte(mark)) != nil {
		return err
	}
	n, err := begun.NextSequence()
	if err != nil {
		return err
	}
	var forgotten [][]byte
	err = begun.ForEach(func(mark, raw []byte) error {
		if binary.BigEndian.Uint64(raw)+maxBegun <= n {
			forgotten = append(forgotten, slices.Clone(mark))
		}
		return nil
	})
	for _, mark := range forgotten {
		err = errors.Join(err, begun.Delete(mark))
	}
	return errors.Join(err, begun.Put([]byte(mark), binary.BigEndian.AppendUint64(nil, n)))
}

// Began reports whether the journal remembers that a job of type Steps began, though it may not have the job any more. It
// remembers the last 1024 of these and of those of Erased.
func (j *Journal) Began(uid string) (bool, error) { return j.noted(uid) }

// Erased reports whether the journal remembers that a job of that name, whichever it was, began to erase the drive.
func (j *Journal) Erased(job, uniqueID string) (bool, error) { return j.noted(erasedBy(job, uniqueID)) }

func (j *Journal) noted(mark string) (noted bool, err error) {
	err = j.db.View(func(tx *bbolt.Tx) error {
		if begun := tx.Bucket(bucketBegun); begun != nil {
			noted = begun.Get([]byte(mark)) != nil
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read the journal: %w", err)
	}
	return noted, nil
}

// judge stores the verdict of a job whose health gate has just finished.
func judge(tx *bbolt.Tx, job Job) error {
	v := job.Record.Verdict
	if v == nil {
		return nil
	}
	if raw := tx.Bucket(bucketJobs).Get([]byte(job.UID)); raw != nil {
		before, err := decodeJob(raw)
		if err != nil || reflect.DeepEqual(before.Record.Verdict, v) {
			return err
		}
	}
	return put(tx, bucketMeta, string(keyVerdict), job.Verdict())
}

// remember adds a job to the history when it finishes.
func remember(tx *bbolt.Tx, job Job) error {
	if job.Finished == nil {
		return nil
	}
	history, err := readHistory(tx)
	if err != nil {
		return err
	}
	entry := record(job)
	if i := slices.IndexFunc(history, func(r Past) bool { return r.Job == entry.Job }); i >= 0 {
		history[i] = entry
	} else {
		history = slices.Insert(history, 0, entry)
	}
	history = history[:min(len(history), maxFinished)]
	return put(tx, bucketMeta, string(keyHistory), history)
}

// prune drops the oldest finished jobs, but none whose result the API server does not have yet, unless there are many.
func prune(tx *bbolt.Tx) error {
	var done []Job
	err := eachJob(tx, func(job Job) {
		if !job.Active() {
			done = append(done, job)
		}
	})
	if err != nil {
		return err
	}
	slices.SortFunc(done, func(a, b Job) int { return b.Accepted.Compare(a.Accepted) })
	for i, job := range done {
		if i < maxFinished || !job.Reported && i < 10*maxFinished {
			continue
		}
		if err := tx.Bucket(bucketJobs).Delete([]byte(job.UID)); err != nil {
			return fmt.Errorf("drop job %s: %w", job.Name, err)
		}
	}
	return nil
}

// put writes a record, with what the one in its place holds that this daemon does not know.
func put[T any](tx *bbolt.Tx, bucket []byte, key string, value T) error {
	raw, err := json.Marshal(value)
	if err == nil {
		raw, err = carryOver[T](tx.Bucket(bucket).Get([]byte(key)), raw)
	}
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	return tx.Bucket(bucket).Put([]byte(key), raw)
}

// Note keeps a message for people, until a later job completes or fails.
func (j *Journal) Note(message string) error {
	err := j.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyNote, []byte(message)) })
	if err != nil {
		return fmt.Errorf("write to the journal: %w", err)
	}
	return nil
}
