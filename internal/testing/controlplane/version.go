package controlplane

import (
	"fmt"
	"os"
	"strings"
)

// Versions of the control plane. hack/controlplane pins the same ones in its Go modules.
const (
	// KubernetesVersion is the version of kube-apiserver that everything runs on by default.
	KubernetesVersion = "v1.36.3"
	// OldestKubernetesVersion is the last patch release of the oldest minor version that docs/install.md promises.
	OldestKubernetesVersion = "v1.32.13"
	// EtcdVersion is the version of etcd, under each version of kube-apiserver.
	EtcdVersion = "v3.7.3"
	// ContainerdVersion is the version of containerd, on nodes that have a kubelet.
	ContainerdVersion = "v2.2.1"
)

// Release is a version of Kubernetes whose programs can be downloaded or built. The zero value is the newest.
type Release struct {
	version string
	// modules is the directory of the module file that pins the version.
	modules string
}

// Newest is the release that everything runs on by default.
func Newest() Release {
	return Release{version: KubernetesVersion, modules: "hack/controlplane/kubernetes"}
}

// Oldest is the oldest release that the product supports.
func Oldest() Release {
	return Release{version: OldestKubernetesVersion, modules: "hack/controlplane/kubernetes-oldest"}
}

// ParseRelease reads the name of a release: "newest", which is also what no name means, or "oldest".
func ParseRelease(name string) (Release, error) {
	switch name {
	case "", "newest":
		return Newest(), nil
	case "oldest":
		return Oldest(), nil
	default:
		return Release{}, fmt.Errorf("parse release of Kubernetes: want newest or oldest, got %q", name)
	}
}

// StorageMigration are the flags with which the API server that everything runs on has a migration of stored objects of its own, which is off by
// default until Kubernetes 1.37. There are none where it has no such thing.
func StorageMigration() []string {
	if release, err := ParseRelease(os.Getenv(ReleaseVariable)); err != nil || release != Newest() {
		return nil
	}
	return []string{"--feature-gates=StorageVersionMigrator=true", "--runtime-config=storagemigration.k8s.io/v1beta1=true"}
}

// String is the version, such as "v1.36.3".
func (r Release) String() string { return r.orNewest().version }

// orNewest replaces the zero value.
func (r Release) orNewest() Release {
	if r == (Release{}) {
		return Newest()
	}
	return r
}

// minor is the major and minor version, such as "1.36".
func (r Release) minor() string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(r.String(), "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return major + "." + minor
}
