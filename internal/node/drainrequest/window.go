// Package drainrequest takes one node out of service for a job and returns it, by asking the firmware-operator to drain it.
package drainrequest

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/maintenance"
	"github.com/nodefirmware/node-firmware-operator/internal/neighbour"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// Window is the maintenance of one Node by the operator. The request is a part of the status of the NodeFirmware, which the daemon
// may write, and the answer another one.
type Window struct {
	// Client must read from the API server and not from a cache.
	Client   client.Client
	NodeName string
}

// found is what the API says about the maintenance.
type found struct {
	request *v1alpha1.MaintenanceRequest
	answer  *v1alpha1.MaintenanceAnswer
	// node is nil when there is no such Node.
	node *corev1.Node
}

// Schedule requests the maintenance, unless it is requested already and the node is still out of service.
func (w *Window) Schedule(ctx context.Context) error {
	f, err := w.find(ctx)
	if err != nil {
		return err
	}
	if f.wanted() && w.state(f).Phase != step.MaintenanceBroken {
		return nil
	}
	return w.ask(ctx, v1alpha1.MaintenanceDrain, string(uuid.NewUUID()))
}

// State reads the state of the maintenance.
func (w *Window) State(ctx context.Context) (maintenance.State, error) {
	f, err := w.find(ctx)
	if err != nil {
		return maintenance.State{}, err
	}
	return w.state(f), nil
}

// Fail makes sure that the node stays out of service: nothing but Release returns it, and a request that was lost is made again.
func (w *Window) Fail(ctx context.Context, _ string) error {
	f, err := w.find(ctx)
	if err != nil || f.wanted() {
		return err
	}
	return w.Schedule(ctx)
}

// Release asks the operator to return the node.
func (w *Window) Release(ctx context.Context) error {
	f, err := w.find(ctx)
	switch {
	case err != nil:
		return err
	case f.wanted():
		return w.ask(ctx, v1alpha1.MaintenanceRelease, f.request.ID)
	case f.request == nil && f.cordonedBy() != "": // the request was lost
		return w.ask(ctx, v1alpha1.MaintenanceRelease, f.cordonedBy())
	}
	return nil
}

func (w *Window) ask(ctx context.Context, what v1alpha1.MaintenanceRequestType, id string) error {
	return fieldset.ApplyMaintenanceRequest(ctx, w.Client, w.NodeName, v1alpha1.MaintenanceRequest{Type: what, ID: id})
}

func (w *Window) find(ctx context.Context) (found, error) {
	var f found
	var nfw v1alpha1.NodeFirmware
	if err := w.Client.Get(ctx, client.ObjectKey{Name: w.NodeName}, &nfw); err != nil {
		return f, fmt.Errorf("get node firmware %s: %w", w.NodeName, err)
	}
	f.request, f.answer = nfw.Status.MaintenanceRequest, nfw.Status.Maintenance
	if f.request != nil && f.answer != nil && f.answer.RequestID != f.request.ID {
		f.answer = nil
	}
	var node corev1.Node
	switch err := w.Client.Get(ctx, client.ObjectKey{Name: w.NodeName}, &node); {
	case err == nil:
		f.node = &node
	case !apierrors.IsNotFound(err):
		return f, fmt.Errorf("get node %s: %w", w.NodeName, err)
	}
	return f, nil
}

// wanted reports whether the node is to be out of service.
func (f found) wanted() bool { return f.request != nil && f.request.Type == v1alpha1.MaintenanceDrain }

// cordonedBy is the id of the request for which the operator cordoned the Node; empty where it did not.
func (f found) cordonedBy() string {
	if f.node == nil {
		return ""
	}
	return f.node.Annotations[v1alpha1.CordonedAnnotation]
}

// too is what the operator says of who else has the drained node, to be added to what is said of it; empty for nobody.
func (f found) too() string {
	if f.answer.Message == "" {
		return ""
	}
	return "; " + f.answer.Message
}

func (w *Window) state(f found) maintenance.State {
	switch {
	case !f.wanted():
		return w.unwanted(f)
	case f.answer == nil:
		return stateOf(step.MaintenanceRequested, "the firmware-operator has not answered the request to drain the node yet; "+
			"does it run with --maintenance=Drain, as this daemon does?")
	case f.answer.State != v1alpha1.MaintenanceDrained:
		return stateOf(step.MaintenanceRequested, "the firmware-operator is taking the node out of service: %s", f.answer.Message)
	case f.node == nil:
		return stateOf(step.MaintenanceBroken, "the node was drained, but the Node %s does not exist", w.NodeName)
	case string(f.node.UID) != f.answer.NodeUID || !f.node.Spec.Unschedulable:
		return stateOf(step.MaintenanceBroken, "the node was drained, but the Node %s is not cordoned; %s uncordoned it or it was "+
			"registered again, and workloads may run there%s", w.NodeName, neighbour.Somebody(f.node), f.too())
	}
	state := stateOf(step.MaintenanceReady, "the firmware-operator has drained the node%s", f.too())
	state.Node = string(f.node.UID)
	return state
}

// unwanted is the state of a node whose maintenance was not requested, or is over.
func (w *Window) unwanted(f found) maintenance.State {
	if f.request != nil && (f.answer == nil || f.answer.State != v1alpha1.MaintenanceReleased) {
		said := "waiting for the firmware-operator to return the node to service"
		if f.answer != nil && f.answer.State == v1alpha1.MaintenanceDrained {
			said = cmp.Or(f.answer.Message, said)
		}
		return stateOf(step.MaintenanceEnding, "%s", said)
	}
	if f.node != nil && !f.node.Spec.Unschedulable {
		return maintenance.State{Phase: step.MaintenanceNone}
	}
	said := "the node stays cordoned"
	if f.node == nil {
		said = "there is no Node of that name"
	}
	if f.request != nil {
		said = cmp.Or(f.answer.Message, said)
	}
	return stateOf(step.MaintenanceNone, "the product has no maintenance of the node: %s", said)
}

func stateOf(phase step.Maintenance, format string, args ...any) maintenance.State {
	return maintenance.State{Phase: phase, Message: fmt.Sprintf(format, args...)}
}
