package realnode

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
)

// plane is the control plane: the programs of a cluster's first node, with the authorization and the admission plugins that a
// cluster has by default, and all controllers.
type plane struct {
	*controlplane.ControlPlane
	authority *controlplane.Authority
	dir       string
}

// serverURL is where the API server is reached.
const serverURL = "https://" + apiAddress

// startPlane starts it in this process' namespaces, with its files in the directory. It returns when the API answers.
func startPlane(ctx context.Context, dir string, stepLimit time.Duration) (*plane, error) {
	ca, err := controlplane.NewAuthority(filepath.Join(dir, "pki"))
	if err != nil {
		return nil, err
	}
	if err := ca.Issue("kubelet-client", "kube-apiserver-kubelet-client", []string{"system:masters"}); err != nil {
		return nil, err
	}
	p := &plane{authority: ca, dir: dir}
	p.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{DataDir: dir, Cluster: &controlplane.Cluster{
		Address: apiAddress, Authority: ca, StartTimeout: stepLimit, Flags: []string{
			"--service-cluster-ip-range=" + serviceRange, "--service-account-issuer=https://kubernetes.default.svc",
			"--kubelet-client-certificate=" + ca.CertFile("kubelet-client"), "--kubelet-client-key=" + ca.KeyFile("kubelet-client"),
			"--kubelet-preferred-address-types=InternalIP", "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		},
	}})
	if err != nil {
		return nil, err
	}
	if err := p.startControllers(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// startControllers starts the controllers and the scheduler, in place of those that run.
func (p *plane) startControllers(ctx context.Context) error {
	ca, manager, scheduler := p.authority, filepath.Join(p.dir, "controller-manager.conf"), filepath.Join(p.dir, "scheduler.conf")
	return errors.Join(
		ca.Kubeconfig(serverURL, manager, "system:kube-controller-manager"), ca.Kubeconfig(serverURL, scheduler, "system:kube-scheduler"),
		p.StartProgram(ctx, controlplane.ControllerManager, "--kubeconfig="+manager, "--leader-elect=false", "--secure-port=0",
			"--use-service-account-credentials", "--root-ca-file="+ca.CAFile(), "--service-account-private-key-file="+ca.KeyFile("accounts")),
		p.StartProgram(ctx, controlplane.Scheduler, "--kubeconfig="+scheduler, "--leader-elect=false", "--secure-port=0"),
	)
}

// restore serves the API again after an outage, in which the controllers have ended, or will when they notice it.
func (p *plane) restore(ctx context.Context) error {
	return errors.Join(p.StartAPIServer(), p.startControllers(ctx))
}
