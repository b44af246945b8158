package engine

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// drive is how far a drive is that erases itself.
type drive struct {
	Underway
	// percent is the last one that was known, and moved when it was another one last; gone is since when the drive is not there, nil while it is.
	percent int
	moved   time.Duration
	gone    *time.Duration
}

// beside is what Snapshot has of the drives.
func beside(drives map[int]drive) map[int]Underway {
	if len(drives) == 0 {
		return nil
	}
	out := make(map[int]Underway, len(drives))
	for i, d := range drives {
		out[i] = d.Underway
	}
	return out
}

// follow reports how far the drive of the current step is, and looks at one of the others.
func (x *execution) follow(ctx context.Context, i int, u Underway) time.Duration {
	if ret := x.sees(i, u); ret != nil {
		return x.returned(i, ret)
	}
	if d := x.drives[i]; d.Percent >= 0 {
		x.progressed(d.Percent, d.moved)
	}
	x.wait(x.drives[i].Message)
	if x.glance(ctx, i) {
		return 0
	}
	return x.cfg.Poll
}

// glance looks at one of the other drives that erase themselves meanwhile, each in its turn, so that one that takes long, or that cannot be told yet,
// keeps none from being known to be done. It reports whether that one is.
func (x *execution) glance(ctx context.Context, i int) (done bool) {
	others := x.job.Record.Beside(i)
	if len(others) == 0 || ctx.Err() != nil {
		return false
	}
	j := others[x.turn%len(others)]
	x.turn++
	ret, underway := x.task(ctx, x.job.Record.Steps[j])
	if underway != nil {
		ret = x.sees(j, *underway)
	}
	switch {
	case ret != nil:
		x.returned(j, ret)
		return true
	case underway != nil:
		x.publish(false)
	}
	return false
}

// sees notes how far the drive of a step is. It returns what ends the step where the drive is not there for too long.
func (x *execution) sees(i int, u Underway) *step.Returned {
	now := x.cfg.Elapsed()
	d, known := x.drives[i]
	if !known || u.Percent >= 0 && u.Percent != d.percent {
		d.moved = now
	}
	switch {
	case !u.Gone:
		d.gone = nil
	case d.gone == nil:
		d.gone = &now
	case now-*d.gone >= x.limits().Read:
		return failed(x.job.Record.Steps[i], step.StepFailed, u.Message)
	}
	if u.Percent >= 0 {
		d.percent = u.Percent
	} else if known && d.Percent < 0 {
		u.Message = d.Message // what was said first, so that it does not change all the time
	}
	d.Underway = u
	x.drives[i] = d
	return nil
}

// changed prepares for another current step. One of several drives that this process had begun to tell when it came to another one is as after a
// crash: it is asked whether it has begun. One that only follows its drive goes on.
func (x *execution) changed(to int) {
	if x.at < 0 || to < 0 {
		return
	}
	if s := x.job.Record.Steps[to]; s.Kind == plan.Erase && s.State == step.Running {
		x.interrupted = !s.Followed()
	}
}

// lateDrives is what late says of drives that erase themselves side by side.
func (x *execution) lateDrives(now time.Duration, steps []int) (string, *step.Step) {
	var names []string
	var first *step.Step
	for _, i := range steps {
		s := &x.job.Record.Steps[i]
		if d, seen := x.drives[i]; seen && now-d.moved >= s.Deadline {
			names = append(names, s.Device)
			first = cmp.Or(first, s)
		}
	}
	if first == nil {
		return "", nil
	}
	return fmt.Sprintf("%s made no progress for %s, and nothing is killed; check the node and its devices", strings.Join(names, ", "), first.Deadline), first
}
