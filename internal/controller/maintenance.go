package controller

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/drain"
)

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
