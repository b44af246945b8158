package lab

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/child"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// runJobPods acts as the kubelet for the pods that execute jobs on the node, until the context ends: it starts their
// processes, restarts failed ones, and ends those whose pods are deleted.
func (n *Node) runJobPods(ctx context.Context, complain func(format string, args ...any)) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		pods, err := n.kubelet.JobPods(ctx)
		if err != nil {
			return // the API server is unreachable; running processes continue
		}
		for i := range pods {
			if err := n.runJobPod(ctx, &pods[i]); err != nil && ctx.Err() == nil {
				complain("run pod %s on %s: %v", pods[i].Name, n.Name, err)
			}
		}
		n.forgetJobs(pods)
	}, podPoll)
}

// runJobPod takes one pod a step further.
func (n *Node) runJobPod(ctx context.Context, pod *corev1.Pod) error {
	p, off := n.jobProcess(pod.UID)
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case off:
		return nil
	case pod.DeletionTimestamp != nil:
		if p != nil {
			p.Stop(stopGrace)
		}
		return n.kubelet.RemovePod(ctx, pod)
	case ended:
		return nil
	case p == nil:
		return n.startJob(ctx, pod)
	case p.Running():
		return nil
	case p.Err() == nil:
		return n.kubelet.ReportPod(ctx, pod, corev1.PodSucceeded)
	}
	return n.startJob(ctx, pod) // restartPolicy OnFailure
}

func (n *Node) startJob(ctx context.Context, pod *corev1.Pod) error {
	kubeconfig, err := n.access(ctx, pod)
	if err != nil {
		return err
	}
	args := slices.Concat(cluster.Args(pod), n.local, n.keys, []string{"--kubeconfig=" + kubeconfig})
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.off {
		return nil
	}
	if n.jobs[pod.UID], err = child.Start(fmt.Sprintf("pod %s", pod.Name), n.logPath, n.daemonBinary, args...); err != nil {
		delete(n.jobs, pod.UID)
		return err
	}
	if pod.Status.Phase == corev1.PodRunning {
		return nil
	}
	return n.kubelet.ReportPod(ctx, pod, corev1.PodRunning)
}

func (n *Node) jobProcess(uid types.UID) (p *child.Process, off bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.jobs[uid], n.off
}

// forgetJobs drops the processes of pods that are gone, and ends them.
func (n *Node) forgetJobs(pods []corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for uid, p := range n.jobs {
		if !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.UID == uid }) {
			p.Kill()
			delete(n.jobs, uid)
		}
	}
}

// endJobs ends the processes of job pods with the machine, and starts none until it boots.
func (n *Node) endJobs(how func(*child.Process)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.off = true
	for uid, p := range n.jobs {
		how(p)
		delete(n.jobs, uid)
	}
}

// KillJob ends the process of the pod that executes a job with SIGKILL, and reports whether there was one. A write it
// started continues, and the pod is restarted.
func (n *Node) KillJob() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.jobs {
		if p.Running() {
			p.Kill()
			return true
		}
	}
	return false
}
