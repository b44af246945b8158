package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/node/confinement"
	"github.com/nodefirmware/node-firmware-operator/internal/node/devicename"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/crd"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/lab/cluster"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// installation is the product as kustomize installs it in a cluster with two nodes.
type installation struct {
	namespace, prefix string
	config            *rest.Config
	admin             client.Client
	// version of the product's API is what everybody but the admin speaks.
	version string
	// migrates says that the API server has a migration of stored objects of its own.
	migrates bool
}

// rendered is what kustomize makes of an overlay that uses the product with the strategy pod, in the namespace and with
// the name prefix.
func rendered(t *testing.T, namespace, prefix string) []*unstructured.Unstructured {
	t.Helper()
	return kustomized(t, fmt.Sprintf(`
resources: [../deploy/kustomize/default]
components: [../deploy/kustomize/pod-strategy, ../deploy/kustomize/drain, ../deploy/kustomize/medik8s, ../deploy/kustomize/signed-images]
namespace: %s
namePrefix: %q
configMapGenerator:
- {name: node-firmware-pod-handlers, namespace: %[1]s, files: [handlers.yaml]}
patches: # a limit without a request
- target: {kind: DaemonSet}
  patch: '[{"op": "add", "path": "/spec/template/spec/containers/0/resources/limits/ephemeral-storage", "value": "1Gi"}]'
`, namespace, prefix), "handlers:\n- {vendor: Lenovo, image: \"registry.example/lenovo:3\", args: [--log-level=debug, --tool-path, /opt/lenovo]}\n"+
		"- {vendor: Careless, image: x, args: [--image-verification=IfKeys, --image-keys-dir, /tmp, --kubeconfig=/x.partial]}\n"+
		"- image: nodefirmware/daemon:latest\n")
}

// kustomized is what kustomize makes of an overlay in a directory beside deploy, with the handlers in a file.
func kustomized(t *testing.T, kustomization, handlers string) []*unstructured.Unstructured {
	t.Helper()
	files := filesys.MakeFsInMemory()
	require.NoError(t, fs.WalkDir(deploy.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(deploy.Files, name)
		if err != nil {
			return err
		}
		return files.WriteFile("/deploy/"+name, data)
	}))
	require.NoError(t, files.WriteFile("/site/handlers.yaml", []byte(handlers)))
	require.NoError(t, files.WriteFile("/site/kustomization.yaml", []byte(kustomization)))
	out, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/site")
	require.NoError(t, err)
	var objects []*unstructured.Unstructured
	for _, r := range out.Resources() {
		text, err := r.MarshalJSON()
		require.NoError(t, err)
		o := &unstructured.Unstructured{}
		require.NoError(t, o.UnmarshalJSON(text))
		objects = append(objects, o)
	}
	return objects
}

// install starts a cluster and installs the product in it, with everything the attempts need.
func install(t *testing.T, namespace, prefix string) *installation {
	t.Helper()
	migration := controlplane.StorageMigration()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Out: io.Discard, Flags: migration})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, plane.Stop()) })
	i := &installation{namespace: namespace, prefix: prefix, config: plane.Config(), version: "v1alpha1", migrates: len(migration) > 0}
	i.admin = i.client(t, plane.Config())
	maintenance, err := crd.Maintenance()
	require.NoError(t, err)
	for _, d := range maintenance {
		require.NoError(t, i.admin.Create(t.Context(), d))
	}
	require.NoError(t, cluster.Apply(t.Context(), i.admin, rendered(t, namespace, prefix)...))
	for _, o := range i.objects() {
		require.EventuallyWithT(t, func(ct *assert.CollectT) { // the definitions take a moment to be served
			assert.NoError(ct, i.admin.Create(t.Context(), o))
		}, 2*time.Minute, 100*time.Millisecond, "%T %s", o, o.GetName())
	}
	require.NoError(t, i.admin.Status().Patch(t.Context(), definition("nodedevices.nodefirmware.io"), merge(`{"status":{"storedVersions":["v1alpha1","v1beta1"]}}`)))
	require.NoError(t, i.admin.Status().Patch(t.Context(), job("ended"), merge(`{"status":{"completionTime":"2026-11-23T10:00:00Z"}}`)))
	require.NoError(t, i.admin.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-b"}},
		merge(`{"metadata":{"labels":{"remediation.medik8s.io/exclude-from-remediation":"true"}}}`)))
	require.NoError(t, i.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "medik8s-leases"}}))
	require.NoError(t, i.admin.Create(t.Context(), &rbacv1.RoleBinding{ // the command of the documentation
		ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: "node-firmware-operator"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: prefix + "node-firmware-operator-medik8s"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: prefix + "firmware-operator"}},
	}))
	require.NoError(t, i.admin.Status().Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-b"}},
		merge(`{"status":{"conditions":[{"type":"MaintenanceInProgress","status":"True","reason":"AdminRequested"}]}}`)))
	return i
}

// objects are what the attempts are made on.
func (i *installation) objects() []client.Object {
	var out []client.Object
	for _, node := range []string{"node-a", "node-b"} {
		out = append(out, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelTopologyRegion: "r"}}}, nodeFirmware(node), device(node+"-nic-1", node), job(node))
	}
	return append(out, i.maintenance("node-firmware-node-a", "node-a", "nodefirmware.io"), i.maintenance("node-firmware-node-b", "node-b", "nodefirmware.io"),
		i.began("began", "false"), i.began("kept", "true"), i.maintenance("foreign-a", "node-a", "other.example.com"), said("said-foreign", "kubelet", "Node", "node-a"),
		said("said-by-a", "firmware-daemon", "FirmwareJob", "node-a-12345678"), said("said-by-b", "firmware-daemon", "FirmwareJob", "node-b-12345678"),
		said("said-by-operator", "node-firmware-operator", "FirmwareJob", "node-b-12345678"), job("ended"), update("node-a"), byPerson(v1alpha1.JobTypeRestore),
		template("t"), configuration("c"), source("s"), forbidden(), catalog(), certificate(),
		cleaning(), changed(nodeFirmware("leaving"), func(n *v1alpha1.NodeFirmware) { n.Spec.Service = v1alpha1.NodeOutOfService }),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cleaned", Annotations: map[string]string{v1alpha1.CleaningAnnotation: "j"}}, Spec: corev1.NodeSpec{
			Unschedulable: true, Taints: []corev1.Taint{{Key: v1alpha1.UnverifiedTaint, Effect: corev1.TaintEffectNoSchedule}},
		}},
		changed(nodeFirmware("pinned"), func(n *v1alpha1.NodeFirmware) { n.Spec.ScanThreshold = "1h" }), unpinned("unpinned"), rollout("p"), rollout("default"), i.configMap("other", "x"), i.daemonPod("plain"))
}

func (i *installation) client(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	options := client.Options{Scheme: cluster.Scheme()}
	if i.admin != nil {
		options.Mapper = i.admin.RESTMapper() // not everybody may ask which kinds there are
		config = rest.CopyConfig(config)
		config.Wrap(func(t http.RoundTripper) http.RoundTripper { return dialect{t, &i.version} })
	}
	c, err := client.New(config, options)
	require.NoError(t, err)
	return c
}

// as is a client with the token.
func (i *installation) as(t *testing.T, token string) client.Client {
	config := rest.AnonymousClientConfig(i.config)
	config.BearerToken = token
	return i.client(t, config)
}

// callers are clients for everybody that makes attempts, by name.
func (i *installation) callers(t *testing.T) map[string]client.Client {
	t.Helper()
	account := func(namespace, name string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	token := func(sa *corev1.ServiceAccount) string {
		out, err := cluster.AccountToken(t.Context(), i.admin, sa)
		require.NoError(t, err)
		return out
	}
	out := map[string]client.Client{
		"nobody": i.client(t, rest.AnonymousClientConfig(i.config)),
		// A token of the account that no pod has.
		"unbound":  i.as(t, token(account(i.namespace, i.prefix+"firmware-daemon"))),
		"operator": i.as(t, token(account(i.namespace, i.prefix+"firmware-operator"))),
	}
	for _, node := range []string{"a", "b"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "daemon-" + node},
			Spec: corev1.PodSpec{
				NodeName: "node-" + node, ServiceAccountName: i.prefix + "firmware-daemon", Containers: []corev1.Container{{Name: "main", Image: "simulated"}},
			},
		}
		require.NoError(t, i.admin.Create(t.Context(), pod))
		token, err := cluster.PodToken(t.Context(), i.admin, pod)
		require.NoError(t, err)
		out[node] = i.as(t, token)
	}
	for _, role := range []string{"viewer", "template-editor", "source-editor", "quarantine-editor", "policy-editor", "cleaning-editor", "pin-editor", "job-editor", "eraser", "admin"} {
		person := account("default", role)
		require.NoError(t, i.admin.Create(t.Context(), person))
		require.NoError(t, i.admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: i.prefix + "node-firmware-" + role},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: role}},
		}))
		out[role] = i.as(t, token(person))
	}
	require.NoError(t, i.admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "eraser-makes-jobs"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: i.prefix + "node-firmware-job-editor"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "eraser"}},
	}))
	// Who administers nodes.
	admin := rest.CopyConfig(i.config)
	admin.Impersonate = rest.ImpersonationConfig{UserName: "alice", Groups: []string{"system:masters"}}
	out["person"] = i.client(t, admin)
	require.NoError(t, out["person"].Create(t.Context(), consented(erasing("erased"), "alice")))
	require.NoError(t, out["person"].Create(t.Context(), consented(erased(), "alice")))
	// A program that may do anything with pods and nodes, and has nothing to do with the product.
	stranger := account("default", "stranger")
	require.NoError(t, i.admin.Create(t.Context(), stranger))
	require.NoError(t, i.admin.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "all-pods"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"*"}}},
	}))
	require.NoError(t, i.admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "stranger"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "all-pods"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "stranger"}},
	}))
	out["stranger"] = i.as(t, token(stranger))
	return out
}

// operatorAccount is the user name of the operator.
func (i *installation) operatorAccount() string {
	return "system:serviceaccount:" + i.namespace + ":" + i.prefix + "firmware-operator"
}

// consented is the object with the name of who consents to what it erases.
func consented[O client.Object](o O, by string) O {
	o.SetAnnotations(map[string]string{v1alpha1.ConsentedByAnnotation: by})
	return o
}

// erases has a policy erase drives.
func erases(p *v1alpha1.CleaningPolicy) {
	p.Name, p.Spec.Consent, p.Spec.When = "erases", "erases", []v1alpha1.CleaningTime{v1alpha1.CleaningOutOfService}
	p.Spec.Steps = []v1alpha1.CleaningStep{{Name: "erase", Priority: new(int32(1)), Expect: []v1alpha1.ExpectedDevices{
		{Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassDisk, Vendor: v1alpha1.AnyVendor}, Count: new(int32(1))},
	}}}
}

// erased is a policy by which drives are erased.
func erased() *v1alpha1.CleaningPolicy {
	return changed(changed(cleaning(), erases), func(p *v1alpha1.CleaningPolicy) { p.Name, p.Spec.Consent = "erased", "erased" })
}

// certificateOf is a certificate that a drive was erased.
func certificateOf(name string) *v1alpha1.SanitizationCertificate {
	at := metav1.NewTime(time.Unix(1764000000, 0))
	return &v1alpha1.SanitizationCertificate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SanitizationCertificateSpec{
		Record: v1alpha1.SanitizationRecord{
			Sanitization: v1alpha1.Sanitization{StartTime: at, SerialNumber: "S1", Method: "NVMe sanitize, block erase", Log: "log page 81h"}, Term: v1alpha1.TermPurge,
			NodeName: "node-a", Device: "node-a-disk-1", Job: "erases", JobUID: "1", CompletionTime: at, Remains: "firmware",
		},
		Signature: []byte("signature"), PublicKey: "key",
	}}
}

