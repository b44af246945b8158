package rollout_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// R000-6: the operator of 500 nodes is killed between its two writes in every round, and daemons are away for a round. Every
// job runs once, within the budget, and the fleet comes to its end.
func TestAFleetComesToItsEndThoughItsOperatorIsKilledAgainAndAgain(t *testing.T) {
	const nodes, budget = 500, 125
	w := newWorld(t)
	w.create(newPolicy("default", intstr.FromString("25%"), nil))
	for i := range nodes {
		name := fmt.Sprintf("n%03d", i)
		w.nodes(name)
		w.queue("job-"+name, name)
	}
	done := map[string]bool{}
	for round := 0; len(done) < nodes; round++ {
		require.Less(t, round, 20, "the fleet comes to its end")
		dying := w.operator()
		dying.view.dies = true
		_, err := dying.Reconcile(t.Context(), ctrl.Request{})
		require.ErrorIs(t, err, errCrash)
		w.operator().pass()
		running := w.admitted()
		require.LessOrEqual(t, len(running), budget)
		for i, job := range running {
			if round == 0 && i%10 == 0 {
				continue // its daemon is away, and its job goes on later
			}
			require.False(t, done[job], "%s ran twice", job)
			done[job] = true
			w.complete(job)
		}
	}
	w.operator().pass()
	assert.Empty(t, w.ledger("default"))
	assert.Empty(t, w.admitted())
}
