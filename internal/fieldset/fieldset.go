package fieldset

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/status"
)

// apply sends the part of a status that owner writes. The object has that part alone, and the uid and version that the write depends
// on; the version is the one it left afterwards. Force is right because no other manager may own a field of it. What names the part and
// the object in errors. Where fields are named, nothing but these is sent: the JSON of some statuses has a count though it is zero.
func apply(ctx context.Context, c client.Client, owner client.FieldOwner, part client.Object, what string, fields ...string) error {
	body, err := Configuration(c, part)
	if err == nil {
		if s, ok := body.Object["status"].(map[string]any); ok && len(fields) > 0 {
			maps.DeleteFunc(s, func(field string, _ any) bool { return !slices.Contains(fields, field) })
		}
		err = c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(body), owner, client.ForceOwnership)
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", what, err)
	}
	part.SetResourceVersion(body.GetResourceVersion())
	return nil
}

// create makes an object with the part of it that owner writes, and changes nothing else of one that exists.
func create(ctx context.Context, c client.Client, owner client.FieldOwner, part client.Object, what string) error {
	body, err := Configuration(c, part)
	if err == nil {
		err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(body), owner)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", what, err)
	}
	return nil
}

// Configuration is what a server-side apply sends for an object that has only the fields its manager owns: the fields that its JSON has.
func Configuration(c client.Client, o client.Object) (*unstructured.Unstructured, error) {
	kind, err := c.GroupVersionKindFor(o)
	if err != nil {
		return nil, fmt.Errorf("find kind of %T: %w", o, err)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", o, err)
	}
	body := &unstructured.Unstructured{Object: fields}
	body.SetGroupVersionKind(kind)
	return body, nil
}

func only(all []metav1.Condition, types ...string) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool { return !slices.Contains(types, c.Type) })
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// FieldOwnerCatalog is the field manager of the operator for catalogs.
const FieldOwnerCatalog = v1alpha1.FieldOwnerOperator + "-catalog"

// CreateCatalog creates the catalog of a machine with the machine alone, so that the user owns everything else. It changes nothing of one
// that exists.
func CreateCatalog(ctx context.Context, c client.Client, m v1alpha1.CatalogMachine) error {
	return create(ctx, c, FieldOwnerCatalog, &v1alpha1.FirmwareCatalog{ObjectMeta: named(m.CatalogName()), Spec: v1alpha1.FirmwareCatalogSpec{Machine: m}}, "firmware catalog "+m.CatalogName())
}

// ApplyCatalog writes the status of a catalog. The catalog controller of the operator does so, and it alone: what a discovery found
// reaches the status by this way only.
func ApplyCatalog(ctx context.Context, c client.Client, name string, s v1alpha1.FirmwareCatalogStatus) error {
	return apply(ctx, c, FieldOwnerCatalog, &v1alpha1.FirmwareCatalog{ObjectMeta: named(name), Status: s}, "status of firmware catalog "+name)
}

// FieldOwnerQuarantine is the field manager of the operator for quarantines.
const FieldOwnerQuarantine = v1alpha1.FieldOwnerOperator + "-quarantine"

// CreateQuarantine creates the quarantine of an image and a model with these alone, so that a person owns the state. It changes nothing
// of one that exists.
func CreateQuarantine(ctx context.Context, c client.Client, d v1alpha1.Digest, model string) error {
	name := v1alpha1.QuarantineName(d, model)
	part := &v1alpha1.FirmwareQuarantine{ObjectMeta: named(name), Spec: v1alpha1.FirmwareQuarantineSpec{Digest: d, Model: model}}
	return create(ctx, c, FieldOwnerQuarantine, part, "firmware quarantine "+name)
}

// ApplyQuarantine writes the status of a quarantine. The quarantine controller of the operator does so. The status follows from the one
// that was there, so it fails with a conflict when the quarantine is not in the version that was read.
func ApplyQuarantine(ctx context.Context, c client.Client, q *v1alpha1.FirmwareQuarantine) error {
	part := &v1alpha1.FirmwareQuarantine{ObjectMeta: metav1.ObjectMeta{Name: q.Name, UID: q.UID, ResourceVersion: q.ResourceVersion}, Status: q.Status}
	part.Status.Conditions = only(q.Status.Conditions, status.QuarantineConditions...)
	return apply(ctx, c, FieldOwnerQuarantine, part, "status of firmware quarantine "+q.Name)
}

// FieldOwnerRollout is the field manager of the status of RolloutPolicies, ledger and all.
const FieldOwnerRollout = v1alpha1.FieldOwnerOperator + "-rollout"

// ApplyRollout writes the status of a policy to the version of it that was read, and to no other: the ledger has one writer at a time.
// It fails with a conflict when the policy is in another version. The rollout controller of the operator does so.
func ApplyRollout(ctx context.Context, c client.Client, p *v1alpha1.RolloutPolicy) error {
	part := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}, Status: p.Status}
	return apply(ctx, c, FieldOwnerRollout, part, "status of rollout policy "+p.Name)
}

// EnsureDefaultPolicy makes the policy that takes every node no other one selects, as the API server's defaults have it. What a person
// wrote there stays. The label gives the operator a field to own: of an object without any field manager, the first apply to its status
// would make one that owns the defaults, and a person's apply would conflict.
func EnsureDefaultPolicy(ctx context.Context, c client.Client) error {
	part := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{
		Name: v1alpha1.DefaultRolloutPolicy, Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldOwnerOperator},
	}}
	return create(ctx, c, FieldOwnerRollout, part, "rollout policy "+v1alpha1.DefaultRolloutPolicy)
}

// FieldOwnerCleaning is the field manager of what the operator says of nodes that are new or out of service, and of CleaningPolicies.
const FieldOwnerCleaning = v1alpha1.FieldOwnerOperator + "-cleaning"

// ApplyClean writes the condition Clean of a NodeFirmware in the version that was read: a person may have returned it to service since. The
// cleaning controller of the operator does so. It fails with a conflict when the object is in another version.
func ApplyClean(ctx context.Context, c client.Client, o *v1alpha1.NodeFirmware, all []metav1.Condition) error {
	return apply(ctx, c, FieldOwnerCleaning, &v1alpha1.NodeFirmware{
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, ResourceVersion: o.ResourceVersion},
		Status:     v1alpha1.NodeFirmwareStatus{Conditions: only(all, status.CleanConditions...)},
	}, "condition Clean of node firmware "+o.Name)
}

// ApplyCleaningPolicy writes the status of a CleaningPolicy to the version that was read. The cleaning controller of the operator does so. It
// fails with a conflict when the policy is in another version.
func ApplyCleaningPolicy(ctx context.Context, c client.Client, p *v1alpha1.CleaningPolicy, s v1alpha1.CleaningPolicyStatus) error {
	part := &v1alpha1.CleaningPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}, Status: s}
	return apply(ctx, c, FieldOwnerCleaning, part, "status of cleaning policy "+p.Name)
}

// FieldOwnerSource is the field manager of the operator for sources.
const FieldOwnerSource = v1alpha1.FieldOwnerOperator + "-source"

// ApplyStore writes the status of a source. The source controller of the operator does so.
func ApplyStore(ctx context.Context, c client.Client, src *v1alpha1.FirmwareSource, s v1alpha1.FirmwareSourceStatus) error {
	s.Conditions = only(s.Conditions, status.SourceConditions...)
	return apply(ctx, c, FieldOwnerSource, &v1alpha1.FirmwareSource{ObjectMeta: named(src.Name), Status: s}, "store of firmware source "+src.Name)
}
