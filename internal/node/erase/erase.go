package erase

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/version"
	"github.com/nodefirmware/node-firmware-operator/pkg/command"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Eraser erases drives of this host.
type Eraser struct {
	Disks Disks
	// Seed returns a number by which the samples of a drive are chosen.
	Seed func() uint64
	Now  func() time.Time
}

// Disks opens what the drives of this host store.
type Disks interface {
	// Unused fails when anything uses the drive, and when that cannot be told.
	Unused(ctx context.Context, id inventory.Identity) error
	// Claim opens it for this process alone, and fails as Unused does.
	Claim(ctx context.Context, id inventory.Identity) ([]host.Volume, error)
	// Volumes opens it.
	Volumes(ctx context.Context, id inventory.Identity) ([]host.Volume, error)
}

// Drive is a drive to erase.
type Drive struct {
	inventory.Device
	Driver driver.Driver
	// Arguments are those of the step.
	Arguments []plan.Argument
}

// Result is the result of a round.
type Result struct {
	// Data is kept for the next round, and for ReadProof at the end.
	Data []byte
	// Again says that another round is needed, and Begun that the drive has begun, or may have: no round begins anything from then on.
	Again, Begun bool
	// Percent is how far the drive is, which is looked at again after a while; negative where that is not known, and nil where the round is over.
	Percent *int
	Message string
}

// Proof is what proves that a drive erased itself. It is kept with the step that is done.
type Proof struct {
	SerialNumber string `json:"serialNumber"`
	Vendor       string `json:"vendor,omitempty"`
	Model        string `json:"model,omitempty"`
	// Method and Log are in the drive's words; of one that keeps no log, Log is what was seen of it.
	Method string `json:"by"`
	Log    string `json:"log"`
	// Size is that of all volumes in bytes.
	Size int64 `json:"size"`
	// Samples is how many blocks were read, Held how many of them held data before, and Seed what they were chosen by.
	Samples int    `json:"samples"`
	Held    int    `json:"held"`
	Seed    uint64 `json:"seed"`
	// Began is when the first samples were read.
	Began time.Time `json:"began"`
	// Version is that of the daemon.
	Version string `json:"version"`
}

// ReadProof returns the proof that a step kept; nil where it kept none, as one that is not done and those of earlier versions.
func ReadProof(data []byte) *Proof {
	var k kept
	if json.Unmarshal(data, &k) != nil {
		return nil
	}
	return k.Proof
}

// kept is what is kept from one round for the next.
type kept struct {
	Method driver.EraseMethod `json:"method"`
	Seed   uint64             `json:"seed"`
	Before last               `json:"before"`
	Spaces []space            `json:"spaces"`
	// Attempt is the one that made this.
	Attempt int32 `json:"attempt"`
	// Told is what went wrong when the drive was told, for people, where it did not say since whether it has begun.
	Told string `json:"told,omitempty"`
	// Begun says that the drive has begun, Unsure that this is not known and is to be told by the samples.
	Begun  bool `json:"begun,omitempty"`
	Unsure bool `json:"unsure,omitempty"`
	// Seen is what a drive without a log reported while it erased itself; empty where it was never seen to.
	Seen string `json:"seen,omitempty"`
	// Since is when the samples were read.
	Since time.Time `json:"since,omitzero"`
	// Proof is there once the drive is proven erased. It is looked at again where the step is repeated all the same.
	Proof *Proof `json:"proof,omitempty"`
}

// last is what the drive reports of its last erasure, as far as it tells that one from another.
type last struct {
	State     driver.EraseState `json:"state"`
	Mark      uint32            `json:"mark"`
	Untouched bool              `json:"untouched"`
}

func lastOf(e driver.Erasure) last { return last{e.State, e.Mark, e.Untouched} }

// Check returns why the drive is not erased, on a node that is to be drained first. It changes nothing.
func (e Eraser) Check(ctx context.Context, d Drive) error {
	if _, _, err := e.check(ctx, d); err != nil {
		return fmt.Errorf("nothing was erased: %w", err)
	}
	err := e.Disks.Unused(ctx, d.Identity)
	if used, ok := errors.AsType[*host.InUseError](err); ok && used.Pods || err == nil {
		return nil
	}
	return fmt.Errorf("nothing was erased: %w", err)
}

