package kubectl

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// An interrupt while the object is read is one too, whatever was read.
func TestAnInterruptIsNoEnd(t *testing.T) {
	kinds, err := scheme()
	require.NoError(t, err)
	j := heldNode().jobs[0].DeepCopy()
	s := &session{IOStreams: genericiooptions.IOStreams{Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}}
	api := fake.NewClientBuilder().WithScheme(kinds).WithObjects(j).Build()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	assert.ErrorIs(t, s.wait(ctx, api, j, 0), context.Canceled)
}
