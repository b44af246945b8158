package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
)

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
