// Package policyfile reads RolloutPolicies from files, and refuses what the API server and the operator would refuse. It asks neither.
package policyfile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/document"
	"github.com/nodefirmware/node-firmware-operator/internal/schedule"
)

// Load reads the RolloutPolicies of the files, one or more documents in each. It refuses what the API server would
// refuse, by the schema and the rules of the definition, and what the operator could not work with, in the same words. Every
// problem is reported with its file and line.
func Load(files []string) ([]v1alpha1.RolloutPolicy, error) {
	check, err := newChecker()
	if err != nil {
		return nil, err
	}
	var out []v1alpha1.RolloutPolicy
	var errs []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("read policy: %w", err))
			continue
		}
		before := len(out)
		found := document.Each(file, text, func(h document.Header, raw []byte) []document.Problem {
			return document.Items(h, raw, func(h document.Header, raw []byte) []document.Problem {
				p, problems := check.policy(h, raw)
				if slices.ContainsFunc(out, func(o v1alpha1.RolloutPolicy) bool { return o.Name == p.Name }) {
					problems = append(problems, document.Problem{Path: "metadata.name", Text: fmt.Sprintf("RolloutPolicy %s is given twice", p.Name)})
				}
				out = append(out, p)
				return problems
			})
		})
		errs = append(errs, found...)
		if len(out) == before && len(found) == 0 {
			errs = append(errs, fmt.Errorf("%s: there is no RolloutPolicy in the file", file))
		}
	}
	return out, errors.Join(errs...)
}

// checker does for policies what the API server does when one is created.
type checker struct {
	structural *schema.Structural
	fields     validation.SchemaValidator
	rules      *cel.Validator
}

func newChecker() (*checker, error) {
	objects, err := deploy.Objects(deploy.CRDs)
	if err != nil {
		return nil, fmt.Errorf("read definition of rollout policies: %w", err)
	}
	for _, o := range objects {
		var d apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
			return nil, fmt.Errorf("read definition %s: %w", o.GetName(), err)
		}
		if d.Spec.Names.Kind == "RolloutPolicy" {
			return checkerOf(d.Spec.Versions[0].Schema.OpenAPIV3Schema)
		}
	}
	return nil, errors.New("there is no definition of rollout policies")
}

func checkerOf(definition *apiextensionsv1.JSONSchemaProps) (*checker, error) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(definition, &internal, nil); err != nil {
		return nil, fmt.Errorf("convert definition of rollout policies: %w", err)
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		return nil, fmt.Errorf("read schema of rollout policies: %w", err)
	}
	fields, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		return nil, fmt.Errorf("read schema of rollout policies: %w", err)
	}
	return &checker{structural, fields, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

func (c *checker) policy(h document.Header, raw []byte) (p v1alpha1.RolloutPolicy, problems []document.Problem) {
	if problems := h.CheckVersion(); len(problems) > 0 {
		return p, problems
	}
	if h.Kind != "RolloutPolicy" {
		return p, []document.Problem{{Path: "kind", Text: fmt.Sprintf("kind is %q, want RolloutPolicy", h.Kind)}}
	}
	if problems = document.Strict(raw, &p); len(problems) > 0 {
		return p, problems
	}
	if p.Name == "" {
		return p, []document.Problem{{Path: "metadata.name", Text: "metadata.name is missing"}}
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return p, []document.Problem{{Text: err.Error()}}
	}
	delete(object, "status") // the operator writes it
	normalize(object)
	defaulting.Default(object, c.structural)
	errs := validation.ValidateCustomResource(nil, object, c.fields)
	if len(errs) == 0 {
		errs, _ = c.rules.Validate(context.Background(), nil, c.structural, object, nil, celconfig.RuntimeCELCostBudget)
	}
	for _, e := range errs {
		problems = append(problems, document.Problem{Path: strings.TrimPrefix(e.Field, "."), Text: fmt.Sprintf("%s %s: %s", h.Kind, p.Name, said(e))})
	}
	if len(problems) > 0 {
		return p, problems
	}
	defaulted, err := json.Marshal(object)
	if err != nil {
		return p, []document.Problem{{Text: err.Error()}}
	}
	p = v1alpha1.RolloutPolicy{}
	if problems = document.Strict(defaulted, &p); len(problems) > 0 {
		return p, problems
	}
	policy := schedule.PolicyOf(&p, schedule.DefaultExpected)
	if invalid := cmp.Or(policy.Invalid, policy.Stopped); invalid != "" {
		path, _, _ := strings.Cut(invalid, ":")
		problems = append(problems, document.Problem{Path: path, Text: fmt.Sprintf("%s %s: %s", h.Kind, p.Name, invalid)})
	}
	return p, problems
}

// said is the message of the API server about a field.
func said(e *field.Error) string { return strings.TrimPrefix(e.Error(), "<nil>: ") }

// normalize turns the numbers of JSON into integers where they are, as the API server reads them.
func normalize(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, o := range x {
			x[k] = normalize(o)
		}
	case []any:
		for i, o := range x {
			x[i] = normalize(o)
		}
	case float64:
		if n := int64(x); float64(n) == x {
			return n
		}
	}
	return v
}
