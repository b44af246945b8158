package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// The tests of this file hold the generated definitions and the Go types to the API conventions: what
// sigs.k8s.io/kube-api-linter would check, and a few rules of this product (docs/adr/0003).

// TestDefinitions checks what each kind has apart from its fields.
func TestDefinitions(t *testing.T) {
	for _, d := range definitions(t) {
		t.Run(d.Spec.Names.Kind, func(t *testing.T) {
			assert.Equal(t, apiextensionsv1.ClusterScoped, d.Spec.Scope, "every kind is cluster-scoped (R000-9)")
			assert.Equal(t, []string{"firmware"}, d.Spec.Names.Categories, "one category for the product")
			assert.Len(t, d.Spec.Names.ShortNames, 1, "one short name")
			v := d.Spec.Versions[0]
			require.NotNil(t, v.Subresources)
			assert.NotNil(t, v.Subresources.Status, "status is a subresource")
			if d.Spec.Names.Kind == "SanitizationCertificate" { // a record of what was done, complete when it is made
				assert.NotContains(t, v.Schema.OpenAPIV3Schema.Properties, "status")
				return
			}

			var columns []string
			for _, c := range v.AdditionalPrinterColumns {
				columns = append(columns, c.Name)
			}
			require.GreaterOrEqual(t, len(columns), 3)
			assert.Equal(t, []string{"Ready", "Status", "Age"}, columns[len(columns)-3:], "the last columns")

			schema := v.Schema.OpenAPIV3Schema
			assert.NotEmpty(t, schema.Description, "the kind has a description")
			status := schema.Properties["status"]
			require.NotNil(t, status.Default, "a new object has a status")
			assert.JSONEq(t, `{"observedGeneration":-1}`, string(status.Default.Raw),
				"a new object is in progress, not done")
			conditions, ok := status.Properties["conditions"]
			require.True(t, ok, "status has conditions")
			assert.Equal(t, []string{"type"}, conditions.XListMapKeys)
		})
	}
}

// R002-70: the versions of a kind differ by their name alone, so the API server converts an object by changing its apiVersion. New objects are
// stored in the later one, and both are served.
func TestVersionsHaveOneSchema(t *testing.T) {
	for _, d := range definitions(t) {
		require.Len(t, d.Spec.Versions, 2, d.Name)
		assert.Nil(t, d.Spec.Conversion, d.Name)
		alpha, beta := d.Spec.Versions[0], d.Spec.Versions[1]
		assert.Equal(t, []any{"v1alpha1", true, false, "v1beta1", true, true},
			[]any{alpha.Name, alpha.Served, alpha.Storage, beta.Name, beta.Served, beta.Storage}, d.Name)
		beta.Name, beta.Storage = alpha.Name, alpha.Storage
		assert.Equal(t, alpha, beta, d.Name)
	}
}

// kubectl apply keeps a definition once more in an annotation, which may have 262,144 bytes, and a request 3 MiB.
func TestDefinitionsFitIntoAnAnnotation(t *testing.T) {
	for _, d := range definitions(t) {
		text, err := json.Marshal(d)
		require.NoError(t, err)
		assert.Less(t, len(text), 131_072, "%s: half of the limit", d.Name)
	}
}

// TestFields checks every field of every kind.
func TestFields(t *testing.T) {
	for _, d := range definitions(t) {
		t.Run(d.Spec.Names.Kind, func(t *testing.T) {
			root := d.Spec.Versions[0].Schema.OpenAPIV3Schema
			for _, name := range []string{"spec", "status"} {
				schema, has := root.Properties[name]
				if !has && name == "status" {
					continue // a record has none
				}
				for _, problem := range lintField(name, name, schema) {
					t.Error(problem)
				}
			}
		})
	}
}

