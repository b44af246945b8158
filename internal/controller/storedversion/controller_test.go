package storedversion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// every is no other wait of a reconciler.
const every = time.Minute

// devices is the definition that most tests are about.
const devices = "nodedevices.nodefirmware.io"

// world is an API server whose NodeDevices were stored as v1alpha1, and a clock.
type world struct {
	*testing.T
	*apitest.Env
	now      time.Time
	progress *Progress
}

func newWorld(t *testing.T, env *apitest.Env, names ...string) *world {
	w := &world{T: t, Env: env, now: time.Unix(1_000_000, 0), progress: &Progress{}}
	t.Cleanup(func() { // for the tests after this one
		w.upgrade("v1beta1")
		w.say("v1beta1")
	})
	w.upgrade("v1alpha1")
	w.say("v1alpha1")
	for _, name := range names {
		w.create(name)
	}
	return w
}

func (w *world) create(name string) {
	w.Helper()
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n"}}
	require.NoError(w, w.Client.Create(context.Background(), d))
}

func (w *world) definition() *apiextensionsv1.CustomResourceDefinition {
	w.Helper()
	d := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(w, w.Client.Get(context.Background(), client.ObjectKey{Name: devices}, d))
	return d
}

// change changes the definition until nobody else has changed it meanwhile.
func (w *world) change(how func(*apiextensionsv1.CustomResourceDefinition), write func(context.Context, client.Object) error) {
	w.Helper()
	require.NoError(w, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		d := w.definition()
		how(d)
		return write(context.Background(), d)
	}))
}

func (w *world) update(how func(*apiextensionsv1.CustomResourceDefinition)) {
	w.Helper()
	w.change(how, func(ctx context.Context, o client.Object) error { return w.Client.Update(ctx, o) })
}

// upgrade makes a version the stored one, as the definitions of a release do, and waits until the API server stores objects in it.
func (w *world) upgrade(version string) {
	w.Helper()
	w.update(func(d *apiextensionsv1.CustomResourceDefinition) {
		for i := range d.Spec.Versions {
			d.Spec.Versions[i].Storage = d.Spec.Versions[i].Name == version
		}
	})
	probe := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: "n"}}
	require.Eventually(w, func() bool {
		probe.ResourceVersion, probe.UID = "", ""
		require.NoError(w, w.Client.Create(context.Background(), probe))
		is := w.stored("probe")
		require.NoError(w, w.Client.Delete(context.Background(), probe))
		return is == version
	}, time.Minute, 10*time.Millisecond)
}

// say sets the stored versions of the definition.
func (w *world) say(versions ...string) {
	w.Helper()
	w.change(func(d *apiextensionsv1.CustomResourceDefinition) { d.Status.StoredVersions = versions },
		func(ctx context.Context, o client.Object) error { return w.Client.Status().Update(ctx, o) })
}

// stored is the version in which etcd has a NodeDevice.
func (w *world) stored(name string) string {
	w.Helper()
	text, err := w.ControlPlane.Stored(context.Background(), "nodefirmware.io/nodedevices/"+name)
	require.NoError(w, err)
	var o metav1.TypeMeta
	require.NoError(w, json.Unmarshal(text, &o))
	return o.GroupVersionKind().Version
}

// process starts an operator anew, with a client of its own.
func (w *world) process(c client.Client) *Reconciler {
	return New(c, c, w.Client.RESTMapper(), func() time.Time { return w.now }, w.progress, Options{Every: every, Settles: 30 * time.Second})
}

// step reconciles once, and lets the time pass until the next time. It reports whether there is one.
func (w *world) step(r *Reconciler, definition string) (goesOn bool, err error) {
	w.Helper()
	result, err := r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: definition}})
	w.now = w.now.Add(result.RequeueAfter)
	return result.RequeueAfter != every && err == nil, err
}

// run reconciles until nothing is to be done.
func (w *world) run(r *Reconciler) {
	w.Helper()
	for range 100 {
		goesOn, err := w.step(r, devices)
		require.NoError(w, err)
		if !goesOn {
			return
		}
	}
	require.Fail(w, "it does not come to an end")
}

