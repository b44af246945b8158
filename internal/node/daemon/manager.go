package daemon

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// ManagerOptions configures a manager.
type ManagerOptions struct {
	// Node is the name of the Node whose objects are watched. No others are.
	Node string
	// ProbeAddress and MetricsAddress are the addresses to listen on; "0" disables either.
	ProbeAddress, MetricsAddress string
	Log                          logr.Logger
}

// NewManager returns a manager that watches only the objects of one node. It does not contact the API server, which may
// be unreachable while the daemon starts.
func NewManager(access *rest.Config, o ManagerOptions) (ctrl.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	ofNode := cache.ByObject{Field: fields.OneTermEqualSelector("spec.nodeName", o.Node)}
	named := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", o.Node)}
	node := named
	node.Transform = trimNode
	m, err := ctrl.NewManager(access, ctrl.Options{
		Scheme:                 scheme,
		MapperProvider:         func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper(), nil },
		Logger:                 o.Log,
		Metrics:                metricsserver.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress: o.ProbeAddress,
		Cache: cache.Options{
			ByObject: map[client.Object]cache.ByObject{
				&v1alpha1.NodeDevice{}:   ofNode,
				&v1alpha1.FirmwareJob{}:  ofNode,
				&v1alpha1.NodeFirmware{}: named,
				&corev1.Node{}:           node,
			},
			DefaultTransform:            cache.TransformStripManagedFields(),
			ReaderFailOnMissingInformer: true,
		},
		// Nothing may give up while the API server is unreachable.
		Controller: config.Controller{CacheSyncTimeout: neverGiveUp, SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("make manager: %w", err)
	}
	return m, nil
}

// neverGiveUp outlasts every outage.
const neverGiveUp = 100 * 365 * 24 * time.Hour

// Scheme returns a scheme with only the kinds the daemon watches.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	s.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Node{}, &corev1.NodeList{})
	metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
	return s, nil
}

// mapper maps the watched kinds to their resources without discovery, which would need the API server at the start, and
// memory for good.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.GroupVersion, corev1.SchemeGroupVersion})
	for _, kind := range []string{"NodeDevice", "NodeFirmware", "FirmwareJob"} {
		m.Add(v1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return m
}

// trimNode keeps the parts of a Node that the daemon reads: identity, labels, whether it is schedulable, and its
// conditions.
func trimNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels,
			DeletionTimestamp: node.DeletionTimestamp, CreationTimestamp: node.CreationTimestamp,
		},
		Spec:   corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable},
		Status: corev1.NodeStatus{Conditions: node.Status.Conditions},
	}, nil
}
