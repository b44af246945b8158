package cacheview

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/internal/trim"
)

// Client reads through the transform of the operator's cache, and writes as the client that it wraps.
type Client struct{ client.Client }

// Get reads an object and trims it.
func (c Client) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, o, opts...); err != nil {
		return err
	}
	return trimmed(o)
}

// List reads objects and trims each of them.
func (c Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.Client.List(ctx, list, opts...); err != nil {
		return err
	}
	return meta.EachListItem(list, trimmed)
}

func trimmed(o runtime.Object) error {
	if _, err := trim.Object(o); err != nil {
		return fmt.Errorf("trim %T: %w", o, err)
	}
	return nil
}
