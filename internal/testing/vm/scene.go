package vm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
)

// scene is the environment of the checks.
type scene struct {
	lab  *lab.Lab
	api  client.WithWatch
	node *node
	base base
	// options are those of the run.
	options Options
	// last is the newest job of the checks before.
	last string
}

// agent asks the machine.
func (s *scene) agent() *guest.Client { return s.node.machine.agent }

// part is one device of the machine.
type part struct {
	// rule names the rule of the template, and begins the names of the sources.
	rule     string
	selector v1alpha1.DeviceSelector
}

// is reports whether the device is the part.
func (p part) is(d *v1alpha1.NodeDeviceStatus) bool {
	among := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	return d.Class == p.selector.Class && among(p.selector.Models, d.Model) && among(p.selector.SerialNumbers, d.SerialNumber)
}

// target is the desired firmware of one part.
type target struct {
	part
	version string
	image   []byte
}

// templateName is the one template of the lab.
const templateName = "lab-vm"

// declare publishes images and assigns all of them in one change. The desired firmware of other devices stays.
func (s *scene) declare(ctx context.Context, targets ...target) error {
	if job, err := s.job(ctx); err != nil {
		return err
	} else if job != nil {
		s.last = job.Name
	}
	t := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: templateName}}
	missing := s.api.Get(ctx, client.ObjectKeyFromObject(t), t)
	if client.IgnoreNotFound(missing) != nil {
		return fmt.Errorf("read template: %w", missing)
	}
	t.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/hostname": nodeName}}
	for _, w := range targets {
		source, err := s.publish(ctx, w)
		if err != nil {
			return err
		}
		t.Spec.Devices = append(slices.DeleteFunc(t.Spec.Devices, func(r v1alpha1.DeviceRule) bool { return r.Name == w.rule }), v1alpha1.DeviceRule{
			Name: w.rule, Selector: w.selector, Version: w.version, SourceRef: v1alpha1.SourceReference{Name: source},
		})
	}
	var err error
	if missing == nil {
		err = s.api.Update(ctx, t)
	} else {
		err = s.api.Create(ctx, t)
	}
	if err != nil {
		return fmt.Errorf("declare template: %w", err)
	}
	return nil
}

// publish puts an image where the operator fetches it and declares its source, whose name it returns.
func (s *scene) publish(ctx context.Context, w target) (string, error) {
	source := strings.ToLower(w.rule + "-" + w.version)
	path := filepath.Join(s.lab.ImageDir(), source)
	if err := os.WriteFile(path, w.image, 0o644); err != nil {
		return "", fmt.Errorf("write image: %w", err)
	}
	sum := sha256.Sum256(w.image)
	err := s.api.Create(ctx, &v1alpha1.FirmwareSource{
		ObjectMeta: metav1.ObjectMeta{Name: source},
		Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{
			URL: "file://" + path, SHA256: hex.EncodeToString(sum[:]), Format: v1alpha1.FormatImage,
			Images: []v1alpha1.ImageDescription{{Class: w.selector.Class, Models: w.selector.Models, Version: w.version}},
		}}},
	})
	if client.IgnoreAlreadyExists(err) != nil {
		return "", fmt.Errorf("declare source %s: %w", source, err)
	}
	return source, nil
}

// device is the status of a part in the API, or nil before it was read.
func (s *scene) device(ctx context.Context, p part) (*v1alpha1.NodeDeviceStatus, error) {
	var list v1alpha1.NodeDeviceList
	if err := s.api.List(ctx, &list, client.MatchingFields{"spec.nodeName": nodeName}); err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	for i := range list.Items {
		if d := &list.Items[i].Status; p.is(d) && d.Firmware != nil {
			return d, nil
		}
	}
	return nil, nil
}

