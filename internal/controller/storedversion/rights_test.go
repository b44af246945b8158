package storedversion

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
)

// R002-68: an operator whose roles are applied after it started does everything else meanwhile, and stores objects anew as soon as it may. The right
// to read each definition by its name is enough.
func TestRolesAreAppliedLater(t *testing.T) {
	w := newWorld(t, apitest.New(t), "a")
	w.upgrade("v1beta1")
	role := func(name string, rules ...rbacv1.PolicyRule) {
		t.Helper()
		r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
		b := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "later"}},
		}
		require.NoError(t, w.Client.Create(t.Context(), r))
		require.NoError(t, w.Client.Create(t.Context(), b))
		t.Cleanup(func() {
			assert.NoError(t, w.Client.Delete(context.Background(), r))
			assert.NoError(t, w.Client.Delete(context.Background(), b))
		})
	}
	role("later-objects", rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"*"}, Verbs: []string{"list", "patch"}})

	c := rest.CopyConfig(w.Config)
	c.Impersonate.UserName = "later"
	mgr, err := ctrl.NewManager(c, ctrl.Options{
		Scheme: w.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true), CacheSyncTimeout: time.Millisecond},
	})
	require.NoError(t, err)
	r := New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetRESTMapper(), time.Now, w.progress, Options{Definitions: []string{devices}, Every: 50 * time.Millisecond})
	require.NoError(t, r.SetupWithManager(mgr))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()
	goesOn := func(what string, is func() bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			require.Empty(t, ended, "the operator ended")
			return is()
		}, 2*time.Minute, 10*time.Millisecond, what)
	}
	goesOn("what may be outdated is reported", func() bool { return w.progress.Resources()["nodedevices"] == Left{Pending: 1} })
	role("later-definitions",
		rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, ResourceNames: []string{devices}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions/status"}, ResourceNames: []string{devices}, Verbs: []string{"patch"}})
	goesOn("the definition has one stored version", func() bool { return len(w.definition().Status.StoredVersions) == 1 })
	assert.Equal(t, "v1beta1", w.stored("a"))
	goesOn("nothing is left", func() bool { return w.progress.Resources()["nodedevices"] == Left{} })
}
