package job

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// R003-6: what a person gives a step reaches the record of the job, and what the step does not take ends the job before it begins.
func TestArgumentsAndDeadlineOfARequestAreOnRecord(t *testing.T) {
	catalog, err := plan.NewCatalog(nil, plan.Definition{Kind: "scrub", Interface: "sim", Changes: true, Arguments: []string{"level"}})
	require.NoError(t, err)
	of := func(s v1alpha1.RequestedStep) step.Record {
		device := v1alpha1.NodeDevice{}
		device.Name, device.Status.Class = "n1-disk0", v1alpha1.ClassDisk
		device.Status.Firmware = &v1alpha1.ObservedFirmware{Driver: "sim"}
		o := &v1alpha1.FirmwareJob{}
		o.Spec.Task = v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{s}}
		r := &Reconciler{Catalog: catalog}
		return r.newJob(state{object: o, devices: map[string]v1alpha1.NodeDevice{device.Name: device}}).Record
	}
	record := of(v1alpha1.RequestedStep{Name: "scrub", Device: "n1-disk0", Deadline: "12h", Arguments: []v1alpha1.StepArgument{{Name: "level", Value: "full"}}})
	require.Nil(t, record.Failure)
	scrub := record.Steps[2]
	require.Equal(t, plan.Kind("scrub"), scrub.Kind)
	assert.Equal(t, []plan.Argument{{Name: "level", Value: "full"}}, scrub.Arguments)
	assert.Equal(t, 12*time.Hour, scrub.Deadline)

	refused := of(v1alpha1.RequestedStep{Name: "scrub", Arguments: []v1alpha1.StepArgument{{Name: "depth", Value: "3"}}})
	require.NotNil(t, refused.Failure)
	assert.Equal(t, step.StepFailed, refused.Failure.Reason)
	assert.Contains(t, refused.Failure.Message, "step scrub takes no argument depth; it takes level")
	assert.Empty(t, refused.Steps)
}