// erasing is a job that erases a drive.
func erasing(name string) *v1alpha1.FirmwareJob {
	return changed(job("node-a"), func(j *v1alpha1.FirmwareJob) {
		j.Name = name
		j.Spec.Task.Steps = []v1alpha1.RequestedStep{{Name: "erase", Device: "node-a-disk-1", Arguments: []v1alpha1.StepArgument{{Name: "serialNumber", Value: "S1"}}}}
	})
}

func cleaning() *v1alpha1.CleaningPolicy {
	return &v1alpha1.CleaningPolicy{ObjectMeta: metav1.ObjectMeta{Name: "storage"}, Spec: v1alpha1.CleaningPolicySpec{
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "storage"}}, When: []v1alpha1.CleaningTime{v1alpha1.CleaningNewNode},
		Steps: []v1alpha1.CleaningStep{{Name: "verify-firmware", Priority: new(int32(1))}},
	}}
}

func nodeFirmware(name string) *v1alpha1.NodeFirmware {
	return &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// unpinned is one whose last pin was removed: the list is there, and empty.
func unpinned(name string) client.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "NodeFirmware", "metadata": map[string]any{"name": name}, "spec": map[string]any{"pins": []any{}},
	}}
}

// update is a job as the operator makes it.
func update(node string) *v1alpha1.FirmwareJob {
	return &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-12345678", Labels: map[string]string{v1alpha1.ManagedByLabel: "node-firmware-operator"}, Finalizers: []string{v1alpha1.JobFinalizer}},
		Spec: v1alpha1.FirmwareJobSpec{NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{
			Name: node + "-nic-1", UniqueID: "1", Version: "1", Digest: v1alpha1.Digest("sha256:" + strings.Repeat("0", 64)),
		}}}},
	}
}

// ensure is how the operator creates the default policy, whether or not it is there.
func ensure(p *v1alpha1.RolloutPolicy) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "RolloutPolicy",
			"metadata": map[string]any{"name": p.Name, "labels": map[string]any{v1alpha1.ManagedByLabel: "node-firmware-operator"}},
		}}), client.FieldOwner("node-firmware-operator-rollout"), client.DryRunAll)
	}
}

func device(name, node string) *v1alpha1.NodeDevice {
	return &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeDeviceSpec{NodeName: node}}
}

func job(node string) *v1alpha1.FirmwareJob {
	return &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: node + "-job"}, Spec: v1alpha1.FirmwareJobSpec{NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{Name: "verify-firmware"}}}}}
}

// byPerson is a job that only persons make.
func byPerson(kind v1alpha1.JobType) *v1alpha1.FirmwareJob {
	return &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "by-person-" + strings.ToLower(string(kind))}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: "node-a", Task: v1alpha1.JobTask{Type: kind, Devices: []v1alpha1.TaskDevice{{Name: "node-a-nic-1"}}},
	}}
}

func template(name string) *v1alpha1.FirmwareTemplate {
	return &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareTemplateSpec{
		Rules: []v1alpha1.FirmwareRule{{Name: "r", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"}, Version: "1", SourceRef: v1alpha1.SourceReference{Name: "s"}}},
	}}
}

func configuration(name string) *v1alpha1.ConfigurationTemplate {
	return &v1alpha1.ConfigurationTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ConfigurationTemplateSpec{Rules: []v1alpha1.ConfigurationRule{{
		Name: "r", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3"}, DesiredConfiguration: *virtualFunctions(),
	}}}}
}

func virtualFunctions() *v1alpha1.DesiredConfiguration {
	return &v1alpha1.DesiredConfiguration{Settings: v1alpha1.Settings{NumVFs: new(int32(8))}}
}

func source(name string) *v1alpha1.FirmwareSource {
	return &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{
		URL: "https://example.com/fw.bin", Digest: v1alpha1.Digest("sha256:" + strings.Repeat("0", 64)), Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassNIC, Version: "1"}},
	}}}}
}

func catalog() *v1alpha1.FirmwareCatalog {
	return &v1alpha1.FirmwareCatalog{ObjectMeta: metav1.ObjectMeta{Name: "dell-inc.poweredge-r650"},
		Spec: v1alpha1.FirmwareCatalogSpec{Machine: v1alpha1.CatalogMachine{Vendor: "dell-inc", Model: "poweredge-r650"}}}
}

// forbidden is an image that a person confirmed as bad.
func forbidden() *v1alpha1.FirmwareQuarantine {
	return quarantine("15b3:101d", v1alpha1.QuarantineConfirmed)
}

func quarantine(model string, state v1alpha1.QuarantineState) *v1alpha1.FirmwareQuarantine {
	d := v1alpha1.Digest("sha256:" + strings.Repeat("0", 64))
	return &v1alpha1.FirmwareQuarantine{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.QuarantineName(d, model)}, Spec: v1alpha1.FirmwareQuarantineSpec{Digest: d, Model: model, State: state},
	}
}

func rollout(name string) *v1alpha1.RolloutPolicy {
	return &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func (i *installation) maintenance(name, node, requestor string) *maintenancev1alpha1.NodeMaintenance {
	return &maintenancev1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: name},
		Spec:       maintenancev1alpha1.NodeMaintenanceSpec{NodeName: node, RequestorID: requestor, Cordon: true},
	}
}

// began is a maintenance of node-a with what the maintenance-operator noted of the node when it began.
func (i *installation) began(name, unschedulable string) *maintenancev1alpha1.NodeMaintenance {
	return changed(i.maintenance(name, "node-a", "nodefirmware.io"), func(m *maintenancev1alpha1.NodeMaintenance) {
		m.Annotations = map[string]string{"maintenance.nvidia.com/node-initial-state.unschedulable": unschedulable}
	})
}

func (i *installation) configMap(name, key string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: name}, Data: map[string]string{key: "x"}}
}

func (i *installation) secret(name string, kind corev1.SecretType) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: name}, Type: kind}
	if kind == corev1.SecretTypeServiceAccountToken {
		s.Annotations = map[string]string{corev1.ServiceAccountNameKey: i.prefix + "firmware-daemon"}
		return s
	}
	s.Data = map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}}
	return s
}

// daemonPod is a pod without the label of job pods.
func (i *installation) daemonPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: name},
		Spec: corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Name: "main", Image: "simulated"}}}}
}

// jobPod is a pod as the operator makes it for a job, changed.
func (i *installation) jobPod(change func(*corev1.Pod)) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		var ds appsv1.DaemonSet
		if err := i.admin.Get(ctx, client.ObjectKey{Namespace: i.namespace, Name: i.prefix + "firmware-daemon"}, &ds); err != nil {
			return err
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: i.namespace, Name: "firmware-job-x", Annotations: map[string]string{"nodefirmware.io/job-name": "x"},
				Labels: map[string]string{"app.kubernetes.io/name": "node-firmware-operator", "app.kubernetes.io/component": "job", v1alpha1.JobPodLabel: "u"},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeFirmware", Name: "node-a", UID: "1", Controller: ptr.To(true),
				}},
			},
			Spec: ds.Spec.Template.Spec,
		}
		pod.Spec.NodeName, pod.Spec.RestartPolicy = "node-a", corev1.RestartPolicyOnFailure
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		main := &pod.Spec.Containers[0]
		main.Image = "registry.example/lenovo:3"
		main.Args = append(append([]string{"job", "--name=x"}, main.Args[1:]...), "--health-probe-bind-address=0", "--metrics-bind-address=0")
		main.Ports, main.LivenessProbe, main.ReadinessProbe, main.StartupProbe = nil, nil, nil, nil
		change(pod)
		return c.Create(ctx, pod, client.DryRunAll)
	}
}

// podChanges are ways in which the pod of a job may not differ from the daemons', by what they are.
func podChanges() map[string]func(*corev1.Pod) {
	main := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.Containers[0]) }
	}
	limits := func(name corev1.ResourceName, amount string) func(*corev1.Pod) {
		return main(func(c *corev1.Container) { c.Resources.Limits[name] = resource.MustParse(amount) })
	}
	requests := func(name corev1.ResourceName, amount string) func(*corev1.Pod) {
		return main(func(c *corev1.Container) { c.Resources.Requests[name] = resource.MustParse(amount) })
	}
	spec := func(change func(*corev1.PodSpec)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec) }
	}
	runs := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh"}}}
	mounted := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return spec(func(s *corev1.PodSpec) {
			s.Volumes = append(s.Volumes, corev1.Volume{Name: "kube-api-access-x", VolumeSource: source})
			s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "kube-api-access-x", MountPath: "/usr/sbin"})
		})
	}
	settings := corev1.LocalObjectReference{Name: "other"}
	return map[string]func(*corev1.Pod){
		"run another command":    main(func(c *corev1.Container) { c.Command = []string{"sh"} }),
		"run a program to start": main(func(c *corev1.Container) { c.StartupProbe = &corev1.Probe{ProbeHandler: runs} }),
		"run a program at its end": main(func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: runs.Exec}}
		}),
		"be killed with the daemon": main(func(c *corev1.Container) {
			c.LivenessProbe = &corev1.Probe{PeriodSeconds: 30, TimeoutSeconds: 20, FailureThreshold: 10, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Host: "127.0.0.1", Port: intstr.FromInt32(10281)},
			}}
		}),
		"change the environment": main(func(c *corev1.Container) { c.Env = append(c.Env, corev1.EnvVar{Name: "LD_PRELOAD", Value: "x"}) }),
		"take an environment": main(func(c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: settings}}}
		}),
		"work in another place":     main(func(c *corev1.Container) { c.WorkingDir = "/var/lib/node-firmware/images" }),
		"be killed for its memory":  limits(corev1.ResourceMemory, "96Mi"),
		"be slowed down":            limits(corev1.ResourceCPU, "20m"),
		"have no limit":             main(func(c *corev1.Container) { c.Resources.Limits = nil }),
		"be evicted first":          requests(corev1.ResourceMemory, "0"),
		"request what is the limit": main(func(c *corev1.Container) { c.Resources.Requests = nil }), // the API server fills it in
		"request less of its limit": requests(corev1.ResourceEphemeralStorage, "1Mi"),
		"leave others no processor": requests(corev1.ResourceCPU, "4"),
		"have more rights":          main(func(c *corev1.Container) { c.SecurityContext.ReadOnlyRootFilesystem = ptr.To(false) }),
		"mount nothing":             main(func(c *corev1.Container) { c.VolumeMounts = nil }),
		"mount a part of a volume":  main(func(c *corev1.Container) { c.VolumeMounts[0].SubPath = "etc" }),
		"mount something else": spec(func(s *corev1.PodSpec) {
			s.Volumes = append(s.Volumes, corev1.Volume{Name: "x", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: settings}}})
		}),
		"mount programs in the name of a token": mounted(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: settings, DefaultMode: ptr.To(int32(0o755))}}),
		"mount an image in the name of a token": mounted(corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "evil.example/x"}}),
		"mount the host in the name of a token": mounted(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp"}}),
		"have a token for another server":       mounted(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "evil", ExpirationSeconds: ptr.To(int64(3600))}}}}}),
		"have the token of the account mounted": spec(func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = nil }),
		"name another host as the server of images": spec(func(s *corev1.PodSpec) {
			s.HostAliases = []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"node-firmware-images"}}}
		}),
		"ask another server for names":       spec(func(s *corev1.PodSpec) { s.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.7"}} }),
		"be killed in the middle of a write": spec(func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = ptr.To(int64(1)) }),
		"be killed after a while":            spec(func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = ptr.To(int64(5)) }),
		"wait for somebody's condition": spec(func(s *corev1.PodSpec) {
			s.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "evil.example/x"}}
		}),
		"have no processes of the host": spec(func(s *corev1.PodSpec) { s.HostPID, s.ShareProcessNamespace = false, ptr.To(true) }),
		"have more groups": spec(func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{SupplementalGroups: []int64{0}}
		}),
		"claim a device": spec(func(s *corev1.PodSpec) {
			s.ResourceClaims = []corev1.PodResourceClaim{{Name: "x", ResourceClaimName: ptr.To("x")}}
		}),
		"be scheduled by somebody else": spec(func(s *corev1.PodSpec) { s.SchedulerName = "evil" }),
		"not come back after a crash":   spec(func(s *corev1.PodSpec) { s.RestartPolicy = corev1.RestartPolicyNever }),
		"tolerate nothing":              spec(func(s *corev1.PodSpec) { s.Tolerations = nil }),
	}
}

