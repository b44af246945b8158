package job_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// people counts how often it is read what people want, and fails with the error.
type people struct {
	client.Reader
	reads int
	err   error
}

func (p *people) Get(ctx context.Context, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if p.reads++; p.err != nil {
		return p.err
	}
	return p.Reader.Get(ctx, k, o, opts...)
}

// Without an answer a job waits. What people want is read once, and nothing of it at rest.
func TestPeopleAreAskedOnce(t *testing.T) {
	d := newDaemon(t)
	p := &people{Reader: d.env.Client}
	d.r.Reader = p
	d.create("j", d.Add(inventory.Disk, "disk0", inventory.ActivateNone))
	require.NoError(t, d.reconcile("j"))
	assert.Zero(t, p.reads, "it is not admitted")
	d.admit("j")
	p.err = errors.New("no route to host")
	require.ErrorContains(t, d.reconcile("j"), "see what people want")
	d.work()
	assert.Empty(t, d.Sim.Operations())
	assert.Nil(t, condition(d.get("j"), v1alpha1.ConditionFailed))

	p.reads, p.err = 0, nil
	require.NoError(t, d.reconcile("j"))
	assert.Equal(t, 4, p.reads, "the Node, its NodeFirmware, a template and a source")
	d.work()
	require.NoError(t, d.reconcile("j"))
	require.NotNil(t, condition(d.get("j"), v1alpha1.ConditionComplete), "%+v", d.get("j").Status)
	require.NoError(t, d.reconcile("j"))
	assert.Equal(t, 4, p.reads)
}

func TestDeletedTemplateEndsTheJob(t *testing.T) {
	d := newDaemon(t)
	o := d.create("j", d.Add(inventory.Disk, "disk0", inventory.ActivateNone))
	d.admit("j")
	require.NoError(t, d.env.Client.Delete(t.Context(), &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: o.Spec.Task.Devices[0].Name}}))
	require.NoError(t, d.reconcile("j"))
	d.work()
	require.NoError(t, d.reconcile("j"))
	assert.Empty(t, d.Sim.Operations())
	failed := condition(d.get("j"), v1alpha1.ConditionFailed)
	require.NotNil(t, failed)
	assert.Equal(t, v1alpha1.ReasonJobRejected, failed.Reason)
	assert.Contains(t, failed.Message, "no longer wanted")
	assert.Empty(t, d.get("j").Status.Blamed)
	assert.False(t, d.get("j").Held())
}
