package deploy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
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
	const stored = `{"storedVersions":["v1beta1"]}`
	out := []attempt{
		{"operator", "see what is stored", read(definition("nodedevices.nodefirmware.io")), ""},
		{"operator", "say what is stored", status(definition("nodedevices.nodefirmware.io"), stored), ""},
		{"operator", "say what is stored of another", status(definition("nodemaintenances.maintenance.nvidia.com"), `{"storedVersions":["v1alpha1"]}`), noVerb},
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
		out = append(out, attempt{"operator", "have the API server do it", create(migrate("nodefirmware.io", "nodedevices")), ""},
			attempt{"operator", "have the API server migrate another's objects", create(migrate("example.com", "widgets")), "migrate objects of nodefirmware.io only"},
			attempt{"operator", "forget another's migration", remove(migrate("example.com", "widgets")), noVerb},
			attempt{"a", "have the API server do it", create(migrate("nodefirmware.io", "nodedevices")), noVerb})
	}
	return out
}