// podMarks are ways in which the metadata of the pod of a job may not differ from what the operator makes.
func podMarks() map[string]func(*corev1.Pod) {
	return map[string]func(*corev1.Pod){
		"be taken for a part of the operator": func(p *corev1.Pod) { p.Labels["app.kubernetes.io/component"] = "operator" },
		"have another label":                  func(p *corev1.Pod) { p.Labels["a"] = "b" },
		"have an annotation for the runtime":  func(p *corev1.Pod) { p.Annotations["cdi.k8s.io/x"] = "evil.example/device=all" },
		"stay for ever":                       func(p *corev1.Pod) { p.Finalizers = []string{"evil.example/x"} },
		"be owned by nobody":                  func(p *corev1.Pod) { p.OwnerReferences = nil },
		"be owned by another node":            func(p *corev1.Pod) { p.OwnerReferences[0].Name = "node-b" },
		"be owned by a job, which ends it":    func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "FirmwareJob" },
		"be owned by somebody who may be missing": func(p *corev1.Pod) {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "1"})
		},
	}
}

// withArgs adds arguments to the pod of a job as the operator adds those of its handler.
func withArgs(args ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Args = slices.Insert(slices.Clone(c.Args), len(c.Args)-2, args...)
		p.Annotations["nodefirmware.io/handler-args"] = strings.Join(args, "\n")
	}
}

// said is an event about a cluster-scoped object.
func said(name, by, kind, regarding string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		EventTime:  metav1.NowMicro(), Type: corev1.EventTypeNormal, Reason: "Test", Action: "Test", Note: "test",
		ReportingController: by, ReportingInstance: by + "-1",
		Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: regarding},
	}
}

// election is an event as leader election records it, through the older API.
func (i *installation) election(name, kind string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "elected"}, Reason: "LeaderElection", Message: "x became leader", Type: corev1.EventTypeNormal,
		Source:         corev1.EventSource{Component: "firmware-operator-x_1"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: kind, Namespace: i.namespace, Name: name},
	}
}

// merge is a merge patch.
func merge(body string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(body))
}

// attempt is one request, which changes nothing, and the beginning of the refusal; none where it is allowed.
type attempt struct {
	who, name string
	do        func(ctx context.Context, c client.Client) error
	refusal   string
}

func create(o client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return c.Create(ctx, o, client.DryRunAll) }
}

// evict evicts a pod.
func evict(p *corev1.Pod) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}})
	}
}

// admitted does what is refused only because the object is there, which is found after admission.
func admitted(do func(context.Context, client.Client) error) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return client.IgnoreAlreadyExists(do(ctx, c)) }
}

// applyCatalog creates the catalog of another machine by server-side apply, with more than its machine.
func applyCatalog(more string) func(context.Context, client.Client) error {
	spec := map[string]any{}
	err := json.Unmarshal([]byte(more), &spec)
	spec["machine"] = map[string]any{"vendor": "lenovo", "model": "7x21"}
	return func(ctx context.Context, c client.Client) error {
		if err != nil {
			return err
		}
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "FirmwareCatalog", "metadata": map[string]any{"name": "lenovo.7x21"}, "spec": spec,
		}}), client.FieldOwner("node-firmware-operator-catalog"), client.DryRunAll)
	}
}

func patch(o client.Object, body string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, o, merge(body), client.DryRunAll)
	}
}

func status(o client.Object, body string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Status().Patch(ctx, o, merge(`{"status":`+body+`}`), client.DryRunAll)
	}
}

func remove(o client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return c.Delete(ctx, o, client.DryRunAll) }
}

func read(o client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return c.Get(ctx, client.ObjectKeyFromObject(o), o) }
}

func get(o client.Object) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return c.Get(ctx, client.ObjectKeyFromObject(o), o) }
}

func list(o client.ObjectList) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return c.List(ctx, o) }
}

// changed is the object after the change.
func changed[T client.Object](o T, change func(T)) T {
	change(o)
	return o
}

// conditions is a list of conditions of a status, as JSON.
func conditions(types ...string) string {
	var out []string
	for _, kind := range types {
		out = append(out, fmt.Sprintf(`{"type":%q,"status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}`, kind))
	}
	return `{"conditions":[` + strings.Join(out, ",") + `]}`
}

// initially is a patch of what the maintenance-operator noted of the node.
func initially(value string) string {
	return `{"metadata":{"annotations":{"maintenance.nvidia.com/node-initial-state.unschedulable":` + value + `}}}`
}

// noOwner is an owner that does not exist, with which the garbage collector deletes an object.
const noOwner = `{"apiVersion":"v1","kind":"Node","name":"gone","uid":"1"}`

// What the refusals begin with.
const (
	noVerb      = "is forbidden: User"
	anotherNode = "may not write an object of node 'node-b'"
	aChange     = "may not change or delete an object of node 'node-b'"
	noClaim     = "names no node"
	operators   = "are the operator's"
	onlyLabel   = "nothing of a NodeFirmware but"
	named       = "must be named after its node"
	noMetadata  = "without labels, annotations and finalizers"
	inOwnName   = "in its own name"
	ownEvents   = "events of its own node"
	ourName     = "in its own name only"
	ourEntry    = "add itself to, or remove itself from"
	// initialState is about the only annotations of a maintenance.
	initialState = "the only annotation of a maintenance"
	itsSpace     = "only in its own namespace"
	oneMap       = "no ConfigMap but node-firmware-image-ca"
	oneSecret    = "no Secret but node-firmware-image-tls"
	itsEnd       = "its admission and its end only"
	jobPods      = "pods that execute jobs only"
	onlyOp       = "firmware-job-" // the name of the policy: the label, the shape and the image are refused, in any order
	podShape     = "has one container, the account of the daemons"
	podRuns      = `runs "firmware-daemon job"`
	podArgs      = "but those that the file of handlers names"
	podImage     = "an image that the file of handlers names"
	podElse      = "is in everything else as the template of the DaemonSet"
	podMeta      = "has the labels and annotations that the firmware operator gives it"
	theNodes     = "what the node says is its daemon's"
	ownWords     = "may write its own conditions only"
	opEvents     = "only about the product's kinds and its own Lease"
)

