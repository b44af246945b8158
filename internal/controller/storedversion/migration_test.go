package storedversion

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
)

// migrating starts an API server that has a migration of its own, which is off by default until Kubernetes 1.37.
func migrating(t *testing.T) *apitest.Env {
	t.Helper()
	flags := controlplane.StorageMigration()
	if len(flags) == 0 {
		t.Skip("this release of Kubernetes has none")
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Out: os.Stderr, Flags: flags})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, plane.Stop()) })
	env := &apitest.Env{ControlPlane: plane, Config: plane.Config(), Scheme: must(apitest.Scheme())}
	env.Config.WarningHandler = rest.NoWarnings{}
	env.Client, err = client.New(env.Config, client.Options{Scheme: env.Scheme})
	require.NoError(t, err)
	_, err = envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{CRDs: must(apitest.Definitions()), Scheme: env.Scheme, MaxTime: time.Minute})
	require.NoError(t, err)
	return env
}

// migration is the API server's migration of the definition; nil where there is none.
func (w *world) migration() *storagemigrationv1beta1.StorageVersionMigration {
	w.Helper()
	m := &storagemigrationv1beta1.StorageVersionMigration{}
	err := w.Client.Get(context.Background(), client.ObjectKey{Name: devices}, m)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w, err)
	return m
}

// becomes plays the controller of the migration.
func (w *world) becomes(condition storagemigrationv1beta1.MigrationConditionType, status metav1.ConditionStatus) {
	w.Helper()
	m := w.migration()
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: string(condition), Status: status, Reason: "Played"})
	require.NoError(w, w.Client.Status().Update(context.Background(), m))
}

// R002-68, R002-69: where the API server has a migration of its own it is asked for that, and waited for. What it fails to do, or never begins, the operator
// does.
func TestTheAPIServerMigrates(t *testing.T) {
	env := migrating(t)
	asked := func(t *testing.T, names ...string) (*world, *Reconciler) {
		w := newWorld(t, env, names...)
		t.Cleanup(func() {
			for _, name := range names {
				o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
				o.SetGroupVersionKind(facts{definition: w.definition()}.kind("NodeDevice"))
				require.NoError(t, w.Client.Delete(context.Background(), o))
			}
		})
		w.upgrade("v1beta1")
		r := w.process(w.Client)
		_, err := w.step(r, devices)
		require.NoError(t, err)
		require.Nil(t, w.migration(), "the API servers of a cluster learn of a version one after the other")
		goesOn, err := w.step(r, devices)
		require.NoError(t, err)
		require.True(t, goesOn)
		require.Equal(t, metav1.GroupResource{Group: "nodefirmware.io", Resource: "nodedevices"}, w.migration().Spec.Resource)
		return w, r
	}
	t.Run("and succeeds", func(t *testing.T) {
		w, r := asked(t, "a", "b")
		w.becomes(storagemigrationv1beta1.MigrationRunning, metav1.ConditionTrue)
		w.becomes(storagemigrationv1beta1.MigrationSucceeded, metav1.ConditionTrue)
		for range 2 {
			goesOn, err := w.step(r, devices)
			require.NoError(t, err)
			require.True(t, goesOn, "its controller writes the definition first")
		}
		assert.Equal(t, Left{Pending: 2}, w.progress.Resources()["nodedevices"])
		w.say("v1beta1")
		w.becomes(storagemigrationv1beta1.MigrationRunning, metav1.ConditionFalse)
		w.run(r)
		assert.Nil(t, w.migration())
		assert.Equal(t, Left{}, w.progress.Resources()["nodedevices"])
		assert.Equal(t, "v1alpha1", w.stored("a"), "the operator trusts it")
	})
	// Kubernetes 1.36 and 1.37 take the earlier versions from the definition even so.
	t.Run("and fails", func(t *testing.T) {
		w, _ := asked(t, "a", "b")
		w.becomes(storagemigrationv1beta1.MigrationFailed, metav1.ConditionTrue)
		w.say("v1beta1")
		r := w.process(w.intercepted(func(_ context.Context, name string) error {
			if name == "b" {
				return context.Canceled
			}
			return nil
		}))
		_, err := w.step(r, devices)
		require.NoError(t, err)
		_, err = w.step(r, devices)
		require.ErrorIs(t, err, context.Canceled)
		assert.ElementsMatch(t, []string{"v1alpha1", "v1beta1"}, w.definition().Status.StoredVersions, "nobody may remove a version that is stored")
		w.run(w.process(w.Client))
		assert.Equal(t, "v1beta1", w.stored("a"))
		assert.Equal(t, "v1beta1", w.stored("b"))
		assert.Equal(t, []string{"v1beta1"}, w.definition().Status.StoredVersions)
		assert.Nil(t, w.migration())
	})
	t.Run("and never begins", func(t *testing.T) {
		w, r := asked(t, "a")
		w.run(r)
		assert.Equal(t, "v1beta1", w.stored("a"))
		assert.Nil(t, w.migration())
		assert.Equal(t, []string{"v1beta1"}, w.definition().Status.StoredVersions)
	})
	t.Run("for real", func(t *testing.T) {
		w, r := asked(t, "a", "b")
		require.NoError(t, env.ControlPlane.StartProgram(t.Context(), controlplane.ControllerManager, "--kubeconfig="+env.ControlPlane.KubeconfigPath(),
			"--controllers=garbage-collector-controller,storage-version-migrator-controller", "--feature-gates=StorageVersionMigrator=true",
			"--leader-elect=false", "--use-service-account-credentials=false", "--secure-port=0", "--profiling=false"))
		require.Eventually(t, func() bool {
			before := w.now
			goesOn, err := w.step(r, devices)
			w.now = before // as if it were quick: nothing is to be waited for so long that the operator does it
			require.NoError(t, err)
			return !goesOn
		}, 5*time.Minute, 100*time.Millisecond)
		assert.Equal(t, "v1beta1", w.stored("a"))
		assert.Equal(t, "v1beta1", w.stored("b"))
		assert.Equal(t, []string{"v1beta1"}, w.definition().Status.StoredVersions)
		assert.Equal(t, apiextensionsv1.ConditionFalse, w.condition().Status)
		assert.Equal(t, "MigrationSucceeded", w.condition().Reason)
		assert.Nil(t, w.migration())
	})
}
