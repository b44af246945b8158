package rollout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	mo "github.com/Mellanox/maintenance-operator/api/v1alpha1"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/protection"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/rollout"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/cacheview"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// world is a real API with nodes, jobs and policies, and operators that work on it.
type world struct {
	*testing.T
	client.Client
	clock time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	env := apitest.New(t)
	config := rest.CopyConfig(env.Config)
	config.QPS = -1
	unlimited, err := client.New(config, client.Options{Scheme: env.Scheme})
	require.NoError(t, err)
	return &world{T: t, Client: unlimited, clock: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
}

// operator is one process with its own view of nodes and jobs.
type operator struct {
	*rollout.Reconciler
	w      *world
	view   *view
	direct *direct
	events *events.FakeRecorder
	// next is when the last pass asked for another one; 0 for never.
	next time.Duration
}

func (w *world) operator() *operator {
	o := &operator{w: w, view: &view{Client: cacheview.Client{Client: w.Client}}, direct: &direct{Reader: w.Client}, events: events.NewFakeRecorder(1000)}
	o.Reconciler = rollout.New(o.view, o.direct, o.events, func() time.Time { return w.clock }, "").SharingIn(apitest.Namespace)
	return o
}

// Reconcile is a pass, after which the jobs are told what it decided.
func (o *operator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := o.Reconciler.Reconcile(ctx, req)
	again, failed := o.Tell(ctx)
	if again {
		result.RequeueAfter = time.Millisecond
	}
	return result, errors.Join(err, failed)
}

// pass runs the reconciler until it asks for no other pass, or for one that time alone makes necessary.
func (o *operator) pass() {
	o.w.Helper()
	for range 50 {
		result, err := o.Reconcile(o.w.Context(), ctrl.Request{})
		require.NoError(o.w, err)
		if o.next = result.RequeueAfter; o.next == 0 || o.next >= time.Second { // only the time is waited for
			return
		}
	}
	require.Fail(o.w, "the operator does not come to rest")
}

// view is a cache: it shows the nodes and jobs of the moment it was frozen.
type view struct {
	client.Client
	nodes *corev1.NodeList
	jobs  *v1alpha1.FirmwareJobList
	// dies makes every condition write fail, as a crash before it does.
	dies bool
	turn int
	// ahead is how much later the API server says that it is, and clockless its answer where it does not say.
	ahead     time.Duration
	clockless error
	// flying is how many conditions are being written, and most how many were at once.
	flying, most atomic.Int32
}

// Create lets the API server say that it is later.
func (v *view) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	review, ok := o.(*authenticationv1.SelfSubjectReview)
	if ok && v.clockless != nil {
		return v.clockless
	}
	err := v.Client.Create(ctx, o, opts...)
	if ok {
		review.CreationTimestamp.Time = review.CreationTimestamp.Add(v.ahead)
	}
	return err
}

func (v *view) freeze(ctx context.Context) error {
	v.nodes, v.jobs = &corev1.NodeList{}, &v1alpha1.FirmwareJobList{}
	return errors.Join(v.Client.List(ctx, v.nodes), v.Client.List(ctx, v.jobs))
}

func (v *view) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	switch l := list.(type) {
	case *corev1.NodeList:
		if v.nodes != nil {
			v.nodes.DeepCopyInto(l)
			return nil
		}
	case *v1alpha1.FirmwareJobList:
		if v.jobs != nil {
			v.jobs.DeepCopyInto(l)
			return nil
		}
	case *v1alpha1.NodeDeviceList: // the API server has no index of those that are unhealthy, and the reconciler looks itself
		if err := v.Client.List(ctx, l); err != nil {
			return err
		}
		v.turn++ // a cache lists in another order each time
		if n := len(l.Items); n > 0 {
			l.Items = append(l.Items[v.turn%n:], l.Items[:v.turn%n]...)
		}
		return nil
	}
	return v.Client.List(ctx, list, opts...)
}

var errCrash = errors.New("the process died")

