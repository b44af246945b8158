package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/catalog"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/cleaning"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/access"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/node"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/nodecondition"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/planner"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/protection"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/provenance"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/rollout"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/source"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/template"
	"github.com/nodefirmware/node-firmware-operator/internal/drain"
	"github.com/nodefirmware/node-firmware-operator/internal/queue"
	"github.com/nodefirmware/node-firmware-operator/internal/trace"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

// SetupWithManager adds every reconciler to the manager, and the indexes they list by. Images are kept in store; catalogs are read by
// the fetcher. Mark is that of planner.Reconciler.Marking.
func SetupWithManager(ctx context.Context, mgr manager.Manager, c config.Operator, store *artifact.Store, fetcher *artifact.Fetcher, mark func(*v1alpha1.FirmwareJob, []v1alpha1.NodeDevice)) error {
	if err := index.Register(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	recorder := trace.Events{EventRecorder: mgr.GetEventRecorder(v1alpha1.FieldOwnerOperator)}
	sources := &source.Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Store: store, Namespace: c.Namespace, Events: recorder, Now: time.Now}
	queues := queue.New(time.Now)
	said, err := nodeConditions(mgr, c.NodeConditions)
	if err != nil {
		return err
	}
	for name, add := range map[string]func(manager.Manager) error{
		"node":          func(mgr manager.Manager) error { return node.SetupWithManager(mgr, c.Namespace, node.Retention) },
		"template":      func(mgr manager.Manager) error { return template.SetupWithManager(mgr, template.StatusInterval) },
		"planner":       planner.New(mgr.GetClient(), recorder, time.Now, c.QuietPeriod).Within(queues).Marking(mark).SetupWithManager,
		"rollout":       rollout.New(mgr.GetClient(), mgr.GetAPIReader(), recorder, time.Now, c.NodeName).SharingIn(c.Namespace).Draining(c.Maintenance).Within(queues).Expecting(c.ExpectedJobDuration).SetupWithManager,
		"protection":    protection.New(mgr.GetClient(), mgr.GetAPIReader(), recorder, c.Namespace).SetupWithManager,
		"provenance":    provenance.SetupWithManager,
		"nodecondition": func(mgr manager.Manager) error { return nodecondition.SetupWithManager(mgr, said) },
		"source":        sources.SetupWithManager,
		"catalog": func(mgr manager.Manager) error {
			return catalog.SetupWithManager(mgr, catalog.Options{
				Network: fetcher, Access: access.Reader{Client: mgr.GetAPIReader(), Namespace: c.Namespace}, Events: recorder,
			})
		},
		"cleaning":   cleaning.New(mgr.GetClient(), mgr.GetAPIReader(), recorder, time.Now).SetupWithManager,
		"quarantine": quarantine.New(mgr.GetClient(), recorder, time.Now).SetupWithManager,
	} {
		if err := add(mgr); err != nil {
			return fmt.Errorf("set up %s controller: %w", name, err)
		}
	}
	return addMaintenance(mgr, c)
}

// nodeConditions are those of the kinds that the cluster knows.
func nodeConditions(mgr manager.Manager, kinds []string) ([]string, error) {
	if !slices.Contains(kinds, config.NodeConditionsLifecycle) {
		return kinds, nil
	}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make client of the API server's version: %w", err)
	}
	server, err := d.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("read version of the API server: %w", err)
	}
	if knowsLifecycle(server.GitVersion) {
		return kinds, nil
	}
	return slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == config.NodeConditionsLifecycle }), nil
}

// knowsLifecycle reports whether the conditions of the lifecycle are Kubernetes' own in a version of the API server, which KEP-5683 made
// them in 1.37. Before, others may mean something else by these names.
func knowsLifecycle(server string) bool {
	v, err := version.ParseGeneric(server)
	return err == nil && v.AtLeast(version.MajorMinor(1, 37))
}

// addMaintenance adds the controller that drains nodes, where the operator is to do that itself.
func addMaintenance(mgr manager.Manager, c config.Operator) error {
	if c.Maintenance != config.MaintenanceDrain {
		return nil
	}
	direct, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("make client of maintenance controller: %w", err)
	}
	pods, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make client of evictions: %w", err)
	}
	return maintenance.New(direct, pods, drainOptions(c)).Agreeing(c.Medik8sLeases, time.Now).SetupWithManager(mgr)
}

// componentLabel marks the operator's own pod, in the product's namespace.
const componentLabel, operatorComponent = "app.kubernetes.io/component", "operator"

// drainOptions spare, in the product's namespace, the operator's own pod, which could not go anywhere in a cluster of one node and
// comes back with its node, and the pods that execute jobs where the strategy makes them.
func drainOptions(c config.Operator) drain.Options {
	podStrategy := slices.Contains(c.UpdateStrategies, config.StrategyPod)
	return drain.Options{Force: c.DrainForce, DeleteEmptyDir: c.DrainDeleteEmptyDir, Takes: func(pod *corev1.Pod) bool {
		_, executes := pod.Labels[v1alpha1.JobPodLabel]
		return pod.Namespace != c.Namespace || pod.Labels[componentLabel] != operatorComponent && !(executes && podStrategy)
	}}
}
