package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
)

// strategyVariable is the variable of the manifests that names the update strategy.
const strategyVariable = "UPDATE_STRATEGY"

// InstallPodStrategy applies what the update strategy pod needs beyond Install: its roles and policies, the file of
// handlers, and the DaemonSet its pods are made after, which says that it has the strategy.
func InstallPodStrategy(ctx context.Context, c client.Client, handlersFile string) error {
	text, err := os.ReadFile(handlersFile)
	if err != nil {
		return fmt.Errorf("read handlers: %w", err)
	}
	handlers := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": Namespace, "name": "node-firmware-pod-handlers"},
		"data": map[string]any{"handlers.yaml": string(text)},
	}}
	roles, err := deploy.Objects(deploy.PodStrategy)
	if err != nil {
		return err
	}
	daemon, err := deploy.Objects(deploy.Daemon)
	if err != nil {
		return err
	}
	for _, o := range daemon {
		var ds appsv1.DaemonSet
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &ds); err != nil {
			return fmt.Errorf("read daemon set: %w", err)
		}
		env := ds.Spec.Template.Spec.Containers[0].Env
		for i := range env {
			if env[i].Name == strategyVariable {
				env[i].Value = config.StrategyPod
			}
		}
		if o.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&ds); err != nil {
			return fmt.Errorf("change daemon set: %w", err)
		}
	}
	return Apply(ctx, c, append(append(roles, handlers), daemon...)...)
}

// JobPods lists the pods that execute jobs on the node.
func (k *Kubelet) JobPods(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := k.Client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": k.Node}, client.HasLabels{v1alpha1.JobPodLabel}); err != nil {
		return nil, fmt.Errorf("list job pods of %s: %w", k.Node, err)
	}
	return pods.Items, nil
}

// ReportPod sets the phase of a pod.
func (k *Kubelet) ReportPod(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) error {
	before := pod.DeepCopy()
	pod.Status.Phase = phase
	if err := k.Client.Status().Patch(ctx, pod, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("report pod %s: %w", pod.Name, err)
	}
	return nil
}

// RemovePod removes a pod that has ended.
func (k *Kubelet) RemovePod(ctx context.Context, pod *corev1.Pod) error {
	if err := client.IgnoreNotFound(k.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))); err != nil {
		return fmt.Errorf("remove pod %s: %w", pod.Name, err)
	}
	return nil
}

// Args are the arguments of the pod's only container, with the variables in them replaced as a kubelet does.
func Args(pod *corev1.Pod) []string {
	c := pod.Spec.Containers[0]
	var pairs []string
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value = map[string]string{
				"spec.nodeName": pod.Spec.NodeName, "metadata.namespace": pod.Namespace, "metadata.name": pod.Name,
			}[e.ValueFrom.FieldRef.FieldPath]
		}
		pairs = append(pairs, "$("+e.Name+")", value)
	}
	var out []string
	for _, a := range c.Args {
		out = append(out, strings.NewReplacer(pairs...).Replace(a))
	}
	return out
}
