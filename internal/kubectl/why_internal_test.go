package kubectl

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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
