package cluster

import (
	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Scheme knows every kind the lab touches.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, policyv1.AddToScheme, authenticationv1.AddToScheme,
		coordinationv1.AddToScheme, eventsv1.AddToScheme, admissionregistrationv1.AddToScheme, apiextensionsv1.AddToScheme,
		v1alpha1.AddToScheme, maintenancev1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
}
