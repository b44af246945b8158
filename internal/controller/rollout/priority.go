package rollout

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// priorities are the priorities of the jobs that are not admitted, by uid.
func (r *Reconciler) priorities(ctx context.Context, jobs map[string]*v1alpha1.FirmwareJob) (map[string]int, error) {
	var list v1alpha1.FirmwareTemplateList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list firmware templates: %w", err)
	}
	templates := map[string]int{}
	for i := range list.Items {
		if p := list.Items[i].Spec.Priority; p != 0 {
			templates[list.Items[i].Name] = int(p)
		}
	}
	out := map[string]int{}
	for uid, j := range jobs {
		if j.Admitted() || j.Ended() {
			continue
		}
		p, err := r.priorityOf(ctx, templates, j)
		if err != nil {
			return nil, err
		}
		out[uid] = p
	}
	return out, nil
}

// priorityOf is the priority of a job: its own, or the highest of the templates that its devices get their firmware from now.
func (r *Reconciler) priorityOf(ctx context.Context, templates map[string]int, j *v1alpha1.FirmwareJob) (int, error) {
	if j.Spec.Priority != nil {
		return int(*j.Spec.Priority), nil
	}
	if len(templates) == 0 || len(j.Spec.Task.Devices) == 0 {
		return 0, nil
	}
	highest := -1000
	for i := range j.Spec.Task.Devices {
		of, d := 0, &v1alpha1.NodeDevice{}
		err := r.client.Get(ctx, client.ObjectKey{Name: j.Spec.Task.Devices[i].Name}, d)
		if client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("read node device %s: %w", j.Spec.Task.Devices[i].Name, err)
		}
		if o := v1alpha1.AssignedBy(d.Spec.Origin); o != nil && o.Kind == v1alpha1.OriginTemplate {
			of = templates[o.Name]
		}
		highest = max(highest, of)
	}
	return highest, nil
}
