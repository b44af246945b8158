package v1beta1_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/api/v1beta1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// fuzzed is how many objects of each kind are made.
const fuzzed = 30

// R002-70: objects with anything that the API server takes in them are the same in both versions, through the API and as Go types; written back
// in either, nothing is written.
func TestObjectsAreTheSameInBothVersions(t *testing.T) {
	env := apitest.New(t)
	definitions, err := apitest.Definitions()
	require.NoError(t, err)
	bases := examples(t)
	for _, d := range definitions {
		if d.Spec.Group != v1alpha1.GroupName {
			continue
		}
		t.Run(d.Spec.Names.Kind, func(t *testing.T) {
			base := bases[d.Spec.Names.Kind]
			require.NotNil(t, base, "docs/examples has none")
			taken := map[string]bool{}
			for seed := range fuzzed {
				o := base.DeepCopy()
				require.NoError(t, client.IgnoreAlreadyExists(env.Client.Create(t.Context(), o)))
				fuzz(t, env, d, o, seed, taken)
				check(t, env, o)
				o.SetFinalizers(nil)
				require.NoError(t, env.Client.Delete(t.Context(), o))
			}
			root := d.Spec.Versions[0].Schema.OpenAPIV3Schema
			maps.DeleteFunc(taken, func(field string, _ bool) bool { return !strings.HasPrefix(field, "status.") })
			assert.GreaterOrEqual(t, len(taken), len(root.Properties["status"].Properties)*3/4, "the API server took values in %v only", taken)
		})
	}
}

// examples are an object of each kind, of the documentation.
func examples(t *testing.T) map[string]*unstructured.Unstructured {
	files, err := filepath.Glob("../../docs/examples/*.yaml")
	require.NoError(t, err)
	certificate, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.SanitizationCertificate{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SanitizationCertificate"},
		ObjectMeta: metav1.ObjectMeta{Name: "storage-004-erase-3f1c9a7be25d0846"},
		Spec: v1alpha1.SanitizationCertificateSpec{
			Record: v1alpha1.SanitizationRecord{
				Sanitization: v1alpha1.Sanitization{
					StartTime: metav1.Unix(1e9, 0), SerialNumber: "S64", SizeBytes: 1920383410176, Method: "NVMe sanitize", Log: "log", Samples: 64, Version: "v0.1.0", Seed: "0x3c1f136139113f34",
				},
				Term: v1alpha1.TermPurge, NodeName: "storage-004", Device: "d", Job: "j", JobUID: "u", CompletionTime: metav1.Unix(1e9, 0), Remains: "Firmware.",
			},
			Signature: []byte("signature"), PublicKey: "key",
		},
	})
	require.NoError(t, err)
	out := map[string]*unstructured.Unstructured{"SanitizationCertificate": {Object: certificate}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			o := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte(document), &o.Object))
			if out[o.GetKind()] == nil {
				out[o.GetKind()] = o
			}
		}
	}
	return out
}

// fuzz sets fields of an object to random values of their schemas, one after the other. Those that the API server refuses, mostly because of a rule for
// several fields, stay as they are.
func fuzz(t *testing.T, env *apitest.Env, d *apiextensionsv1.CustomResourceDefinition, o *unstructured.Unstructured, seed int, taken map[string]bool) {
	t.Helper()
	root := d.Spec.Versions[0].Schema.OpenAPIV3Schema
	for part, write := range map[string]func(client.Object, client.Patch) error{
		"spec":   func(o client.Object, p client.Patch) error { return env.Client.Patch(t.Context(), o, p) },
		"status": func(o client.Object, p client.Patch) error { return env.Client.Status().Patch(t.Context(), o, p) },
	} {
		fields := root.Properties[part].Properties
		for i, field := range slices.Sorted(maps.Keys(fields)) {
			if (seed+i)%3 != 0 { // a third of them in each object
				continue
			}
			value := rapid.Custom(func(r *rapid.T) any { return random(r, fields[field]) }).Example(seed*100 + i)
			body, err := json.Marshal(map[string]any{part: map[string]any{field: value}})
			require.NoError(t, err)
			err = write(o.DeepCopy(), client.RawPatch(types.MergePatchType, body))
			switch {
			case err == nil:
				taken[part+"."+field] = true
			case !apierrors.IsInvalid(err):
				require.NoError(t, err, "%s", body)
			}
		}
	}
}