// Round does the next part of the erasure: it takes samples, has the drive begin, or looks how far it is and, at the end, at the samples. The
// attempt counts the rounds that were begun, also before a crash. It returns nil while a write to the drive still runs.
func (e Eraser) Round(ctx context.Context, d Drive, attempt int32, data []byte) (*Result, error) {
	if data == nil {
		return e.prepare(ctx, d, attempt)
	}
	var k kept
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("read what was kept of the erasure: %w", err)
	}
	eraser, ok := d.Driver.(driver.Eraser)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: the driver %s erases no drives", unproven, d.Driver.Name())
	case k.Begun:
		return e.follow(ctx, eraser, d, k)
	case k.Told != "", attempt > k.Attempt+1: // that one may have told it
		return e.ask(ctx, eraser, d, attempt, k)
	}
	return e.begin(ctx, eraser, d, k)
}

const unproven = "the drive is NOT proven erased"

// check decides by which method the drive is erased, or why it is not.
func (e Eraser) check(ctx context.Context, d Drive) (driver.EraseMethod, driver.Erasure, error) {
	var none driver.Erasure
	if named := d.argument(plan.EraseSerialNumber); named == "" || named != strings.TrimSpace(d.SerialNumber) {
		return "", none, fmt.Errorf("the drive has the serial number %q, and the step names %q", d.SerialNumber, named)
	}
	if e.Disks == nil {
		return "", none, errors.New("it cannot be told on this host whether the drive is in use")
	}
	eraser, ok := d.Driver.(driver.Eraser)
	switch {
	case !ok && d.Transport == "sata":
		return "", none, errors.New("the drive is a SATA drive, and this product erases NVMe and SAS drives only; hdparm(8) has the commands for its own erasure")
	case !ok:
		return "", none, fmt.Errorf("the driver %s erases no drives", d.Driver.Name())
	}
	if fw := d.Firmware; fw != nil && fw.Pending() {
		return "", none, fmt.Errorf("the drive stores the firmware %s, which waits for its activation, and no drive is erased before; reboot the node, then "+
			"request the step again", fw.Stored)
	}
	has, err := eraser.Erasure(ctx, d.Identity)
	if err != nil {
		return "", none, err
	}
	method, err := choose(driver.EraseMethod(d.argument(plan.EraseMethod)), has)
	switch {
	case has.State == driver.EraseRunning: // a drive may not even say meanwhile by what methods it can
		return "", none, fmt.Errorf("the drive erases itself already (%s, %d %%), which this job did not begin; wait until it is done", has.Report, has.Percent)
	case has.State == driver.EraseFailed:
		return "", none, fmt.Errorf("an earlier erasure of the drive failed (%s), and it gives no data that could be compared; end that state with %q on the "+
			"node, or, where the drive refuses that, with another sanitize by hand, then request the step again", has.Report, has.LeaveBy)
	case err != nil:
		return "", none, err
	case has.Shared != "":
		return "", none, fmt.Errorf("%s, and all of it would be erased", has.Shared)
	}
	return method, has, nil
}

// choose is the method that was asked for, and no other; without one it is the first that the drive offers.
func choose(asked driver.EraseMethod, has driver.Erasure) (driver.EraseMethod, error) {
	switch {
	case asked != "" && !slices.Contains(driver.EraseMethods(), asked):
		return "", fmt.Errorf("the method %q is none of %s", asked, list(driver.EraseMethods()))
	case len(has.Methods) == 0 && has.Otherwise != "":
		return "", fmt.Errorf("the drive cannot be sanitized; %s", has.Otherwise)
	case len(has.Methods) == 0:
		return "", errors.New("the drive does not erase itself")
	case asked == "":
		return has.Methods[0], nil
	case !slices.Contains(has.Methods, asked):
		return "", fmt.Errorf("the drive does not erase by %s; it offers %s", asked, list(has.Methods))
	}
	return asked, nil
}

func list(methods []driver.EraseMethod) string {
	var out []string
	for _, m := range methods {
		out = append(out, string(m))
	}
	return strings.Join(out, ", ")
}

func (d Drive) argument(name string) string {
	for _, a := range d.Arguments {
		if a.Name == name {
			return a.Value
		}
	}
	return ""
}

// prepare takes the samples of what the drive stores.
func (e Eraser) prepare(ctx context.Context, d Drive, attempt int32) (*Result, error) {
	method, has, err := e.check(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("nothing was erased: %w", err)
	}
	volumes, err := e.Disks.Claim(ctx, d.Identity)
	if err != nil {
		return nil, fmt.Errorf("nothing was erased: %w", err)
	}
	k := kept{Method: method, Seed: e.Seed(), Before: lastOf(has), Attempt: attempt, Since: e.Now()}
	k.Spaces, err = sample(volumes, k.Seed)
	if err = cmp.Or(err, release(volumes)); err != nil {
		return nil, fmt.Errorf("nothing was erased, because what the drive stores could not be sampled: %w", err)
	}
	return k.again("the drive is the named one and is not in use")
}

