package rollout

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// Tell tells the jobs all that the last pass decided, and reports whether another pass is asked for.
func (r *Reconciler) Tell(ctx context.Context) (again bool, err error) {
	for _, t := range []*teller{r.admit, r.explain} {
		t.again = func() { again = true }
		for _, job := range slices.Sorted(maps.Keys(t.wants)) {
			_, failed := t.Reconcile(ctx, request(job))
			err = errors.Join(err, failed)
		}
	}
	return again, err
}
