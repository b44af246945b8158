package realnode

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

func booted(ctx context.Context, s *scene) (string, error) {
	if err := s.Until(ctx, "the Node is Ready", func(ctx context.Context) (bool, error) { return s.nodeReady(ctx, "") }); err != nil {
		return "", err
	}
	var n corev1.Node
	if err := s.API.Get(ctx, client.ObjectKey{Name: nodeName}, &n); err != nil {
		return "", err
	}
	i := n.Status.NodeInfo
	return fmt.Sprintf("Linux %s, kubelet %s, %s", i.KernelVersion, i.KubeletVersion, i.ContainerRuntimeVersion), nil
}

// installed does what docs/install.md says from its second step on.
func installed(ctx context.Context, s *scene) (string, error) {
	var err error
	if s.before, err = s.onHost(ctx); err != nil {
		return "", err
	}
	if err := s.install(ctx, variant{}); err != nil {
		return "", err
	}
	if _, err := s.daemon(ctx, ""); err != nil {
		return "", err
	}
	return "", s.Until(ctx, "the operator's pod is Ready", func(ctx context.Context) (bool, error) {
		list, err := s.pods(ctx, "operator")
		return err == nil && len(list) == 1 && isReady(&list[0]), err
	})
}

func discovered(ctx context.Context, s *scene) (string, error) {
	classes := map[v1alpha1.DeviceClass]int{}
	err := s.Until(ctx, "the devices have objects", func(ctx context.Context) (bool, error) {
		var list v1alpha1.NodeDeviceList
		if err := s.API.List(ctx, &list, client.MatchingFields{"spec.nodeName": nodeName}); err != nil {
			return false, err
		}
		clear(classes)
		for _, d := range list.Items {
			if d.Status.Firmware != nil {
				classes[d.Status.Class]++
			}
		}
		if classes[v1alpha1.ClassBIOS] != 1 || classes[v1alpha1.ClassNIC] != 1 || classes[v1alpha1.ClassDisk] != 3 {
			return false, fmt.Errorf("found %v", classes)
		}
		return true, nil
	})
	return fmt.Sprint(classes), err
}