// runs waits until a part runs a version.
func (s *scene) runs(ctx context.Context, p part, version string) error {
	seen := "nothing that can be read"
	err := s.until(ctx, p.rule+" runs "+version, func() (bool, error) {
		d, err := s.device(ctx, p)
		if d != nil {
			seen = d.Firmware.Running
		}
		return d != nil && d.Firmware.Running == version, err
	})
	if err != nil {
		return fmt.Errorf("%w; it runs %s", err, seen)
	}
	return nil
}

// job is the newest job that no check before has seen, or nil.
func (s *scene) job(ctx context.Context) (*v1alpha1.FirmwareJob, error) {
	var list v1alpha1.FirmwareJobList
	if err := s.api.List(ctx, &list, client.MatchingFields{"spec.nodeName": nodeName}); err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	var newest *v1alpha1.FirmwareJob
	for i := range list.Items {
		if newest == nil || newest.CreationTimestamp.Before(&list.Items[i].CreationTimestamp) {
			newest = &list.Items[i]
		}
	}
	if newest == nil || newest.Name == s.last {
		return nil, nil
	}
	return newest, nil
}

// complete waits until the job is done and the node is back in service, and returns the job.
func (s *scene) complete(ctx context.Context) (*v1alpha1.FirmwareJob, error) {
	var job *v1alpha1.FirmwareJob
	err := s.until(ctx, "the job ends", func() (bool, error) {
		var err error
		job, err = s.job(ctx)
		return job != nil && job.Ended(), err
	})
	if err != nil {
		return job, err
	}
	if !meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionComplete) {
		return job, fmt.Errorf("the job did not complete: %s", describe(job))
	}
	return job, s.inService(ctx)
}

// failed waits until the job has failed, and returns it.
func (s *scene) failed(ctx context.Context) (*v1alpha1.FirmwareJob, error) {
	var job *v1alpha1.FirmwareJob
	err := s.until(ctx, "the job fails", func() (bool, error) {
		var err error
		job, err = s.job(ctx)
		return job != nil && job.Ended(), err
	})
	if err == nil && !job.Failed() {
		err = fmt.Errorf("the job did not fail: %s", describe(job))
	}
	return job, err
}

// reason says why a job failed.
func reason(job *v1alpha1.FirmwareJob) string {
	c := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionFailed)
	if c == nil {
		return ""
	}
	return c.Reason + ", " + c.Message
}

// inService requires that the node holds no maintenance and takes pods.
func (s *scene) inService(ctx context.Context) error {
	return s.until(ctx, "the node is back in service", func() (bool, error) {
		var maintenances maintenancev1alpha1.NodeMaintenanceList
		if err := s.api.List(ctx, &maintenances); err != nil {
			return false, err
		}
		var n corev1.Node
		if err := s.api.Get(ctx, client.ObjectKey{Name: nodeName}, &n); err != nil {
			return false, err
		}
		return len(maintenances.Items) == 0 && !n.Spec.Unschedulable, nil
	})
}

// pollPeriod is how often a check reads from the API what it waits for.
const pollPeriod = 250 * time.Millisecond

// until waits for a condition. An error of the condition ends the wait.
func (s *scene) until(ctx context.Context, what string, condition func() (bool, error)) error {
	for {
		ok, err := condition()
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("wait until %s: %w", what, err)
		}
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		case <-s.node.machine.Done():
			return fmt.Errorf("wait until %s: %w", what, errors.New("the machine turned off"))
		case <-time.After(pollPeriod):
		}
	}
}

// describe describes the state of a job.
func describe(job *v1alpha1.FirmwareJob) string {
	var b strings.Builder
	fmt.Fprintf(&b, "job %s:", job.Name)
	for _, c := range job.Status.Conditions {
		fmt.Fprintf(&b, " %s=%s(%s)", c.Type, c.Status, c.Reason)
		if c.Message != "" && c.Status == metav1.ConditionTrue {
			fmt.Fprintf(&b, " %q", c.Message)
		}
	}
	for _, st := range job.Status.Steps {
		fmt.Fprintf(&b, "\n    %s %s %s attempt %d %s", st.Name, st.Device, st.State, st.Attempt, st.Message)
	}
	return b.String()
}
