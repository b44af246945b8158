package job

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/health"
)

// Advise emits an event of the running job with the message of an executable in wanted.d, once for each transition. Nothing is
// decided by it. It is for health.Checks and does not block.
func (r *Reconciler) Advise(a health.Advice) {
	current, ok := r.Engine.Current()
	if !ok {
		return
	}
	kind := corev1.EventTypeNormal
	if a.Failing {
		kind = corev1.EventTypeWarning
	}
	about := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: current.Job.Name, UID: types.UID(current.Job.UID)}}
	r.Recorder.Eventf(about, nil, kind, v1alpha1.ReasonHealthAdvice, "Check", "%s", a.Message)
}