// random is a value of a schema.
func random(r *rapid.T, s apiextensionsv1.JSONSchemaProps) any {
	bound := func(p *int64, otherwise int64) int {
		if p == nil {
			return int(otherwise)
		}
		return int(*p)
	}
	switch {
	case len(s.Enum) > 0:
		var value any
		_ = json.Unmarshal(rapid.SampledFrom(s.Enum).Draw(r, "enum").Raw, &value)
		return value
	case s.XIntOrString:
		return rapid.SampledFrom([]any{1, "50%"}).Draw(r, "number or share")
	case s.Type == "string" && s.Format == "date-time":
		return time.Unix(rapid.Int64Range(0, 4e9).Draw(r, "time"), 0).UTC().Format(time.RFC3339)
	case s.Type == "string" && s.Format == "byte":
		return rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(r, "bytes")
	case s.Type == "string" && s.Pattern != "":
		least, most := bound(s.MinLength, 0), bound(s.MaxLength, math.MaxInt32)
		return rapid.StringMatching(s.Pattern).Filter(func(s string) bool { return len(s) >= least && len(s) <= most }).Draw(r, "pattern")
	case s.Type == "string":
		least := bound(s.MinLength, 0)
		return rapid.StringOfN(rapid.RuneFrom([]rune("az09-é世")), least, max(least, min(bound(s.MaxLength, 20), 20)), -1).Draw(r, "text")
	case s.Type == "integer":
		least, most := int64(0), int64(math.MaxInt32)
		if s.Minimum != nil {
			least = int64(*s.Minimum)
		}
		if s.Maximum != nil {
			most = int64(*s.Maximum)
		}
		return rapid.Int64Range(least, most).Draw(r, "integer")
	case s.Type == "boolean":
		return rapid.Bool().Draw(r, "boolean")
	case s.Type == "array":
		out, keys := []any{}, map[string]bool{}
		for range rapid.IntRange(bound(s.MinItems, 0), min(bound(s.MaxItems, 3), max(3, bound(s.MinItems, 0)))).Draw(r, "items") {
			item := random(r, *s.Items.Schema)
			key := ""
			if m, is := item.(map[string]any); is {
				for _, k := range s.XListMapKeys {
					key += fmt.Sprint(m[k], "/")
				}
			} else {
				key = fmt.Sprint(item)
			}
			if s.XListType == nil || *s.XListType == "atomic" || !keys[key] {
				out = append(out, item)
			}
			keys[key] = true
		}
		return out
	}
	out := map[string]any{}
	if a := s.AdditionalProperties; a != nil && a.Schema != nil {
		for range rapid.IntRange(0, 2).Draw(r, "entries") {
			out[rapid.StringMatching("[a-z]{1,8}").Draw(r, "key")] = random(r, *a.Schema)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, name) || rapid.Bool().Draw(r, "has "+name) {
			out[name] = random(r, s.Properties[name])
		}
	}
	return out
}

// check compares what the API server serves in both versions, and what becomes of that when it is read into the Go types and written back.
func check(t *testing.T, env *apitest.Env, of *unstructured.Unstructured) {
	t.Helper()
	kind := of.GroupVersionKind().GroupKind()
	get := func(v schema.GroupVersion) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(v.WithKind(kind.Kind))
		require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(of), o))
		return o
	}
	first := get(v1alpha1.GroupVersion)
	alphas, betas := runtime.NewScheme(), runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(alphas))
	require.NoError(t, v1beta1.AddToScheme(betas))
	var inGo []map[string]any
	for _, v := range []struct {
		version schema.GroupVersion
		types   *runtime.Scheme
	}{{v1alpha1.GroupVersion, alphas}, {v1beta1.GroupVersion, betas}} {
		o := get(v.version)
		assert.Equal(t, content(first), content(o), "%s", v.version)
		require.NoError(t, env.Client.Update(t.Context(), o.DeepCopy()))
		require.NoError(t, env.Client.Status().Update(t.Context(), o.DeepCopy()))

		typed, err := v.types.New(v.version.WithKind(kind.Kind))
		require.NoError(t, err)
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true))
		again, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		require.NoError(t, err)
		inGo = append(inGo, content(&unstructured.Unstructured{Object: again}))
	}
	assert.Equal(t, inGo[0], inGo[1], "%s", kind)
	last := get(v1alpha1.GroupVersion)
	assert.Equal(t, first.GetResourceVersion(), last.GetResourceVersion(), "%s", kind)
	assert.Equal(t, first.GetManagedFields(), last.GetManagedFields(), "%s", kind)
}

// content is an object without its version.
func content(o *unstructured.Unstructured) map[string]any {
	out := o.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "apiVersion")
	return out.Object
}