// TestFieldsLint proves that the rules of TestFields find what they are for.
func TestFieldsLint(t *testing.T) {
	described := func(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		s.Description = "field of the test."
		return s
	}
	for want, schema := range map[string]apiextensionsv1.JSONSchemaProps{
		"begin with its name":  {Type: "string", MaxLength: ptr(1), Description: "Field of the test."},
		"end with a full stop": {Type: "string", MaxLength: ptr(1), Description: "field of the test"},
		"bounded string":       described(apiextensionsv1.JSONSchemaProps{Type: "string"}),
		"maxItems": described(apiextensionsv1.JSONSchemaProps{Type: "array", XListType: new("atomic"),
			Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: ptr(1)}}}),
		"list type": described(apiextensionsv1.JSONSchemaProps{Type: "array", MaxItems: ptr(1),
			Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: ptr(1)}}}),
		"boolean":      described(apiextensionsv1.JSONSchemaProps{Type: "boolean"}),
		"number":       described(apiextensionsv1.JSONSchemaProps{Type: "number"}),
		"int32, int64": described(apiextensionsv1.JSONSchemaProps{Type: "integer"}),
		"free-form map": described(apiextensionsv1.JSONSchemaProps{Type: "object",
			AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}}),
		"message": described(apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: ptr(1),
			XValidations: apiextensionsv1.ValidationRules{{Rule: "true"}}}),
	} {
		problems := lintField("spec.field", "field", schema)
		require.Len(t, problems, 1, want)
		assert.Contains(t, problems[0], want)
	}
	phase := described(apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: ptr(1)})
	phase.Description = "phase of the test."
	require.Len(t, lintField("status.phase", "phase", phase), 1)
}

// lintField returns what is wrong with a field and what is below it.
func lintField(path, name string, s apiextensionsv1.JSONSchemaProps) []string {
	var problems []string
	report := func(format string, args ...any) {
		problems = append(problems, path+": "+fmt.Sprintf(format, args...))
	}
	first, _, _ := strings.Cut(strings.ReplaceAll(s.Description, ":", " "), " ")
	if first != name {
		report("the description must begin with its name, begins with %q", first)
	}
	if !strings.HasSuffix(strings.TrimSpace(s.Description), ".") {
		report("the description must end with a full stop")
	}
	if strings.EqualFold(path, "status.phase") { // the phase of a step says what it is part of, not how an object stands
		report("use conditions, not a phase")
	}
	return append(problems, lintSchema(path, s)...)
}

// lintSchema returns what is wrong with the schema of a field or of the items of a list.
func lintSchema(path string, s apiextensionsv1.JSONSchemaProps) []string {
	var problems []string
	report := func(format string, args ...any) {
		problems = append(problems, path+": "+fmt.Sprintf(format, args...))
	}
	for _, rule := range s.XValidations {
		if rule.Message == "" && rule.MessageExpression == "" {
			report("the rule %q has no message", rule.Rule)
		}
	}
	switch {
	case s.XIntOrString:
	case s.Type == "string":
		if s.MaxLength == nil && len(s.Enum) == 0 && s.Format != "date-time" {
			report("must be a bounded string, an enum or a time")
		}
	case s.Type == "array":
		problems = append(problems, lintList(path, s)...)
	case s.Type == "object":
		if s.AdditionalProperties != nil {
			report("must not be a free-form map")
		}
		if isLabelSelector(s) {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			problems = append(problems, lintField(path+"."+name, name, s.Properties[name])...)
		}
	case s.Type == "integer":
		if s.Format != "int32" && s.Format != "int64" {
			report("an integer must be one of int32, int64")
		}
	default:
		report("must not be a %s", s.Type)
	}
	return problems
}

func lintList(path string, s apiextensionsv1.JSONSchemaProps) []string {
	var problems []string
	if s.MaxItems == nil {
		problems = append(problems, path+": a list must have maxItems")
	}
	if s.XListType == nil {
		problems = append(problems, path+": a list must have a list type")
	}
	if isConditions(s) {
		return problems
	}
	return append(problems, lintSchema(path+"[]", *s.Items.Schema)...)
}