// until reconciles until something is so.
func (w *world) until(r *Reconciler, is func() bool) {
	w.Helper()
	for range 100 {
		if is() {
			return
		}
		_, err := w.step(r, devices)
		require.NoError(w, err)
	}
	require.Fail(w, "it does not come so far")
}

func (w *world) condition() apiextensionsv1.CustomResourceDefinitionCondition {
	for _, c := range w.definition().Status.Conditions {
		if c.Type == "StorageMigrating" {
			return c
		}
	}
	return apiextensionsv1.CustomResourceDefinitionCondition{}
}

// intercepted is the client with something in the way of the writes that store an object anew.
func (w *world) intercepted(before func(ctx context.Context, name string) error) client.Client {
	w.Helper()
	c, err := client.NewWithWatch(w.Config, client.Options{Scheme: w.Scheme})
	require.NoError(w, err)
	return interceptor.NewClient(c, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if _, is := o.(*metav1.PartialObjectMetadata); is {
				if err := before(ctx, o.GetName()); err != nil {
					return err
				}
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	})
}

// R002-68, R002-69: where the API server has no migration of its own, every object is stored anew, page by page, and the definition says so from
// beginning to end. Then the earlier version can be removed. Nothing else of an object changes.
func TestStoresEveryObjectAnew(t *testing.T) {
	w := newWorld(t, apitest.New(t), "a", "b", "c", "d", "e")
	before := &v1alpha1.NodeDevice{}
	require.NoError(t, w.Client.Get(t.Context(), client.ObjectKey{Name: "c"}, before))
	w.upgrade("v1beta1")
	require.Equal(t, []string{"v1alpha1", "v1beta1"}, w.definition().Status.StoredVersions)
	require.Equal(t, "v1alpha1", w.stored("e"))

	r := w.process(w.Client)
	r.page = 2
	goesOn, err := w.step(r, devices)
	require.NoError(t, err)
	require.True(t, goesOn)
	assert.Equal(t, "v1alpha1", w.stored("a"), "the API servers of a cluster learn of a version one after the other")
	assert.Equal(t, map[string]Left{"nodedevices": {Pending: 5}}, w.progress.Resources())
	assert.Equal(t, apiextensionsv1.ConditionTrue, w.condition().Status)
	for _, left := range []int{3, 1} {
		_, err = w.step(r, devices)
		require.NoError(t, err)
		assert.Equal(t, map[string]Left{"nodedevices": {Pending: left}}, w.progress.Resources())
		assert.Len(t, w.definition().Status.StoredVersions, 2)
	}
	w.run(r)
	assert.Equal(t, map[string]Left{"nodedevices": {}}, w.progress.Resources())
	assert.Equal(t, []string{"v1beta1"}, w.definition().Status.StoredVersions)
	assert.Equal(t, apiextensionsv1.ConditionFalse, w.condition().Status)
	assert.Equal(t, "MigrationSucceeded", w.condition().Reason)
	after := &v1alpha1.NodeDevice{}
	require.NoError(t, w.Client.Get(t.Context(), client.ObjectKey{Name: "c"}, after))
	assert.NotEqual(t, before.ResourceVersion, after.ResourceVersion)
	after.ResourceVersion = before.ResourceVersion
	assert.Equal(t, before, after)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		assert.Equal(t, "v1beta1", w.stored(name), name)
	}

	is := w.definition()
	w.run(w.process(w.Client))
	assert.Equal(t, is.ResourceVersion, w.definition().ResourceVersion, "at rest nothing is written")
}