// attempts are at least one for each way out of its role that each caller has.
func (i *installation) attempts() []attempt {
	desired := &v1alpha1.DesiredFirmware{Version: "1", Policy: "Apply", Downgrade: "Allow"}
	origin := []v1alpha1.Origin{{Kind: v1alpha1.OriginPin, Name: "n", Rule: "r"}}
	const (
		wants = `{"spec":{"configuration":{"settings":{"numVFs":8}},"origin":[{"kind":"ConfigurationTemplate","name":"c","rule":"r"}]}}`
		has   = `{"configuration":{"digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","state":"OutOfDate"},"parameters":[{"name":"numVFs","current":"0"}]}`
	)
	owned := func(kind, name string, blocks bool) func(*v1alpha1.NodeDevice) {
		return func(d *v1alpha1.NodeDevice) {
			d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: name, UID: "1", BlockOwnerDeletion: &blocks}}
		}
	}
	absent := &v1alpha1.CleaningPolicy{ObjectMeta: metav1.ObjectMeta{Name: "absent"}}
	mine := i.maintenance("node-firmware-node-a", "node-a", "nodefirmware.io")
	const notItsNodes, stepsRun = "of a Node, the firmware operator may remove the taint of a new one", "steps run on the node"
	taints := func(is ...string) string { // beside the one that every new Node gets
		return fmt.Sprintf(`{"spec":{"taints":[%s]}}`, strings.Join(append([]string{`{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}`}, is...), ","))
	}
	const isNew, isOut = `{"key":"nodefirmware.io/unverified","effect":"NoSchedule"}`, `{"key":"nodefirmware.io/out-of-service","value":"x","effect":"NoSchedule"}`
	cleaned := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cleaned"}}
	steps := func(policy string) *v1alpha1.FirmwareJob {
		return changed(job("node-a"), func(j *v1alpha1.FirmwareJob) {
			j.Name = "node-a-clean"
			if policy != "" {
				j.Spec.Task.CleaningPolicyRef = &v1alpha1.CleaningPolicyReference{Name: policy}
			}
		})
	}
	nodeA := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
	nodeB := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-b"}}
	onNode := func(kind, reason string) func(context.Context, client.Client) error {
		return status(nodeA, fmt.Sprintf(`{"conditions":[{"type":%q,"status":"True","reason":%q}]}`, kind, reason))
	}
	labelledByStatus := func(ctx context.Context, c client.Client) error {
		return c.Status().Patch(ctx, nodeA, merge(`{"metadata":{"labels":{"a":"b"}}}`), client.DryRunAll)
	}
	foreign := i.maintenance("foreign-a", "node-a", "other.example.com")
	another := said("forged", "firmware-daemon", "FirmwareJob", "node-a-12345678")
	another.Namespace, another.Regarding.Namespace = "kube-system", "kube-system"
	out := []attempt{
		// A daemon and its NodeDevices.
		{"a", "create a device of another node", create(device("x", "node-b")), anotherNode},
		{"b", "create a device of another node", create(device("node-a-nic-7", "node-a")), "may not write an object of node 'node-a'"},
		{"a", "create a device with desired firmware", create(changed(device("node-a-nic-9", "node-a"), func(d *v1alpha1.NodeDevice) { d.Spec.Firmware, d.Spec.Origin = desired, origin })), "without a desired firmware"},
		{"a", "create a device with desired settings", create(changed(device("node-a-nic-9", "node-a"), func(d *v1alpha1.NodeDevice) { d.Spec.Configuration, d.Spec.Origin = virtualFunctions(), origin })), "or configuration"},
		{"unbound", "create a device", create(device("node-a-nic-9", "node-a")), noClaim},
		{"a", "take the name of another node's device", create(device("node-b-bios", "node-a")), named},
		{"a", "take a name that says no class", create(device("node-a-1-nic-2", "node-a")), named},
		{"a", "take the name of the BIOS of node-a-nic", create(device("node-a-nic-bios", "node-a")), named},
		{"a", "take the name of a card of node-a-nic", create(device("node-a-nic-nic-b8cef6001234", "node-a")), named},
		{"a", "take the name of a card of node-a-nic-x", create(device("node-a-nic-x-nic-b8cef6001234", "node-a")), named},
		{"a", "take the name of a drive of node-a-bios", create(device("node-a-bios-disk-1", "node-a")), named},
		{"a", "take the name of the BIOS of node-a-disk.x", create(device("node-a-disk.x-bios", "node-a")), named},
		{"a", "take a long name of node-a-disk", create(device("node-a-disk-disk-"+strings.Repeat("0", 227)+"-0123abcd", "node-a")), named},
		{"a", "label a device", create(changed(device("node-a-nic-9", "node-a"), func(d *v1alpha1.NodeDevice) { d.Labels = map[string]string{"a": "b"} })), noMetadata},
		{"a", "annotate a device", create(changed(device("node-a-nic-9", "node-a"), func(d *v1alpha1.NodeDevice) { d.Annotations = map[string]string{"a": "b"} })), noMetadata},
		{"a", "keep a device for ever", create(changed(device("node-a-nic-9", "node-a"), func(d *v1alpha1.NodeDevice) { d.Finalizers = []string{"evil.example/x"} })), noMetadata},
		{"a", "have a device owned by its Node", create(changed(device("node-a-nic-9", "node-a"), owned("Node", "node-a", false))), ""},
		{"a", "have a device owned by something else", create(changed(device("node-a-nic-9", "node-a"), owned("ConfigMap", "node-a", false))), noMetadata},
		{"a", "have a device owned by another Node", create(changed(device("node-a-nic-9", "node-a"), owned("Node", "node-b", false))), noMetadata},
		{"a", "keep its Node from being deleted", create(changed(device("node-a-nic-9", "node-a"), owned("Node", "node-a", true))), noMetadata},
		{"a", "report on its device", status(device("node-a-nic-1", ""), `{"boardID":"MT_1"}`), ""},
		{"a", "report the settings of its device", status(device("node-a-nic-1", ""), has), ""},
		{"a", "report the settings of another node's device", status(device("node-b-nic-1", ""), has), anotherNode},
		{"a", "say which settings its device should have", patch(device("node-a-nic-1", ""), wants), noVerb},
		{"a", "report on another node's device", status(device("node-b-nic-1", ""), `{"boardID":"MT_1"}`), anotherNode},
		{"b", "report on another node's device", status(device("node-a-nic-1", ""), `{"boardID":"MT_1"}`), "may not write an object of node 'node-a'"},
		{"unbound", "report on a device", status(device("node-a-nic-1", ""), `{"boardID":"MT_2"}`), noClaim},
		{"a", "set 12 conditions", status(device("node-a-nic-1", ""), conditions(strings.Split("ABCDEFGHIJKL", "")...)), ""},
		{"a", "leave no room for the operator's conditions", status(device("node-a-nic-1", ""), conditions(strings.Split("ABCDEFGHIJKLM", "")...)), "at most 12 conditions"},
		{"a", "say that its device is in conflict", status(device("node-a-nic-1", ""), conditions("Conflict")), operators},
		{"a", "say that its device is blocked", status(device("node-a-nic-1", ""), conditions("Blocked")), operators},
		{"a", "change a device's spec", patch(device("node-a-nic-1", ""), `{"spec":{"nodeName":"node-a"},"metadata":{"labels":{"a":"b"}}}`), noVerb},
		{"a", "delete its device", remove(device("node-a-nic-1", "")), ""},
		{"a", "delete another node's device", remove(device("node-b-nic-1", "")), aChange},
		{"unbound", "delete a device", remove(device("node-b-nic-1", "")), noClaim},
		{"a", "delete all devices", func(ctx context.Context, c client.Client) error {
			return c.DeleteAllOf(ctx, &v1alpha1.NodeDevice{}, client.DryRunAll)
		}, noVerb},
		// A daemon and its node.
		{"a", "report on its node", status(nodeFirmware("node-a"), `{"bootID":"1"}`), ""},
		{"a", "report on another node", status(nodeFirmware("node-b"), `{"bootID":"1"}`), anotherNode},
		{"a", "say that its firmware is obsolete", status(nodeFirmware("node-a"), conditions("Current")), operators},
		{"a", "list what is obsolete", status(nodeFirmware("node-a"),
			`{"obsolete":[{"kind":"FirmwareSource","name":"s","reason":"Updated"}]}`), operators},
		{"unbound", "report on a node", status(nodeFirmware("node-b"), `{"bootID":"1"}`), noClaim},
		{"a", "pin its own firmware", patch(nodeFirmware("node-a"), `{"spec":{"scanThreshold":"1h"}}`), noVerb},
		{"a", "create a node's firmware", create(nodeFirmware("node-c")), noVerb},
		{"a", "delete its node's firmware", remove(nodeFirmware("node-a")), noVerb},
		{"a", "uncordon its node", patch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}, `{"spec":{"unschedulable":false}}`), noVerb},
		// A daemon and jobs.
		{"a", "report on its job", status(job("node-a"), `{"reboots":1}`), ""},
		{"a", "report on another node's job", status(job("node-b"), `{"reboots":1}`), anotherNode},
		{"unbound", "report on a job", status(job("node-b"), `{"reboots":1}`), noClaim},
		{"a", "admit its own job", status(job("node-a"), conditions("Admitted")), operators},
		{"a", "create a job", create(job("node-a")), noVerb},
		{"a", "delete its job", remove(job("node-a")), noVerb},
		// A daemon and maintenance.
		{"b", "take the name of another node's maintenance", create(i.maintenance("node-firmware-node-c", "node-b", "nodefirmware.io")), named},
		{"a", "request maintenance of another node", create(i.maintenance("node-firmware-node-a", "node-b", "nodefirmware.io")), anotherNode},
		{"a", "request maintenance in another's name", create(i.maintenance("node-firmware-node-a", "node-a", "other.example.com")), ourName},
		{"a", "request maintenance for others", create(changed(i.maintenance("node-firmware-node-a", "node-a", "nodefirmware.io"), func(m *maintenancev1alpha1.NodeMaintenance) {
			m.Spec.AdditionalRequestors = []string{"other.example.com"}
		})), "no metadata or requestors of others"},
		{"a", "request maintenance for itself and others", create(changed(i.maintenance("node-firmware-node-a", "node-a", "nodefirmware.io"), func(m *maintenancev1alpha1.NodeMaintenance) {
			m.Spec.AdditionalRequestors = []string{"nodefirmware.io", "other.example.com"}
		})), "no metadata or requestors of others"},
		{"a", "request maintenance that outlives its deletion by others", admitted(create(changed(i.maintenance("node-firmware-node-a", "node-a", "nodefirmware.io"), func(m *maintenancev1alpha1.NodeMaintenance) {
			m.Spec.AdditionalRequestors = []string{"nodefirmware.io"}
		}))), ""},
		{"unbound", "request maintenance", create(i.maintenance("node-firmware-node-a", "node-a", "nodefirmware.io")), noClaim},
		{"a", "end its maintenance", remove(mine), ""},
		{"a", "keep its maintenance from being collected", patch(mine, `{"metadata":{"annotations":{"maintenance.nvidia.com/garbage-collector.ignore":"true"}}}`), ""},
		{"a", "have its node stay cordoned at the end", patch(i.began("began", ""), initially(`"true"`)), ""},
		{"a", "have its node uncordoned at the end", patch(i.began("kept", ""), initially(`"false"`)), initialState},
		{"a", "say how its node was before", patch(mine, initially(`"true"`)), initialState},
		{"a", "forget how its node was before", patch(i.began("began", ""), initially("null")), initialState},
		{"a", "have its node uncordoned by another's maintenance", patch(foreign, initially(`"false"`)), "only on its own maintenance"},
		{"a", "request maintenance after one that was removed", admitted(create(i.began("node-firmware-node-a", "false"))), ""},
		{"a", "request maintenance that leaves its node cordoned", create(i.began("node-firmware-node-a", "true")), "no metadata or requestors of others"},
		{"a", "request maintenance of another node after one that was removed", create(changed(i.began("node-firmware-node-a", "false"), func(m *maintenancev1alpha1.NodeMaintenance) { m.Spec.NodeName = "node-b" })), anotherNode},
		{"a", "annotate its maintenance otherwise", patch(mine, `{"metadata":{"annotations":{"a":"b"}}}`), "the only annotation of a maintenance"},
		{"a", "keep its maintenance for ever", patch(mine, `{"metadata":{"finalizers":["evil.example/x"]}}`), "the labels, finalizers and owners"},
		{"a", "say that its maintenance failed", status(mine, conditions("RequestorFailed")), ""},
		{"a", "say that its maintenance is ready", status(mine, conditions("Ready")), "the condition RequestorFailed only"},
		{"a", "join another's maintenance of its node", patch(foreign, `{"spec":{"additionalRequestors":["nodefirmware.io"]}}`), ""},
		{"a", "put somebody else into it", patch(foreign, `{"spec":{"additionalRequestors":["nodefirmware.io","evil"]}}`), ourEntry},
		{"a", "change what another's maintenance drains", patch(foreign, `{"spec":{"drainSpec":{"force":true}}}`), ourEntry},
		{"a", "cancel another's cordon", patch(foreign, `{"spec":{"cordon":false}}`), ourEntry},
		{"a", "label another's maintenance", patch(foreign, `{"metadata":{"labels":{"a":"b"}}}`), "the labels, finalizers and owners"},
		{"a", "annotate another's maintenance", patch(foreign, `{"metadata":{"annotations":{"maintenance.nvidia.com/garbage-collector.ignore":"true"}}}`), "only on its own maintenance"},
		{"a", "say that another's maintenance failed", status(foreign, conditions("RequestorFailed")), ourName},
		{"a", "end another's maintenance of its node", remove(foreign), ourName},
		{"a", "end another node's maintenance", remove(i.maintenance("node-firmware-node-b", "", "")), aChange},
		{"a", "fail another node's maintenance", status(i.maintenance("node-firmware-node-b", "", ""), conditions("RequestorFailed")), anotherNode},
		// A daemon and events.
		{"a", "report an event of its job", create(said("said", "firmware-daemon", "FirmwareJob", "node-a-12345678")), ""},
		{"a", "report an event of its node", create(said("said", "firmware-daemon", "NodeFirmware", "node-a")), ""},
		{"a", "continue its event", patch(said("said-by-a", "", "", ""), `{"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}}`), ""},
		{"a", "report an event of another node's job", create(said("said", "firmware-daemon", "FirmwareJob", "node-b-12345678")), ownEvents},
		{"a", "report an event of another node", create(said("said", "firmware-daemon", "NodeFirmware", "node-b")), ownEvents},
		{"a", "continue another node's event", patch(said("said-by-b", "", "", ""), `{"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}}`), ownEvents},
		{"unbound", "report an event", create(said("said", "firmware-daemon", "NodeFirmware", "node-a")), noClaim},
		{"a", "report an event in the operator's name", create(said("said", "node-firmware-operator", "FirmwareJob", "node-a-12345678")), inOwnName},
		{"a", "report an event of something else", create(said("said", "firmware-daemon", "RolloutPolicy", "p")), inOwnName},
		{"a", "change what another reported", patch(said("said-foreign", "", "", ""), `{"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}}`), inOwnName},
		{"a", "report an event in another namespace", create(another), "in the namespace default only"},
		{"a", "report an event through the older API", create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}}), noVerb},
		{"a", "delete an event", remove(said("said-by-b", "", "", "")), noVerb},
		// A daemon and what is not its business.
		{"a", "read a secret", read(i.secret("node-firmware-image-tls", "")), noVerb},
		{"a", "read a ConfigMap", read(i.configMap("other", "")), noVerb},
		{"a", "read pods", list(&corev1.PodList{}), noVerb},
		{"a", "change a template", create(template("t2")), noVerb},
		{"a", "lift a quarantine", patch(forbidden(), `{"spec":{"state":"Lifted"}}`), noVerb},
		{"a", "say that nobody reported an image", status(forbidden(), `{"scope":"None","reports":[]}`), noVerb},
		{"a", "forbid an image", create(quarantine("15b3:101f", "")), noVerb},
		{"a", "delete a quarantine", remove(forbidden()), noVerb},
		{"a", "change a budget", patch(rollout("p"), `{"spec":{"maxUnavailable":"100%"}}`), noVerb},
		{"a", "change the ledger", status(rollout("p"), `{"admitted":[]}`), noVerb},
		{"a", "mint a token", func(ctx context.Context, c client.Client) error {
			sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: i.prefix + "firmware-operator"}}
			return c.SubResource("token").Create(ctx, sa, &authenticationv1.TokenRequest{})
		}, noVerb},
		// What people want is named by a job; none of it may be listed or written.
		{"a", "read a template", read(template("t")), ""},
		{"a", "read a source", read(source("s")), ""},
		{"a", "list templates", list(&v1alpha1.FirmwareTemplateList{}), noVerb},
		{"a", "list sources", list(&v1alpha1.FirmwareSourceList{}), noVerb},
		{"a", "read settings", read(configuration("c")), ""},
		{"a", "list settings", list(&v1alpha1.ConfigurationTemplateList{}), noVerb},
		{"a", "read a cleaning policy", func(ctx context.Context, c client.Client) error { return client.IgnoreNotFound(read(absent)(ctx, c)) }, ""},
		{"a", "list cleaning policies", list(&v1alpha1.CleaningPolicyList{}), noVerb},
		{"a", "want other steps", patch(absent, `{"spec":{"state":"Paused"}}`), noVerb},
		{"a", "say that its node is clean", status(absent, `{"nodes":{"clean":1}}`), noVerb},
		{"a", "want other settings", patch(configuration("c"), `{"spec":{"state":"Paused"}}`), noVerb},
		{"a", "report on settings for the operator", status(configuration("c"), `{"observedGeneration":1}`), noVerb},
		{"a", "want other firmware", patch(template("t"), `{"spec":{"state":"Paused"}}`), noVerb},
		{"a", "make a template", create(template("other")), noVerb},
		{"a", "offer another image", patch(source("s"), `{"spec":{"upgradePaths":[{"to":"2","below":"1"}]}}`), noVerb},
		{"a", "pin its own firmware", patch(nodeFirmware("node-a"), `{"spec":{"pins":[{"name":"p","selector":{"class":"BIOS","vendor":"any"},"version":"1","sourceRef":{"name":"s"}}]}}`), noVerb},
		{"operator", "make a template", create(template("other")), noVerb},
		{"operator", "delete a template", remove(template("t")), noVerb},
		{"a", "remove what confines it", remove(policy(i.prefix + "firmware-daemon-own-node")), noVerb},

		// The operator.
		{"operator", "publish the image authority", create(i.configMap("node-firmware-image-ca", "ca.crt")), ""},
		{"operator", "publish its own address", create(i.configMap("node-firmware-image-ca", "address")), ""},
		{"operator", "bring tool profiles to the daemons", create(i.configMap("node-firmware-profiles", "evil.yaml")), oneMap},
		{"operator", "name the keys of images", create(i.configMap("node-firmware-image-keys", "vendor.pub")), oneMap},
		{"operator", "put a profile beside the authority", create(i.configMap("node-firmware-image-ca", "evil.yaml")), oneMap},
		{"operator", "change another ConfigMap", patch(i.configMap("other", ""), `{"data":{"x":"y"}}`), noVerb},
		{"operator", "create a ConfigMap elsewhere", create(changed(i.configMap("node-firmware-image-ca", "ca.crt"), func(c *corev1.ConfigMap) { c.Namespace = "default" })), noVerb},
		{"operator", "keep its certificate", create(i.secret("node-firmware-image-tls", corev1.SecretTypeTLS)), ""},
		{"operator", "keep the key of certificates", create(i.secret("node-firmware-certificate-key", corev1.SecretTypeOpaque)), ""},
		{"operator", "have a token made as that key", create(i.secret("node-firmware-certificate-key", corev1.SecretTypeServiceAccountToken)), oneSecret},
		{"operator", "make another secret", create(i.secret("other", corev1.SecretTypeTLS)), oneSecret},
		{"operator", "have a token of the daemons made", create(i.secret("node-firmware-image-tls", corev1.SecretTypeServiceAccountToken)), oneSecret},
		{"operator", "read another secret", read(i.secret("other", "")), noVerb},
		{"operator", "mint a token of the daemons", func(ctx context.Context, c client.Client) error {
			sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: i.prefix + "firmware-daemon"}}
			return c.SubResource("token").Create(ctx, sa, &authenticationv1.TokenRequest{})
		}, noVerb},
		{"operator", "make a pod for a job", i.jobPod(func(*corev1.Pod) {}), ""},
		{"operator", "make another pod", create(i.daemonPod("other")), jobPods},
		{"operator", "delete another pod", remove(i.daemonPod("plain")), jobPods},
		{"operator", "run another image", i.jobPod(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "evil.example/x" }), podImage},
		{"operator", "run a part of an image's name", i.jobPod(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "registry.example/lenovo" }), podImage},
		{"operator", "run a daemon that takes unsigned images", i.jobPod(withArgs("--image-verification=IfKeys")), podRuns},
		{"operator", "run a daemon with keys of its own", i.jobPod(withArgs("--image-keys-dir", "/tmp")), podRuns},
		{"operator", "have another flag swallow the verification", i.jobPod(func(p *corev1.Pod) {
			c := &p.Spec.Containers[0]
			at := slices.Index(c.Args, "--image-verification=$(IMAGE_VERIFICATION)")
			c.Args = append(slices.Insert(slices.Clone(c.Args), at, "--pod-name"), "--pod-name=$(POD_NAME)")
		}), podRuns},
		{"operator", "hide the verification within another argument", i.jobPod(func(p *corev1.Pod) {
			c := &p.Spec.Containers[0]
			at := slices.Index(c.Args, "--image-verification=$(IMAGE_VERIFICATION)")
			c.Args[at-1] += "\n" + c.Args[at]
			c.Args = slices.Delete(c.Args, at, at+1)
		}), podRuns},
		{"operator", "run programs that a kubeconfig names", i.jobPod(withArgs("--kubeconfig=/x.partial")), podRuns},
		{"operator", "add what its handler adds", i.jobPod(withArgs("--log-level=debug", "--tool-path", "/opt/lenovo")), ""},
		{"operator", "run the tools of another directory", i.jobPod(withArgs("--tool-path=/var/lib/node-firmware/images")), podArgs},
		{"operator", "run the tools of a part of a handler's directory", i.jobPod(withArgs("--tool-path", "/opt")), podArgs},
		{"operator", "run the profiles of another directory", i.jobPod(withArgs("--profile-dir=/host/tmp")), podArgs},
		{"operator", "add an argument that it does not declare", i.jobPod(func(p *corev1.Pod) {
			withArgs("--tool-path=/var/lib/node-firmware/images")(p)
			delete(p.Annotations, "nodefirmware.io/handler-args")
		}), podRuns},
		{"operator", "declare another argument than it adds", i.jobPod(func(p *corev1.Pod) {
			withArgs("--tool-path=/var/lib/node-firmware/images")(p)
			p.Annotations["nodefirmware.io/handler-args"] = "--log-level=debug"
		}), podRuns},
		{"operator", "add an argument after all others", i.jobPod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, "--log-level=debug")
		}), podRuns},
		{"operator", "run a daemon of another cluster", i.jobPod(func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"job", "--kubeconfig=/x"} }), podRuns},
		{"operator", "run a second container", i.jobPod(func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "x", Image: "nodefirmware/daemon:latest"})
		}), podShape},
		{"operator", "run with another account", i.jobPod(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" }), podShape},
		{"operator", "be let through by OpenShift", i.jobPod(func(p *corev1.Pod) { p.Annotations["openshift.io/scc"] = "privileged" }), ""},
		{"operator", "make a pod elsewhere", i.jobPod(func(p *corev1.Pod) { p.Namespace = "default" }), noVerb},
		{"operator", "end the product's maintenance", remove(mine), ""},
		{"operator", "end another's maintenance", remove(foreign), ourName},
		{"operator", "change another's maintenance", patch(foreign, `{"spec":{"cordon":false}}`), ourEntry},
		{"operator", "put somebody else into a maintenance", patch(foreign, `{"spec":{"additionalRequestors":["evil"]}}`), ourEntry},
		// R000-51, R000-52: what a discovery found is reported by the operator, in the status, and by nobody else.
		{"operator", "report what a discovery found", status(catalog(), `{"nodes":1}`), ""},
		{"operator", "change what a catalog is to look for", patch(catalog(), `{"spec":{"state":"Paused"}}`), "nothing of a FirmwareCatalog"},
		{"operator", "delete a catalog", remove(catalog()), noVerb},
		{"a", "report what a discovery found", status(catalog(), `{"nodes":1}`), noVerb},
		{"a", "read a catalog", read(catalog()), noVerb},
		{"source-editor", "report what a discovery found", status(catalog(), `{"nodes":1}`), noVerb},
		{"admin", "report what a discovery found", status(catalog(), `{"nodes":1}`), noVerb},
		{"operator", "create a catalog", applyCatalog(`{}`), ""},
		{"operator", "create a catalog that opens connections", applyCatalog(`{"providers":[{"name":"x","type":"Index","url":"https://evil.example.com/x"}]}`), "the machine of a FirmwareCatalog"},
		{"source-editor", "request a discovery", patch(catalog(), `{"spec":{"requests":{"discover":"now"}}}`), ""},
		{"viewer", "request a discovery", patch(catalog(), `{"spec":{"requests":{"discover":"now"}}}`), noVerb},
		{"template-editor", "request a discovery", patch(catalog(), `{"spec":{"requests":{"discover":"now"}}}`), noVerb},
		{"operator", "create a source", create(source("other")), noVerb},
		{"operator", "change where an image comes from", patch(source("s"), `{"spec":{"upgradePaths":[{"to":"2","below":"1"}]}}`), "nothing of a FirmwareSource"},
		{"operator", "keep a source", patch(source("s"), `{"metadata":{"finalizers":["nodefirmware.io/source"]}}`), ""},
		{"operator", "report on a source", status(source("s"), `{"observedGeneration":1}`), ""},
		{"operator", "delete a source", remove(source("s")), noVerb},
		{"operator", "have a source deleted with its owner", patch(source("s"), `{"metadata":{"ownerReferences":[`+noOwner+`]}}`), "give away"},
		{"operator", "quarantine an image", create(quarantine("15b3:101f", "")), ""},
		{"operator", "report who reported an image", status(forbidden(), `{"scope":"None"}`), ""},
		{"operator", "confirm an image as bad", create(quarantine("15b3:101f", v1alpha1.QuarantineConfirmed)), "the image and the model"},
		{"operator", "lift beforehand", create(quarantine("15b3:101f", v1alpha1.QuarantineLifted)), "the image and the model"},
		{"operator", "lift a quarantine", patch(forbidden(), `{"spec":{"state":"Lifted"}}`), "nothing of a FirmwareQuarantine"},
		{"operator", "leave a quarantine to the reports", patch(forbidden(), `{"spec":{"state":"Active"}}`), "nothing of a FirmwareQuarantine"},
		{"operator", "delete a quarantine", remove(forbidden()), noVerb},
		{"operator", "delete all quarantines", func(ctx context.Context, c client.Client) error {
			return c.DeleteAllOf(ctx, &v1alpha1.FirmwareQuarantine{}, client.DryRunAll)
		}, noVerb},
		{"operator", "have a quarantine deleted with its owner", patch(forbidden(), `{"metadata":{"ownerReferences":[`+noOwner+`]}}`), "give away"},
		{"operator", "keep a quarantine for ever", patch(forbidden(), `{"metadata":{"finalizers":["evil.example/x"]}}`), "finalizers of FirmwareJobs"},
		{"operator", "label a quarantine", patch(forbidden(), `{"metadata":{"labels":{"a":"b"}}}`), "what a person writes"},
		{"operator", "make a quarantine that its owner takes away", create(changed(quarantine("15b3:101f", ""), func(q *v1alpha1.FirmwareQuarantine) {
			q.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "x", UID: "1"}}
		})), "without labels, annotations"},
		{"quarantine-editor", "lift a quarantine", patch(forbidden(), `{"spec":{"state":"Lifted"}}`), ""},
		{"quarantine-editor", "forbid an image", create(quarantine("15b3:101f", v1alpha1.QuarantineConfirmed)), ""},
		{"quarantine-editor", "delete a quarantine", remove(forbidden()), ""},
		{"quarantine-editor", "say that nobody reported an image", status(forbidden(), `{"reports":[]}`), noVerb},
		{"source-editor", "lift a quarantine", patch(forbidden(), `{"spec":{"state":"Lifted"}}`), noVerb},
		{"admin", "lift a quarantine", patch(forbidden(), `{"spec":{"state":"Lifted"}}`), ""},
		{"template-editor", "lift a quarantine", patch(forbidden(), `{"spec":{"state":"Lifted"}}`), noVerb},
		{"policy-editor", "lift a quarantine", patch(forbidden(), `{"spec":{"state":"Lifted"}}`), noVerb},
		{"pin-editor", "lift a quarantine", patch(forbidden(), `{"spec":{"state":"Lifted"}}`), noVerb},
		{"job-editor", "lift a quarantine", patch(forbidden(), `{"spec":{"state":"Lifted"}}`), noVerb},
		{"viewer", "lift a quarantine", patch(forbidden(), `{"spec":{"state":"Lifted"}}`), noVerb},
		{"viewer", "see quarantines", list(&v1alpha1.FirmwareQuarantineList{}), ""},
		{"operator", "change a template", patch(template("t"), `{"spec":{"state":"Paused"}}`), noVerb},
		// Which settings a device should have comes from what a person declared, and which it has from its daemon.
		{"operator", "change declared settings", patch(configuration("c"), `{"spec":{"state":"Paused"}}`), noVerb},
		{"operator", "declare settings", create(configuration("c2")), noVerb},
		{"operator", "delete declared settings", remove(configuration("c")), noVerb},
		{"operator", "report on declared settings", status(configuration("c"), `{"observedGeneration":1}`), ""},
		{"operator", "assign settings to a device", patch(device("node-a-nic-1", ""), wants), ""},
		{"operator", "say how far a device has its settings", status(device("node-a-nic-1", ""), `{"configuration":{"digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","state":"UpToDate"}}`), theNodes},
		{"operator", "say which settings a device has", status(device("node-a-nic-1", ""), `{"parameters":[{"name":"numVFs","current":"8"}]}`), theNodes},
		{"template-editor", "declare settings", create(configuration("c2")), ""},
		{"template-editor", "assign settings to a device", patch(device("node-a-nic-1", ""), wants), noVerb},
		{"admin", "declare settings", create(configuration("c2")), ""},
		{"admin", "assign settings to a device", patch(device("node-a-nic-1", ""), wants), noVerb},
		{"source-editor", "declare settings", create(configuration("c2")), noVerb},
		{"pin-editor", "declare settings", create(configuration("c2")), noVerb},
		{"viewer", "declare settings", create(configuration("c2")), noVerb},
		{"viewer", "see declared settings", list(&v1alpha1.ConfigurationTemplateList{}), ""},
		{"operator", "change a policy", patch(rollout("p"), `{"spec":{"maxUnavailable":"100%"}}`), noVerb},
		{"operator", "make the default policy that a person makes", ensure(rollout("default")), ""},
		{"operator", "make the default policy", admitted(create(rollout("default"))), ""},
		{"operator", "make the default policy as it likes", create(changed(rollout("default"), func(p *v1alpha1.RolloutPolicy) { p.Spec.State = v1alpha1.RolloutPaused })), "no RolloutPolicy but default"},
		{"operator", "change the default policy", patch(rollout("default"), `{"spec":{"maxUnavailable":"100%"}}`), "nothing of a RolloutPolicy"},
		{"operator", "resume in place of a person", patch(rollout("default"), `{"spec":{"requests":{"resume":"now"}}}`), "nothing of a RolloutPolicy"},
		{"operator", "keep a policy for ever", patch(rollout("default"), `{"metadata":{"finalizers":["evil.example/x"]}}`), "finalizers of FirmwareJobs"},
		{"operator", "make a policy", create(rollout("mine")), "no RolloutPolicy but default"},
		{"operator", "queue a job", create(update("node-c")), ""},
		// R003-45: Only administrators start steps, and the budget bounds them.
		{"operator", "run steps", create(changed(job("node-a"), func(j *v1alpha1.FirmwareJob) { j.Name = "erase" })), "only of type Update"},
		// R002-11: what runs on a device is put back by persons alone.
		{"operator", "restore firmware", create(byPerson(v1alpha1.JobTypeRestore)), "only of type Update"},
		{"operator", "back firmware up", create(byPerson(v1alpha1.JobTypeBackup)), "only of type Update"},
		{"operator", "end a restore by deleting its job", remove(byPerson(v1alpha1.JobTypeRestore)), "no FirmwareJob of a person before it has ended"},
		{"a", "restore firmware", create(byPerson(v1alpha1.JobTypeRestore)), noVerb},
		{"a", "back firmware up", create(byPerson(v1alpha1.JobTypeBackup)), noVerb},
		{"job-editor", "restore firmware", admitted(create(changed(byPerson(v1alpha1.JobTypeRestore), func(j *v1alpha1.FirmwareJob) { j.Name = "restore" }))), ""},
		{"job-editor", "back firmware up", create(byPerson(v1alpha1.JobTypeBackup)), ""},
		// R003-43: data is erased by those alone who have that right.
		{"job-editor", "erase a drive", create(consented(erasing("erases"), "system:serviceaccount:default:job-editor")), "takes the verb erase on it"},
		{"admin", "erase a drive", create(consented(erasing("erases"), "system:serviceaccount:default:admin")), "takes the verb erase on it"},
		{"operator", "erase a drive", create(consented(erasing("erases-anything"), i.operatorAccount())), "only of type Update"},
		{"person", "erase by a policy in another's name", create(changed(consented(erasing("erases-four"), "bob"), func(j *v1alpha1.FirmwareJob) {
			j.Spec.Task.CleaningPolicyRef = &v1alpha1.CleaningPolicyReference{Name: "erases"}
		})), "add the annotation nodefirmware.io/consented-by: alice"},
		{"eraser", "erase a drive", create(consented(erasing("erases"), "system:serviceaccount:default:eraser")), ""},
		{"person", "erase a drive", create(consented(erasing("erases-too"), "alice")), ""},
		{"person", "erase a drive without a name", create(erasing("erases-three")), "add the annotation nodefirmware.io/consented-by: alice"},
		{"person", "erase a drive in another's name", create(consented(erasing("erases-three"), "bob")), "add the annotation nodefirmware.io/consented-by: alice"},
		{"person", "say later that another consented", patch(erasing("erased"), `{"metadata":{"annotations":{"nodefirmware.io/consented-by":"bob"}}}`), "never changed"},
		{"person", "cancel what erases a drive", patch(erasing("erased"), `{"spec":{"cancel":{"mode":"Graceful"}}}`), ""},
		{"operator", "erase by a policy", create(changed(erasing("by-policy"), func(j *v1alpha1.FirmwareJob) {
			j.Spec.Task.CleaningPolicyRef = &v1alpha1.CleaningPolicyReference{Name: "erases"}
		})), ""},
		{"cleaning-editor", "have a policy erase", create(consented(changed(cleaning(), erases), "system:serviceaccount:default:cleaning-editor")), "takes the verb erase on it"},
		{"cleaning-editor", "have a policy erase later", patch(cleaning(), `{"metadata":{"annotations":{"nodefirmware.io/consented-by":"system:serviceaccount:default:cleaning-editor"}},"spec":{"when":["OutOfService"],"consent":"storage","steps":[{"name":"erase","priority":1,"expect":[{"selector":{"class":"Disk","vendor":"any"},"count":1}]}]}}`), "takes the verb erase on it"},
		{"person", "have a policy erase", create(consented(changed(cleaning(), erases), "alice")), ""},
		{"person", "say that another consented to a policy", patch(erased(), `{"metadata":{"annotations":{"nodefirmware.io/consented-by":"bob"}}}`), "consented-by: alice"},
		{"person", "have a policy erase otherwise", patch(erased(), `{"spec":{"when":["OutOfService"],"state":"Active","nodeSelector":{"matchLabels":{"pool":"gpu"}}}}`), ""},
		{"eraser", "certify what was not erased", create(certificateOf("forged")), noVerb},
		{"operator", "certify what was erased", create(certificateOf("drive")), ""},
		{"operator", "change a certificate", patch(certificateOf("drive"), `{"spec":{"publicKey":"another"}}`), noVerb},
		{"operator", "delete a certificate", remove(certificateOf("drive")), noVerb},
		{"a", "certify what was erased", create(certificateOf("drive-a")), noVerb},
		{"admin", "delete a certificate", remove(certificateOf("drive")), noVerb},
		{"viewer", "see certificates", list(&v1alpha1.SanitizationCertificateList{}), ""},
		{"job-editor", "erase by a policy", create(changed(consented(erasing("by-a-policy"), "system:serviceaccount:default:job-editor"), func(j *v1alpha1.FirmwareJob) {
			j.Spec.Task.CleaningPolicyRef = &v1alpha1.CleaningPolicyReference{Name: "erases"}
		})), "takes the verb erase on it"},
		{"pin-editor", "restore firmware", create(byPerson(v1alpha1.JobTypeRestore)), noVerb},
		{"viewer", "back firmware up", create(byPerson(v1alpha1.JobTypeBackup)), noVerb},
		{"operator", "pin firmware", patch(nodeFirmware("node-a"), `{"spec":{"scanThreshold":"1h"}}`), onlyLabel},
		{"operator", "replace pins", patch(nodeFirmware("node-a"), `{"spec":{"pins":[{"name":"p","selector":{"class":"BIOS","vendor":"any"},"version":"1","sourceRef":{"name":"s"}}]}}`), onlyLabel},
		{"operator", "release a node", patch(nodeFirmware("node-a"), `{"spec":{"requests":{"release":"now"}}}`), onlyLabel},
		{"operator", "retry on a node", patch(nodeFirmware("node-a"), `{"spec":{"requests":{"retry":"now"}}}`), onlyLabel},
		{"operator", "adopt a machine in place of a person", patch(nodeFirmware("node-a"), `{"spec":{"requests":{"adopt":"now"}}}`), onlyLabel},
		{"operator", "remember the machine of the pins", status(nodeFirmware("node-a"), `{"pinnedMachine":"A","requests":{"adopt":"now"}}`), ""},
		{"a", "say that the pins are for another machine", status(nodeFirmware("node-a"), `{"pinnedMachine":"B"}`), operators},
		{"a", "answer a request to adopt", status(nodeFirmware("node-a"), `{"requests":{"adopt":"later"}}`), operators},
		{"a", "answer a request to scan", status(nodeFirmware("node-a"), `{"requests":{"scan":"now"}}`), ""},
		{"operator", "create a node's firmware", create(nodeFirmware("node-d")), ""},
		{"operator", "create a node's firmware that releases the node", create(changed(nodeFirmware("node-e"), func(n *v1alpha1.NodeFirmware) { n.Spec.Requests.Release = "now" })), "without pins"},
		{"operator", "delete a node's firmware", remove(nodeFirmware("node-a")), ""},
		{"operator", "delete a node's firmware without its last pin", remove(nodeFirmware("unpinned")), ""},
		{"operator", "label what it creates", create(changed(nodeFirmware("node-f"), func(n *v1alpha1.NodeFirmware) { n.Labels = map[string]string{"a": "b"} })), "without labels, annotations"},
		{"operator", "delete what a person wrote", remove(nodeFirmware("pinned")), "may not delete a NodeFirmware"},
		{"operator", "say that a pin matches nothing", status(nodeFirmware("node-a"), conditions("PinsUnmatched")), ""},
		{"a", "say that its pins match nothing", status(nodeFirmware("node-a"), conditions("PinsUnmatched")), operators},
		{"operator", "say that a daemon is silent", status(nodeFirmware("node-a"), conditions("DaemonReady")), ""},
		{"operator", "see why a daemon is silent", func(ctx context.Context, c client.Client) error {
			return c.List(ctx, &corev1.PodList{}, client.InNamespace(i.namespace))
		}, ""},
		{"a", "say that it reports", status(nodeFirmware("node-a"), conditions("DaemonReady")), operators},
		{"operator", "mark a node's firmware as obsolete", patch(nodeFirmware("node-a"), `{"metadata":{"labels":{"nodefirmware.io/obsolete":"true"}}}`), ""},
		{"operator", "say what is obsolete", status(nodeFirmware("node-a"), `{"obsolete":[{"kind":"FirmwareSource","name":"s","reason":"Updated"}]}`), ""},
		{"operator", "label a node's firmware otherwise", patch(nodeFirmware("node-a"), `{"metadata":{"labels":{"a":"b"}}}`), "what a person writes"},
		{"operator", "mark a job as obsolete", patch(job("node-a"), `{"metadata":{"labels":{"nodefirmware.io/obsolete":"true"}}}`), "what a person writes"},
		{"operator", "protect a job", patch(job("node-a"), `{"metadata":{"finalizers":["nodefirmware.io/job"]}}`), ""},
		{"operator", "confirm in place of a person", patch(job("node-a"), `{"metadata":{"annotations":{"nodefirmware.io/confirm-gone":"x"}}}`), "what a person writes"},
		{"operator", "cancel a job", patch(job("node-a"), `{"spec":{"cancel":{}}}`), "nothing of a FirmwareJob"},
		{"operator", "admit a job", status(job("node-a"), conditions("Admitted")), ""},
		{"operator", "end a job that no daemon is left to report", status(job("node-a"), strings.Replace(conditions("Ready", "Stalled", "Failed"), "{", `{"completionTime":"2026-11-23T10:00:00Z",`, 1)), ""},
		{"operator", "say what a node runs", status(nodeFirmware("node-a"), `{"bootID":"1"}`), theNodes},
		{"operator", "request to be drained in place of a daemon", status(nodeFirmware("node-a"), `{"maintenanceRequest":{"id":"x","type":"Drain"}}`), theNodes},
		{"operator", "say that a node is held", status(nodeFirmware("node-a"), `{"heldBy":"x"}`), theNodes},
		{"operator", "answer a request to release a node", status(nodeFirmware("node-a"), `{"requests":{"release":"now"}}`), theNodes},
		{"operator", "say that a node is ready", status(nodeFirmware("node-a"), conditions("Ready")), theNodes},
		{"operator", "answer a request to be drained", status(nodeFirmware("node-a"), `{"maintenance":{"requestID":"x","state":"Draining"}}`), ""},
		{"operator", "say which board a device has", status(device("node-a-nic-1", ""), `{"boardID":"MT_1"}`), theNodes},
		{"operator", "say that a device failed", status(device("node-a-nic-1", ""), conditions("Ready")), theNodes},
		{"operator", "say that a device is blocked", status(device("node-a-nic-1", ""), conditions("Blocked", "Conflict")), ""},
		{"operator", "end steps by deleting their job", remove(job("node-a")), "no FirmwareJob of a person before it has ended"},
		{"operator", "delete a job with steps that has ended", remove(job("ended")), ""},
		{"operator", "delete a job that it made", remove(update("node-a")), ""},
		// The operator and events.
		{"operator", "report an event", create(said("said", "node-firmware-operator", "FirmwareJob", "node-a-12345678")), ""},
		{"operator", "continue its event", patch(said("said-by-operator", "", "", ""), `{"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}}`), ""},
		{"operator", "report an event of its election", create(i.election("node-firmware-operator", "Lease")), ""},
		{"operator", "report an event in the daemons' name", create(said("said", "firmware-daemon", "FirmwareJob", "node-a-12345678")), opEvents},
		{"operator", "report an event of a Node", create(changed(said("said", "node-firmware-operator", "Node", "node-a"), func(e *eventsv1.Event) { e.Regarding.APIVersion = "v1" })), opEvents},
		{"operator", "change what a daemon reported", patch(said("said-by-a", "", "", ""), `{"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}}`), opEvents},
		{"operator", "report an event of another Lease", create(i.election("other", "Lease")), opEvents},
		{"operator", "report an event of a pod in its namespace", create(i.election("node-firmware-operator", "Pod")), opEvents},
		{"operator", "report an event in another namespace", create(changed(said("said", "node-firmware-operator", "FirmwareJob", "x"), func(e *eventsv1.Event) { e.Namespace, e.Regarding.Namespace = "kube-system", "kube-system" })), "in the namespace default"},
		{"operator", "complete a job", status(job("node-a"), conditions("Complete")), itsEnd},
		{"operator", "say what a job did", status(job("node-a"), `{"steps":[{"name":"flash","state":"Succeeded"}]}`), itsEnd},
		{"operator", "blame a device", status(job("node-a"), `{"blamed":[{"device":"node-a-nic"}]}`), itsEnd},
		{"a", "protect a job", patch(job("node-a"), `{"metadata":{"finalizers":["nodefirmware.io/job"]}}`), noVerb},
		{"pin-editor", "pin a node that has not joined", create(nodeFirmware("node-c")), ""},
		{"admin", "pin a node that has not joined", create(nodeFirmware("node-c")), ""},

		// The operator and the nodes that it drains.
		{"operator", "cordon a node", patch(nodeA, `{"metadata":{"annotations":{"nodefirmware.io/cordoned":"x"}},"spec":{"unschedulable":true}}`), ""},
		{"operator", "label a node", patch(nodeA, `{"metadata":{"labels":{"a":"b"}}}`), notItsNodes},
		{"operator", "annotate a node otherwise", patch(nodeA, `{"metadata":{"annotations":{"a":"b"}}}`), notItsNodes},
		{"operator", "exclude a node from remediation", patch(nodeA, `{"metadata":{"labels":{"remediation.medik8s.io/exclude-from-remediation":"true"},"annotations":{"nodefirmware.io/excluded-from-remediation":"x"}}}`), ""},
		{"operator", "exclude a node from remediation without a mark", patch(nodeA, `{"metadata":{"labels":{"remediation.medik8s.io/exclude-from-remediation":"true"}}}`), notItsNodes},
		{"operator", "have a node remedied that nobody excludes", patch(nodeA, `{"metadata":{"labels":{"remediation.medik8s.io/exclude-from-remediation":"false"},"annotations":{"nodefirmware.io/excluded-from-remediation":"x"}}}`), notItsNodes},
		{"operator", "have a node remedied that a person excludes", patch(nodeB, `{"metadata":{"labels":{"remediation.medik8s.io/exclude-from-remediation":null}}}`), notItsNodes},
		{"operator", "claim the exclusion of a person", patch(nodeB, `{"metadata":{"annotations":{"nodefirmware.io/excluded-from-remediation":"x"}}}`), notItsNodes},
		{"operator", "take a Lease of another namespace", create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "node-a"}}), noVerb},
		{"operator", "take a Lease of medik8s", create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: "node-node-a"}}), ""},
		{"operator", "read every Lease", list(&coordinationv1.LeaseList{}), noVerb},
		{"a", "take a Lease of medik8s", create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: "node-node-a"}}), noVerb},
		{"operator", "taint a node", patch(nodeA, `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`), notItsNodes},
		{"operator", "take a node out of service", patch(nodeA, taints(isOut)), ""},
		{"operator", "evict what a node that is out of service runs", patch(nodeA, taints(strings.Replace(isOut, "NoSchedule", "NoExecute", 1))), notItsNodes},
		{"operator", "declare a node new, whose steps would run then", patch(nodeA, taints(isNew)), notItsNodes},
		{"operator", "return a node to service that is proven", patch(cleaned, taints()), ""},
		{"operator", "say whose steps run on a node", patch(nodeA, `{"metadata":{"annotations":{"nodefirmware.io/cleaning":"j"}}}`), ""},
		{"operator", "say that steps have ended", patch(cleaned, `{"metadata":{"annotations":{"nodefirmware.io/cleaning":null}}}`), ""},
		{"operator", "queue the steps of a policy", create(steps("storage")), ""},
		{"operator", "queue steps of its own", create(steps("")), "or with the steps of a CleaningPolicy"},
		{"operator", "say what steps a node runs", create(cleaning()), noVerb},
		{"operator", "edit what steps a node runs", patch(cleaning(), `{"spec":{"state":"Paused"}}`), noVerb},
		{"operator", "count the nodes of a policy", status(cleaning(), `{"nodes":{"selected":1,"clean":0,"failed":0}}`), ""},
		{"operator", "take a node out of service by its spec", patch(nodeFirmware("node-a"), `{"spec":{"service":"OutOfService"}}`), "may change nothing of a NodeFirmware"},
		{"operator", "create a node's firmware that is out of service", create(changed(nodeFirmware("node-e"), func(n *v1alpha1.NodeFirmware) { n.Spec.Service = v1alpha1.NodeOutOfService })), "without pins"},
		{"operator", "forget that a node is out of service", remove(nodeFirmware("leaving")), "may not delete a NodeFirmware"},
		{"operator", "say that a node is clean", status(nodeFirmware("node-a"), conditions("Clean")), ""},
		{"a", "say that its node is clean", status(nodeFirmware("node-a"), conditions("Clean")), operators},
		{"a", "read what steps its node runs", get(cleaning()), ""},
		{"a", "edit what steps its node runs", patch(cleaning(), `{"spec":{"state":"Paused"}}`), noVerb},
		{"a", "take the taint off its node", patch(cleaned, taints()), noVerb},
		{"cleaning-editor", "say what steps nodes run", create(changed(cleaning(), func(p *v1alpha1.CleaningPolicy) { p.Name = "other" })), ""},
		{"cleaning-editor", "take a node out of service", patch(nodeFirmware("node-a"), `{"spec":{"service":"OutOfService"}}`), noVerb},
		{"pin-editor", "take a node out of service", patch(nodeFirmware("node-a"), `{"spec":{"service":"OutOfService"}}`), ""},
		{"pin-editor", "say what steps nodes run", patch(cleaning(), `{"spec":{"state":"Paused"}}`), noVerb},
		{"person", "uncordon a node whose steps run", patch(cleaned, `{"spec":{"unschedulable":false}}`), stepsRun}, // R003-31
		{"person", "let work onto a node whose steps run", patch(cleaned, taints()), stepsRun},
		{"person", "say that no step runs", patch(cleaned, `{"metadata":{"annotations":{"nodefirmware.io/cleaning":null}}}`), stepsRun},
		{"person", "label a node whose steps run", patch(cleaned, `{"metadata":{"labels":{"a":"b"}}}`), ""},
		{"person", "uncordon another node", patch(nodeA, `{"spec":{"unschedulable":false}}`), ""},
		{"stranger", "uncordon a node whose steps run, as a program that drains nodes does", patch(cleaned, `{"spec":{"unschedulable":false}}`), ""},
		{"operator", "report on a node", status(nodeA, `{"phase":"Running"}`), ownWords},
		{"operator", "evict a pod", evict(i.daemonPod("plain")), ""},
		{"operator", "delete a pod of somebody else", remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}), noVerb},
		{"operator", "say on a node whether it is compliant", onNode("FirmwareCompliant", "X"), ""},
		{"operator", "say on a node that it is in maintenance", onNode("MaintenanceInProgress", "FirmwareUpdate"), ""},
		{"operator", "say on a node that a person drains it", onNode("DrainInProgress", "AdminRequested"), ownWords},
		{"operator", "say on a node that another's maintenance is over", status(nodeB, `{"conditions":[]}`), ownWords},
		{"operator", "say on a node that another's maintenance is its own", status(nodeB, `{"conditions":[{"type":"MaintenanceInProgress","status":"True","reason":"FirmwareUpdate"}]}`), ownWords},
		{"operator", "say on a node in its own name that it is ready", onNode("Ready", "FirmwareUpdate"), ownWords},
		{"operator", "say on a node that it is ready", onNode("Ready", "X"), ownWords},
		{"operator", "say on a node that its disk is full", onNode("DiskPressure", "X"), ownWords},
		{"operator", "give a node more processors", status(nodeA, `{"capacity":{"cpu":"1000"},"allocatable":{"cpu":"1000"}}`), ownWords},
		{"operator", "give a node another address", status(nodeA, `{"addresses":[{"type":"InternalIP","address":"192.0.2.7"}]}`), ownWords},
		{"operator", "give a node another server of its kubelet", status(nodeA, `{"daemonEndpoints":{"kubeletEndpoint":{"Port":666}}}`), ownWords},
		{"operator", "claim a volume for a node", status(nodeA, `{"volumesAttached":[{"name":"v","devicePath":""}]}`), ownWords},
		{"operator", "label a node by its status", labelledByStatus, ownWords},
		{"a", "say on its node whether it is compliant", onNode("FirmwareCompliant", "X"), noVerb},
		{"a", "say on its node that it is ready", onNode("Ready", "X"), noVerb},
		{"a", "cordon its node", patch(nodeA, `{"spec":{"unschedulable":true}}`), noVerb},
		{"a", "evict a pod of its node", evict(i.daemonPod("plain")), noVerb},
		{"a", "answer its own request", status(nodeFirmware("node-a"), `{"maintenance":{"requestID":"x","state":"Draining"}}`), operators},
		{"a", "request to be drained", status(nodeFirmware("node-a"), `{"maintenanceRequest":{"id":"x","type":"Drain"}}`), ""},
		{"a", "request that another node is drained", status(nodeFirmware("node-b"), `{"maintenanceRequest":{"id":"x","type":"Drain"}}`), anotherNode},

		// Others and the pods of jobs.
		{"stranger", "escape a drain", create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", Labels: map[string]string{v1alpha1.JobPodLabel: "u"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x"}}},
		}), onlyOp},
		{"stranger", "escape a drain later", patch(i.daemonPod("plain"), `{"metadata":{"labels":{"nodefirmware.io/job":"u"}}}`), "neither put on a pod nor taken off"},
		{"stranger", "make a pod", create(i.daemonPod("x")), ""},
		{"stranger", "change a NodeDevice", status(device("node-a-nic-1", ""), `{"boardID":"MT_1"}`), noVerb},
	}
	for what, change := range podChanges() {
		out = append(out, attempt{"operator", "make a pod for a job: " + what, i.jobPod(change), podElse})
	}
	for what, change := range podMarks() {
		out = append(out, attempt{"operator", "make a pod for a job: " + what, i.jobPod(change), podMeta})
	}
	for _, class := range inventory.Classes() {
		for what, unique := range map[string]string{"with": "9", "without": "", "with a long": strings.Repeat("9", 300)} {
			name := devicename.Of("node-a", inventory.Identity{Class: class, UniqueID: unique})
			out = append(out, attempt{"a", "create a device of class " + string(class) + " " + what + " unique id", create(device(name, "node-a")), ""})
		}
	}
	declare := map[string]func(context.Context, client.Client) error{
		"template-editor": create(template("t2")), "source-editor": create(source("s2")), "quarantine-editor": create(quarantine("15b3:101f", v1alpha1.QuarantineConfirmed)),
		"policy-editor": patch(rollout("p"), `{"spec":{"maxUnavailable":2}}`),
		"pin-editor":    patch(nodeFirmware("node-a"), `{"spec":{"scanThreshold":"1h"}}`), "job-editor": create(changed(job("node-a"), func(j *v1alpha1.FirmwareJob) { j.Name = "scan" })),
	}
	for role := range declare {
		for what, do := range declare {
			refusal := noVerb
			if what == role {
				refusal = ""
			}
			out = append(out, attempt{role, "do as " + what, do, refusal})
		}
	}
	for what, do := range declare {
		out = append(out, attempt{"admin", "do as " + what, do, ""}, attempt{"viewer", "do as " + what, do, noVerb}, attempt{"nobody", "do as " + what, do, noVerb})
	}
	person := said("by-a-person", "kubectl-firmware", "NodeFirmware", "node-a")
	for role := range declare {
		out = append(out, attempt{role, "leave an event", create(person), ""})
	}
	out = append(out, attempt{"admin", "leave an event", create(person), ""}, attempt{"viewer", "leave an event", create(person), noVerb})
	for _, role := range []string{"admin", "viewer", "pin-editor"} {
		out = append(out, attempt{role, "see devices", list(&v1alpha1.NodeDeviceList{}), ""},
			attempt{role, "write a status", status(device("node-a-nic-1", ""), `{"boardID":"MT_1"}`), noVerb},
			attempt{role, "delete a device", remove(device("node-a-nic-1", "")), noVerb})
	}
	return append(out, attempt{"nobody", "see devices", list(&v1alpha1.NodeDeviceList{}), noVerb},
		attempt{"nobody", "report on a device", status(device("node-a-nic-1", ""), `{"boardID":"MT_1"}`), noVerb})
}

