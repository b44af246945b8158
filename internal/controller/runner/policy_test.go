package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// What the operator makes is what the admission policies let through: they compare the pod with the DaemonSet field by field, as the API
// server has filled in both.
func TestPolicyTakesPods(t *testing.T) { // R000-60
	env := apitest.New(t)
	objects, err := deploy.Objects(deploy.RBAC, deploy.PodStrategy)
	require.NoError(t, err)
	require.NoError(t, cluster.Apply(t.Context(), env.Client, objects...))
	ds := manifest(t, "pod")
	require.NoError(t, env.Client.Create(t.Context(), ds))
	require.NoError(t, env.Client.Create(t.Context(), &corev1.Node{ // of which the API server copies labels to its pods
		ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelTopologyRegion: "r"}},
	}))
	handler := Handler{Image: image, Args: []string{"--log-level=debug"}}
	require.NoError(t, env.Client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "node-firmware-pod-handlers"},
		Data:       map[string]string{"handlers.yaml": "handlers:\n- {image: " + image + ", args: [--log-level=debug]}\n"},
	}))
	as, err := client.New(operatorOf(env.Config), client.Options{Scheme: env.Scheme})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(ct *assert.CollectT) { // roles and policies take a moment to be enforced
		for _, w := range []work{{name: "gpu-1-aaaa", uid: "u", handler: handler}, {name: "gone", handler: handler}} {
			pod, err := newPod(ds, w, nodeFirmware())
			require.NoError(ct, err)
			assert.NoError(ct, as.Create(t.Context(), pod, client.DryRunAll))
			pod.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"x"}}}
			assert.ErrorContains(ct, as.Create(t.Context(), pod, client.DryRunAll), "differs in spec.hostAliases")
		}
	}, 5*time.Minute, 200*time.Millisecond)
}

// operatorOf is the access of the operator's account.
func operatorOf(admin *rest.Config) *rest.Config {
	out := rest.CopyConfig(admin)
	out.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":firmware-operator", Groups: []string{"system:serviceaccounts"}}
	return out
}