// isLabelSelector recognises the schema of metav1.LabelSelector, whose bounds we cannot set.
func isLabelSelector(s apiextensionsv1.JSONSchemaProps) bool {
	_, labels := s.Properties["matchLabels"]
	_, expressions := s.Properties["matchExpressions"]
	return labels && expressions && len(s.Properties) == 2
}

// isConditions recognises the schema of a list of metav1.Condition, whose bounds we cannot set either.
func isConditions(s apiextensionsv1.JSONSchemaProps) bool {
	_, transition := s.Items.Schema.Properties["lastTransitionTime"]
	return transition && slices.Equal(s.XListMapKeys, []string{"type"})
}

// TestEveryRuleIsTested: the message of every CEL rule appears in the tests of validation, which show what each accepts
// and what it rejects.
func TestEveryRuleIsTested(t *testing.T) {
	files, err := filepath.Glob("validation*_test.go")
	require.NoError(t, err)
	var tests strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		tests.Write(text)
	}
	rules := 0
	for _, d := range definitions(t) {
		eachRule(*d.Spec.Versions[0].Schema.OpenAPIV3Schema, func(rule apiextensionsv1.ValidationRule) {
			rules++
			if !strings.Contains(tests.String(), rule.Message) { // not assert.Contains, which prints all tests
				t.Errorf("%s: no test of the rule %s", d.Spec.Names.Kind, rule.Rule)
			}
		})
	}
	assert.NotZero(t, rules)
}

func eachRule(s apiextensionsv1.JSONSchemaProps, visit func(apiextensionsv1.ValidationRule)) {
	for _, rule := range s.XValidations {
		visit(rule)
	}
	for _, p := range s.Properties {
		eachRule(p, visit)
	}
	if s.Items != nil {
		eachRule(*s.Items.Schema, visit)
	}
}

// TestMarkers checks that every field says whether it is required or optional, and that an optional one can be left
// out of what a Go client writes.
func TestMarkers(t *testing.T) {
	files, err := filepath.Glob("*_types.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok || strings.HasSuffix(spec.Name.Name, "List") {
				return true
			}
			for _, f := range fields.Fields.List {
				checkMarkers(t, spec.Name.Name, f)
			}
			return true
		})
	}
}

func checkMarkers(t *testing.T, owner string, f *ast.Field) {
	t.Helper()
	tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
	name, options, _ := strings.Cut(tag, ",")
	if options == "inline" {
		return
	}
	var markers []string
	if f.Doc != nil {
		for _, c := range f.Doc.List {
			markers = append(markers, strings.TrimPrefix(c.Text, "// "))
		}
	}
	required, optional := slices.Contains(markers, "+required"), slices.Contains(markers, "+optional")
	assert.NotEqual(t, required, optional, "%s.%s must be marked +required or +optional", owner, name)
}

// definitions are the generated definitions, as they are deployed.
func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob("../../deploy/kustomize/crd/nodefirmware.io_*.yaml")
	require.NoError(t, err)
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		d := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.UnmarshalStrict(text, d))
		out = append(out, d)
	}
	require.Len(t, out, 11, "SanitizationCertificate, CleaningPolicy, FirmwareTemplate, ConfigurationTemplate, FirmwareSource, FirmwareQuarantine, FirmwareCatalog, RolloutPolicy, NodeFirmware, NodeDevice, FirmwareJob")
	return out
}

func ptr(i int64) *int64 { return &i }

// A write of a job's status pays for each rule that compares old and new lists, though it cannot change them: the whole task is
// compared once.
func TestTaskIsComparedOnce(t *testing.T) {
	for _, d := range definitions(t) {
		if d.Spec.Names.Kind != "FirmwareJob" {
			continue
		}
		task := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["task"]
		raw, err := json.Marshal(task)
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(raw), "oldSelf"))
		return
	}
	t.Fatal("there is no FirmwareJob")
}
