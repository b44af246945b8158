package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
	"github.com/nodefirmware/node-firmware-operator/internal/controller/storedversion"
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
	return run(ctx, c, known, storedVersions(), log)
}

func run(ctx context.Context, c config.Operator, known []Strategy, stored storedversion.Options, log *slog.Logger) error {
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
	stop, err := wire(ctx, mgr, c, chosen, stored)
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
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), maintenancev1alpha1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
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

// leaseLost is the error with which the manager reports that it leads no longer, also when it gave its lease back because the
// process ends.
const leaseLost = "leader election lost"

// stopLog is a log in which it is no error that the process ends: neither the lease that is given back, nor the requests that
// are cancelled, whose work the next process does.
type stopLog struct {
	slog.Handler
	stop context.Context
}

// Handle passes the record on.
func (l stopLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelError || l.stop.Err() == nil {
		return l.Handler.Handle(ctx, r)
	}
	switch err := errorOf(r); {
	case err == nil:
	case err.Error() == leaseLost:
		r = slog.NewRecord(r.Time, slog.LevelInfo, "Gave the lease of the leader back", r.PC)
	case errors.Is(err, context.Canceled):
		r = slog.NewRecord(r.Time, slog.LevelInfo, "Left to the next process", r.PC)
		r.AddAttrs(slog.String("err", err.Error()))
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs keeps the rule.
func (l stopLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return stopLog{l.Handler.WithAttrs(attrs), l.stop}
}

// WithGroup keeps the rule.
func (l stopLog) WithGroup(name string) slog.Handler {
	return stopLog{l.Handler.WithGroup(name), l.stop}
}

// errorOf is the first error among the attributes of the record; nil when there is none.
func errorOf(r slog.Record) (err error) {
	r.Attrs(func(a slog.Attr) bool {
		err, _ = a.Value.Any().(error)
		return err == nil
	})
	return err
}

// Strategy is one way of having jobs executed on their nodes. Whatever executes a job reports it in the status of the
// FirmwareJob; nothing else in the operator depends on the strategy.
type Strategy interface {
	// Name is what --update-strategy says.
	Name() string
	// SetupWithManager adds what the operator itself has to do for it. It fails when the strategy is not fully configured.
	SetupWithManager(mgr manager.Manager) error
}

// choose returns the one strategy that is named. It fails when none or more than one is, or when it is not known.
func choose(named []string, known []Strategy) (Strategy, error) {
	var names []string
	for _, s := range known {
		names = append(names, s.Name())
	}
	all := strings.Join(names, ", ")
	switch len(named) {
	case 0:
		return nil, fmt.Errorf("--update-strategy is missing: name exactly one of %s", all)
	case 1:
	default:
		return nil, fmt.Errorf("--update-strategy names %d strategies (%s): name exactly one of %s; one operator executes all jobs in one way",
			len(named), strings.Join(named, ", "), all)
	}
	for _, s := range known {
		if s.Name() == named[0] {
			return s, nil
		}
	}
	return nil, fmt.Errorf("--update-strategy %q is not known: name exactly one of %s", named[0], all)
}

// Daemon leaves the jobs of each node to the daemon there, which finds them by itself.
type Daemon struct{}

// Name is that of the strategy.
func (Daemon) Name() string { return config.StrategyDaemon }

// SetupWithManager has nothing to add.
func (Daemon) SetupWithManager(manager.Manager) error { return nil }
