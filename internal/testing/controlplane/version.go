package controlplane

import "strings"

// Versions of the control plane. hack/controlplane pins the same ones in its Go modules.
const (
	// KubernetesVersion is the version of kube-apiserver.
	KubernetesVersion = "v1.36.3"
	// EtcdVersion is the version of etcd.
	EtcdVersion = "v3.7.3"
	// ContainerdVersion is the version of containerd, on nodes that have a kubelet.
	ContainerdVersion = "v2.2.1"
)

// kubernetesMinor is the major and minor version, such as "1.36".
func kubernetesMinor() string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(KubernetesVersion, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return major + "." + minor
}
