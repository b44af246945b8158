package kubectl

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
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

// A held node is waited for while a request of a person is on its way, and not once a job under it has failed too.
func TestAHeldNodeIsWaitedForWhileARequestIsOnItsWay(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *nodeFacts)
		ended  bool
	}{
		"nothing was requested":         {func(*nodeFacts) {}, true},
		"a retry":                       {func(f *nodeFacts) { f.retries("r") }, false},
		"a retry whose job failed too":  {func(f *nodeFacts) { f.retries("r"); f.jobs[0].Status.Request = new("r") }, true},
		"a retry after that":            {func(f *nodeFacts) { f.retries("r2"); f.jobs[0].Status.Request = new("r") }, false},
		"a job that is not known under": {func(f *nodeFacts) { f.retries("r"); f.jobs[0].Spec.Task.Request = nil }, false},
		"a release after a failed retry": {func(f *nodeFacts) {
			f.retries("r")
			f.jobs[0].Status.Request, f.node.Spec.Requests.Release = new("r"), "now"
		}, false},
	} {
		f := heldNode()
		c.change(f)
		p := progressOfNode(f.node, []*v1alpha1.FirmwareJob{&f.jobs[0]})
		assert.Equal(t, c.ended, p.end, name)
		assert.False(t, p.well, name)
	}
}

// What no later answer mends ends the wait; what may pass is waited for.
func TestAWaitEndsWhereNothingMayBeRead(t *testing.T) {
	f := heldNode()
	f.node.Status.HeldBy = ""
	missing := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Details: &metav1.StatusDetails{}}}
	for name, c := range map[string]struct {
		get, list error
		says      string
	}{
		"the object may not be read":      {get: forbids("nodefirmwares"), says: "forbidden"},
		"its jobs may not be read":        {list: forbids("firmwarejobs"), says: "forbidden"},
		"the kind is gone":                {get: missing, says: ""},
		"the object is gone":              {get: apierrors.NewNotFound(schema.GroupResource{Resource: "nodefirmwares"}, "n"), says: "node/n is gone"},
		"the API server does not answer":  {get: errors.New("connection refused")},
		"it does not answer for the jobs": {list: errors.New("connection refused")},
	} {
		api := world(t, interceptor.Funcs{
			Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				if c.get != nil {
					return c.get
				}
				return api.Get(ctx, key, o, options...)
			},
			List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if c.list != nil {
					return c.list
				}
				return api.List(ctx, list, options...)
			},
		}, objects(f)...)
		s := &session{IOStreams: genericiooptions.IOStreams{Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}, flags: genericclioptions.NewConfigFlags(true)}
		p, err := s.look(t.Context(), api, f.node)
		passes := strings.Contains(name, "does not answer")
		assert.Equal(t, passes, err == nil, name)
		assert.False(t, p.end, name)
		if err != nil {
			assert.ErrorContains(t, err, c.says, name)
			assert.Equal(t, name == "the object is gone", strings.HasSuffix(err.Error(), "is gone"), name)
		}
	}
}
