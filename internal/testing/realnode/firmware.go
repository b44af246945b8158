package realnode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/guest"
)

// part is a device of the machine.
type part struct {
	// rule names the rule of the template, and begins the names of the sources.
	rule     string
	selector v1alpha1.DeviceSelector
	// key is the device's name for the lab's tool; empty for a device with firmware of its own.
	key string
}

// The two devices that the lab's tool flashes: the disk runs an image at once, the adapter after a reboot.
var (
	disk    = part{"disk", v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, SerialNumbers: []string{rootSerial}}, rootSerial}
	adapter = part{"adapter", v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Models: []string{"Virtio network device"}}, "eth0"}
)

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

// toolTarget has an image that the lab's tool takes this many seconds to write.
func toolTarget(p part, version string, seconds int) target {
	return target{p, version, fmt.Appendf(nil, "%s\n%d\n", version, seconds)}
}

const templateName = "lab"

// device is the status of a part in the API.
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
	return nil, fmt.Errorf("there is no NodeDevice of the %s with its firmware among %d", p.rule, len(list.Items))
}

// declare publishes an image and assigns it.
func (s *scene) declare(ctx context.Context, w target) error {
	if job, err := s.job(ctx); err != nil {
		return err
	} else if job != nil {
		s.last = job.Name
	}
	d, err := s.device(ctx, w.part)
	if err != nil {
		return err
	}
	name := strings.ToLower(w.rule + "-" + w.version)
	sum := sha256.Sum256(w.image)
	source := &v1alpha1.FirmwareSource{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{
			URL: s.origin.put(name, w.image), SHA256: hex.EncodeToString(sum[:]), Format: v1alpha1.FormatImage,
			Images: []v1alpha1.ImageDescription{{Class: w.selector.Class, Models: []string{d.Model}, Version: w.version}},
		}}},
	}
	if err := s.api.Create(ctx, source); err != nil {
		return fmt.Errorf("declare source %s: %w", name, err)
	}
	t := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: templateName}}
	missing := s.api.Get(ctx, client.ObjectKeyFromObject(t), t)
	if client.IgnoreNotFound(missing) != nil {
		return fmt.Errorf("read template: %w", missing)
	}
	t.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: nodeName}}
	t.Spec.Devices = append(slices.DeleteFunc(t.Spec.Devices, func(r v1alpha1.DeviceRule) bool { return r.Name == w.rule }), v1alpha1.DeviceRule{
		Name: w.rule, Selector: w.selector, Version: w.version, SourceRef: v1alpha1.SourceReference{Name: name},
	})
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

// writing waits until the tool writes to a device, and returns the tool's process.
func (s *scene) writing(ctx context.Context) (int, error) {
	pid := 0
	return pid, s.until(ctx, "the tool writes", func(ctx context.Context) (bool, error) {
		if job, err := s.job(ctx); err == nil && job != nil && job.Ended() {
			return false, fatalf("the job ended before: %s", describe(job))
		}
		ran, err := s.node.agent.Run(ctx, "pgrep", "-o", "-f", guest.FlashTool+" .* write$")
		if err != nil || ran.ExitCode != 0 {
			return false, err
		}
		_, err = fmt.Sscan(ran.Stdout, &pid)
		return err == nil, err
	})
}

// stillWriting requires that the process that writes is the same as before.
func (s *scene) stillWriting(ctx context.Context, pid int) error {
	ran, err := s.node.agent.Run(ctx, "pgrep", "-f", guest.FlashTool+" .* write$")
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(ran.Stdout), fmt.Sprint(pid)) {
		return fmt.Errorf("the process %d that wrote is gone: %q are there", pid, ran.Stdout)
	}
	return nil
}

// writes is how many writes of an image began and how many of them ended.
type writes struct{ begun, ended int }

// completed waits until the job is done, the node takes pods again and the NodeDevice shows the version, and requires that the
// device of the lab's tool runs it after these writes.
func (s *scene) completed(ctx context.Context, w target, want writes, before guest.FlashState) error {
	job, err := s.complete(ctx, w)
	if err != nil {
		return err
	}
	after, err := s.node.flash(ctx, w.key)
	if err != nil {
		return err
	}
	if got := (writes{after.Begun - before.Begun, after.Ended - before.Ended}); after.Running != w.version || got != want {
		return fmt.Errorf("the device runs %s after writes %+v instead of %s after %+v: %s", after.Running, got, w.version, want, describe(job))
	}
	return nil
}

// complete waits until the job is done, the node takes pods again and the NodeDevice shows the version.
func (s *scene) complete(ctx context.Context, w target) (*v1alpha1.FirmwareJob, error) {
	var job *v1alpha1.FirmwareJob
	err := s.until(ctx, "the job ends", func(ctx context.Context) (bool, error) {
		var err error
		job, err = s.job(ctx)
		return job != nil && job.Ended(), err
	})
	if err != nil {
		return job, fmt.Errorf("%w; %s", err, describe(job))
	}
	if !meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionComplete) {
		return job, fmt.Errorf("the job did not complete: %s", describe(job))
	}
	err = s.until(ctx, "the node is back in service", func(ctx context.Context) (bool, error) {
		var n corev1.Node
		err := s.api.Get(ctx, client.ObjectKey{Name: nodeName}, &n)
		return err == nil && !n.Spec.Unschedulable, err
	})
	if err != nil {
		return job, err
	}
	return job, s.runs(ctx, w.part, w.version)
}

// runs waits until the NodeDevice of a part shows a version.
func (s *scene) runs(ctx context.Context, p part, version string) error {
	return s.until(ctx, "the NodeDevice shows "+version, func(ctx context.Context) (bool, error) {
		d, err := s.device(ctx, p)
		return err == nil && d.Firmware.Running == version, err
	})
}

// describe describes the state of a job.
func describe(job *v1alpha1.FirmwareJob) string {
	if job == nil {
		return "there is no job"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "job %s:", job.Name)
	for _, c := range job.Status.Conditions {
		fmt.Fprintf(&b, " %s=%s(%s)", c.Type, c.Status, c.Reason)
		if c.Message != "" {
			fmt.Fprintf(&b, " %q", c.Message)
		}
	}
	for _, st := range job.Status.Steps {
		fmt.Fprintf(&b, "\n    %s %s %s attempt %d %s", st.Name, st.Device, st.State, st.Attempt, st.Message)
	}
	return b.String()
}
