package maintenance

import (
	"context"
	"fmt"
	"slices"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	// initialStateAnnotation is the maintenance-operator's.
	initialStateAnnotation = "maintenance.nvidia.com/node-initial-state.unschedulable"
	pollEvery              = 400 * time.Millisecond
)

// Operator simulates the maintenance-operator.
type Operator struct {
	client client.Client
	pods   kubernetes.Interface
}

// New returns an Operator.
func New(config *rest.Config) (*Operator, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, maintenancev1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("start stand-in: %w", err)
		}
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 200, 400 // it polls; the default rate would make it slow
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("start stand-in: %w", err)
	}
	pods, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("start stand-in: %w", err)
	}
	return &Operator{client: c, pods: pods}, nil
}

// Run works until the context ends. It waits while the API server is unreachable.
func (o *Operator) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) { _ = o.Step(ctx) }, pollEvery) // failures are retried at the next step
}

// Step processes every object once and advances each by at most one state.
func (o *Operator) Step(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := o.client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var list maintenancev1alpha1.NodeMaintenanceList
	if err := o.client.List(ctx, &list); err != nil {
		return fmt.Errorf("list node maintenances: %w", err)
	}
	for _, nm := range schedule(nodes.Items, list.Items) {
		if err := o.setReason(ctx, nm, maintenancev1alpha1.ConditionReasonScheduled); err != nil {
			return err
		}
	}
	var first, err error
	for i := range list.Items {
		nm := &list.Items[i]
		n := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == nm.Spec.NodeName })
		if n < 0 {
			err = o.letGo(ctx, nm)
		} else if err = o.own(ctx, nm, &nodes.Items[n]); err == nil {
			err = o.advance(ctx, nm, &nodes.Items[n])
		}
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) && first == nil {
			first = err
		}
	}
	return first
}

// advance advances one object by one state.
func (o *Operator) advance(ctx context.Context, nm *maintenancev1alpha1.NodeMaintenance, node *corev1.Node) error {
	leaving := nm.DeletionTimestamp != nil
	switch reason := readyReason(nm); reason {
	case maintenancev1alpha1.ConditionReasonUninitialized:
		return o.setReason(ctx, nm, maintenancev1alpha1.ConditionReasonPending)
	case maintenancev1alpha1.ConditionReasonScheduled:
		if leaving {
			return o.letGo(ctx, nm)
		}
		if controllerutil.AddFinalizer(nm, maintenancev1alpha1.MaintenanceFinalizerName) {
			if err := o.client.Update(ctx, nm); err != nil {
				return fmt.Errorf("add finalizer: %w", err)
			}
		}
		return o.setReason(ctx, nm, maintenancev1alpha1.ConditionReasonCordon)
	case maintenancev1alpha1.ConditionReasonCordon:
		if leaving {
			return o.end(ctx, nm, node)
		}
		if err := o.cordon(ctx, nm, node); err != nil {
			return err
		}
		return o.setReason(ctx, nm, maintenancev1alpha1.ConditionReasonWaitForPodCompletion)
	case maintenancev1alpha1.ConditionReasonWaitForPodCompletion:
		if leaving {
			return o.end(ctx, nm, node)
		}
		return o.setReason(ctx, nm, maintenancev1alpha1.ConditionReasonDraining)
	case maintenancev1alpha1.ConditionReasonDraining:
		if leaving {
			return o.end(ctx, nm, node)
		}
		if drained, err := o.drain(ctx, nm); err != nil || !drained {
			return err
		}
		return o.setReason(ctx, nm, maintenancev1alpha1.ConditionReasonReady)
	case maintenancev1alpha1.ConditionReasonReady, maintenancev1alpha1.ConditionReasonRequestorFailed:
		return o.hold(ctx, nm, node, reason)
	}
	return nil // Pending waits for the scheduler
}

