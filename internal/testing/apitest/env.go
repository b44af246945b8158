package apitest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	maintenancev1alpha1 "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/deploy"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/crd"
)

// Namespace is the product's namespace. It exists from the beginning.
const Namespace = "node-firmware-system"

// Env is the API as one test sees it.
type Env struct {
	// ControlPlane is the running API server, for tests that need another user or an outage.
	ControlPlane *controlplane.ControlPlane
	// Config is an administrator's access.
	Config *rest.Config
	// Scheme knows the product's kinds, those of the maintenance-operator, custom resource definitions, and all of
	// Kubernetes.
	Scheme *runtime.Scheme
	// Client is an uncached client with that access and scheme.
	Client client.Client
}

// shared is the control plane of this test process. The first test that needs it starts it.
var shared struct {
	start sync.Once
	env   *Env
	err   error
	// inUse is held by the one test that has the Env.
	inUse sync.Mutex
}

// Main is the TestMain of a package that uses New: it runs the tests and then stops what they started.
func Main(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if code == 0 {
		if err := checkTyped(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if shared.env != nil {
		if err := shared.env.ControlPlane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// New returns the package's API without objects of earlier tests: none of the product's objects, no Nodes, Pods or
// maintenances, no admission policies, and nothing in the product's namespace. The definitions of the product's and the
// maintenance-operator's kinds are installed. The package must have Main as its TestMain. A test that has the Env must
// not run in parallel with another one that has it.
func New(t *testing.T) *Env {
	t.Helper()
	if !shared.inUse.TryLock() {
		t.Fatal("apitest.New: another test of this package still has the API; get it once in a test, " +
			"and not in tests that run in parallel")
	}
	t.Cleanup(shared.inUse.Unlock)
	shared.start.Do(func() { shared.env, shared.err = start() })
	require.NoError(t, shared.err, "start the control plane")
	require.NoError(t, shared.env.reset(t.Context()), "empty the API")
	return shared.env
}

func start() (*Env, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	plane, err := controlplane.Start(context.Background(), controlplane.Options{Out: os.Stderr})
	if err != nil {
		return nil, err
	}
	config := plane.Config()
	config.WarningHandler = rest.NoWarnings{}
	env := &Env{ControlPlane: plane, Config: config, Scheme: scheme}
	if env.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, errors.Join(fmt.Errorf("make client: %w", err), plane.Stop())
	}
	return env, nil
}

// Scheme makes the scheme of Env.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, maintenancev1alpha1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	return scheme, nil
}

// reset brings the API into the state that New promises.
func (e *Env) reset(ctx context.Context) error {
	if err := e.installDefinitions(ctx); err != nil {
		return err
	}
	if err := e.wipe(ctx); err != nil {
		return err
	}
	err := e.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", Namespace, err)
	}
	return nil
}

// installDefinitions installs the missing definitions: all of them at first, later those that a test removed.
func (e *Env) installDefinitions(ctx context.Context) error {
	definitions, err := definitions()
	if err != nil {
		return err
	}
	var missing []*apiextensionsv1.CustomResourceDefinition
	for _, d := range definitions {
		installed, err := e.isInstalled(ctx, d.Name)
		if err != nil {
			return fmt.Errorf("get definition %s: %w", d.Name, err)
		}
		if !installed {
			missing = append(missing, d.DeepCopy())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := envtest.InstallCRDs(e.Config, envtest.CRDInstallOptions{CRDs: missing, Scheme: e.Scheme, MaxTime: wipeTimeout}); err != nil {
		return fmt.Errorf("install definitions: %w", err)
	}
	return nil
}

// isInstalled waits for a definition that is being deleted until it is gone.
func (e *Env) isInstalled(ctx context.Context, name string) (installed bool, err error) {
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, wipeTimeout, true, func(ctx context.Context) (bool, error) {
		current := &metav1.PartialObjectMetadata{} // they are large
		current.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		err := e.Client.Get(ctx, client.ObjectKey{Name: name}, current)
		installed = err == nil
		return apierrors.IsNotFound(err) || installed && current.DeletionTimestamp == nil, client.IgnoreNotFound(err)
	})
	return installed, err
}

// definitions are read once.
var definitions = sync.OnceValues(Definitions)

// Definitions returns the definitions New installs: those of the product, as they are deployed, and those of the
// maintenance-operator.
func Definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	objects, err := deploy.Objects(deploy.CRDs)
	if err != nil {
		return nil, err
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, o := range objects {
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, d, true); err != nil {
			return nil, fmt.Errorf("parse definition %s: %w", o.GetName(), err)
		}
		out = append(out, d)
	}
	maintenance, err := crd.Maintenance()
	if err != nil {
		return nil, err
	}
	return append(out, maintenance...), nil
}
