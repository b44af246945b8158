package storedversion

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// faulty is an API server in memory with NodeDevices that are outdated, and what goes wrong there. It has v1alpha1 alone, which counts as the later
// version: what an object is stored in is seen by the writes.
type faulty struct {
	*testing.T
	client.WithWatch
	// migrates says that it has a migration of its own.
	migrates bool
	// write, create, list and get are asked before; nil lets everything pass.
	write  func(name string) error
	create func() error
	list   func(continued string) error
	get    func(client.Object) error
	// written counts the writes of each object, versions those of each version.
	written, versions map[string]int

	now      time.Time
	progress *Progress
	r        *Reconciler
}

func newFaulty(t *testing.T, names ...string) *faulty {
	t.Helper()
	f := &faulty{T: t, written: map[string]int{}, versions: map[string]int{}, now: time.Unix(1_000_000, 0), progress: &Progress{}}
	d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: devices, UID: "u", Generation: 1, Finalizers: []string{"nodefirmware.io/test"}}}
	d.Spec.Group = v1alpha1.GroupName
	d.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "nodedevices", Kind: "NodeDevice", ListKind: "NodeDeviceList"}
	d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha0"}, {Name: "v1alpha1", Served: true, Storage: true}}
	d.Status.StoredVersions = []string{"v1alpha0", "v1alpha1"}
	objects := []client.Object{d}
	for _, name := range names {
		objects = append(objects, &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	scheme := must(apitest.Scheme())
	f.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(d, &v1alpha1.NodeDevice{}).WithInterceptorFuncs(f.funcs()).Build()
	f.r = New(f, f, mapper{f: f}, func() time.Time { return f.now }, f.progress, Options{Every: every})
	return f
}

func (f *faulty) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if _, is := o.(*metav1.PartialObjectMetadata); !is {
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			}
			f.written[o.GetName()]++
			f.versions[o.GetObjectKind().GroupVersionKind().Version]++
			if f.write != nil {
				return f.write(o.GetName())
			}
			return nil
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if f.create != nil {
				return f.create()
			}
			return c.Create(ctx, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			o := (&client.ListOptions{}).ApplyOptions(opts)
			if f.list != nil {
				if err := f.list(o.Continue); err != nil {
					return err
				}
			}
			return f.pageOf(ctx, c, l.(*metav1.PartialObjectMetadataList), o)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if f.get != nil {
				if err := f.get(o); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, o, opts...)
		},
	}
}

// pageOf pages as an API server does. A token is the number of objects before the page, with any letter before it.
func (f *faulty) pageOf(ctx context.Context, c client.Client, l *metav1.PartialObjectMetadataList, o *client.ListOptions) error {
	if l.GroupVersionKind().Version != "v1alpha1" {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "list", schema.GroupResource{}, "", "", 0, true)
	}
	if err := c.List(ctx, l); err != nil {
		return err
	}
	skip := 0
	if o.Continue != "" {
		_, err := fmt.Sscanf(o.Continue[1:], "%d", &skip)
		require.NoError(f, err)
	}
	l.Items = l.Items[skip:]
	if more := int64(len(l.Items)) - o.Limit; more > 0 {
		l.Items, l.RemainingItemCount, l.Continue = l.Items[:o.Limit], &more, fmt.Sprintf("t%d", skip+int(o.Limit))
	}
	return nil
}

// mapper is a meta.RESTMapper as far as the reconciler needs one.
type mapper struct {
	meta.RESTMapper
	f *faulty
}

func (m mapper) RESTMapping(kind schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	if !m.f.migrates {
		return nil, &meta.NoKindMatchError{GroupKind: kind}
	}
	return &meta.RESTMapping{GroupVersionKind: kind.WithVersion("v1beta1")}, nil
}

func (f *faulty) step() (reconcile.Result, error) {
	f.Helper()
	result, err := f.r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: devices}})
	f.now = f.now.Add(result.RequeueAfter)
	return result, err
}

// run reconciles until nothing is to be done, or until it waits as long as that.
func (f *faulty) run(until time.Duration) {
	f.Helper()
	for range 100 {
		result, err := f.step()
		require.NoError(f, err)
		if result.RequeueAfter == until {
			return
		}
	}
	require.Fail(f, "it does not come to an end")
}

func (f *faulty) definition() *apiextensionsv1.CustomResourceDefinition {
	f.Helper()
	d := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(f, f.Get(context.Background(), client.ObjectKey{Name: devices}, d))
	return d
}

func (f *faulty) left() Left { return f.progress.Resources()["nodedevices"] }

var inMemory = schema.GroupResource{Group: v1alpha1.GroupName, Resource: "nodedevices"}

// R002-68: a webhook may deny a write with NotFound or Conflict, and an API server that does not serve the version yet answers NotFound. Such an
// object is not stored anew, and the earlier version must stay.
func TestADenialIsNotAWrite(t *testing.T) {
	for name, denial := range map[string]error{
		"not found":  apierrors.NewNotFound(inMemory, "b"),
		"conflict":   apierrors.NewConflict(inMemory, "b", errors.New("denied by a webhook")),
		"not served": apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", inMemory, "b", "404 page not found", 0, true),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t, "a", "b")
			f.write = func(name string) error {
				if name == "b" {
					return denial
				}
				return nil
			}
			if name == "not served" {
				f.get = func(o client.Object) error {
					if o.GetName() == "b" {
						return denial
					}
					return nil
				}
			}
			f.run(triesAgain)
			assert.Equal(t, Left{Refused: 1}, f.left())
			assert.Equal(t, []string{"v1alpha0", "v1alpha1"}, f.definition().Status.StoredVersions)
			f.write = nil
			f.run(every)
			assert.Equal(t, Left{}, f.left())
			assert.Equal(t, []string{"v1alpha1"}, f.definition().Status.StoredVersions)
		})
	}
}

