package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Program is a program of a cluster that most tests do without. It is built from its Go module when it is first asked
// for; setup-envtest downloads none of them.
type Program struct {
	// Name of the file.
	Name string
	// version of the module, dir of its module file in the checkout, pkg of its main function. A program of Kubernetes has the version and
	// dir of a release, and is stamped with it.
	version, dir, pkg string
	// tags and ldflags it is built with, and about how long that takes.
	tags, ldflags, estimate string
}

// Programs of the control plane beside etcd and kube-apiserver.
var (
	ControllerManager = kubernetes("kube-controller-manager", "about 2 minutes")
	Scheduler         = kubernetes("kube-scheduler", "about 1 minute")
	Kubectl           = kubernetes("kubectl", "about 1 minute")
)

// Programs of a node. Containerd is built without the snapshotters that need C or device mapper.
var (
	Kubelet        = kubernetes("kubelet", "about 10 minutes")
	Containerd     = containerd("containerd", "about 4 minutes")
	ContainerdShim = containerd("containerd-shim-runc-v2", "about 1 minute")
	Ctr            = containerd("ctr", "about 1 minute")
)

func kubernetes(name, estimate string) Program {
	return Program{Name: name, pkg: "k8s.io/kubernetes/cmd/" + name, ldflags: "-s -w", estimate: estimate}
}

// of returns the program at a release, where it is one of Kubernetes.
func (p Program) of(r Release) Program {
	if p.version != "" {
		return p
	}
	r = r.orNewest()
	p.version, p.dir = r.version, r.modules
	p.ldflags += " " + r.versionFlags()
	return p
}

func containerd(name, estimate string) Program {
	return Program{
		Name: name, version: ContainerdVersion, dir: "hack/controlplane/containerd", pkg: "github.com/containerd/containerd/v2/cmd/" + name,
		tags: "no_btrfs,no_devmapper,no_zfs", ldflags: "-s -w -X github.com/containerd/containerd/v2/version.Version=" + ContainerdVersion,
		estimate: estimate,
	}
}

// Program returns the path of a program: beside the other programs of a directory that the user names, or in the cache. It is
// built where neither has it, once for all processes that ask at the same time. A program of Kubernetes is of the newest release.
func (l *Locator) Program(ctx context.Context, p Program) (string, error) {
	p = p.of(Newest())
	built := filepath.Join(l.programDir(p), p.Name)
	for _, path := range []string{filepath.Join(l.Assets, p.Name), built} {
		if filepath.IsAbs(path) && checkProgram(path) == nil {
			return path, nil
		}
	}
	if l.ModuleRoot == "" {
		return "", fmt.Errorf("find %s: neither KUBEBUILDER_ASSETS nor the cache has it, and there is no checkout to build it from", p.Name)
	}
	if err := os.MkdirAll(l.CacheDir, 0o755); err != nil {
		return "", fmt.Errorf("create cache directory: %w", err)
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if checkProgram(built) == nil {
		return built, nil // another process has built it
	}
	if err := l.removeInterrupted(); err != nil {
		return "", err
	}
	return built, l.buildOne(ctx, p)
}

func (l *Locator) buildOne(ctx context.Context, p Program) error {
	tmp, err := os.MkdirTemp(l.CacheDir, "build-")
	if err != nil {
		return fmt.Errorf("create directory for the build: %w", err)
	}
	defer removeAll(tmp)
	if err := l.buildProgram(ctx, tmp, p); err != nil {
		return err
	}
	return l.publish(tmp, l.programDir(p))
}

// programDir is where a program is kept that was built by itself.
func (l *Locator) programDir(p Program) string {
	return filepath.Join(l.CacheDir, fmt.Sprintf("%s-%s-%s-%s", strings.TrimPrefix(p.Name, "kube-"), p.version, runtime.GOOS, runtime.GOARCH))
}
