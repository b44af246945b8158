package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/trim"
)

const (
	// lease is the name of the Lease for leader election.
	lease = "node-firmware-operator"
	// grace is how long a running reconciliation may take after the signal to stop.
	grace = 20 * time.Second
)

// Run runs the operator until the context ends. It waits for an API server that does not answer; it fails when the
// product's kinds are not installed, when it cannot listen on an address, or when it loses leadership: the process then
// ends so that nothing acts on an outdated view. c must be valid. Jobs are executed by the strategy that c names, one
// of known.
func Run(ctx context.Context, c config.Operator, known []Strategy, log *slog.Logger) error {
	chosen, err := choose(c.UpdateStrategies, known)
	if err != nil {
		return err
	}
	access, err := restConfig(c.Kubeconfig)
	if err != nil {
		return err
	}
	api, err := discovery.NewDiscoveryClientForConfig(access)
	if err != nil {
		return fmt.Errorf("make discovery client: %w", err)
	}
	if err := awaitAPI(ctx, api, log); err != nil {
		return ignoreStop(ctx, err)
	}
	mgr, err := newManager(access, c, slog.New(stopLog{log.Handler(), ctx}))
	if err != nil {
		return err
	}
	stop, err := wire(ctx, mgr, c, chosen)
	defer stop()
	if err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run manager: %w", err)
	}
	return nil
}

// ignoreStop returns nil instead of the error when the context has ended.
func ignoreStop(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// restConfig sets no client-side rate limit: the API server's priority and fairness decides the pace.
func restConfig(kubeconfig string) (*rest.Config, error) {
	var access *rest.Config
	var err error
	if kubeconfig == "" {
		access, err = rest.InClusterConfig()
	} else {
		access, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("load access to the API server (outside a pod, name a file with --kubeconfig): %w", err)
	}
	access.QPS = -1
	return rest.AddUserAgent(access, v1alpha1.FieldOwnerOperator), nil
}

func newManager(access *rest.Config, c config.Operator, log *slog.Logger) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), maintenancev1alpha1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	mgr, err := ctrl.NewManager(access, manager.Options{
		Scheme:                  scheme,
		Logger:                  logr.FromSlogHandler(log.Handler()),
		LeaderElection:          c.LeaderElect,
		LeaderElectionID:        lease,
		LeaderElectionNamespace: c.Namespace,
		// Right because the process ends when the manager has stopped.
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       ptr.To(grace),
		HealthProbeBindAddress:        c.ProbeAddress,
		PprofBindAddress:              "0",
		Metrics: metricsserver.Options{
			BindAddress: c.MetricsAddress, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization,
			TLSOpts: []func(*tls.Config){func(t *tls.Config) { t.NextProtos = []string{"http/1.1"} }}, // HTTP/2 off
		},
		Cache: cache.Options{
			DefaultTransform: trim.Object,
			// Watched only where a strategy creates pods, and only those.
			ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {
				Namespaces: map[string]cache.Config{c.Namespace: {}}, Label: jobPods(),
			}},
		},
		// The image server needs one Secret and one ConfigMap; a cache would watch all of them in the cluster.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
		Controller: ctrlconfig.Controller{
			SkipNameValidation: ptr.To(true), // Run may be called again in one process
			// Stopped while it hands out an item, the priority queue of controller-runtime v0.24.1 blocks for ever with its locks
			// held: a worker left GetWithPriority and is still counted as waiting. The stop then fails after the grace period.
			// v0.25.2 is the first known without that (kubernetes-sigs/controller-runtime#3538); switch the queue on with it.
			UsePriorityQueue: ptr.To(false),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("make manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("cache", cacheSynced(mgr.GetCache())); err != nil {
		return nil, fmt.Errorf("add readiness check: %w", err)
	}
	return mgr, nil
}

func jobPods() labels.Selector {
	r, err := labels.NewRequirement(v1alpha1.JobPodLabel, selection.Exists, nil)
	if err != nil {
		return labels.Nothing() // the name of the label is a constant
	}
	return labels.NewSelector().Add(*r)
}

// cacheSynced is ready once the cache has its first lists.
func cacheSynced(c cache.Cache) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("the cache is not filled yet")
		}
		return nil
	}
}
