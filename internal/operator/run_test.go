package operator

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/config"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/runner"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/storedversion"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
)

func TestMain(m *testing.M) { apitest.Main(m) }

func TestMissingDefinitionsAreNamedWithWhatToApply(t *testing.T) {
	served := &metav1.APIResourceList{GroupVersion: v1alpha1.GroupVersion.String()}
	for _, r := range resources[2:] {
		served.APIResources = append(served.APIResources, metav1.APIResource{Name: r})
	}
	for name, c := range map[string]struct {
		lists []*metav1.APIResourceList
		want  []string
	}{
		"none": {nil, []string{"rolloutpolicies", "deploy/kustomize/crd"}},
		"some": {[]*metav1.APIResourceList{served}, []string{"no cleaningpolicies, configurationtemplates of", "deploy/kustomize/crd"}},
	} {
		t.Run(name, func(t *testing.T) {
			api := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: c.lists}}
			err := awaitAPI(t.Context(), api, slog.New(slog.DiscardHandler))
			for _, want := range c.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

// process is a running operator.
type process struct {
	t    *testing.T
	env  *apitest.Env
	conf config.Operator
	own  *ownStrategy
	stop func()
	done chan error
}

// ownStrategy is a strategy that the product does not bring.
type ownStrategy struct{ started atomic.Bool }

func (*ownStrategy) Name() string { return "own" }

func (o *ownStrategy) SetupWithManager(mgr manager.Manager) error {
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		o.started.Store(true)
		<-ctx.Done()
		return nil
	}))
}

func start(t *testing.T, env *apitest.Env, strategies ...string) *process {
	t.Helper()
	return startWith(t, env, config.Operator{UpdateStrategies: strategies, StoreDir: t.TempDir(), FileSourceDir: t.TempDir()})
}

// startQuick starts an operator that looks at definitions all the time, and takes them for known to every API server at once: there is one.
func startQuick(t *testing.T, env *apitest.Env) *process {
	t.Helper()
	stored := storedVersions()
	stored.Every, stored.Settles = 100*time.Millisecond, 0
	return startStored(t, env, config.Operator{UpdateStrategies: []string{"daemon"}, StoreDir: t.TempDir(), FileSourceDir: t.TempDir()}, stored)
}

// startWith starts an operator with what is given and what every one of these tests needs.
func startWith(t *testing.T, env *apitest.Env, conf config.Operator) *process {
	t.Helper()
	return startStored(t, env, conf, storedVersions())
}

func startStored(t *testing.T, env *apitest.Env, conf config.Operator, stored storedversion.Options) *process {
	t.Helper()
	conf.DaemonName, conf.LogLevel, conf.LeaderElect, conf.Maintenance = "firmware-daemon", "info", false, config.MaintenanceOperator
	conf.Kubeconfig, conf.Namespace = env.ControlPlane.KubeconfigPath(), apitest.Namespace
	conf.ExpectedJobDuration = time.Hour
	conf.ImageServerAddress, conf.ImageServerNames = freeAddress(t), []string{"127.0.0.1"}
	conf.ProbeAddress, conf.MetricsAddress = freeAddress(t), freeAddress(t)
	p := &process{t: t, env: env, own: &ownStrategy{}, done: make(chan error, 1), conf: conf}
	require.NoError(t, p.conf.Validate())
	ctx, cancel := context.WithCancel(t.Context())
	p.stop = cancel
	go func() {
		pod := runner.Pods{Namespace: p.conf.Namespace, DaemonSet: p.conf.DaemonName, HandlersFile: p.conf.PodHandlers}
		p.done <- run(ctx, p.conf, []Strategy{Daemon{}, pod, p.own}, stored, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(cancel)
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := controlplane.FreeAddress()
	require.NoError(t, err)
	return address
}

func (p *process) eventually(what string, is func() bool) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		select {
		case err := <-p.done:
			p.done <- err
			return assert.Fail(p.t, "the operator ended", "%v", err)
		default:
			return is()
		}
	}, 5*time.Minute, 50*time.Millisecond, what) // a machine may have a load of 30
}

func (p *process) get(o client.Object) bool {
	return p.env.Client.Get(p.t.Context(), client.ObjectKeyFromObject(o), o) == nil
}

func (p *process) probe(path string) int {
	response, err := http.Get("http://" + p.conf.ProbeAddress + path)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

// readyNode is a Node as a kubelet registers it: with its labels, and soon Ready.
func readyNode(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
}

// node creates a machine with a BIOS at version 1.
func (p *process) node(name string) { p.t.Helper(); p.nodeIn("", name) }

// nodeIn creates a machine of a pool. Its Node bears the label from the beginning, so that it never belongs to another policy.
func (p *process) nodeIn(pool, name string) {
	p.t.Helper()
	var labels map[string]string
	if pool != "" {
		labels = map[string]string{"pool": pool}
	}
	require.NoError(p.t, p.env.Client.Create(p.t.Context(), readyNode(name, labels)))
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: name + "-bios"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: name}}
	require.NoError(p.t, p.env.Client.Create(p.t.Context(), d, client.FieldOwner(v1alpha1.FieldOwnerDaemon)))
	p.observe(name, 0)
}

