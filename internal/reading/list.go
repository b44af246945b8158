package reading

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PageSize is how many objects are asked for at once.
const PageSize = 500

// Each calls do for every object of a kind that has those fields, a page at a time, while the next page is on its way.
func Each[O client.Object](ctx context.Context, c client.Reader, list client.ObjectList, fieldsAre fields.Set, do func(O) error) error {
	return EachOf(ctx, c, list, client.ListOptions{FieldSelector: selector(fieldsAre)}, do)
}

// EachOf does so for those that the options select.
func EachOf[O client.Object](ctx context.Context, c client.Reader, list client.ObjectList, chosen client.ListOptions, do func(O) error) error {
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		page := list.DeepCopyObject().(client.ObjectList)
		chosen := chosen
		chosen.Raw, chosen.Limit, chosen.Continue = &o, o.Limit, o.Continue
		return page, c.List(ctx, page, &chosen)
	})
	p.PageSize, p.PageBufferSize = PageSize, 2
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

// All lists every object of a kind that has those fields.
func All[O client.Object](ctx context.Context, c client.Reader, list client.ObjectList, fieldsAre fields.Set) (out []O, err error) {
	err = Each(ctx, c, list, fieldsAre, func(o O) error {
		out = append(out, o)
		return nil
	})
	return out, err
}

// IsMissingKind reports whether the API server does not serve a kind that it was asked for without its being looked up.
func IsMissingKind(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.IsNotFound(err) && status.Status().Details != nil && status.Status().Details.Name == ""
}
