package lab

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// patience is how long a demo goes on without any progress. A node that is cut off needs about half of it.
const patience = 3 * time.Minute

// lookEvery is how often the fleet is looked at.
const lookEvery = 300 * time.Millisecond

// sight is one look at the fleet.
type sight struct {
	*picture
	// missing is what has to happen before the demo goes on; empty when it has happened.
	missing []string
}

// follow shows what look sees until nothing is missing. It ends with the error of look that is a verdict, with the context,
// or when nothing changed for the patience, and then says what it waited for.
func follow(ctx context.Context, v *view, look func(context.Context) (sight, error)) error {
	var last sight
	since := time.Now()
	for {
		var waitsFor string
		now, err := look(ctx)
		var verdict verdictError
		switch {
		case errors.As(err, &verdict):
			return verdict
		case err != nil:
			waitsFor = "an answer of the API server: " + err.Error()
		default:
			v.show(now.picture)
			if len(now.missing) == 0 {
				return nil
			}
			if !reflect.DeepEqual(now, last) {
				last, since = now, time.Now()
			}
			waitsFor = strings.Join(now.missing, "; ")
		}
		if waited := time.Since(since); waited >= patience {
			return fmt.Errorf("nothing has changed for %s; still waiting for %s", waited.Round(time.Second), waitsFor)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; it was waiting for %s", context.Cause(ctx), waitsFor)
		case <-time.After(lookEvery):
		}
	}
}

// verdictError ends a demo: waiting does not help.
type verdictError string

func (e verdictError) Error() string { return string(e) }

// unfinished lists the nodes that are not back in service, with what they do, and the maintenances that are left.
func (p *picture) unfinished() []string {
	var out []string
	for _, r := range p.rows {
		if r.state != "Ready" {
			out = append(out, fmt.Sprintf("%s to be in service (%s, step %s)", r.node, r.state, r.step))
		}
	}
	switch {
	case len(p.rows) == 0:
		out = append(out, "nodes")
	case len(out) == 0 && p.inMaintenance > 0:
		out = append(out, fmt.Sprintf("the end of %d maintenances", p.inMaintenance))
	case len(out) == 0 && p.running > 0: // the daemon sees the end of a maintenance a little after its node is back
		out = append(out, fmt.Sprintf("the end of %d jobs", p.running))
	}
	return out
}

// offTarget lists the nodes whose devices do not all run their targets and have their settings.
func (p *picture) offTarget() []string {
	var out []string
	for _, r := range p.rows {
		if r.wanted == 0 || r.current != r.wanted || r.inForce != r.settled {
			out = append(out, fmt.Sprintf("%s to run its targets (%d of %d) and have its settings (%d of %d, step %s)", r.node, r.current, r.wanted,
				r.inForce, r.settled, r.step))
		}
	}
	return out
}