// R002-68: an operator that is killed before any of its writes leaves nothing behind that the next one does not put right, and the definition never says
// that all is done while it is not.
func TestGoesOnAfterEachInterruption(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	w := newWorld(t, apitest.New(t), names...)
	w.upgrade("v1beta1")
	killed := errors.New("killed")
	for at := range names {
		writes := 0
		r := w.process(w.intercepted(func(context.Context, string) error {
			if writes++; writes > at {
				return killed
			}
			return nil
		}))
		r.page = 2
		for {
			goesOn, err := w.step(r, devices)
			if err != nil {
				require.ErrorIs(t, err, killed)
				break
			}
			require.True(t, goesOn)
		}
		assert.Equal(t, []string{"v1alpha1", "v1beta1"}, w.definition().Status.StoredVersions)
		assert.Equal(t, "v1alpha1", w.stored("e"))
		assert.Equal(t, map[bool]string{true: "v1beta1", false: "v1alpha1"}[at > 0], w.stored("a"))
	}
	w.run(w.process(w.Client))
	for _, name := range names {
		assert.Equal(t, "v1beta1", w.stored(name), name)
	}
	assert.Equal(t, []string{"v1beta1"}, w.definition().Status.StoredVersions)
}

// R002-68: an operator of before reads and writes whatever is stored how, its definitions are refused while something is stored that they do not
// know, and a later operator goes on. Going back for good is the same way in the other direction.
func TestARolledBackOperatorDoesNoHarm(t *testing.T) {
	w := newWorld(t, apitest.New(t), "a", "b", "c")
	w.upgrade("v1beta1")
	r := w.process(w.Client)
	r.page = 1
	w.until(r, func() bool { return w.stored("a") == "v1beta1" })
	require.Equal(t, "v1alpha1", w.stored("c"))

	for _, name := range []string{"a", "b", "c"} { // the earlier operator
		d := &v1alpha1.NodeDevice{}
		require.NoError(t, w.Client.Get(t.Context(), client.ObjectKey{Name: name}, d))
		require.NoError(t, w.Client.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"by":"earlier"}}}`))))
	}
	w.create("d")
	d := w.definition()
	for i, v := range d.Spec.Versions {
		if v.Name == "v1alpha1" {
			d.Spec.Versions = d.Spec.Versions[i : i+1]
		}
	}
	d.Spec.Versions[0].Storage = true
	err := w.Client.Update(t.Context(), d)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.ErrorContains(t, err, "v1beta1 was previously a storage version")

	w.run(w.process(w.Client))
	assert.Equal(t, []string{"v1beta1"}, w.definition().Status.StoredVersions)

	w.upgrade("v1alpha1")
	w.run(w.process(w.Client))
	assert.Equal(t, []string{"v1alpha1"}, w.definition().Status.StoredVersions)
	for _, name := range []string{"a", "b", "c", "d"} {
		assert.Equal(t, "v1alpha1", w.stored(name), name)
		d := &v1alpha1.NodeDevice{}
		require.NoError(t, w.Client.Get(t.Context(), client.ObjectKey{Name: name}, d))
		assert.Equal(t, name != "d", d.Labels["by"] == "earlier")
	}
}

// R002-68: who writes or deletes at the same time wins, and is no reason to fail.
func TestOthersWriteMeanwhile(t *testing.T) {
	w := newWorld(t, apitest.New(t), "a", "b", "c")
	w.upgrade("v1beta1")
	conflict := apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("nodedevices").GroupResource(), "b", errors.New("modified"))
	w.run(w.process(w.intercepted(func(ctx context.Context, name string) error {
		o := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		switch name {
		case "a":
			return w.Client.Delete(ctx, o)
		case "b": // the API server gives up after some attempts
			require.NoError(t, w.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"by":"another"}}}`))))
			return conflict
		}
		return nil
	})))
	assert.Equal(t, "v1beta1", w.stored("b"))
	assert.Equal(t, "v1beta1", w.stored("c"))
	assert.Equal(t, []string{"v1beta1"}, w.definition().Status.StoredVersions)
}

