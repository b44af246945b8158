package trial

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Part is one device of the machine.
type Part struct {
	// Rule names the rule of the template, and begins the names of the sources.
	Rule     string
	Selector v1alpha1.DeviceSelector
}

// is reports whether the device is the part.
func (p Part) is(d *v1alpha1.NodeDeviceStatus) bool {
	among := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	return d.Class == p.Selector.Class && among(p.Selector.Models, d.Model) && among(p.Selector.SerialNumbers, d.SerialNumber)
}

// Target is the desired firmware of one part.
type Target struct {
	Part
	Version string
	Image   []byte
}

// templateName is the one template of a lab.
const templateName = "lab"

// Node is the one node of a lab, with the firmware of its devices.
type Node struct {
	API  client.Client
	Name string
	// Publish puts a file where the operator fetches it, and returns its URL.
	Publish func(name string, content []byte) (url string, err error)
	// Machine is what runs now: a power cut replaces it.
	Machine func() Machine
	// StepLimit bounds each wait for one thing; zero for the context alone.
	StepLimit time.Duration

	// last is the newest job of the checks before.
	last string
}

// Device is the status of a part in the API, or nil before it was read.
func (n *Node) Device(ctx context.Context, p Part) (*v1alpha1.NodeDeviceStatus, error) {
	var list v1alpha1.NodeDeviceList
	if err := n.API.List(ctx, &list, client.MatchingFields{"spec.nodeName": n.Name}); err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	for i := range list.Items {
		if d := &list.Items[i].Status; p.is(d) && d.Firmware != nil {
			return d, nil
		}
	}
	return nil, nil
}

// Declare publishes images and assigns all of them in one change. The desired firmware of other devices stays. The jobs that there were
// until now are none of Job.
func (n *Node) Declare(ctx context.Context, targets ...Target) error {
	if job, err := n.Job(ctx); err != nil {
		return err
	} else if job != nil {
		n.last = job.Name
	}
	t := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: templateName}}
	missing := n.API.Get(ctx, client.ObjectKeyFromObject(t), t)
	if client.IgnoreNotFound(missing) != nil {
		return fmt.Errorf("read template: %w", missing)
	}
	t.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: n.Name}}
	for _, w := range targets {
		source, err := n.declareSource(ctx, w)
		if err != nil {
			return err
		}
		t.Spec.Rules = append(slices.DeleteFunc(t.Spec.Rules, func(r v1alpha1.FirmwareRule) bool { return r.Name == w.Rule }), v1alpha1.FirmwareRule{
			Name: w.Rule, Selector: w.Selector, Version: w.Version, SourceRef: v1alpha1.SourceReference{Name: source},
		})
	}
	var err error
	if missing == nil {
		err = n.API.Update(ctx, t)
	} else {
		err = n.API.Create(ctx, t)
	}
	if err != nil {
		return fmt.Errorf("declare template: %w", err)
	}
	return nil
}

// declareSource publishes an image and declares its source, whose name it returns. An image that was declared before stays.
func (n *Node) declareSource(ctx context.Context, w Target) (string, error) {
	source := strings.ToLower(w.Rule + "-" + w.Version)
	url, err := n.Publish(source, w.Image)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(w.Image)
	image := v1alpha1.ImageDescription{Class: w.Selector.Class, Models: w.Selector.Models, Version: w.Version}
	if len(image.Models) == 0 { // the template names the device by its serial number
		image.Vendor = v1alpha1.AnyVendor
	}
	err = n.API.Create(ctx, &v1alpha1.FirmwareSource{
		ObjectMeta: metav1.ObjectMeta{Name: source},
		Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{
			URL: url, Digest: v1alpha1.Digest("sha256:" + hex.EncodeToString(sum[:])),
			Images: []v1alpha1.ImageDescription{image},
		}}},
	})
	if client.IgnoreAlreadyExists(err) != nil {
		return "", fmt.Errorf("declare source %s: %w", source, err)
	}
	return source, nil
}

// Job is the newest job that was not there at the last declaration, or nil.
func (n *Node) Job(ctx context.Context) (*v1alpha1.FirmwareJob, error) {
	var list v1alpha1.FirmwareJobList
	if err := n.API.List(ctx, &list, client.MatchingFields{"spec.nodeName": n.Name}); err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	var newest *v1alpha1.FirmwareJob
	for i := range list.Items {
		if newest == nil || newest.CreationTimestamp.Before(&list.Items[i].CreationTimestamp) {
			newest = &list.Items[i]
		}
	}
	if newest == nil || newest.Name == n.last {
		return nil, nil
	}
	return newest, nil
}

// Ended waits until the job has ended, in whatever way, and returns it.
func (n *Node) Ended(ctx context.Context) (*v1alpha1.FirmwareJob, error) {
	var job *v1alpha1.FirmwareJob
	err := n.Until(ctx, "the job ends", func(ctx context.Context) (bool, error) {
		var err error
		job, err = n.Job(ctx)
		return job != nil && job.Ended(), err
	})
	if err != nil {
		return job, fmt.Errorf("%w; %s", err, Describe(job))
	}
	return job, nil
}

// Complete waits until the job is done, the node takes pods again and the NodeDevices show the versions, and returns the job.
func (n *Node) Complete(ctx context.Context, targets ...Target) (*v1alpha1.FirmwareJob, error) {
	job, err := n.Ended(ctx)
	if err != nil {
		return job, err
	}
	if !meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionComplete) {
		return job, fmt.Errorf("the job did not complete: %s", Describe(job))
	}
	if err := n.InService(ctx); err != nil {
		return job, err
	}
	for _, w := range targets {
		if err := n.Runs(ctx, w.Part, w.Version); err != nil {
			return job, err
		}
	}
	return job, nil
}

// InService waits until the node takes pods.
func (n *Node) InService(ctx context.Context) error {
	return n.Until(ctx, "the node takes pods", func(ctx context.Context) (bool, error) {
		var node corev1.Node
		err := n.API.Get(ctx, client.ObjectKey{Name: n.Name}, &node)
		return err == nil && !node.Spec.Unschedulable, err
	})
}

// Runs waits until a part runs a version, as its NodeDevice shows.
func (n *Node) Runs(ctx context.Context, p Part, version string) error {
	seen := "nothing that can be read"
	err := n.Until(ctx, p.Rule+" runs "+version, func(ctx context.Context) (bool, error) {
		d, err := n.Device(ctx, p)
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

// Describe describes the state of a job, which may be nil.
func Describe(job *v1alpha1.FirmwareJob) string {
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
