package lab

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// describe logs how devices and jobs stand.
func (l *Lab) describe(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
	defer cancel()
	var devices v1alpha1.NodeDeviceList
	var jobs v1alpha1.FirmwareJobList
	if err := errors.Join(l.admin.List(ctx, &devices), l.admin.List(ctx, &jobs)); err != nil {
		t.Log(err)
	}
	line := func(o client.Object, conditions []metav1.Condition, about string) {
		for _, c := range conditions {
			about += fmt.Sprintf("\n    %s=%s %s %s: %s", c.Type, c.Status, c.LastTransitionTime.Format(time.TimeOnly), c.Reason, c.Message)
		}
		t.Logf("%s, created %s, deleted %s: %s", o.GetName(), o.GetCreationTimestamp().Format(time.TimeOnly), o.GetDeletionTimestamp(), about)
	}
	for i := range devices.Items {
		d := &devices.Items[i]
		desired, running := "nothing", "unknown"
		if d.Spec.Firmware != nil {
			desired = d.Spec.Firmware.Version
		}
		if d.Status.Firmware != nil {
			running = d.Status.Firmware.Running + " (" + d.Status.Firmware.Stored + ")"
		}
		line(d, d.Status.Conditions, fmt.Sprintf("%s desired, %s running, last failure %+v", desired, running, d.Status.Failure))
	}
	for i := range jobs.Items {
		j := &jobs.Items[i]
		line(j, j.Status.Conditions, fmt.Sprintf("%s of %d devices on %s", j.Spec.Task.Type, len(j.Spec.Task.Devices), j.Spec.NodeName))
	}
}
