package kubectl

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// pageSize is how many objects are asked for at once.
const pageSize = 500

// each calls do for every object of a kind that has those fields, a page at a time, while the next page is on its way.
func each[O client.Object](ctx context.Context, c client.Reader, list client.ObjectList, fieldsAre fields.Set, do func(O) error) error {
	return eachOf(ctx, c, list, client.ListOptions{FieldSelector: selector(fieldsAre)}, do)
}

// eachBrief does so for devices, of which it has what briefDevice has.
func eachBrief(ctx context.Context, c client.Reader, fieldsAre fields.Set, do func(*v1alpha1.NodeDevice) error) error {
	return eachOf(ctx, c, &v1alpha1.NodeDeviceList{}, client.ListOptions{FieldSelector: selector(fieldsAre)}, do, briefly{})
}

// eachOf does so for those that the options select.
func eachOf[O client.Object](ctx context.Context, c client.Reader, list client.ObjectList, chosen client.ListOptions, do func(O) error, more ...client.ListOption) error {
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		page := list.DeepCopyObject().(client.ObjectList)
		chosen := chosen
		chosen.Raw, chosen.Limit, chosen.Continue = &o, o.Limit, o.Continue
		return page, c.List(ctx, page, append([]client.ListOption{&chosen}, more...)...)
	})
	p.PageSize, p.PageBufferSize = pageSize, 2
	return p.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		object, is := o.(O)
		if !is {
			return fmt.Errorf("list %T: the API server sent %T", list, o)
		}
		return do(object)
	})
}

func selector(s fields.Set) fields.Selector {
	if len(s) == 0 {
		return nil
	}
	return s.AsSelector()
}

// all lists every object of a kind that has those fields.
func all[O client.Object](ctx context.Context, c client.Reader, list client.ObjectList, fieldsAre fields.Set) (out []O, err error) {
	err = each(ctx, c, list, fieldsAre, func(o O) error {
		out = append(out, o)
		return nil
	})
	return out, err
}

// namesOf lists the names of a kind.
func namesOf(ctx context.Context, c client.Reader, kind string) (out []string, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
	err = each(ctx, c, list, nil, func(o *metav1.PartialObjectMetadata) error {
		out = append(out, o.Name)
		return nil
	})
	return out, err
}

// is reports whether the condition of that type is True.
func is(all []metav1.Condition, kind string) bool { return meta.IsStatusConditionTrue(all, kind) }