// proves checks that a daemon runs where it is confined, and refuses to where one binding is gone.
func (i *installation) proves(t *testing.T) {
	t.Helper()
	var pod corev1.Pod
	require.NoError(t, i.admin.Get(t.Context(), client.ObjectKey{Namespace: i.namespace, Name: "daemon-a"}, &pod))
	config := rest.AnonymousClientConfig(i.config)
	var err error
	config.BearerToken, err = cluster.PodToken(t.Context(), i.admin, &pod)
	require.NoError(t, err)
	require.NoError(t, confinement.NewGate(config).Open(t.Context(), "node-a", i.namespace, testr.New(t)))
	if i.prefix == "" {
		return // the other takes half a minute
	}
	binding := policy(i.prefix + "firmware-daemon-events")
	binding.SetKind("ValidatingAdmissionPolicyBinding")
	require.NoError(t, i.admin.Delete(t.Context(), binding))
	require.EventuallyWithT(t, func(ct *assert.CollectT) { // the API server takes a moment to forget it
		assert.NoError(ct, i.client(t, config).Create(t.Context(), said("said", "firmware-daemon", "NodeFirmware", "node-b"), client.DryRunAll))
	}, 2*time.Minute, 200*time.Millisecond)
	err = confinement.NewGate(config).Open(t.Context(), "node-a", i.namespace, testr.New(t))
	require.ErrorIs(t, err, confinement.ErrUnconfined)
	assert.ErrorContains(t, err, "report an event of another node")
}