// observe reports as the daemon does.
func (p *process) observe(node string, generation int64) {
	p.t.Helper()
	require.NoError(p.t, fieldset.ApplyObservation(p.t.Context(), p.env.Client, node+"-bios", v1alpha1.NodeDeviceStatus{
		ObservedGeneration: generation, Class: v1alpha1.ClassBIOS, UniqueID: "bios-" + node, Vendor: "Lenovo", Model: "7X21",
		Firmware: &v1alpha1.ObservedFirmware{Running: "1", Stored: "1", Driver: "fwupd", Activation: v1alpha1.ActivationReboot},
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPending, LastTransitionTime: metav1.Now()},
			{Type: v1alpha1.ConditionInspected, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, LastTransitionTime: metav1.Now()},
		},
	}))
}

// bios is the image of version 2.
var bios = []byte("bios version 2")

func biosImage() v1alpha1.Digest {
	return v1alpha1.Digest(fmt.Sprintf("sha256:%x", sha256.Sum256(bios)))
}

// assign assigns version 2 to every BIOS.
func (p *process) assign() {
	p.t.Helper()
	require.NoError(p.t, os.WriteFile(filepath.Join(p.conf.FileSourceDir, "bios.cab"), bios, 0o600))
	source := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "bios"}, Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{
		URL: "file://" + filepath.Join(p.conf.FileSourceDir, "bios.cab"), Digest: biosImage(),
		Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassBIOS, Models: []string{"7X21"}, Version: "2"}},
	}}}}
	template := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "bios"}, Spec: v1alpha1.FirmwareTemplateSpec{Rules: []v1alpha1.FirmwareRule{{
		Name: "bios", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS, Vendor: v1alpha1.AnyVendor}, Version: "2", SourceRef: v1alpha1.SourceReference{Name: "bios"},
	}}}}
	require.NoError(p.t, p.env.Client.Create(p.t.Context(), source))
	require.NoError(p.t, p.env.Client.Create(p.t.Context(), template))
}

// job waits until the node's BIOS is assigned, judges that as the daemon does, and gives the job that follows.
func (p *process) job(node string) *v1alpha1.FirmwareJob {
	p.t.Helper()
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: node + "-bios"}}
	p.eventually("the device is assigned", func() bool { return p.get(d) && d.Spec.Firmware != nil && d.Spec.Firmware.Digest != "" })
	p.observe(node, d.Generation)
	var out *v1alpha1.FirmwareJob
	p.eventually("a job is queued and judged", func() bool {
		var list v1alpha1.FirmwareJobList
		if p.env.Client.List(p.t.Context(), &list, client.MatchingFields{"spec.nodeName": node}) != nil || len(list.Items) != 1 {
			return false
		}
		out = &list.Items[0]
		var policies v1alpha1.RolloutPolicyList
		return out.Admitted() || p.env.Client.List(p.t.Context(), &policies) == nil && slices.ContainsFunc(policies.Items, func(r v1alpha1.RolloutPolicy) bool {
			return slices.ContainsFunc(r.Status.Waiting, func(w v1alpha1.WaitingNodes) bool { return w.Reason == v1alpha1.ReasonBudgetExhausted })
		})
	})
	return out
}

func TestATemplateBecomesAnAdmittedJobAndAnOutageOfTheAPIIsSurvived(t *testing.T) {
	env := apitest.New(t)
	p := start(t, env, "daemon")
	p.eventually("the operator is ready", func() bool { return p.probe("/readyz") == http.StatusOK && p.probe("/healthz") == http.StatusOK })
	p.node("n1")
	p.assign()
	first := p.job("n1")
	assert.True(t, meta.IsStatusConditionTrue(first.Status.Conditions, v1alpha1.ConditionAdmitted))
	assert.Equal(t, "2", first.Spec.Task.Devices[0].Version)

	require.NoError(t, env.ControlPlane.StopAPIServer())
	require.NoError(t, env.ControlPlane.StartAPIServer())
	p.node("n2")
	second := p.job("n2")
	assert.False(t, meta.IsStatusConditionTrue(second.Status.Conditions, v1alpha1.ConditionAdmitted))
	policy := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	p.eventually("the ledger is shown", func() bool { return p.get(policy) && policy.Status.Nodes != nil && policy.Status.Nodes.Queued == 1 })
	apitest.RequireStatus(t, policy, status.InProgressStatus)

	response, err := http.Get("http://" + p.conf.MetricsAddress + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusBadRequest, response.StatusCode, "metrics are served over TLS alone")

	p.stop()
	assert.NoError(t, <-p.done, "a signal is no error")
}

func TestAStrategyOfItsOwnIsStartedWithTheOperator(t *testing.T) { // R000-3, R000-38, R000-59
	p := start(t, apitest.New(t), "own")
	p.eventually("the chosen strategy is started", p.own.started.Load)
	p.stop()
	assert.NoError(t, <-p.done)
}

// TestAnOperatorWithNoneOrTwoStrategiesDoesNotStart proves R000-39.
func TestAnOperatorWithNoneOrTwoStrategiesDoesNotStart(t *testing.T) {
	for _, named := range [][]string{nil, {"daemon", "own"}} {
		err := Run(t.Context(), config.Operator{UpdateStrategies: named}, []Strategy{Daemon{}, &ownStrategy{}}, slog.New(slog.DiscardHandler))
		assert.ErrorContains(t, err, "name exactly one of daemon, own")
	}
}

func TestTheOperatorWaitsForAnAPIServerThatDoesNotAnswer(t *testing.T) {
	env := apitest.New(t)
	require.NoError(t, env.ControlPlane.StopAPIServer())
	p := start(t, env, "daemon")
	require.NoError(t, env.ControlPlane.StartAPIServer())
	p.eventually("the default policy is there", func() bool {
		return p.get(&v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	})
	assert.False(t, p.own.started.Load(), "what was not chosen is not started")
	p.stop()
	assert.NoError(t, <-p.done)
}
