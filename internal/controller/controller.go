package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/catalog"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/access"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/node"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/planner"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/protection"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/provenance"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/rollout"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/source"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/template"
	"github.com/nodefirmware/node-firmware-operator/internal/drain"
	"github.com/nodefirmware/node-firmware-operator/internal/queue"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
)

// SetupWithManager adds every reconciler to the manager, and the indexes they list by. Images are kept in store; catalogs are read by
// the fetcher.
func SetupWithManager(ctx context.Context, mgr manager.Manager, c config.Operator, store *artifact.Store, fetcher *artifact.Fetcher) error {
	if err := index.Register(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	recorder := mgr.GetEventRecorder(v1alpha1.FieldOwnerOperator)
	sources := &source.Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Store: store, Namespace: c.Namespace, Events: recorder, Now: time.Now}
	queues := queue.New(time.Now)
	for name, add := range map[string]func(manager.Manager) error{
		"node":       func(mgr manager.Manager) error { return node.SetupWithManager(mgr, c.Namespace, node.Retention) },
		"template":   func(mgr manager.Manager) error { return template.SetupWithManager(mgr, template.StatusInterval) },
		"planner":    planner.New(mgr.GetClient(), recorder, time.Now, c.QuietPeriod).Within(queues).SetupWithManager,
		"rollout":    rollout.New(mgr.GetClient(), mgr.GetAPIReader(), recorder, time.Now, c.NodeName).SharingIn(c.Namespace).Within(queues).Expecting(c.ExpectedJobDuration).SetupWithManager,
		"protection": protection.New(mgr.GetClient(), mgr.GetAPIReader()).SetupWithManager,
		"provenance": provenance.SetupWithManager,
		"source":     sources.SetupWithManager,
		"catalog": func(mgr manager.Manager) error {
			return catalog.SetupWithManager(mgr, catalog.Options{
				Network: fetcher, Access: access.Reader{Client: mgr.GetAPIReader(), Namespace: c.Namespace}, Events: recorder,
			})
		},
		"quarantine": quarantine.New(mgr.GetClient(), recorder, time.Now).SetupWithManager,
	} {
		if err := add(mgr); err != nil {
			return fmt.Errorf("set up %s controller: %w", name, err)
		}
	}
	return addMaintenance(mgr, c)
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
	return maintenance.New(direct, pods, drainOptions(c)).SetupWithManager(mgr)
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
