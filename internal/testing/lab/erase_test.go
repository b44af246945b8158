package lab

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/simhost"
)

// R003-4, R003-43: a person erases a drive by naming it and its serial number. Another number erases nothing. The daemon may die meanwhile, and the
// power go: the drive is erased once, and what it held is gone.
func TestErase(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1)
	s := l.scene(t, 0)
	const key, owner = "nvme0", "the data of the last owner. "
	data := bytes.Repeat([]byte(owner), 1<<20/len(owner))
	disk, err := os.OpenFile(s.node.Machine.Disk(key), os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = disk.WriteAt(data, 0)
	require.NoError(t, err)
	require.NoError(t, disk.Close())
	held := func() bool {
		f, err := os.Open(s.node.Machine.Disk(key))
		require.NoError(t, err)
		defer f.Close()
		is := make([]byte, len(data))
		_, err = f.ReadAt(is, 0)
		require.NoError(t, err)
		return bytes.Contains(is, []byte(owner))
	}
	erasures := func() (n int) {
		ops, err := s.node.Machine.Operations()
		require.NoError(t, err)
		for _, op := range ops {
			if op.Action == "Sanitize" {
				assert.Equal(t, key, op.Device)
				n++
			}
		}
		return n
	}
	spec, err := s.node.Machine.Spec()
	require.NoError(t, err)
	require.Equal(t, key, spec.NVMe[0].Key)
	var drive v1alpha1.NodeDevice
	eventually(t, "the drive is discovered", func() bool {
		var devices v1alpha1.NodeDeviceList
		require.NoError(t, l.admin.List(t.Context(), &devices, client.MatchingFields{"spec.nodeName": s.node.Name}))
		i := slices.IndexFunc(devices.Items, func(d v1alpha1.NodeDevice) bool { return d.Status.SerialNumber == spec.NVMe[0].Serial })
		if i >= 0 {
			drive = devices.Items[i]
		}
		return i >= 0
	})
	erase := func(name, serial string) {
		s.steps(name, v1alpha1.RequestedStep{Name: "erase", Device: drive.Name, Arguments: []v1alpha1.StepArgument{
			{Name: "serialNumber", Value: serial}, {Name: "method", Value: "Block"},
		}})
	}
	erase("mistaken", spec.NVMe[1].Serial)
	eventually(t, "the job is refused", func() bool { return s.condition(v1alpha1.ConditionFailed) != "" })
	assert.Contains(t, meta.FindStatusCondition(s.job().Status.Conditions, v1alpha1.ConditionReady).Message,
		"nothing was erased: the drive has the serial number \""+spec.NVMe[0].Serial+"\", and the step names \""+spec.NVMe[1].Serial+
			"\". To run its steps again, create another job with them.")
	assert.False(t, s.kubeNode().Spec.Unschedulable)
	assert.True(t, held())
	assert.Zero(t, erasures())

	require.NoError(t, s.node.Machine.SetFault(simhost.Fault{ID: "slow", Kind: simhost.Hang, Device: key, Operation: "erase"}))
	erase("handover", drive.Status.SerialNumber)
	eventually(t, "the drive erases itself", func() bool { return s.running("erase") && erasures() == 1 })
	s.node.KillDaemon()
	require.NoError(t, s.node.StartDaemon())
	require.NoError(t, s.node.Machine.CutPower())
	require.NoError(t, s.node.Machine.ClearFault("slow"))
	eventually(t, "the drive is erased", func() bool { return s.condition(v1alpha1.ConditionComplete) != "" })
	job := s.job()
	assert.Equal(t, "handover", job.Name)
	last := job.Status.Steps[slices.IndexFunc(job.Status.Steps, func(st v1alpha1.JobStep) bool { return st.Name == "erase" })]
	assert.Regexp(t, `^erased by NVMe sanitize, block erase; log 81h: completed; 64 samples of 4096 bytes, seed 0x[0-9a-f]+: [1-9][0-9]* held data before, none is as it was$`,
		last.Message)
	assert.False(t, held())
	assert.Equal(t, 1, erasures())
	assert.False(t, s.kubeNode().Spec.Unschedulable)

	require.NoError(t, l.admin.Delete(t.Context(), job))
	eventually(t, "the job is gone", func() bool {
		return apierrors.IsNotFound(l.admin.Get(t.Context(), client.ObjectKeyFromObject(job), &v1alpha1.FirmwareJob{}))
	})
	erase("handover", drive.Status.SerialNumber)
	eventually(t, "the manifest that is applied again is refused", func() bool { return s.condition(v1alpha1.ConditionFailed) == v1alpha1.ReasonJobRejected })
	assert.Equal(t, 1, erasures())
}
