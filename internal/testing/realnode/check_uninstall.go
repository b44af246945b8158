package realnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// hostDirectories are where a product would leave something on a host.
var hostDirectories = []string{"/etc", "/etc/kubernetes", "/etc/kubernetes/manifests", "/etc/systemd/system", "/usr/local", "/var/lib", "/opt", "/boot", "/run/systemd/transient"}

// stays is what docs/install.md says that stays on a node.
var stays = []string{"/var/lib/fwupd", "/var/lib/node-firmware"}

// onHost lists what is in those directories.
func (s *scene) onHost(ctx context.Context) ([]string, error) {
	ran, err := s.node.agent.Run(ctx, append([]string{"find"}, append(slices.Clone(hostDirectories), "-mindepth", "1", "-maxdepth", "1")...)...)
	if err != nil {
		return nil, err
	}
	return strings.Fields(ran.Stdout), nil
}

// uninstalled does what docs/install.md says, in its order.
func uninstalled(ctx context.Context, s *scene) (string, error) {
	for _, args := range []string{
		"delete firmwaretemplates,nodefirmwares --all", "delete firmwarejobs --all", "delete firmwaresources --all", "delete -k " + s.site,
	} {
		if _, err := s.kubectl.run(ctx, append(strings.Fields(args), "--timeout="+s.StepLimit.String())...); err != nil {
			return "", err
		}
	}
	err := s.Until(ctx, "the namespace is gone", func(ctx context.Context) (bool, error) {
		err := s.API.Get(ctx, client.ObjectKey{Name: cluster.Namespace}, &corev1.Namespace{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return "", err
	}
	if ran, err := s.node.agent.Run(ctx, "pgrep", "-f", "firmware-(daemon|operator)|labflash"); err != nil || ran.ExitCode != 1 {
		return "", errors.Join(fmt.Errorf("processes are left on the node: %s", ran.Stdout), err)
	}
	now, err := s.onHost(ctx)
	if err != nil {
		return "", err
	}
	var left []string
	for _, path := range now {
		if !slices.Contains(s.before, path) && !strings.HasPrefix(path, "/boot/lab-flash") {
			left = append(left, path)
		}
	}
	slices.Sort(left)
	if !slices.Equal(left, stays) {
		return "", fmt.Errorf("%q are left on the node, and docs/install.md says %q", left, stays)
	}
	return "what stays: " + strings.Join(left, ", "), nil
}
