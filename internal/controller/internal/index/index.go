package index

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// NodeName is the index of NodeDevices and FirmwareJobs by their node. The API server selects by the same field.
const NodeName = "spec.nodeName"

// Blamed is the index of the FirmwareJobs that blame devices, all under the key Some. Only a cache has it.
const Blamed = "status.blamed"

// Unhealthy is the index of the NodeDevices that a job left unhealthy, all under the key Some. Only a cache has it.
const Unhealthy = "status.unhealthy"

// Model is the index of the NodeFirmwares by their machine model: the name of its FirmwareCatalog. Only a cache has it.
const Model = "status.machine"

// Some is the only key of the indexes Blamed and Unhealthy.
const Some = "some"

// Register adds the indexes to a cache. It must be called once, before the cache starts.
func Register(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha1.NodeDevice{}, NodeName, ByNode); err != nil {
		return fmt.Errorf("index node devices by node: %w", err)
	}
	if err := indexer.IndexField(ctx, &v1alpha1.FirmwareJob{}, NodeName, ByNode); err != nil {
		return fmt.Errorf("index firmware jobs by node: %w", err)
	}
	if err := indexer.IndexField(ctx, &v1alpha1.FirmwareJob{}, Blamed, ByBlamed); err != nil {
		return fmt.Errorf("index firmware jobs by blame: %w", err)
	}
	if err := indexer.IndexField(ctx, &v1alpha1.NodeDevice{}, Unhealthy, ByUnhealthy); err != nil {
		return fmt.Errorf("index unhealthy node devices: %w", err)
	}
	if err := indexer.IndexField(ctx, &v1alpha1.NodeFirmware{}, Model, ByModel); err != nil {
		return fmt.Errorf("index node firmware by machine model: %w", err)
	}
	return nil
}

// ByNode is the key of a NodeDevice, a FirmwareJob or a pod in the index NodeName.
func ByNode(o client.Object) []string {
	switch o := o.(type) {
	case *corev1.Pod:
		return []string{o.Spec.NodeName}
	case *v1alpha1.NodeDevice:
		return []string{o.Spec.NodeName}
	case *v1alpha1.FirmwareJob:
		return []string{o.Spec.NodeName}
	}
	return nil
}

// ByBlamed is the key of a FirmwareJob in the index Blamed.
func ByBlamed(o client.Object) []string {
	if j, ok := o.(*v1alpha1.FirmwareJob); ok && len(j.Status.Blamed) > 0 {
		return []string{Some}
	}
	return nil
}

// ByUnhealthy is the key of a NodeDevice in the index Unhealthy.
func ByUnhealthy(o client.Object) []string {
	if d, ok := o.(*v1alpha1.NodeDevice); ok && d.Status.IsUnhealthy() {
		return []string{Some}
	}
	return nil
}

// ByModel is the key of a NodeFirmware in the index Model; none when its machine is not known yet or its model can have no catalog.
func ByModel(o client.Object) []string {
	n, ok := o.(*v1alpha1.NodeFirmware)
	if !ok || n.Status.Machine == nil {
		return nil
	}
	m, err := v1alpha1.CatalogOf(n.Status.Machine.Vendor, n.Status.Machine.Model)
	if err != nil {
		return nil
	}
	return []string{m.CatalogName()}
}
