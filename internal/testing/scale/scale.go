package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// Options say how large the fleet is.
type Options struct {
	// Nodes is the number of Nodes, each with 8 devices.
	Nodes int
	// Operator is the binary of firmware-operator.
	Operator string
	// Dir keeps the API's data and the operator's log.
	Dir string
	// QuietPeriod is the operator's flag of this name.
	QuietPeriod time.Duration
	// JobDuration is how long a played daemon takes for a job.
	JobDuration time.Duration
	// Rest is how long the operator is watched after the rollout.
	Rest time.Duration
	// Out receives a line for each part of the run.
	Out io.Writer
}

// run is one run in progress.
type run struct {
	Options
	began time.Time
	plane *controlplane.ControlPlane
	// background is what goes on until the end of the run.
	background sync.WaitGroup
	// silence stops the daemons and returns when they have.
	silence  func()
	fleet    fleet
	seen     *seen
	daemons  *daemons
	operator operator
	audit    *audit
	report   Report
}

// Run measures one rollout over a fleet, from bare Nodes to the rest after it.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if o.Nodes < 1 {
		return nil, fmt.Errorf("measure a fleet of %d nodes: choose at least 1", o.Nodes)
	}
	r := &run{Options: o, began: time.Now(), seen: newSeen()}
	account := "system:serviceaccount:" + cluster.Namespace + ":" + cluster.OperatorAccount
	r.plane, err = controlplane.Start(ctx, controlplane.Options{
		DataDir: filepath.Join(o.Dir, "controlplane"), Out: o.Out, AuditUsers: []string{account},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.plane.Stop()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.background.Wait()
	defer cancel()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	defer r.operator.kill()
	for _, part := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"creating Nodes and devices", r.fleet.seed},
		{"starting the operator, which creates NodeFirmwares", r.create},
		{"assigning firmware", r.assign},
		{"restarting the operator", r.restart},
		{"rolling out", r.rollOut},
		{"resting", r.rest},
		{"stopping the operator", r.stop},
		{"writing as much without the operator", r.writePlainly},
	} {
		fmt.Fprintf(o.Out, "%4.0f s: %s …\n", time.Since(r.began).Seconds(), part.name)
		if err := part.do(ctx); err != nil {
			return nil, err
		}
	}
	return &r.report, nil
}

// prepare installs the product and starts the watches of the loader.
func (r *run) prepare(ctx context.Context) error {
	access := r.plane.Config()
	access.QPS, access.UserAgent = -1, "firmware-lab-scale"
	c, err := client.New(access, client.Options{Scheme: cluster.Scheme()})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	if err := cluster.Install(ctx, c); err != nil {
		return err
	}
	r.fleet = newFleet(c, r.Nodes)
	r.report.Nodes, r.report.Devices, r.report.Templates = r.Nodes, r.Nodes*devicesPerNode, r.fleet.templates
	objects, err := ctrlcache.New(access, ctrlcache.Options{Scheme: cluster.Scheme()})
	if err != nil {
		return fmt.Errorf("make watches: %w", err)
	}
	r.background.Go(func() { _ = objects.Start(ctx) })
	r.daemons = newDaemons(c, objects, r.seen, r.JobDuration)
	if err := r.daemons.watch(ctx, objects); err != nil {
		return err
	}
	kubeconfig, err := r.kubeconfig(ctx, c)
	if err != nil {
		return err
	}
	r.operator = operator{binary: r.Operator, dir: r.Dir, kubeconfig: kubeconfig, quietPeriod: r.QuietPeriod}
	return r.fleet.allow(ctx)
}

// kubeconfig is the access of the operator's own service account.
func (r *run) kubeconfig(ctx context.Context, c client.Client) (string, error) {
	pod, err := cluster.RunPod(ctx, c, "firmware-operator", cluster.OperatorAccount, "control-plane")
	if err != nil {
		return "", err
	}
	token, err := cluster.PodToken(ctx, c, pod)
	if err != nil {
		return "", err
	}
	server, path := r.plane.Config(), filepath.Join(r.Dir, "kubeconfig")
	return path, controlplane.WriteAccess(path, server.Host, server.CAData, &clientcmdapi.AuthInfo{Token: token})
}

// await waits until the watches have shown something.
func (r *run) await(ctx context.Context, what string, is func(s *seen) bool) error {
	var failed error
	err := r.operator.await(ctx, what, func() bool {
		select {
		case failed = <-r.daemons.failed:
			return true
		default:
			return r.seen.has(is)()
		}
	})
	return errors.Join(err, failed)
}

func since(t time.Time) float64 { return time.Since(t).Seconds() }

// counted adds what the operator wrote since the last call to the conflicts of the run, and returns the rest.
func (r *run) counted() (writes, error) {
	w, err := r.audit.next()
	r.report.Conflicts += w.conflicts
	return w, err
}
