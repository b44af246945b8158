package lab

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// Member is a machine as a member of the cluster: its Node with a workload, its kubelet and the access of its daemon's
// pod.
type Member struct {
	Kubelet *cluster.Kubelet
	// Token reaches the API server, ImageToken the operator's image server.
	Token, ImageToken string
}

// Join registers a machine that runs outside the lab, or finds its Node.
func (l *Lab) Join(ctx context.Context, name string, labels map[string]string) (*Member, error) {
	m := &Member{Kubelet: &cluster.Kubelet{Client: l.admin, Node: name, Labels: labels}}
	if _, err := m.Kubelet.Register(ctx); err != nil {
		return nil, err
	}
	if err := m.Kubelet.StartWorkload(ctx); err != nil {
		return nil, err
	}
	pod, err := cluster.RunPod(ctx, l.admin, podOf(name), cluster.DaemonAccount, name)
	if err != nil {
		return nil, err
	}
	if m.Token, err = cluster.PodToken(ctx, l.admin, pod); err != nil {
		return nil, err
	}
	m.ImageToken, err = cluster.PodToken(ctx, l.admin, pod, v1alpha1.ImageTokenAudience)
	return m, err
}

// podOf is the name of the pod of a node's daemon.
func podOf(node string) string { return "firmware-daemon-" + node }

// Admin reaches the API as its administrator.
func (l *Lab) Admin() client.WithWatch { return l.admin }

// APIServer is the address of the API server, and the certificates that authenticate it.
func (l *Lab) APIServer() (url string, ca []byte) {
	config := l.plane.Config()
	return config.Host, config.CAData
}

// ImageServer is the address of the operator's image server, and the file with the certificates that authenticate it.
func (l *Lab) ImageServer() (address, caFile string) { return l.imageAddress, l.imageCA() }