// R002-69: what may be outdated is reported before anything is written, also where nothing can be.
func TestWhatCannotBeDoneIsReported(t *testing.T) {
	refusal := apierrors.NewForbidden(inMemory, "", errors.New("roles of an earlier release"))
	for name, breakIt := range map[string]func(f *faulty){
		"the definition cannot be read": func(f *faulty) {
			f.get = func(o client.Object) error {
				if _, is := o.(*apiextensionsv1.CustomResourceDefinition); is {
					return refusal
				}
				return nil
			}
		},
		"objects cannot be listed": func(f *faulty) { f.list = func(string) error { return refusal } },
		"the migration cannot be read": func(f *faulty) {
			f.migrates = true
			f.get = func(o client.Object) error {
				if o.GetObjectKind().GroupVersionKind().Kind == "StorageVersionMigration" {
					return refusal
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t, "a")
			breakIt(f)
			_, err := f.step()
			require.ErrorIs(t, err, refusal)
			assert.Equal(t, Left{Pending: 1}, f.left())
			f.get, f.list, f.migrates = nil, nil, false
			f.run(every)
			assert.Equal(t, Left{}, f.left())
		})
	}
}

// R002-68: where the API server does not accept a migration of its own, the operator stores the objects itself.
func TestAMigrationIsNotAccepted(t *testing.T) {
	for name, refusal := range map[string]error{
		"forbidden": apierrors.NewForbidden(inMemory, "", errors.New("roles of an earlier release")),
		"invalid":   apierrors.NewInvalid(schema.GroupKind{}, "", nil),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t, "a", "b", "c")
			f.migrates, f.r.page = true, 1
			f.create = func() error {
				assert.Equal(t, Left{Pending: 3}, f.left())
				return refusal
			}
			f.run(every)
			assert.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, f.written)
			assert.Equal(t, []string{"v1alpha1"}, f.definition().Status.StoredVersions)
		})
	}
}

// R002-68: a token that expires during a long pass does not have it begin anew: the API server gives another one for what follows.
func TestAnExpiredTokenGoesOn(t *testing.T) {
	for with, want := range map[string]map[string]int{"n2": {"a": 1, "b": 1, "c": 1, "d": 1}, "": {"a": 2, "b": 2, "c": 1, "d": 1}} {
		f := newFaulty(t, "a", "b", "c", "d")
		f.r.page = 2
		expired := apierrors.NewResourceExpired("too old")
		expired.ErrStatus.Continue = with
		f.list = func(continued string) error {
			if continued == "t2" && f.list != nil {
				return expired
			}
			return nil
		}
		_, err := f.step()
		require.NoError(t, err)
		_, err = f.step()
		if with == "" {
			require.ErrorIs(t, err, expired)
		} else {
			require.NoError(t, err)
		}
		f.list = nil
		f.run(every)
		assert.Equal(t, want, f.written, "%q", with)
	}
}

// R002-68: objects that are refused are tried again a page at a time, and what is kept of them does not grow with what is said of them.
func TestRefusedObjectsArePaged(t *testing.T) {
	f := newFaulty(t, "a", "b", "c", "d", "e")
	f.r.page = 2
	refuses := true
	f.write = func(name string) error {
		if refuses {
			return apierrors.NewForbidden(inMemory, name, errors.New("not for anybody"))
		}
		return nil
	}
	f.run(triesAgain)
	require.Equal(t, Left{Refused: 5}, f.left())
	p := f.r.passes[devices]
	assert.Len(t, p.said, maxSaid)
	said := f.definition().Status.Conditions[0].Message
	assert.Contains(t, said, "did not store 5 of the objects")
	assert.Contains(t, said, "a: ")

	clear(f.written)
	_, err := f.step()
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"a": 1, "b": 1}, f.written)
	f.run(triesAgain)
	assert.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, f.written)
	assert.Equal(t, Left{Refused: 5}, f.left())

	refuses = false
	f.run(every)
	assert.Equal(t, []string{"v1alpha1"}, f.definition().Status.StoredVersions)
}

// R002-68: objects are written in a version that is served, whichever they are stored in.
func TestTheStoredVersionIsNotServed(t *testing.T) {
	f := newFaulty(t, "a")
	d := f.definition()
	d.Spec.Versions[0].Storage, d.Spec.Versions[1].Storage = true, false
	require.NoError(t, f.Update(t.Context(), d))
	f.run(every)
	assert.Equal(t, map[string]int{"v1alpha1": 1}, f.versions)
	assert.Equal(t, []string{"v1alpha0"}, f.definition().Status.StoredVersions)
}

// A definition that is being deleted takes what is known of it, and the migration that was asked for, with it.
func TestADefinitionIsBeingDeleted(t *testing.T) {
	f := newFaulty(t, "a")
	f.migrates = true
	_, err := f.step()
	require.NoError(t, err)
	m := &storagemigrationv1beta1.StorageVersionMigration{}
	require.NoError(t, f.Get(t.Context(), client.ObjectKey{Name: devices}, m))
	require.NoError(t, f.Delete(t.Context(), f.definition()))
	require.NotNil(t, f.definition().DeletionTimestamp)
	f.run(every)
	assert.True(t, apierrors.IsNotFound(f.Get(t.Context(), client.ObjectKey{Name: devices}, m)))
	assert.Empty(t, f.progress.Resources())
	assert.Empty(t, f.r.passes)
}
