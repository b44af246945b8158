package deploy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodefirmware/node-firmware-operator/deploy"
)

func TestOneComponentHasTheOperatorDrainForItsDaemons(t *testing.T) { // R001-20
	operator := patched[appsv1.Deployment](t, deploy.Drain, deploy.Operator, "Deployment").Spec.Template.Spec.Containers[0]
	daemon := patched[appsv1.DaemonSet](t, deploy.Drain, deploy.Daemon, "DaemonSet").Spec.Template.Spec.Containers[0]
	assert.Equal(t, "Drain", value(operator.Env, "MAINTENANCE"))
	assert.Equal(t, "Drain", value(daemon.Env, "MAINTENANCE"))
	assert.Contains(t, operator.Args, "--maintenance=$(MAINTENANCE)")
	assert.Contains(t, daemon.Args, "--maintenance=$(MAINTENANCE)")
}

// Without the component nobody of the product may cordon a node, and with it only the operator: the rights of a daemon are the same.
func TestOnlyTheComponentThatDrainsMayCordonAndEvict(t *testing.T) {
	base, err := deploy.Objects(deploy.RBAC)
	require.NoError(t, err)
	for _, o := range base {
		for _, r := range rulesOf(t, o) {
			for _, resource := range r.Resources {
				if resource == "nodes/status" {
					assert.Equal(t, "node-firmware-operator", o.GetName(), "a policy confines it to its conditions")
				}
				if resource == "nodes" && o.GetName() == "node-firmware-operator" {
					assert.Equal(t, []string{"get", "list", "watch", "patch"}, r.Verbs, "a policy confines it to its taints without the verb cordon")
				} else if resource == "nodes" {
					assert.Equal(t, []string{"get", "list", "watch"}, r.Verbs, o.GetName())
				}
				assert.NotEqual(t, "pods/eviction", resource, o.GetName())
			}
		}
	}
	added, err := deploy.Objects(deploy.Drain)
	require.NoError(t, err)
	verbs := map[string][]string{}
	for _, o := range added {
		for _, r := range rulesOf(t, o) {
			for _, resource := range r.Resources {
				verbs[resource] = append(verbs[resource], r.Verbs...)
			}
		}
		if o.GetKind() == "ClusterRoleBinding" {
			subjects, _, err := unstructured.NestedSlice(o.Object, "subjects")
			require.NoError(t, err)
			assert.Equal(t, []any{map[string]any{"kind": "ServiceAccount", "name": "firmware-operator", "namespace": "node-firmware-system"}}, subjects)
		}
	}
	assert.Equal(t, map[string][]string{
		"nodes": {"cordon"}, "pods": {"list"}, "pods/eviction": {"create"}, "daemonsets": {"get"}, "nodefirmwares/status": {"patch"},
	}, verbs)
}

// The component gives the operator the namespace, and a role that binds to nothing: a right to the Leases of the whole cluster would be one to
// those of kubelets.
func TestTheComponentForMedik8sBindsNothing(t *testing.T) {
	operator := patched[appsv1.Deployment](t, deploy.Medik8s, deploy.Operator, "Deployment").Spec.Template.Spec.Containers[0]
	assert.Equal(t, "medik8s-leases", value(operator.Env, "MEDIK8S_LEASES"))
	assert.Contains(t, operator.Args, "--medik8s-lease-namespace=$(MEDIK8S_LEASES)")
	added, err := deploy.Objects(deploy.Medik8s)
	require.NoError(t, err)
	require.Len(t, added, 1)
	assert.Equal(t, "ClusterRole", added[0].GetKind())
}
