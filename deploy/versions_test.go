package deploy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// dialect is the transport of clients that are built with v1alpha1 and speak another version of the product's API.
type dialect struct {
	http.RoundTripper
	version *string
}

// RoundTrip translates the path, the request and the answer.
func (d dialect) RoundTrip(r *http.Request) (*http.Response, error) {
	own, other := v1alpha1.GroupVersion.String(), v1alpha1.GroupName+"/"+*d.version
	if own == other || !strings.HasPrefix(r.URL.Path, "/apis/"+own+"/") {
		return d.RoundTripper.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.URL.Path = strings.Replace(r.URL.Path, own, other, 1)
	if err := translate(&r.Body, &r.ContentLength, own, other); err != nil {
		return nil, err
	}
	answer, err := d.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Header.Del("Content-Length")
	return answer, translate(&answer.Body, &answer.ContentLength, other, own)
}

func translate(body *io.ReadCloser, length *int64, from, to string) error {
	if *body == nil {
		return nil
	}
	text, err := io.ReadAll(*body)
	if err != nil {
		return err
	}
	text = bytes.ReplaceAll(text, []byte(from), []byte(to))
	*body, *length = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return nil
}

// certificate is of a drive that an earlier job erased.
func certificate() *v1alpha1.SanitizationCertificate {
	return &v1alpha1.SanitizationCertificate{
		ObjectMeta: metav1.ObjectMeta{Name: "certified"},
		Spec: v1alpha1.SanitizationCertificateSpec{
			Record: v1alpha1.SanitizationRecord{
				Sanitization: v1alpha1.Sanitization{StartTime: metav1.Unix(1e9, 0), SerialNumber: "S", Method: "NVMe sanitize", Log: "log", Samples: 64, Version: "v1", Seed: "0x3c1f136139113f34", SizeBytes: 1},
				Term:         v1alpha1.TermPurge, NodeName: "node-a", Device: "d", Job: "j", JobUID: "u", CompletionTime: metav1.Unix(1e9, 0), Remains: "Firmware.",
			},
			Signature: []byte("s"), PublicKey: "k",
		},
	}
}

// storeAnew is the write with which the operator has the API server store an object anew: it changes nothing.
func storeAnew(kind, name string) func(context.Context, client.Client) error {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	return func(ctx context.Context, c client.Client) error {
		return c.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{}`)), client.DryRunAll)
	}
}

// changeThroughStatus fails where a patch of the status of a certificate changes it.
func changeThroughStatus(ctx context.Context, c client.Client) error {
	before, after := certificate(), certificate()
	if err := c.Get(ctx, client.ObjectKeyFromObject(before), before); err != nil {
		return err
	}
	err := c.Status().Patch(ctx, after, merge(`{"metadata":{"labels":{"x":"y"}},"spec":{"record":{"nodeName":"another"}},"status":{"x":"y"}}`), client.DryRunAll)
	if err == nil && (!equality.Semantic.DeepEqual(before.Spec, after.Spec) || len(after.Labels) > 0) {
		return fmt.Errorf("the certificate is changed: %+v", after)
	}
	return err
}

// definition is one of the product's, or of another.
func definition(name string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// saysOf writes the status of the definition of NodeDevices as the operator does, with whatever is changed.
func saysOf(change func(*apiextensionsv1.CustomResourceDefinition)) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		d := definition("nodedevices.nodefirmware.io")
		if err := c.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		before := d.DeepCopy()
		change(d)
		return c.Status().Patch(ctx, d, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.DryRunAll)
	}
}

// condition sets a condition of a definition.
func condition(kind apiextensionsv1.CustomResourceDefinitionConditionType, is apiextensionsv1.ConditionStatus) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Status.Conditions = append(slices.DeleteFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool { return c.Type == kind }),
			apiextensionsv1.CustomResourceDefinitionCondition{Type: kind, Status: is, Reason: "Test", LastTransitionTime: metav1.Unix(1e9, 0)})
	}
}

// versions sets the versions in which a definition says that objects are stored.
func versions(is ...string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(d *apiextensionsv1.CustomResourceDefinition) { d.Status.StoredVersions = is }
}

// migrate asks for the API server's migration of a resource.
func migrate(group, resource string) *unstructured.Unstructured {
	m := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"resource": map[string]any{"group": group, "resource": resource}}}}
	m.SetAPIVersion("storagemigration.k8s.io/v1beta1")
	m.SetKind("StorageVersionMigration")
	m.SetName(resource + "." + group)
	return m
}

// storedAttempts are those of the operator to have objects stored in another version (R002-68).
func storedAttempts(migrates bool) []attempt {
	const (
		stored   = `{"storedVersions":["v1beta1"]}`
		served   = "what is served is the API server's"
		storedIn = "stored in versions of the definition only"
		bare     = "only without labels, annotations, finalizers and owners"
	)
	ours := func() *unstructured.Unstructured { return migrate("nodefirmware.io", "nodedevices") }
	out := []attempt{
		{"operator", "see what is stored", read(definition("nodedevices.nodefirmware.io")), ""},
		{"operator", "say what is stored", status(definition("nodedevices.nodefirmware.io"), stored), ""},
		{"operator", "say what is stored of another", status(definition("nodemaintenances.maintenance.nvidia.com"), `{"storedVersions":["v1alpha1"]}`), noVerb},
		{"operator", "say how far a definition is", saysOf(condition("StorageMigrating", apiextensionsv1.ConditionTrue)), ""},
		{"operator", "say that a definition is done with", saysOf(func(d *apiextensionsv1.CustomResourceDefinition) {
			versions("v1beta1")(d)
			condition("StorageMigrating", apiextensionsv1.ConditionFalse)(d)
		}), ""},
		{"operator", "give a definition its earlier versions back", saysOf(versions("v1beta1", "v1alpha1")), ""},
		{"operator", "forget the stored version", saysOf(versions("v1alpha1")), storedIn},
		{"operator", "say that a version is stored that is none", saysOf(versions("v1beta1", "v9")), storedIn},
		{"operator", "have a definition deleted with its owner", saysOf(func(d *apiextensionsv1.CustomResourceDefinition) {
			d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "gone", UID: "1"}}
		}), "give away"},
		{"operator", "keep a definition for ever", saysOf(func(d *apiextensionsv1.CustomResourceDefinition) { d.Finalizers = []string{"evil.example/x"} }), "finalizers of FirmwareJobs"},
		{"operator", "label a definition through its status", saysOf(func(d *apiextensionsv1.CustomResourceDefinition) { d.Labels = map[string]string{"a": "b"} }), "what a person writes"},
		{"operator", "have helm delete a definition", saysOf(func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Annotations = map[string]string{"helm.sh/resource-policy": "delete"}
		}), "what a person writes"},
		{"operator", "rename what is served", saysOf(func(d *apiextensionsv1.CustomResourceDefinition) { d.Status.AcceptedNames.Plural = "x" }), served},
		{"operator", "say that a definition is being deleted", saysOf(condition(apiextensionsv1.Terminating, apiextensionsv1.ConditionTrue)), served},
		{"operator", "say that a definition is not served", saysOf(condition(apiextensionsv1.Established, apiextensionsv1.ConditionFalse)), served},
		{"operator", "take the conditions of a definition away", status(definition("nodedevices.nodefirmware.io"), `{"conditions":[]}`), served},
		{"operator", "change a definition", patch(definition("nodedevices.nodefirmware.io"), `{"metadata":{"labels":{"x":"y"}}}`), noVerb},
		{"operator", "change a certificate", patch(certificate(), `{"metadata":{"labels":{"x":"y"}}}`), noVerb},
		{"operator", "change a certificate through its status", changeThroughStatus, ""},
		{"a", "say what is stored", status(definition("nodedevices.nodefirmware.io"), stored), noVerb},
		{"a", "store a device of another node anew", storeAnew("NodeDevice", "node-b-nic-1"), "of node 'node-b'"},
		{"admin", "store a template anew", storeAnew("FirmwareTemplate", "t"), noVerb},
	}
	for kind, names := range map[string][]string{
		"FirmwareTemplate": {"t"}, "ConfigurationTemplate": {"c"}, "FirmwareSource": {"s"}, "FirmwareCatalog": {catalog().Name}, "FirmwareQuarantine": {forbidden().Name},
		"RolloutPolicy": {"p", "default"}, "CleaningPolicy": {cleaning().Name, erased().Name}, "NodeFirmware": {"node-a", "pinned", "leaving"},
		"NodeDevice": {"node-a-nic-1"}, "FirmwareJob": {job("ended").Name, erasing("erased").Name, byPerson(v1alpha1.JobTypeRestore).Name, update("node-a").Name},
		"SanitizationCertificate": {certificate().Name},
	} {
		for _, name := range names {
			out = append(out, attempt{"operator", "store " + kind + " " + name + " anew", storeAnew(kind, name), ""})
		}
	}
	if migrates {
		out = append(out, attempt{"operator", "have the API server do it", create(ours()), ""},
			attempt{"operator", "have the API server migrate another's objects", create(migrate("example.com", "widgets")), "migrate objects of nodefirmware.io only"},
			attempt{"operator", "have the API server migrate twice", create(changed(ours(), func(m *unstructured.Unstructured) { m.SetName("again") })), "with the name of its CustomResourceDefinition"},
			attempt{"operator", "have the API server keep a migration for ever", create(changed(ours(), func(m *unstructured.Unstructured) { m.SetFinalizers([]string{"evil.example/x"}) })), bare},
			attempt{"operator", "label a migration", create(changed(ours(), func(m *unstructured.Unstructured) { m.SetLabels(map[string]string{"a": "b"}) })), bare},
			attempt{"operator", "forget another's migration", remove(migrate("example.com", "widgets")), noVerb},
			attempt{"a", "have the API server do it", create(ours()), noVerb})
	}
	return out
}
