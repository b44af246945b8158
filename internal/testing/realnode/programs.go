package realnode

import (
	"context"
	"io"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
)

// Programs are the paths of Kubernetes' and containerd's programs by their names.
type Programs map[string]string

// nodePrograms are those that the machine runs.
var nodePrograms = []controlplane.Program{
	controlplane.Kubelet, controlplane.Containerd, controlplane.ContainerdShim, controlplane.Ctr,
}

// collectPrograms finds all programs, and builds those that are not in the cache.
func collectPrograms(ctx context.Context, progress io.Writer) (Programs, error) {
	locator, err := controlplane.NewLocator(progress)
	if err != nil {
		return nil, err
	}
	if _, err := locator.Locate(ctx); err != nil { // etcd and kube-apiserver, for the run
		return nil, err
	}
	out := Programs{}
	for _, p := range append([]controlplane.Program{controlplane.ControllerManager, controlplane.Scheduler, controlplane.Kubectl}, nodePrograms...) {
		if out[p.Name], err = locator.Program(ctx, p); err != nil {
			return nil, err
		}
	}
	return out, nil
}
