package lab

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

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
	s.stores(key, data)
	held := func() bool { return s.holds(key, owner) }
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
	certificates := s.certificates()
	require.Len(t, certificates, 1, "a job goes when it has its certificate")
	record := certificates[0].Spec.Record
	assert.Equal(t, drive.Status.SerialNumber, record.SerialNumber)
	assert.Equal(t, "handover", record.Job)
	assert.Equal(t, job.Annotations[v1alpha1.ConsentedByAnnotation], record.ConsentedBy)
	assert.NotEmpty(t, record.ConsentedBy)
	assert.Regexp(t, `^log page 81h: SPROG [0-9A-F]{4}h, SSTAT 0101h, SCDW10 0000000Ah$`, record.Log)
	erase("handover", drive.Status.SerialNumber)
	eventually(t, "the manifest that is applied again is refused", func() bool { return s.condition(v1alpha1.ConditionFailed) == "True "+v1alpha1.ReasonJobRejected })
	assert.Equal(t, 1, erasures())
	assert.Equal(t, certificates, s.certificates(), "they outlive the job, and what erased nothing has none")
}

// R003-43: a SAS drive keeps no log of its erasure. It is told once all the same, over the death of the daemon and a loss of power, and the certificate says
// what was seen.
func TestEraseSASDrive(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1)
	s := l.scene(t, 0)
	const key, owner = "sda", "the data of the last owner. "
	s.stores(key, bytes.Repeat([]byte(owner), 1<<20/len(owner)))
	spec, err := s.node.Machine.Spec()
	require.NoError(t, err)
	told := func() (n int) {
		ops, err := s.node.Machine.Operations()
		require.NoError(t, err)
		for _, op := range ops {
			if op.Action == "Sanitize" && op.Device == key {
				n++
			}
		}
		return n
	}
	var drive v1alpha1.NodeDevice
	eventually(t, "the drive is discovered", func() bool {
		var devices v1alpha1.NodeDeviceList
		require.NoError(t, l.admin.List(t.Context(), &devices, client.MatchingFields{"spec.nodeName": s.node.Name}))
		i := slices.IndexFunc(devices.Items, func(d v1alpha1.NodeDevice) bool { return d.Status.SerialNumber == spec.SCSI[0].Serial })
		if i >= 0 {
			drive = devices.Items[i]
		}
		return i >= 0
	})
	require.NoError(t, s.node.Machine.SetFault(simhost.Fault{ID: "slow", Kind: simhost.Hang, Device: key, Operation: "erase"}))
	s.steps("handover", v1alpha1.RequestedStep{Name: "erase", Device: drive.Name, Arguments: []v1alpha1.StepArgument{{Name: "serialNumber", Value: spec.SCSI[0].Serial}}})
	// A percentage is shown from the second sight of it on: the first one is in the journal by then. The fault keeps it from ending, however often it is read.
	eventually(t, "the drive is seen while it erases itself", func() bool {
		return s.running("erase") && slices.ContainsFunc(s.job().Status.Steps, func(st v1alpha1.JobStep) bool {
			return st.ProgressPercent != nil && st.Message == "the drive erases itself by SCSI sanitize, crypto erase"
		})
	})
	assert.Equal(t, 1, told())
	s.node.KillDaemon()
	require.NoError(t, s.node.StartDaemon())
	require.NoError(t, s.node.Machine.CutPower())
	require.NoError(t, s.node.Machine.ClearFault("slow"))
	eventually(t, "the drive is erased", func() bool { return s.condition(v1alpha1.ConditionComplete) != "" })
	assert.False(t, s.holds(key, owner))
	assert.Equal(t, 1, told())
	eventually(t, "it is certified", func() bool { return len(s.certificates()) == 1 })
	record := s.certificates()[0].Spec.Record
	assert.Equal(t, "SCSI sanitize, crypto erase", record.Method)
	assert.Equal(t, "no log; seen in progress (sense 02h/04h/1Bh), then no more (sense 00h/00h/00h)", record.Log)
	assert.Positive(t, record.HeldData)
}

// certificates are those of all drives of the node that were erased.
func (s *scene) certificates() []v1alpha1.SanitizationCertificate {
	s.t.Helper()
	out, err := s.lab.certified(s.t.Context(), s.node.Name, time.Time{})
	require.NoError(s.t, err)
	return out
}

// stores has a drive of the node store the data.
func (s *scene) stores(key string, data []byte) {
	s.t.Helper()
	require.NoError(s.t, s.node.store(key, data))
}

// holds reports whether the beginning of what a drive of the node stores has the text in it.
func (s *scene) holds(key, text string) bool {
	s.t.Helper()
	is, err := s.node.stores(key, text)
	require.NoError(s.t, err)
	return is
}

// R003-43, R003-53: a node that leaves service has the drives erased that its policy names, once a person consented in it. While the policy names
// another number of drives than the node has, nothing is erased, and the node says why.
func TestANodeLeavesErased(t *testing.T) {
	t.Parallel()
	l := startLab(t, 1)
	s := l.scene(t, 0)
	spec, err := s.node.Machine.Spec()
	require.NoError(t, err)
	const owner = "the data of the last owner. "
	var serials []string
	for _, d := range spec.NVMe {
		serials = append(serials, d.Serial)
		s.stores(d.Key, bytes.Repeat([]byte(owner), 1<<20/len(owner)))
	}
	eventually(t, "the drives are discovered", func() bool {
		var devices v1alpha1.NodeDeviceList
		require.NoError(t, l.admin.List(t.Context(), &devices, client.MatchingFields{"spec.nodeName": s.node.Name}))
		n := 0
		for _, d := range devices.Items {
			if slices.Contains(serials, d.Status.SerialNumber) {
				n++
			}
		}
		return n == len(serials) && l.admin.Get(t.Context(), client.ObjectKey{Name: s.node.Name}, &v1alpha1.NodeFirmware{}) == nil
	})
	all := int32(len(serials)) //nolint:gosec // a handful
	p, err := l.handoverPolicy(t.Context(), s.node.Name, serials)
	require.NoError(t, err)
	p.Spec.Steps[0].Expect[0].Count = new(all + 1)
	require.NoError(t, l.admin.Create(t.Context(), p))
	s.patchNode(func(n *v1alpha1.NodeFirmware) { n.Spec.Service = v1alpha1.NodeOutOfService })
	eventually(t, "the node has another number of drives", func() bool { return is(s.clean()) == "False "+v1alpha1.ReasonNoMatch })
	assert.Contains(t, s.clean().Message, fmt.Sprintf("names %d drives, and the node has %d such", all+1, all))
	assert.Nil(t, s.job())
	require.NoError(t, l.edit(t.Context(), p, func() { p.Spec.Steps[0].Expect[0].Count = &all }))
	eventually(t, "the node is clean", func() bool { return is(s.clean()) == "True "+v1alpha1.ReasonSucceeded })
	for _, d := range spec.NVMe {
		assert.False(t, s.holds(d.Key, owner), d.Key)
	}
	erased := 0
	for _, st := range s.job().Status.Steps {
		if st.Name == "erase" {
			erased++
			assert.Contains(t, st.Message, "none is as it was")
		}
	}
	assert.Equal(t, len(serials), erased)
	eventually(t, "the drives are certified", func() bool { return len(s.certificates()) == len(serials) })
	for _, c := range s.certificates() {
		assert.Contains(t, serials, c.Spec.Record.SerialNumber)
		assert.Equal(t, "handover", c.Spec.Record.CleaningPolicy)
		assert.NotEmpty(t, c.Spec.Record.ConsentedBy)
	}
}