// again is another round with what is kept.
func (k kept) again(message string) (*Result, error) {
	data, err := json.Marshal(k)
	return &Result{Data: data, Again: true, Begun: k.Begun || k.Told != "", Message: message}, err
}

// ask finds out from the drive whether it has begun, as far as it can tell one erasure from another. One that has not is to be told as if it never
// had been, in another round, unless it is known why.
func (e Eraser) ask(ctx context.Context, eraser driver.Eraser, d Drive, attempt int32, k kept) (*Result, error) {
	now, err := eraser.Erasure(ctx, d.Identity)
	if err != nil {
		return unread("it is not known whether the drive has begun to erase itself", err), nil
	}
	if k.Begun, k.Unsure = e.begun(ctx, d, k, now); k.Unsure {
		return k.again("it is not known whether the drive has begun to erase itself, and its samples are to tell")
	}
	if k.Begun {
		return k.again("the drive has begun to erase itself")
	}
	if k.Told != "" {
		return nil, fmt.Errorf("nothing was erased: %s", k.Told)
	}
	return e.prepare(ctx, d, attempt)
}

// maxTold bounds kept.Told in bytes.
const maxTold = 1024

// unread is a round in which the drive did not say how it stands.
func unread(what string, err error) *Result {
	unknown := -1
	return &Result{Percent: &unknown, Message: fmt.Sprintf("%s: %v", what, err)}
}

// begin has the drive begin.
func (e Eraser) begin(ctx context.Context, eraser driver.Eraser, d Drive, k kept) (*Result, error) {
	method, has, err := e.check(ctx, d)
	switch {
	case err != nil:
		return nil, fmt.Errorf("nothing was erased: %w", err)
	case method != k.Method || lastOf(has) != k.Before:
		return nil, errors.New("nothing was erased: somebody else erased the drive or wrote to it meanwhile; request the step again")
	}
	volumes, err := e.Disks.Claim(ctx, d.Identity) // nobody can mount them until the drive has begun
	if err != nil {
		return nil, fmt.Errorf("nothing was erased: %w", err)
	}
	err = eraser.Erase(ctx, d.Identity, method)
	_ = release(volumes) // nothing was written by them
	switch {
	case errors.Is(err, command.ErrStillRunning), errors.Is(err, command.ErrBusy):
		return nil, nil //nolint:nilnil // whether the drive has begun is not known before the write has ended
	case errors.As(err, new(*driver.RejectedError)):
		return nil, fmt.Errorf("nothing was erased: %w", err)
	case err != nil:
		k.Told = text.Clip(err.Error(), maxTold)
		return k.again("the drive is asked whether it has begun to erase itself: " + k.Told)
	}
	k.Begun = true
	return k.again("the drive has begun to erase itself")
}

// begun reports whether the drive has begun an erasure that this job may have asked for. It is unsure where the drive had been erased before and
// reports the same as then. Two things are certain: a drive that was never erased, and still was not, has not begun; and neither has one that
// says that it was written since it was last erased, and stores what it stored. One without a log that neither erases itself nor failed to and
// stores what it stored has not begun either, because an erasure ends in no other way; anything else that it stores by then leaves it unsure.
func (e Eraser) begun(ctx context.Context, d Drive, k kept, now driver.Erasure) (begun, unsure bool) {
	switch {
	case lastOf(now) != k.Before:
		return true, false
	case now.State == driver.EraseNever && !now.NoLog, !now.Untouched && e.same(ctx, d, k):
		return false, false
	}
	return true, true
}

// same reports whether the drive is known to store in all samples what it did before.
func (e Eraser) same(ctx context.Context, d Drive, k kept) bool {
	volumes, err := e.Disks.Volumes(ctx, d.Identity)
	if err != nil {
		return false
	}
	now, err := sample(volumes, k.Seed)
	held := slices.ContainsFunc(now, func(s space) bool { return !blank(s.Hashes) || s.Hashes[0] != 0 })
	return cmp.Or(err, release(volumes)) == nil && held && slices.EqualFunc(now, k.Spaces, func(a, b space) bool {
		return a.ID == b.ID && a.Size == b.Size && slices.Equal(a.Hashes, b.Hashes)
	})
}

