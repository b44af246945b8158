package realnode

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/vm/trial"
)

// The static pod of a guard (docs/adr/0030), on the host and as the kubelet shows it in the API.
const (
	guardManifest = "node-firmware-guard.yaml"
	guardPod      = "node-firmware-guard-" + nodeName
)

// guardThere reports whether the kubelet has the static pod of a guard.
func (s *scene) guardThere(ctx context.Context) (bool, error) {
	ran, err := s.node.agent.Run(ctx, "ls", "/etc/kubernetes/manifests")
	return strings.Contains(ran.Stdout, guardManifest), err
}

// adapterUpdated updates the adapter, whose image runs after a reboot, and calls while during the write, with the id of the boot.
func (s *scene) adapterUpdated(ctx context.Context, version string, while func(ctx context.Context, boot string) error) (string, error) {
	if err := s.hurry(ctx); err != nil {
		return "", err
	}
	w := toolTarget(adapter, version, writeTime)
	before, err := s.node.flash(ctx, w.key)
	if err != nil {
		return "", err
	}
	boot, err := s.boot(ctx)
	if err != nil {
		return "", err
	}
	if err := s.Declare(ctx, w.Target); err != nil {
		return "", err
	}
	if _, err := s.writing(ctx); err != nil {
		return "", err
	}
	if err := s.guardRuns(ctx); err != nil {
		return "", err
	}
	if err := while(ctx, boot); err != nil {
		return "", err
	}
	if err = s.completed(ctx, w, writes{1, 1}, before); err != nil {
		return "", err
	}
	err = s.Until(ctx, "the guard is gone", func(ctx context.Context) (bool, error) {
		there, err := s.guardThere(ctx)
		if err != nil || there {
			return false, err
		}
		err = s.API.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: guardPod}, &corev1.Pod{})
		return client.IgnoreNotFound(err) == nil && err != nil, client.IgnoreNotFound(err)
	})
	return before.Running + " to " + version, err
}

// guardRuns requires that the kubelet runs the guard, and that the job says that it and the node's gateway are there, before the write can need it.
func (s *scene) guardRuns(ctx context.Context) error {
	there, err := s.guardThere(ctx)
	if err != nil {
		return err
	}
	job, err := s.Job(ctx)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("the write began without a guard: %s", trial.Describe(job))
	}
	if job == nil || !meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionProtected) {
		return fmt.Errorf("the job does not say that it has a guard and that the gateway %s, to which the adapter leads, is watched: %s", hostAddress, trial.Describe(job))
	}
	return s.Until(ctx, "the guard's pod runs", func(ctx context.Context) (bool, error) {
		var p corev1.Pod
		err := s.API.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: guardPod}, &p)
		return err == nil && p.Status.Phase == corev1.PodRunning, err
	})
}

// ownReboot lets the job reboot the node by itself.
func ownReboot(ctx context.Context, s *scene) (string, error) {
	return s.adapterUpdated(ctx, "2.0.0", func(ctx context.Context, boot string) error { return s.back(ctx, boot) })
}

// silentReboot lets the node boot while there is no API server: the kubelet runs its static pods, of which the guard is one, and no
// other. The API server is back when the guard runs.
func silentReboot(ctx context.Context, s *scene) (string, error) {
	return s.adapterUpdated(ctx, "2.1.0", func(ctx context.Context, boot string) error {
		err := s.Until(ctx, "the machine goes down", func(ctx context.Context) (bool, error) {
			_, err := s.boot(ctx)
			return err != nil, nil
		})
		if err != nil {
			return err
		}
		if err := s.plane.StopAPIServer(); err != nil {
			return err
		}
		err = s.Until(ctx, "the machine has booted again", func(ctx context.Context) (bool, error) {
			now, err := s.boot(ctx)
			return err == nil && now != boot, err
		})
		if err == nil {
			err = s.Until(ctx, "the kubelet starts the guard, and no daemon", func(ctx context.Context) (bool, error) {
				guards, err := s.node.agent.Run(ctx, "pgrep", "-f", "firmware-daemon guard")
				if err != nil || guards.ExitCode != 0 {
					return false, err
				}
				daemons, err := s.node.agent.Run(ctx, "pgrep", "-f", "firmware-daemon run")
				if err == nil && daemons.ExitCode == 0 {
					err = fmt.Errorf("a daemon runs without the API server: %s", daemons.Stdout)
				}
				return err == nil, err
			})
		}
		if restored := s.plane.restore(ctx); err == nil {
			err = restored
		}
		if err != nil {
			return err
		}
		return s.back(ctx, boot)
	})
}
