package v1alpha1_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// A request to update a node or to run steps on it is a FirmwareJob, and the API server's answer to it has a status and a code: what was
// accepted, what is missing, and what was requested already (R000-41, R000-42, R000-43, R000-44, R000-55).
func TestRequestsAreAnsweredWithAStatusAndACode(t *testing.T) {
	env := apitest.New(t)
	steps := func(name string) *v1alpha1.FirmwareJob {
		return &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{NodeName: "n1", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{Name: "verify-firmware"}}}}}
	}
	update := validJob()
	for _, accepted := range []*v1alpha1.FirmwareJob{update, steps("look")} {
		require.NoError(t, env.Client.Create(t.Context(), accepted))
		assert.NotEmpty(t, accepted.UID, "what was accepted can be asked for")
		assert.EqualValues(t, 1, accepted.Generation)
	}
	for name, c := range map[string]struct {
		request *v1alpha1.FirmwareJob
		change  func(*v1alpha1.FirmwareJob)
		code    int32
		reason  metav1.StatusReason
		says    string
	}{
		"an update without a node":       {validJob(), func(o *v1alpha1.FirmwareJob) { o.Spec.NodeName = "" }, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "spec.nodeName"},
		"an update without a list":       {validJob(), func(o *v1alpha1.FirmwareJob) { o.Spec.Task.Devices = nil }, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "spec.task.devices"},
		"steps without a node":           {steps("x"), func(o *v1alpha1.FirmwareJob) { o.Spec.NodeName = "" }, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "spec.nodeName"},
		"steps of devices":               {steps("x"), func(o *v1alpha1.FirmwareJob) { o.Spec.Task.Devices = validJob().Spec.Task.Devices }, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "spec.task.devices"},
		"steps that were requested":      {steps("look"), func(*v1alpha1.FirmwareJob) {}, http.StatusConflict, metav1.StatusReasonAlreadyExists, "look"},
		"an update that was queued once": {validJob(), func(*v1alpha1.FirmwareJob) {}, http.StatusConflict, metav1.StatusReasonAlreadyExists, update.Name},
	} {
		t.Run(name, func(t *testing.T) {
			c.request.Name = map[bool]string{true: c.request.Name, false: "another"}[c.code == http.StatusConflict]
			c.change(c.request)
			err := env.Client.Create(t.Context(), c.request)
			var answer apierrors.APIStatus
			require.ErrorAs(t, err, &answer)
			assert.Equal(t, metav1.StatusFailure, answer.Status().Status)
			assert.Equal(t, c.code, answer.Status().Code)
			assert.Equal(t, c.reason, answer.Status().Reason)
			assert.Contains(t, answer.Status().Message, c.says)
		})
	}
}