func (v *view) Status() client.SubResourceWriter { return &viewStatus{v.Client.Status(), v} }

type viewStatus struct {
	client.SubResourceWriter
	view *view
}

func (s *viewStatus) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	if kind, _ := appliedTo(o); kind == "RolloutPolicy" {
		return s.SubResourceWriter.Apply(ctx, o, opts...)
	}
	if s.view.dies {
		return errCrash
	}
	now := s.view.flying.Add(1)
	defer s.view.flying.Add(-1)
	for most := s.view.most.Load(); now > most && !s.view.most.CompareAndSwap(most, now); most = s.view.most.Load() {
	}
	return s.SubResourceWriter.Apply(ctx, o, opts...)
}

// appliedTo says which object an apply is about.
func appliedTo(o runtime.ApplyConfiguration) (kind, name string) {
	text, _ := json.Marshal(o)
	var body metav1.PartialObjectMetadata
	_ = json.Unmarshal(text, &body)
	return body.Kind, body.Name
}

// direct reads the API server and lets something happen right after it read the ledgers.
type direct struct {
	client.Reader
	afterList func()
	// refuses is the answer where NodeMaintenances are listed; nil where they are.
	refuses error
}

func (d *direct) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, is := list.(*mo.NodeMaintenanceList); is && d.refuses != nil {
		return d.refuses
	}
	err := d.Reader.List(ctx, list, opts...)
	if happen := d.afterList; happen != nil {
		d.afterList = nil
		happen()
	}
	return err
}

func (w *world) create(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		state := o.DeepCopyObject()
		require.NoError(w, w.Create(w.Context(), o))
		if n, ok := o.(*corev1.Node); ok {
			n.Status = state.(*corev1.Node).Status
			require.NoError(w, w.Status().Update(w.Context(), n))
		}
	}
}

func (w *world) nodes(names ...string) {
	w.Helper()
	for _, name := range names {
		w.create(newNode(name, nil))
	}
}

func newNode(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

func newPolicy(name string, maxUnavailable intstr.IntOrString, selector map[string]string) *v1alpha1.RolloutPolicy {
	p := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RolloutPolicySpec{MaxUnavailable: &maxUnavailable}}
	if selector != nil {
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: selector}
	}
	return p
}

func (w *world) queue(name, node string) *v1alpha1.FirmwareJob {
	w.Helper()
	j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: node, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{
			Name: node + "-bios", UniqueID: "bios", Version: "2", Digest: v1alpha1.Digest(fmt.Sprintf("sha256:%064x", 2)),
		}}},
	}}
	w.create(j)
	return j
}

// report writes conditions of a job, and the images it found bad, as the daemon does.
func (w *world) report(job string, conditions map[string]bool, blamed ...v1alpha1.BlamedDevice) {
	w.Helper()
	body := v1alpha1.FirmwareJobStatus{Blamed: blamed}
	for kind, is := range conditions {
		s := metav1.ConditionFalse
		if is {
			s = metav1.ConditionTrue
		}
		body.Conditions = append(body.Conditions, metav1.Condition{Type: kind, Status: s, Reason: "Test", LastTransitionTime: metav1.NewTime(w.clock)})
	}
	apitest.ApplyStatus(w, w, v1alpha1.FieldOwnerDaemon, &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: job}, Status: body})
}

func (w *world) complete(job string) {
	w.Helper()
	w.report(job, map[string]bool{v1alpha1.ConditionReady: true, v1alpha1.ConditionComplete: true})
}

// completeSlowly completes a job whose node boots slowly since.
func (w *world) completeSlowly(job, slow string) {
	w.Helper()
	j := w.job(job)
	j.Status.Verdict = &v1alpha1.HealthVerdict{Result: v1alpha1.HealthResultHealthy, BootID: "boot-3", Complaints: []string{slow}}
	require.NoError(w, w.Status().Update(w.Context(), j))
	w.complete(job)
}

func (w *world) hold(job string) {
	w.Helper()
	w.report(job, map[string]bool{v1alpha1.ConditionReady: false, v1alpha1.ConditionFailed: true, v1alpha1.ConditionHeld: true, v1alpha1.ConditionStalled: true})
}

