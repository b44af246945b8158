package rollout_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// stubborn refuses every write of the status of one policy.
type stubborn struct {
	client.Client
	policy string
	err    error
}

func (s stubborn) Status() client.SubResourceWriter { return stubbornStatus{s.Client.Status(), s} }

type stubbornStatus struct {
	client.SubResourceWriter
	s stubborn
}

func (s stubbornStatus) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	if kind, name := appliedTo(o); kind == "RolloutPolicy" && name == s.s.policy {
		return s.s.err
	}
	return s.SubResourceWriter.Apply(ctx, o, opts...)
}

// A policy that cannot be written admits nothing, and stops no other pool, whichever comes first by name.
func TestAPolicyThatCannotBeWrittenStopsItsOwnPoolOnly(t *testing.T) {
	for name, refused := range map[string]error{
		"it is refused each time":  errors.New("the API server refuses it"),
		"somebody is always first": apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("rolloutpolicies").GroupResource(), "b", errors.New("it has changed")),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, pool := range []string{"a", "b", "c"} {
				w.create(newPolicy(pool, intstr.FromInt32(1), map[string]string{"pool": pool}), newNode("n"+pool, map[string]string{"pool": pool}))
				w.queue("job-"+pool, "n"+pool)
			}
			o := w.operator()
			o.view.Client = stubborn{w.Client, "b", refused}
			result, err := o.Reconcile(t.Context(), ctrl.Request{})
			if apierrors.IsConflict(refused) {
				require.NoError(t, err)
				assert.Equal(t, 100*time.Millisecond, result.RequeueAfter)
			} else {
				require.ErrorIs(t, err, refused, "it is tried again")
			}
			for _, pool := range []string{"a", "c"} {
				assert.Equal(t, []string{"job-" + pool}, w.ledger(pool))
				assert.Equal(t, v1alpha1.ReasonAdmitted, w.reason("job-"+pool))
			}
			assert.Empty(t, w.ledger("b"))
			assert.False(t, w.job("job-b").Admitted(), "the ledger comes first")

			w.operator().pass()
			assert.Equal(t, []string{"job-b"}, w.ledger("b"))
			assert.True(t, w.job("job-b").Admitted())
		})
	}
}

// A node moves to another pool when its job has ended, and the ledger that it leaves cannot be written. What is over there keeps the
// node from no job, and the ledger of the new pool is not written at each pass, which would wake the next one at once.
func TestANodeLeavesAPolicyThatCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	node := newNode("n", map[string]string{"pool": "a"})
	w.create(newPolicy("a", intstr.FromInt32(1), map[string]string{"pool": "a"}), newPolicy("b", intstr.FromInt32(1), map[string]string{"pool": "b"}), node)
	w.queue("job-1", "n")
	w.operator().pass()
	require.Equal(t, []string{"job-1"}, w.ledger("a"))
	w.complete("job-1")
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(node), node))
	node.Labels = map[string]string{"pool": "b"}
	require.NoError(t, w.Update(t.Context(), node))
	w.queue("job-2", "n")

	refused := errors.New("the API server refuses it")
	o := w.operator()
	o.view.Client = stubborn{w.Client, "a", refused}
	for range 2 { // to come to rest
		_, err := o.Reconcile(t.Context(), ctrl.Request{})
		require.ErrorIs(t, err, refused)
	}
	before := w.policy("b").ResourceVersion
	_, err := o.Reconcile(t.Context(), ctrl.Request{})
	require.ErrorIs(t, err, refused, "it is tried again")
	assert.Equal(t, before, w.policy("b").ResourceVersion)
	assert.True(t, w.job("job-2").Admitted())
	assert.Equal(t, []string{"job-2"}, w.ledger("b"))
	assert.Equal(t, []string{"job-1"}, w.ledger("a"))

	w.operator().pass()
	assert.Empty(t, w.ledger("a"))
	assert.Equal(t, []string{"job-2"}, w.ledger("b"))
}
