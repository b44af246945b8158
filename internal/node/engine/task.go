package engine

import (
	"context"
	"fmt"

	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// task runs a step that is not part of every update.
func (x *execution) task(ctx context.Context, s step.Step) *step.Returned {
	if x.cfg.Tasks == nil {
		return failed(s, step.StepFailed, fmt.Sprintf("this daemon does not know the step %s", s.Kind))
	}
	run := func(ctx context.Context, s step.Step) *step.Returned {
		return x.cfg.Tasks.Run(ctx, s, x.request(s), x.update(s.Device))
	}
	if s.Changes {
		return x.outliving(ctx, s, run)
	}
	ret := x.interruptibly(ctx, s, run)
	if ctx.Err() != nil {
		return nil // a read that failed because this process is to end says nothing
	}
	return ret
}

// request is the person's request for the step; zero where there is none.
func (x *execution) request(s step.Step) journal.RequestedStep {
	for _, r := range x.job.Requested {
		if r.Name == string(s.Kind) && (r.Device == "" || r.Device == s.Device) {
			return r
		}
	}
	return journal.RequestedStep{}
}