func (w *world) job(name string) *v1alpha1.FirmwareJob {
	w.Helper()
	j := &v1alpha1.FirmwareJob{}
	require.NoError(w, w.Get(w.Context(), types.NamespacedName{Name: name}, j))
	return j
}

// delete deletes a job, as far as its finalizer allows.
func (w *world) delete(job string) {
	w.Helper()
	require.NoError(w, w.Delete(w.Context(), w.job(job)))
	_, err := protection.New(w.Client, w.Client, events.NewFakeRecorder(10), "").Reconcile(w.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: job}})
	require.NoError(w, err)
}

// takeFinalizer takes the finalizers of a job away, as a person can.
func (w *world) takeFinalizer(job string) {
	w.Helper()
	j := w.job(job)
	j.Finalizers = nil
	require.NoError(w, w.Update(w.Context(), j))
}

func (w *world) policy(name string) *v1alpha1.RolloutPolicy {
	w.Helper()
	p := &v1alpha1.RolloutPolicy{}
	require.NoError(w, w.Get(w.Context(), types.NamespacedName{Name: name}, p))
	return p
}

func (w *world) change(name string, edit func(*v1alpha1.RolloutPolicy)) {
	w.Helper()
	p := w.policy(name)
	edit(p)
	require.NoError(w, w.Update(w.Context(), p))
}

// admitted lists the jobs whose condition Admitted is True, in order of name.
func (w *world) admitted() []string {
	w.Helper()
	var list v1alpha1.FirmwareJobList
	require.NoError(w, w.List(w.Context(), &list))
	var out []string
	for _, j := range list.Items {
		if meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionAdmitted) &&
			!meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionComplete) {
			out = append(out, j.Name)
		}
	}
	slices.Sort(out)
	return out
}

// ledger lists the jobs of a ledger, in order of admission.
func (w *world) ledger(policy string) []string {
	w.Helper()
	var out []string
	for _, e := range w.policy(policy).Status.Admitted {
		out = append(out, e.Job)
	}
	return out
}

// reason says why a job waits. One that waits for the budget alone has no condition, and its policy counts it.
func (w *world) reason(job string) string {
	w.Helper()
	if c := meta.FindStatusCondition(w.job(job).Status.Conditions, v1alpha1.ConditionAdmitted); c != nil {
		return c.Reason
	}
	var policies v1alpha1.RolloutPolicyList
	require.NoError(w, w.List(w.Context(), &policies))
	for _, p := range policies.Items {
		for _, counted := range p.Status.Waiting {
			if counted.Reason == v1alpha1.ReasonBudgetExhausted {
				return counted.Reason
			}
		}
	}
	return "unset"
}

// message says for people why a job waits.
func (w *world) message(job string) string {
	w.Helper()
	c := meta.FindStatusCondition(w.job(job).Status.Conditions, v1alpha1.ConditionAdmitted)
	require.NotNil(w, c)
	return c.Message
}

// requireStatus is the end of every test: kstatus sees the policy as it should, and another pass writes nothing.
func (w *world) requireStatus(o *operator, policy string, want status.Status) {
	w.Helper()
	apitest.RequireStatus(w, w.policy(policy), want)
	before := w.versions()
	o.view.nodes, o.view.jobs = nil, nil
	o.pass()
	w.operator().pass()
	require.Equal(w, before, w.versions(), "a pass at rest writes")
}

func (w *world) versions() map[string]string {
	w.Helper()
	out := map[string]string{}
	var jobs v1alpha1.FirmwareJobList
	require.NoError(w, w.List(w.Context(), &jobs))
	for _, j := range jobs.Items {
		out[j.Name] = j.ResourceVersion
	}
	var policies v1alpha1.RolloutPolicyList
	require.NoError(w, w.List(w.Context(), &policies))
	for _, p := range policies.Items {
		out[p.Name] = p.ResourceVersion
	}
	return out
}