// R002-68, R002-69: an object that the API server does not store keeps none of the others from being stored. It is named, counted and tried again, and
// the definition keeps the earlier version until then. What only does not pass the rules for a spec any more is stored.
func TestARefusedObjectIsNamedAndTriedAgain(t *testing.T) {
	w := newWorld(t, apitest.New(t), "a", "b", "c", "an-invalid-one")
	w.upgrade("v1beta1")
	w.update(func(d *apiextensionsv1.CustomResourceDefinition) {
		for i := range d.Spec.Versions {
			spec := d.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"]
			name := spec.Properties["nodeName"]
			name.MinLength = new(int64(10))
			spec.Properties["nodeName"] = name
		}
	})
	t.Cleanup(func() {
		w.update(func(d *apiextensionsv1.CustomResourceDefinition) {
			for _, original := range must(apitest.Definitions()) {
				if original.Name == devices {
					d.Spec = *original.Spec.DeepCopy()
				}
			}
		})
	})
	deny(w, "b")
	require.Eventually(t, func() bool { // a policy takes a moment
		o := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
		return w.Client.Status().Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{}`)), client.DryRunAll) != nil
	}, time.Minute, 10*time.Millisecond)

	r := w.process(w.Client)
	w.until(r, func() bool { return w.progress.Resources()["nodedevices"].Refused > 0 })
	assert.Equal(t, Left{Refused: 1}, w.progress.Resources()["nodedevices"])
	for _, name := range []string{"a", "c", "an-invalid-one"} {
		assert.Equal(t, "v1beta1", w.stored(name), name)
	}
	assert.Equal(t, []string{"v1alpha1", "v1beta1"}, w.definition().Status.StoredVersions)
	c := w.condition()
	assert.Equal(t, apiextensionsv1.ConditionTrue, c.Status)
	assert.Equal(t, "MigrationIncomplete", c.Reason)
	assert.Contains(t, c.Message, "did not store 1 of the objects as v1beta1")
	assert.Contains(t, c.Message, "b: ")
	assert.Contains(t, c.Message, "not for anybody")

	require.NoError(t, w.Client.Delete(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "no-b"}}))
	require.Eventually(t, func() bool {
		o := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
		return w.Client.Status().Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{}`)), client.DryRunAll) == nil
	}, time.Minute, 10*time.Millisecond)
	w.run(r)
	assert.Equal(t, "v1beta1", w.stored("b"))
	assert.Equal(t, []string{"v1beta1"}, w.definition().Status.StoredVersions)
}

// deny has a policy that is not the product's refuse every write of a NodeDevice.
func deny(w *world, name string) {
	w.Helper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "no-" + name}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{v1alpha1.GroupName}, APIVersions: []string{"*"}, Resources: []string{"nodedevices/*"}},
		}}}},
		Validations: []admissionregistrationv1.Validation{{Expression: fmt.Sprintf("object.metadata.name != %q", name), Message: "not for anybody"}},
	}}
	require.NoError(w, w.Client.Create(context.Background(), policy))
	require.NoError(w, w.Client.Create(context.Background(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "no-" + name}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// R002-68: definitions that change while objects are stored anew are not said to be done with.
func TestADefinitionThatChangesBeginsAnew(t *testing.T) {
	w := newWorld(t, apitest.New(t), "a", "b")
	w.upgrade("v1beta1")
	r := w.process(w.Client)
	r.page = 1
	w.until(r, func() bool { return w.stored("a") == "v1beta1" })
	w.upgrade("v1alpha1")
	o := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	require.NoError(t, w.Client.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
	require.Equal(t, "v1alpha1", w.stored("a"))
	w.upgrade("v1beta1")
	w.run(r)
	assert.Equal(t, "v1beta1", w.stored("a"))
	assert.Equal(t, "v1beta1", w.stored("b"))
}

// A definition that is gone is nobody's business.
func TestADefinitionIsGone(t *testing.T) {
	w := newWorld(t, apitest.New(t))
	w.progress.Set("gone.nodefirmware.io", Left{Pending: 1})
	goesOn, err := w.step(w.process(w.Client), "gone.nodefirmware.io")
	require.NoError(t, err)
	assert.False(t, goesOn)
	assert.Empty(t, w.progress.Resources())
}
