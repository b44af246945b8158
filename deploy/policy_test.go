package deploy_test

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
)

// site is a cluster with the product's manifests and two nodes.
type site struct {
	config *rest.Config
	admin  client.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Out: io.Discard})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, plane.Stop()) })
	s := &site{config: plane.Config()}
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

func job(node string) *v1alpha1.FirmwareJob {
	return &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: node + "-job"}, Spec: v1alpha1.FirmwareJobSpec{NodeName: node, Type: v1alpha1.JobTypeScan}}
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

func maintenance(name, node, requestor string) *maintenancev1alpha1.NodeMaintenance {
	return &maintenancev1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: name},
		Spec:       maintenancev1alpha1.NodeMaintenanceSpec{NodeName: node, RequestorID: requestor},
	}
}

// said is an event about a cluster-scoped object.
func said(name, by, kind string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		EventTime:  metav1.NowMicro(), Type: corev1.EventTypeNormal, Reason: "Test", Action: "Test", Note: "test",
		ReportingController: by, ReportingInstance: by + "-1",
		Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: "node-a-job"},
	}
}

// merge is a patch of a fresh copy of the object.
func merge(body string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(body))
}

func TestDaemonTouchesItsOwnNodeOnlyAndNoSpec(t *testing.T) { // R001-5
	s := newSite(t)
	a, unbound := s.daemon(t, "node-a"), s.daemon(t, "")
	require.Eventually(t, func() bool { // the API server takes a moment to enforce a new policy
		probe := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "node-a"}}
		return apierrors.IsForbidden(unbound.Create(t.Context(), probe, client.DryRunAll))
	}, 30*time.Second, 100*time.Millisecond)
	type attempt struct {
		who     client.Client
		do      func(ctx context.Context, c client.Client) error
		refusal string // empty: allowed
	}
	device := func(name, node string) *v1alpha1.NodeDevice {
		return &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeDeviceSpec{NodeName: node}}
	}
	const (
		anotherNode = "may not write an object of node 'node-b'"
		aChange     = "may not change or delete an object of node 'node-b'"
		noVerb      = "is forbidden: User"
		noClaim     = "names no node"
		notYours    = "are the operator's"
	)
	status := func(o client.Object, body string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error { return c.Status().Patch(ctx, o, merge(body)) }
	}
	create := func(o client.Object) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error { return c.Create(ctx, o) }
	}
	remove := func(o client.Object) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error { return c.Delete(ctx, o) }
	}
	patch := func(o client.Object, body string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error { return c.Patch(ctx, o, merge(body)) }
	}
	node := func(name string) *v1alpha1.NodeFirmware {
		return &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	desired := &v1alpha1.DesiredFirmware{Version: "1", SourceRef: v1alpha1.SourceReference{Name: "s"}, UpdatePolicy: "Update", Downgrade: "Allow",
		Origin: v1alpha1.Origin{Kind: "Pin", Name: "n", Rule: "r"}}
	withFirmware := device("node-a-nic-9", "node-a")
	withFirmware.Spec.Firmware = desired
	require.NoError(t, s.admin.Create(t.Context(), maintenance("foreign-a", "node-a", "other.example.com")))
	require.NoError(t, s.admin.Create(t.Context(), maintenance("ours-b", "node-b", "nodefirmware.io")))
	require.NoError(t, s.admin.Create(t.Context(), said("foreign-said", "kubelet", "Node")))
	stolen := `{"status":{"conditions":[{"type":"Admitted","status":"True","reason":"Admitted","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`

	for _, tc := range []struct {
		name string
		attempt
	}{
		{"create a device of its node", attempt{a, create(device("node-a-disk-1", "node-a")), ""}},
		{"create a device of another node", attempt{a, create(device("x", "node-b")), anotherNode}},
		{"create a device with desired firmware", attempt{a, create(withFirmware), "without a desired firmware"}},
		{"create a device without a node's token", attempt{unbound, create(device("y", "node-a")), noClaim}},
		{"take the name of another node's device", attempt{a, create(device("node-b-bios", "node-a")), "must be named after its node and class"}},
		{"take a name that says no class", attempt{a, create(device("node-a-1-nic-2", "node-a")), "must be named after its node and class"}},
		{"report on its device", attempt{a, status(device("node-a-nic-1", ""), `{"status":{"boardID":"MT_1"}}`), ""}},
		{"report on another node's device", attempt{a, status(device("node-b-nic-1", ""), `{"status":{"boardID":"MT_1"}}`), anotherNode}},
		{"report without a node's token", attempt{unbound, status(device("node-a-nic-1", ""), `{"status":{"boardID":"MT_2"}}`), noClaim}},
		{"take a conflict off its device", attempt{a, status(device("node-a-nic-1", ""), strings.ReplaceAll(stolen, "Admitted", "Conflict")), notYours}},
		{"change a device's spec", attempt{a, patch(device("node-a-nic-1", ""), `{"spec":{"nodeName":"node-a"},"metadata":{"labels":{"a":"b"}}}`), noVerb}},
		{"delete another node's device", attempt{a, remove(device("node-b-nic-1", "")), aChange}},
		{"delete its device", attempt{a, remove(device("node-a-disk-1", "")), ""}},
		{"report on its node", attempt{a, status(node("node-a"), `{"status":{"bootID":"1"}}`), ""}},
		{"report on another node", attempt{a, status(node("node-b"), `{"status":{"bootID":"1"}}`), anotherNode}},
		{"pin its own firmware", attempt{a, patch(node("node-a"), `{"spec":{"scanThreshold":"1h"}}`), noVerb}},
		{"create a node's firmware", attempt{a, create(node("node-c")), noVerb}},
		{"report on its job", attempt{a, status(job("node-a"), `{"status":{"reboots":1}}`), ""}},
		{"report on another node's job", attempt{a, status(job("node-b"), `{"status":{"reboots":1}}`), anotherNode}},
		{"admit its own job", attempt{a, status(job("node-a"), stolen), notYours}},
		{"create a job", attempt{a, create(job("node-a")), noVerb}},
		{"delete its job", attempt{a, remove(job("node-a")), noVerb}},
		{"request maintenance of its node", attempt{a, create(maintenance("node-firmware-node-a", "node-a", "nodefirmware.io")), ""}},
		{"take the name of another node's maintenance", attempt{a, create(maintenance("node-firmware-node-b", "node-a", "nodefirmware.io")), "must be named after its node"}},
		{"request maintenance of another node", attempt{a, create(maintenance("z", "node-b", "nodefirmware.io")), anotherNode}},
		{"request maintenance in another's name", attempt{a, create(maintenance("node-firmware-node-a", "node-a", "other.example.com")), "in its own name only"}},
		{"join another's maintenance of its node", attempt{a, patch(maintenance("foreign-a", "", ""), `{"spec":{"additionalRequestors":["nodefirmware.io"]}}`), ""}},
		{"put somebody else into it", attempt{a, patch(maintenance("foreign-a", "", ""), `{"spec":{"additionalRequestors":["nodefirmware.io","evil"]}}`), "add itself"}},
		{"end another's maintenance of its node", attempt{a, remove(maintenance("foreign-a", "", "")), "in its own name only"}},
		{"end its own maintenance", attempt{a, remove(maintenance("node-firmware-node-a", "", "")), ""}},
		{"end another node's maintenance", attempt{a, remove(maintenance("ours-b", "", "")), aChange}},
		{"report an event of its job", attempt{a, create(said("node-a-said", "firmware-daemon", "FirmwareJob")), ""}},
		{"continue its event", attempt{a, patch(said("node-a-said", "", ""), `{"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}}`), ""}},
		{"report an event in another's name", attempt{a, create(said("forged", "node-firmware-operator", "FirmwareJob")), "in its own name"}},
		{"report an event of something else", attempt{a, create(said("forged", "firmware-daemon", "RolloutPolicy")), "in its own name"}},
		{"change what another reported", attempt{a, patch(said("foreign-said", "", ""), `{"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}}`), "in its own name"}},
		{"report an event in another namespace", attempt{a, func(ctx context.Context, c client.Client) error {
			o := said("forged", "firmware-daemon", "FirmwareJob")
			o.Namespace, o.Regarding.Namespace = "kube-system", "kube-system"
			return c.Create(ctx, o)
		}, noVerb}},
		{"uncordon a node", attempt{a, patch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}, `{"spec":{"unschedulable":false}}`), noVerb}},
		{"read a secret", attempt{a, func(ctx context.Context, c client.Client) error {
			return c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: "x"}, &corev1.Secret{})
		}, noVerb}},
		{"read pods", attempt{a, func(ctx context.Context, c client.Client) error { return c.List(ctx, &corev1.PodList{}) }, noVerb}},
		{"change a template", attempt{a, create(&v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}}), noVerb}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.do(t.Context(), tc.who)
			if tc.refusal == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.True(t, apierrors.IsForbidden(err), "%v", err)
			assert.ErrorContains(t, err, tc.refusal)
		})
	}
}