// follow looks how far the drive is, and at the end whether it is erased.
func (e Eraser) follow(ctx context.Context, eraser driver.Eraser, d Drive, k kept) (*Result, error) {
	now, err := eraser.Erasure(ctx, d.Identity)
	if err != nil {
		return unread("how far the drive is cannot be read now", err), nil
	}
	by := fmt.Sprintf("%s, %s", cmp.Or(now.By, "a command of its own"), describe(k.Method))
	switch now.State {
	case driver.EraseRunning:
		if now.NoLog && k.Seen == "" { // it is to be known when nothing else says it any more
			k.Seen = now.Report
			return k.again("the drive erases itself by " + by)
		}
		return &Result{Percent: &now.Percent, Message: "the drive erases itself by " + by}, nil
	case driver.EraseFailed:
		return nil, fmt.Errorf("%s: its erasure by %s failed (%s), and it gives no data; end that state with %q on the node, or, where the drive refuses "+
			"that, with another sanitize by hand, then request the step again", unproven, by, now.Report, now.LeaveBy)
	case driver.EraseNever, driver.EraseCompleted:
	}
	claim := fmt.Sprintf("%s, though it says so (%s)", unproven, now.Report)
	switch {
	case now.NoLog:
		claim = fmt.Sprintf("%s, and it does not erase itself now (%s)", unproven, now.Report)
	case now.State == driver.EraseNever:
		return nil, fmt.Errorf("%s: it says that it was never erased (%s)", unproven, now.Report)
	case now.Method != k.Method:
		return nil, fmt.Errorf("%s: somebody else erased it since it began (%s); request the step again", unproven, now.Report)
	case !now.Untouched:
		return nil, fmt.Errorf("%s: it does not say that nothing was written to it since (%s). If something was, request the step again; if nothing can "+
			"have been, the drive never says it, and has to be erased otherwise", unproven, now.Report)
	}
	volumes, err := e.Disks.Volumes(ctx, d.Identity)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", claim, err)
	}
	found, err := compare(volumes, k.Spaces, k.Seed)
	err = cmp.Or(err, release(volumes))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", claim, err)
	case now.NoLog && k.Seen == "" && found.held == 0:
		return nil, fmt.Errorf("%s: it keeps no log, was never seen while it erased itself, and none of the samples held data before, so that nothing shows that it "+
			"did; write data all over it, or name a method that takes longer, and request the step again", unproven)
	case k.Unsure && !now.NoLog && found.held == 0:
		return nil, fmt.Errorf("%s: whether it has begun is not known, because the node went down just then and the drive had been erased before (%s); "+
			"request the step again", unproven, now.Report)
	}
	k.Proof = &Proof{
		SerialNumber: strings.TrimSpace(d.SerialNumber), Vendor: d.Vendor, Model: d.Model, Method: by, Log: cmp.Or(now.Log, k.report(now)),
		Samples: found.read, Held: found.held, Seed: k.Seed, Began: k.Since, Version: version.Current(),
	}
	for _, s := range k.Spaces {
		k.Proof.Size += s.Size
	}
	data, err := json.Marshal(k)
	said := fmt.Sprintf("erased by %s; %s; %d samples of %d bytes, seed %#x: ", by, k.report(now), found.read, blockSize, k.Seed)
	switch {
	case found.held == 0 && now.NoLog:
		return &Result{Data: data, Message: said + "none held data before, so that only what the drive reported meanwhile says it"}, err
	case found.held == 0:
		return &Result{Data: data, Message: said + "none held data before, so that the drive's log alone says it"}, err
	}
	return &Result{Data: data, Message: fmt.Sprintf("%s%d held data before, none is as it was", said, found.held)}, err
}

// report is what is known of an erasure from the drive: its log, or what it said while somebody looked.
func (k kept) report(now driver.Erasure) string {
	switch {
	case !now.NoLog:
		return now.Report
	case k.Seen != "":
		return fmt.Sprintf("no log; seen in progress (%s), then no more (%s)", k.Seen, now.Report)
	case k.Unsure:
		return fmt.Sprintf("no log; whether it took the command is not known, and it was never seen in progress (%s)", now.Report)
	}
	return fmt.Sprintf("no log; it took the command, and was never seen in progress (%s)", now.Report)
}

func describe(m driver.EraseMethod) string {
	switch m {
	case driver.EraseCrypto:
		return "crypto erase"
	case driver.EraseBlock:
		return "block erase"
	}
	return "overwrite"
}

func release(volumes []host.Volume) error {
	var errs []error
	for _, v := range volumes {
		errs = append(errs, v.Close())
	}
	return errors.Join(errs...)
}
