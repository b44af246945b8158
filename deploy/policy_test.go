package deploy_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// site is a cluster with the product's manifests and two nodes.
type site struct {
	config     *rest.Config
	kubeconfig string
	admin      client.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Out: io.Discard})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, plane.Stop()) })
	s := &site{config: plane.Config(), kubeconfig: plane.KubeconfigPath()}
	s.admin = s.client(t, plane.Config())
	require.NoError(t, cluster.Install(t.Context(), s.admin))
	for _, name := range []string{"node-a", "node-b"} {
		require.NoError(t, s.admin.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		require.NoError(t, s.admin.Create(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		require.NoError(t, s.admin.Create(t.Context(), &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name + "-nic-1"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: name}}))
		require.NoError(t, s.admin.Create(t.Context(), job(name)))
	}
	return s
}

func (s *site) client(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: cluster.Scheme()})
	require.NoError(t, err)
	return c
}

// daemon is a client with the token of a daemon's pod on the node; without a node, one of the account alone.
func (s *site) daemon(t *testing.T, node string) client.Client {
	t.Helper()
	config := rest.AnonymousClientConfig(s.config)
	if node != "" {
		pod, err := cluster.RunPod(t.Context(), s.admin, "daemon-"+node, cluster.DaemonAccount, node)
		require.NoError(t, err)
		config.BearerToken, err = cluster.PodToken(t.Context(), s.admin, pod)
		require.NoError(t, err)
		return s.client(t, config)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.DaemonAccount}}
	token, err := cluster.AccountToken(t.Context(), s.admin, account)
	require.NoError(t, err)
	config.BearerToken = token
	return s.client(t, config)
}

func TestAPIServerAcceptsManifests(t *testing.T) { // R001-22
	s := newSite(t)
	objects, err := deploy.Objects(deploy.Operator, deploy.Daemon)
	require.NoError(t, err)
	require.NoError(t, cluster.Apply(t.Context(), s.admin, objects...))

	var daemon appsv1.DaemonSet
	require.NoError(t, s.admin.Get(t.Context(), client.ObjectKey{Namespace: cluster.Namespace, Name: "firmware-daemon"}, &daemon))
	assert.Equal(t, appsv1.OnDeleteDaemonSetStrategyType, daemon.Spec.UpdateStrategy.Type, "a manifest change must not end a flash")
	assert.GreaterOrEqual(t, *daemon.Spec.Template.Spec.TerminationGracePeriodSeconds, int64(1800))
	assert.True(t, *daemon.Spec.Template.Spec.Containers[0].SecurityContext.Privileged)
	assert.Equal(t, map[string]string{"kubernetes.io/os": "linux"}, daemon.Spec.Template.Spec.NodeSelector)
	assert.Contains(t, daemon.Spec.Template.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists}, "on every chosen node, whatever its taints")
	var operator appsv1.Deployment
	require.NoError(t, s.admin.Get(t.Context(), client.ObjectKey{Namespace: cluster.Namespace, Name: "firmware-operator"}, &operator))
	assert.True(t, *operator.Spec.Template.Spec.SecurityContext.RunAsNonRoot)
	pod, controlPlane := operator.Spec.Template.Spec, "node-role.kubernetes.io/control-plane"
	require.NotNil(t, pod.Affinity)
	require.NotEmpty(t, pod.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	assert.Equal(t, []corev1.NodeSelectorRequirement{{Key: controlPlane, Operator: corev1.NodeSelectorOpExists}},
		pod.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Preference.MatchExpressions)
	assert.Contains(t, pod.Tolerations, corev1.Toleration{Key: controlPlane, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	assert.NotEqual(t, daemon.Spec.Template.Spec.ServiceAccountName, operator.Spec.Template.Spec.ServiceAccountName)
}

// A policy that finds no account would refuse everybody, kubelets too: where the namespace was deleted and the policies were not, no Node could be
// written any more. Without the account there is no token of it either.
func TestPoliciesRefuseNobodyWithoutTheAccount(t *testing.T) {
	objects, err := deploy.Objects(deploy.Policy)
	require.NoError(t, err)
	bound := 0
	for _, o := range objects {
		if o.GetKind() != "ValidatingAdmissionPolicyBinding" {
			continue
		}
		param, found, err := unstructured.NestedStringMap(o.Object, "spec", "paramRef")
		require.NoError(t, err)
		if found {
			bound++
			assert.Equal(t, "Allow", param["parameterNotFoundAction"], o.GetName())
		}
	}
	assert.NotZero(t, bound)
}

func TestPolicyHoldsEvenWhereARoleGivesTooMuch(t *testing.T) {
	s := newSite(t)
	a := s.daemon(t, "node-a")
	require.NoError(t, s.admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "too-much"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: cluster.Namespace, Name: cluster.DaemonAccount}},
	}))
	device := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "node-a-nic-1"}}
	require.Eventually(t, func() bool { // roles and policies take a moment to be enforced
		err := a.Patch(t.Context(), device.DeepCopy(), merge(`{"metadata":{"labels":{"a":"b"}}}`), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "may not change a spec")
	}, 2*time.Minute, 100*time.Millisecond)
	assert.ErrorContains(t, a.Create(t.Context(), job("node-a2")), "may not write an object of node 'node-a2'")
	own := job("node-a")
	own.Name = "node-a-second"
	assert.ErrorContains(t, a.Create(t.Context(), own), "may create NodeDevices only")
	assert.ErrorContains(t, a.Delete(t.Context(), job("node-a")), "may delete NodeDevices only")
	assert.ErrorContains(t, a.Delete(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}), "may delete NodeDevices only")
	foreign := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "node-b-nic-1"}}
	assert.ErrorContains(t, a.Delete(t.Context(), foreign), "may not change or delete an object of node 'node-b'")
	mine := func(name string) *v1alpha1.NodeDevice {
		return &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "node-a"}}
	}
	assert.ErrorContains(t, a.Create(t.Context(), mine("node-b-bios")), "must be named after its node and class")
	desired := mine("node-a-nic-9")
	desired.Spec.Firmware = &v1alpha1.DesiredFirmware{Version: "1", Policy: "Apply", Downgrade: "Allow"}
	desired.Spec.Origin = []v1alpha1.Origin{{Kind: v1alpha1.OriginPin, Name: "n", Rule: "r"}}
	assert.ErrorContains(t, a.Create(t.Context(), desired), "without a desired firmware")
	admitted := `{"status":{"conditions":[{"type":"Admitted","status":"True","reason":"Admitted","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	assert.ErrorContains(t, a.Status().Patch(t.Context(), job("node-a"), merge(admitted)), "are the operator's")
	assert.ErrorContains(t, a.Delete(t.Context(), &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}), "not found")
}
