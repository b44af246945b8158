package rollout

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// priorities are the priorities of the templates by name.
type priorities map[string]int

func (r *Reconciler) priorities(ctx context.Context) (priorities, error) {
	var templates v1alpha1.FirmwareTemplateList
	if err := r.client.List(ctx, &templates, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list firmware templates: %w", err)
	}
	out := priorities{}
	for i := range templates.Items {
		if p := templates.Items[i].Spec.Priority; p != 0 {
			out[templates.Items[i].Name] = int(p)
		}
	}
	return out, nil
}

// of is the priority of a job: its own, or the highest of the templates that its updates come from.
func (p priorities) of(j *v1alpha1.FirmwareJob) int {
	if j.Spec.Priority != nil {
		return int(*j.Spec.Priority)
	}
	if len(p) == 0 || len(j.Spec.Updates) == 0 {
		return 0
	}
	highest := -1000
	for i := range j.Spec.Updates {
		of := 0
		if o := v1alpha1.AssignedBy(j.Spec.Updates[i].Origin); o != nil && o.Kind == v1alpha1.OriginTemplate {
			of = p[o.Name]
		}
		highest = max(highest, of)
	}
	return highest
}
