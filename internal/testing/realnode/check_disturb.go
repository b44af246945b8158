package realnode

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// disturbance is what happens to a node while a tool writes to its disk.
type disturbance struct {
	version string
	// begun is how often the image is written, of which all but the last are broken off.
	begun int
	// do disturbs the write of a process. Afterwards the node has a daemon, but for what a check itself waits for.
	do func(ctx context.Context, s *scene, writer int, daemon *corev1.Pod) error
}

// run updates the disk and disturbs the write.
func (d disturbance) run(ctx context.Context, s *scene) (string, error) {
	if err := s.hurry(ctx); err != nil {
		return "", err
	}
	w := toolTarget(disk, d.version, writeTime)
	daemon, err := s.daemon(ctx, "")
	if err != nil {
		return "", err
	}
	before, err := s.node.flash(ctx, w.key)
	if err != nil {
		return "", err
	}
	if err := s.Declare(ctx, w.Target); err != nil {
		return "", err
	}
	writer, err := s.writing(ctx)
	if err != nil {
		return "", err
	}
	if err := d.do(ctx, s, writer, daemon); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s to %s, written %s", before.Running, w.Version, times(d.begun)), s.completed(ctx, w, writes{d.begun, 1}, before)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// forceDeleted takes the pod away as somebody does who does not want to wait.
func forceDeleted(ctx context.Context, s *scene, writer int, daemon *corev1.Pod) error {
	if _, err := s.kubectl.run(ctx, "delete", "pod", "-n", cluster.Namespace, daemon.Name, "--grace-period=0", "--force"); err != nil {
		return err
	}
	return s.replaced(ctx, writer, daemon)
}

// replaced requires that another daemon comes, and that the write goes on until then, or has ended by itself.
func (s *scene) replaced(ctx context.Context, writer int, daemon *corev1.Pod) error {
	if err := s.stillWriting(ctx, writer); err != nil {
		return err
	}
	_, err := s.daemon(ctx, string(daemon.UID))
	return err
}

// outOfMemory takes the memory of the daemon's container away, so that the kernel kills what is in its group.
func outOfMemory(ctx context.Context, s *scene, writer int, daemon *corev1.Pod) error {
	group, err := s.daemonGroup(ctx)
	if err != nil {
		return err
	}
	if err := s.node.agent.Write(ctx, "/sys/fs/cgroup"+group+"/memory.max", "1M"); err != nil {
		return err
	}
	err = s.Until(ctx, "the container was killed for want of memory and runs again", func(ctx context.Context) (bool, error) {
		var p corev1.Pod
		if err := s.API.Get(ctx, client.ObjectKeyFromObject(daemon), &p); err != nil {
			return false, err
		}
		c := p.Status.ContainerStatuses
		return len(c) == 1 && c[0].LastTerminationState.Terminated != nil && c[0].LastTerminationState.Terminated.Reason == "OOMKilled", nil
	})
	return errors.Join(err, s.stillWriting(ctx, writer))
}

// onDelete changes the template of the DaemonSet as it is shipped: nobody replaces the pod.
func onDelete(ctx context.Context, s *scene, writer int, daemon *corev1.Pod) error {
	if _, err := s.kubectl.run(ctx, "rollout", "restart", "-n", cluster.Namespace, "daemonset/firmware-daemon"); err != nil {
		// kubectl refuses it for OnDelete; a new image changes the template as well
		patch := `{"spec":{"template":{"metadata":{"annotations":{"lab":"changed"}}}}}`
		if _, err := s.kubectl.run(ctx, "patch", "-n", cluster.Namespace, "daemonset/firmware-daemon", "-p", patch); err != nil {
			return err
		}
	}
	err := s.Until(ctx, "the controller has seen the change", func(ctx context.Context) (bool, error) {
		out, err := s.kubectl.run(ctx, "get", "daemonset", "-n", cluster.Namespace, "firmware-daemon",
			"-o=jsonpath={.metadata.generation} {.status.observedGeneration} {.status.updatedNumberScheduled}")
		var generation, observed, updated int
		if err == nil {
			_, _ = fmt.Sscan(out, &generation, &observed, &updated) // updated is missing while it is 0
		}
		return observed == generation && updated == 0, err
	})
	if err != nil {
		return err
	}
	return errors.Join(s.sameDaemon(ctx, daemon), s.stillWriting(ctx, writer))
}

// sameDaemon requires that the pod was neither replaced nor restarted.
func (s *scene) sameDaemon(ctx context.Context, daemon *corev1.Pod) error {
	var p corev1.Pod
	if err := s.API.Get(ctx, client.ObjectKeyFromObject(daemon), &p); err != nil {
		return err
	}
	if p.UID != daemon.UID || p.DeletionTimestamp != nil || p.Status.ContainerStatuses[0].RestartCount != daemon.Status.ContainerStatuses[0].RestartCount {
		return fmt.Errorf("the daemon's pod %s was replaced or restarted", daemon.Name)
	}
	return nil
}

// rollingUpdate has the DaemonSet replace its pods, against what is shipped.
func rollingUpdate(ctx context.Context, s *scene, writer int, daemon *corev1.Pod) error {
	patch := `{"spec":{"updateStrategy":{"type":"RollingUpdate"},"template":{"metadata":{"annotations":{"lab":"rolled"}}}}}`
	if _, err := s.kubectl.run(ctx, "patch", "-n", cluster.Namespace, "daemonset/firmware-daemon", "-p", patch); err != nil {
		return err
	}
	err := s.Until(ctx, "the pod is asked to end", func(ctx context.Context) (bool, error) {
		var p corev1.Pod
		err := s.API.Get(ctx, client.ObjectKeyFromObject(daemon), &p)
		return p.DeletionTimestamp != nil || client.IgnoreNotFound(err) == nil && err != nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	if err := s.replaced(ctx, writer, daemon); err != nil {
		return err
	}
	_, err = s.kubectl.run(ctx, "patch", "-n", cluster.Namespace, "daemonset/firmware-daemon", "--type=json",
		"-p", `[{"op":"replace","path":"/spec/updateStrategy","value":{"type":"OnDelete"}}]`)
	return err
}

// restarted restarts a unit of the host.
func restarted(unit string) func(context.Context, *scene, int, *corev1.Pod) error {
	return func(ctx context.Context, s *scene, writer int, daemon *corev1.Pod) error {
		ran, err := s.node.agent.Run(ctx, "systemctl", "restart", unit)
		if err != nil || ran.ExitCode != 0 {
			return errors.Join(fmt.Errorf("restart %s: exit code %d: %s", unit, ran.ExitCode, ran.Stderr), err)
		}
		if err := s.stillWriting(ctx, writer); err != nil {
			return err
		}
		if err := s.Until(ctx, "the Node is Ready", func(ctx context.Context) (bool, error) { return s.nodeReady(ctx, "") }); err != nil {
			return err
		}
		return s.sameDaemon(ctx, daemon)
	}
}

// rebooted has somebody reboot the host in the middle of the write, in order. The host comes back with another configuration, which a
// later check needs and which saves it a reboot.
func rebooted(ctx context.Context, s *scene, _ int, _ *corev1.Pod) error { return s.rebootWithout(ctx) }

// powerCut ends the machine at once, in the middle of the write.
func powerCut(ctx context.Context, s *scene, _ int, _ *corev1.Pod) error {
	boot, err := s.boot(ctx)
	if err != nil {
		return err
	}
	s.node.stop()
	if err := s.node.start(); err != nil {
		return err
	}
	return s.back(ctx, boot)
}

// boot is the id of the machine's boot.
func (s *scene) boot(ctx context.Context) (string, error) {
	state, err := s.node.agent.State(ctx)
	return state.BootID, err
}

// back waits until the node has booted again and has a daemon.
func (s *scene) back(ctx context.Context, before string) error {
	if err := s.Until(ctx, "the machine has booted again", func(ctx context.Context) (bool, error) {
		now, err := s.boot(ctx)
		return err == nil && now != before, err
	}); err != nil {
		return err
	}
	if err := s.Until(ctx, "its Node is Ready again", func(ctx context.Context) (bool, error) { return s.nodeReady(ctx, before) }); err != nil {
		return err
	}
	_, err := s.daemon(ctx, "")
	return err
}
