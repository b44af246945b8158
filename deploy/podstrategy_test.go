package deploy_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/deploy"
)

// patched is the only object of the part with the patch for its kind in the component applied, as kustomize does it.
func patched[T any](t *testing.T, component, part deploy.Part, kind string) T {
	t.Helper()
	raw, err := os.ReadFile(string(component) + "/kustomization.yaml")
	require.NoError(t, err)
	var is struct {
		Patches []struct {
			Patch string `json:"patch"`
		} `json:"patches"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &is))
	objects, err := deploy.Objects(part)
	require.NoError(t, err)
	var out, typed T
	for _, p := range is.Patches {
		patch, err := yaml.YAMLToJSON([]byte(p.Patch))
		require.NoError(t, err)
		var o unstructured.Unstructured
		require.NoError(t, json.Unmarshal(patch, &o.Object))
		if o.GetKind() != kind {
			continue
		}
		original, err := json.Marshal(objects[0].Object)
		require.NoError(t, err)
		merged, err := strategicpatch.StrategicMergePatch(original, patch, typed)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(merged, &out))
	}
	return out
}

func value(env []corev1.EnvVar, name string) string {
	for _, e := range env {
		if e.Name == name {
			return e.Value
		}
	}
	return "none"
}

func TestAComponentMakesSignaturesARequirement(t *testing.T) {
	daemon := patched[appsv1.DaemonSet](t, deploy.SignedImages, deploy.Daemon, "DaemonSet").Spec.Template.Spec.Containers[0]
	assert.Equal(t, "Required", value(daemon.Env, "IMAGE_VERIFICATION"))
	assert.Contains(t, daemon.Args, "--image-verification=$(IMAGE_VERIFICATION)")
	assert.Contains(t, daemon.VolumeMounts, corev1.VolumeMount{Name: "image-keys", MountPath: "/etc/node-firmware/image-keys", ReadOnly: true})
}

func TestVolumeComponentKeepsImages(t *testing.T) { // R001-14
	claims, err := deploy.Objects(deploy.ImageVolume)
	require.NoError(t, err)
	require.Len(t, claims, 1)
	var claim corev1.PersistentVolumeClaim
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(claims[0].Object, &claim))
	assert.Equal(t, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, claim.Spec.AccessModes)
	pod := patched[appsv1.Deployment](t, deploy.ImageVolume, deploy.Operator, "Deployment").Spec.Template.Spec
	assert.Contains(t, pod.Volumes, corev1.Volume{Name: "images", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
	}})
	assert.Len(t, pod.Volumes, 2, "in place of the other one, and beside that for temporary files")
}

func TestOneComponentGivesOperatorAndDaemonTheSameStrategy(t *testing.T) { // R000-39
	operator := patched[appsv1.Deployment](t, deploy.PodStrategy, deploy.Operator, "Deployment").Spec.Template.Spec
	daemon := patched[appsv1.DaemonSet](t, deploy.PodStrategy, deploy.Daemon, "DaemonSet").Spec.Template.Spec
	require.Len(t, operator.Containers, 1)
	require.Len(t, daemon.Containers, 1)
	assert.Equal(t, "pod", value(operator.Containers[0].Env, "UPDATE_STRATEGY"))
	assert.Equal(t, "pod", value(daemon.Containers[0].Env, "UPDATE_STRATEGY"))
	for _, c := range []corev1.Container{operator.Containers[0], daemon.Containers[0]} {
		assert.Contains(t, c.Args, "--update-strategy=$(UPDATE_STRATEGY)")
		assert.NotEqual(t, "none", value(c.Env, "NAMESPACE"), "what was there stays")
	}
	assert.Contains(t, operator.Containers[0].Args, "--pod-handlers=$(POD_HANDLERS)")
	assert.Equal(t, "/etc/node-firmware/handlers/handlers.yaml", value(operator.Containers[0].Env, "POD_HANDLERS"))
	mounts := operator.Containers[0].VolumeMounts
	assert.Contains(t, mounts, corev1.VolumeMount{Name: "handlers", MountPath: "/etc/node-firmware/handlers", ReadOnly: true})
	assert.Contains(t, mounts, corev1.VolumeMount{Name: "images", MountPath: "/var/lib/firmware-images"}, "what was there stays")
}

func TestTheOperatorMakesPodsWithThatStrategyAloneAndInItsNamespaceAlone(t *testing.T) {
	base, err := deploy.Objects(deploy.RBAC)
	require.NoError(t, err)
	for _, o := range base {
		for _, r := range rulesOf(t, o) {
			if slices.Contains(r.Resources, "pods") {
				verb, may := map[string]string{
					"Role node-firmware-daemon":   "get",  // of its own it makes a static pod
					"Role node-firmware-operator": "list", // what the pod of a silent daemon says
				}[o.GetKind()+" "+o.GetName()]
				assert.True(t, may, "%s %s", o.GetKind(), o.GetName())
				assert.Equal(t, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{verb}}, r)
			}
			assert.NotContains(t, r.APIGroups, "*", o.GetName())
			if slices.Contains(r.APIGroups, "") {
				assert.NotContains(t, r.Resources, "*", o.GetName())
			}
		}
	}
	added, err := deploy.Objects(deploy.PodStrategy)
	require.NoError(t, err)
	for _, o := range added {
		if strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
			continue
		}
		assert.Contains(t, []string{"Role", "RoleBinding"}, o.GetKind())
		assert.Equal(t, "node-firmware-system", o.GetNamespace())
		for _, r := range rulesOf(t, o) {
			switch r.Resources[0] {
			case "pods":
				assert.Equal(t, []string{"list", "watch", "create", "delete"}, r.Verbs)
			default:
				assert.Equal(t, rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"daemonsets"},
					ResourceNames: []string{"firmware-daemon"}, Verbs: []string{"get"}}, r)
			}
		}
	}
}

func rulesOf(t *testing.T, o *unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	var role rbacv1.Role
	if o.GetKind() == "Role" || o.GetKind() == "ClusterRole" {
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role))
	}
	return role.Rules
}
