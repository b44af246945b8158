package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// emitted is what was emitted last.
type emitted struct {
	regarding, related runtime.Object
	note               string
}

func (e *emitted) Eventf(regarding, related runtime.Object, _, _, _, note string, args ...any) {
	e.regarding, e.related, e.note = regarding, related, fmt.Sprintf(note, args...)
}

func TestEventsAreAboutWhatTheAdmissionPolicyAllows(t *testing.T) {
	long := strings.Repeat("n", 250)
	for _, tc := range []struct {
		node, job string
		own       bool
	}{
		{"n1", "n1-b7390f32", true}, {"n1", "n1-scan", false}, {"n1", "n11-b7390f32", false}, {"n1", "n2-b7390f32", false},
		{long, long[:244] + "-b7390f32", true}, {long, "scan", false},
	} {
		scheme, err := Scheme()
		assert.NoError(t, err)
		firmware := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: tc.node, UID: "u"}}
		job := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: tc.job}}
		got := &emitted{}
		recorder := ownEvents{EventRecorder: got, reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(firmware).Build(), node: tc.node}
		recorder.Eventf(job, nil, "Normal", "R", "A", "%s", "note")
		if tc.own {
			assert.Equal(t, emitted{job, nil, "note"}, *got, tc.job)
			continue
		}
		assert.Equal(t, firmware.UID, got.regarding.(client.Object).GetUID(), "%s: describe finds it by the uid", tc.job)
		assert.Equal(t, job, got.related, tc.job)
	}
}

// The API server refuses an event whose note is longer, and what goes on in the job was clipped to just that.
func TestTheNoteAboutAJobWithAnotherNameFitsIntoAnEvent(t *testing.T) {
	scheme, err := Scheme()
	assert.NoError(t, err)
	got := &emitted{}
	recorder := ownEvents{EventRecorder: got, reader: fake.NewClientBuilder().WithScheme(scheme).Build(), node: "n1"}
	job := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}
	recorder.Eventf(job, nil, "Normal", "R", "A", "%s", strings.Repeat("m", 1020)+" end")
	assert.LessOrEqual(t, len(got.note), 1024)
	assert.True(t, strings.HasPrefix(got.note, "Firmware job by-hand: m"))
	assert.True(t, strings.HasSuffix(got.note, " end"))
}