func policy(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("admissionregistration.k8s.io/v1")
	u.SetKind("ValidatingAdmissionPolicy")
	u.SetName(name)
	return u
}

// TestEveryoneStaysInTheirRole makes every attempt with real tokens against a real API server, in each version of the product's API, in an
// installation by kustomize in the default namespace, and in one with another namespace and other names.
func TestEveryoneStaysInTheirRole(t *testing.T) { // R001-5
	for _, in := range []struct{ namespace, prefix string }{{"node-firmware-system", ""}, {"firm", "site1-"}} {
		t.Run(in.namespace, func(t *testing.T) {
			i := install(t, in.namespace, in.prefix)
			callers := i.callers(t)
			for _, probe := range []attempt{ // the API server takes a moment to enforce new policies and roles
				{"unbound", "", create(device("node-a-nic-9", "node-a")), noClaim},
				{"operator", "", create(i.configMap("x", "y")), oneMap},
				{"operator", "", status(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}, `{"capacity":{"cpu":"1"}}`), ownWords},
				{"a", "", create(said("said", "firmware-daemon", "NodeFirmware", "node-b")), ownEvents},
				{"a", "", status(i.maintenance("foreign-a", "", ""), conditions("RequestorFailed")), ourName},
				{"operator", "", i.jobPod(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "evil.example/x" }), podImage},
				{"operator", "", i.jobPod(func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"sh"} }), podElse},
				{"stranger", "", patch(i.daemonPod("plain"), `{"metadata":{"labels":{"nodefirmware.io/job":"u"}}}`), "neither put on"},
			} {
				require.EventuallyWithT(t, func(ct *assert.CollectT) {
					assert.ErrorContains(ct, probe.do(t.Context(), callers[probe.who]), probe.refusal)
				}, 5*time.Minute, 200*time.Millisecond)
			}
			made := map[string]int{}
			for _, i.version = range []string{"v1beta1", "v1alpha1"} {
				attempts := append(i.attempts(), storedAttempts(i.migrates)...)
				assert.GreaterOrEqual(t, len(attempts), 300)
				for _, a := range attempts {
					made[a.who]++
					t.Run(a.who+" "+a.name+" in "+i.version, func(t *testing.T) {
						err := a.do(t.Context(), callers[a.who])
						if a.refusal == "" {
							require.NoError(t, err)
							return
						}
						require.Error(t, err)
						assert.True(t, apierrors.IsForbidden(err), "%v", err)
						assert.ErrorContains(t, err, a.refusal)
					})
				}
			}
			for who := range maps.Keys(callers) {
				assert.NotZero(t, made[who], "%s attempts nothing", who)
			}
			i.proves(t)

			// Without the component that has the operator drain nodes it writes nothing but its taints.
			require.NoError(t, i.admin.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: in.prefix + "node-firmware-operator-drain"}}))
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
			require.EventuallyWithT(t, func(ct *assert.CollectT) {
				err := callers["operator"].Patch(t.Context(), node, merge(`{"metadata":{"annotations":{"nodefirmware.io/cordoned":"x"}},"spec":{"unschedulable":true}}`), client.DryRunAll)
				assert.ErrorContains(ct, err, "where it drains nodes")
			}, time.Minute, 100*time.Millisecond)
			require.NoError(t, callers["operator"].Patch(t.Context(), node,
				merge(`{"spec":{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"},{"key":"nodefirmware.io/out-of-service","value":"x","effect":"NoSchedule"}]}}`), client.DryRunAll))
		})
	}
}
