package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
)

// act ends the jobs that cannot be executed, removes the pods that are not needed, and makes the one that is missing.
func (r *Reconciler) act(ctx context.Context, f facts, d decision) error {
	var errs []error
	for i := range d.unhandled {
		errs = append(errs, r.refuse(ctx, f, &d.unhandled[i]))
	}
	if j := d.stranded; j != nil {
		r.recorder.Eventf(j, nil, corev1.EventTypeWarning, v1alpha1.ReasonNoRunner, "Execute",
			"The job cannot continue: no handler is configured for %s any more. Add the handler to the file of the operator's --pod-handlers again and restart the operator: %s",
			status.MachineName(f.firmware.Status.Machine), wayout.Handlers(r.namespace))
	}
	for i := range d.remove {
		errs = append(errs, r.remove(ctx, &d.remove[i]))
	}
	if d.create != nil {
		errs = append(errs, r.create(ctx, f, *d.create))
	}
	return errors.Join(errs...)
}

// refuse fails a job that has not begun. A job that was written to meanwhile is looked at again.
func (r *Reconciler) refuse(ctx context.Context, f facts, j *v1alpha1.FirmwareJob) error {
	now := metav1.NewTime(f.now)
	s := j.Status.DeepCopy()
	s.Conditions = status.JobNoHandler(r.namespace, f.node, f.firmware.Status.Machine, s.Conditions, j.Generation, now.Time)
	s.CompletionTime = &now
	switch err := fieldset.ApplyEnd(ctx, r.client, j, *s); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // its event follows
		return nil
	case err != nil:
		return fmt.Errorf("fail firmware job that no handler is for: %w", err)
	}
	r.recorder.Eventf(j, nil, corev1.EventTypeWarning, v1alpha1.ReasonNoRunner, "Execute",
		"No handler is configured for %s of node %s.", status.MachineName(f.firmware.Status.Machine), f.node)
	return nil
}

func (r *Reconciler) remove(ctx context.Context, p *corev1.Pod) error {
	uid := p.UID
	err := r.client.Delete(ctx, p, client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s: %w", p.Name, err)
	}
	return nil
}

// create makes the pod after the DaemonSet as it is now.
func (r *Reconciler) create(ctx context.Context, f facts, w work) error {
	pod, err := r.pod(ctx, f, w)
	if err == nil {
		err = r.client.Create(ctx, pod, client.FieldOwner(v1alpha1.FieldOwnerOperator))
	}
	job := f.job(w.uid)
	switch {
	case apierrors.IsAlreadyExists(err): // the cache is behind, or an earlier one is about to go; its event follows
		return nil
	case err != nil && job != nil:
		r.recorder.Eventf(job, nil, corev1.EventTypeWarning, v1alpha1.ReasonNoRunner, "Execute", "%v", err)
		fallthrough
	case err != nil:
		return fmt.Errorf("make pod of firmware job %s: %w", w.name, err)
	}
	if job != nil {
		r.recorder.Eventf(job, pod, corev1.EventTypeNormal, v1alpha1.ReasonProgressing, "Execute",
			"Pod %s/%s executes the job with the image %s.", pod.Namespace, pod.Name, w.handler.Image)
	}
	return nil
}

func (r *Reconciler) pod(ctx context.Context, f facts, w work) (*corev1.Pod, error) {
	var ds appsv1.DaemonSet
	if err := r.direct.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: r.daemonSet}, &ds); err != nil {
		return nil, fmt.Errorf("read the daemon set its pod is made after: %w", err)
	}
	return newPod(&ds, w, f.firmware)
}

const (
	// jobAnnotation holds the name of the job, which may be too long for a label.
	jobAnnotation = "nodefirmware.io/job-name"
	// handlerArgsAnnotation holds what the handler adds to the arguments of the daemons, one a line. An admission policy compares it with
	// the file of handlers, and the arguments of the pod with it.
	handlerArgsAnnotation = "nodefirmware.io/handler-args"
	// maxPodName bounds the name of a pod.
	maxPodName = 253
)

// podName is the same for the same job, so that two pods are not made because the cache is stale. A job without an object
// has no uid here; the name of its pod is made from the node and differs from that of every other job.
func podName(node, job, uid string) string {
	if uid == "" {
		job += "." + node
	}
	name := "firmware-job-" + job
	if len(name) <= maxPodName {
		return name
	}
	sum := sha256.Sum256([]byte(job))
	return strings.TrimRight(name[:maxPodName-9], ".-") + "-" + hex.EncodeToString(sum[:4])
}

// newPod is a pod like those of the DaemonSet, with the same mounts, rights and settings, that executes one job and runs
// the image of the handler. It is owned by the NodeFirmware and not by the job, so that deleting a job does not end what
// the job began.
func newPod(ds *appsv1.DaemonSet, w work, owner *v1alpha1.NodeFirmware) (*corev1.Pod, error) {
	at := slices.IndexFunc(ds.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return len(c.Args) > 0 && c.Args[0] == "run" })
	if at < 0 {
		return nil, fmt.Errorf("daemon set %s has no container whose arguments begin with run", ds.Name)
	}
	spec := ds.Spec.Template.Spec.DeepCopy()
	c := spec.Containers[at]
	if s := updateStrategy(c); s != config.StrategyPod {
		return nil, fmt.Errorf("the daemon set %s runs with --update-strategy=%s and the operator with %s: give both the same, "+
			"and restart the daemons; until then they execute the jobs themselves", ds.Name, s, config.StrategyPod)
	}
	c.Image = w.handler.Image
	c.Args = slices.Concat([]string{"job", "--name=" + w.name}, c.Args[1:], w.handler.Args,
		[]string{"--health-probe-bind-address=0", "--metrics-bind-address=0"}) // the daemon of the node listens there
	annotations := map[string]string{jobAnnotation: w.name}
	if len(w.handler.Args) > 0 {
		annotations[handlerArgsAnnotation] = strings.Join(w.handler.Args, "\n")
	}
	c.Ports, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil, nil
	spec.Containers = []corev1.Container{c} // another one would keep the pod from ending
	spec.NodeName = owner.Name              // the node is cordoned, and no scheduler is asked
	spec.RestartPolicy = corev1.RestartPolicyOnFailure
	spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ds.Namespace, Name: podName(owner.Name, w.name, w.uid),
			Labels: map[string]string{
				"app.kubernetes.io/name": "node-firmware-operator", "app.kubernetes.io/component": "job", v1alpha1.JobPodLabel: w.uid,
			},
			Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeFirmware", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true),
			}},
		},
		Spec: *spec,
	}, nil
}

// updateStrategy is the strategy in the arguments of a daemon's container; the last one counts. A value may come from the
// container's environment.
func updateStrategy(c corev1.Container) string {
	out := config.StrategyDaemon
	for _, arg := range c.Args {
		if value, ok := strings.CutPrefix(arg, "--update-strategy="); ok {
			out = value
		}
	}
	for _, e := range c.Env {
		out = strings.ReplaceAll(out, "$("+e.Name+")", e.Value)
	}
	return out
}