// hold keeps a ready node for its requestors, and returns it to service when the last of them is gone.
func (o *Operator) hold(ctx context.Context, nm *maintenancev1alpha1.NodeMaintenance, node *corev1.Node, reason string) error {
	if nm.DeletionTimestamp != nil {
		if len(nm.Spec.AdditionalRequestors) > 0 {
			return nil
		}
		return o.end(ctx, nm, node)
	}
	failed := meta.IsStatusConditionTrue(nm.Status.Conditions, maintenancev1alpha1.ConditionTypeRequestorFailed)
	switch {
	case failed && reason == maintenancev1alpha1.ConditionReasonReady:
		return o.setReason(ctx, nm, maintenancev1alpha1.ConditionReasonRequestorFailed)
	case !failed && reason == maintenancev1alpha1.ConditionReasonRequestorFailed:
		return o.setReason(ctx, nm, maintenancev1alpha1.ConditionReasonReady)
	}
	return nil
}

// end uncordons the node and releases the object.
func (o *Operator) end(ctx context.Context, nm *maintenancev1alpha1.NodeMaintenance, node *corev1.Node) error {
	if nm.Spec.Cordon && nm.Annotations[initialStateAnnotation] != "" {
		if nm.Annotations[initialStateAnnotation] == "false" && node.Spec.Unschedulable {
			if err := o.setUnschedulable(ctx, node, false); err != nil {
				return err
			}
		}
		delete(nm.Annotations, initialStateAnnotation)
		if err := o.client.Update(ctx, nm); err != nil {
			return fmt.Errorf("forget initial state: %w", err)
		}
	}
	return o.letGo(ctx, nm)
}

func (o *Operator) letGo(ctx context.Context, nm *maintenancev1alpha1.NodeMaintenance) error {
	if controllerutil.RemoveFinalizer(nm, maintenancev1alpha1.MaintenanceFinalizerName) {
		if err := o.client.Update(ctx, nm); err != nil {
			return fmt.Errorf("remove finalizer: %w", err)
		}
	}
	return nil
}

// own makes the maintenance go with its Node: a garbage collector deletes it when the Node is deleted.
func (o *Operator) own(ctx context.Context, nm *maintenancev1alpha1.NodeMaintenance, node *corev1.Node) error {
	if slices.ContainsFunc(nm.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == node.UID }) {
		return nil
	}
	if err := controllerutil.SetOwnerReference(node, nm, o.client.Scheme()); err != nil {
		return fmt.Errorf("own maintenance: %w", err)
	}
	if err := o.client.Update(ctx, nm); err != nil {
		return fmt.Errorf("own maintenance: %w", err)
	}
	return nil
}

// cordon records the former state of the node before it makes it unschedulable, so that somebody else's cordon
// survives. A node that was cordoned then is not cordoned again.
func (o *Operator) cordon(ctx context.Context, nm *maintenancev1alpha1.NodeMaintenance, node *corev1.Node) error {
	if !nm.Spec.Cordon {
		return nil
	}
	if nm.Annotations[initialStateAnnotation] == "" {
		metav1.SetMetaDataAnnotation(&nm.ObjectMeta, initialStateAnnotation, fmt.Sprint(node.Spec.Unschedulable))
		if err := o.client.Update(ctx, nm); err != nil {
			return fmt.Errorf("note initial state: %w", err)
		}
	}
	if node.Spec.Unschedulable || nm.Annotations[initialStateAnnotation] != "false" {
		return nil
	}
	return o.setUnschedulable(ctx, node, true)
}

func (o *Operator) setUnschedulable(ctx context.Context, node *corev1.Node, cordoned bool) error {
	before := node.DeepCopy()
	node.Spec.Unschedulable = cordoned
	if err := o.client.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("cordon node %s: %w", node.Name, err)
	}
	return nil
}

func (o *Operator) setReason(ctx context.Context, nm *maintenancev1alpha1.NodeMaintenance, reason string) error {
	before := nm.DeepCopy()
	value := metav1.ConditionFalse
	if reason == maintenancev1alpha1.ConditionReasonReady {
		value = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&nm.Status.Conditions, metav1.Condition{
		Type: maintenancev1alpha1.ConditionTypeReady, Status: value, Reason: reason, ObservedGeneration: nm.Generation,
	})
	if err := o.client.Status().Patch(ctx, nm, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("set reason %s: %w", reason, err)
	}
	return nil
}

func readyReason(nm *maintenancev1alpha1.NodeMaintenance) string {
	if c := meta.FindStatusCondition(nm.Status.Conditions, maintenancev1alpha1.ConditionTypeReady); c != nil {
		return c.Reason
	}
	return maintenancev1alpha1.ConditionReasonUninitialized
}