func TestManifestsAreAcceptedByARealAPIServer(t *testing.T) { // R001-22
	s := newSite(t)
	objects, err := deploy.Objects(deploy.Operator, deploy.Daemon)
	require.NoError(t, err)
	require.NoError(t, cluster.Apply(t.Context(), s.admin, objects...))

	var daemon appsv1.DaemonSet
	require.NoError(t, s.admin.Get(t.Context(), client.ObjectKey{Namespace: cluster.Namespace, Name: "firmware-daemon"}, &daemon))
	assert.Equal(t, appsv1.OnDeleteDaemonSetStrategyType, daemon.Spec.UpdateStrategy.Type, "a manifest change must not end a flash")
	assert.GreaterOrEqual(t, *daemon.Spec.Template.Spec.TerminationGracePeriodSeconds, int64(1800))
	assert.True(t, *daemon.Spec.Template.Spec.Containers[0].SecurityContext.Privileged)
	var operator appsv1.Deployment
	require.NoError(t, s.admin.Get(t.Context(), client.ObjectKey{Namespace: cluster.Namespace, Name: "firmware-operator"}, &operator))
	assert.True(t, *operator.Spec.Template.Spec.SecurityContext.RunAsNonRoot)
	assert.NotEqual(t, daemon.Spec.Template.Spec.ServiceAccountName, operator.Spec.Template.Spec.ServiceAccountName)
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
	}, 30*time.Second, 100*time.Millisecond)
	assert.ErrorContains(t, a.Create(t.Context(), job("node-a2")), "may not write an object of node 'node-a2'")
	own := job("node-a")
	own.Name = "node-a-second"
	assert.ErrorContains(t, a.Create(t.Context(), own), "may create NodeDevices only")
	assert.ErrorContains(t, a.Delete(t.Context(), job("node-a")), "may delete NodeDevices only")
	assert.ErrorContains(t, a.Delete(t.Context(), &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}), "may delete NodeDevices only")
	assert.ErrorContains(t, a.Delete(t.Context(), &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}), "not found")
}

func TestDaemonImageHoldsTheToolsItsDriversRun(t *testing.T) { // R001-23
	recipe, err := os.ReadFile("../Dockerfile.daemon")
	require.NoError(t, err)
	for _, tool := range []string{"mstflint", "nvme-cli", "sg3-utils", "fwupd", "util-linux"} {
		assert.Regexp(t, `apt-get install [^\n]*\b`+tool+`\b`, string(recipe))
	}
	operator, err := os.ReadFile("../Dockerfile.operator")
	require.NoError(t, err)
	assert.Contains(t, string(operator), "\nFROM scratch\n", "the operator's image holds no tool at all")
}
