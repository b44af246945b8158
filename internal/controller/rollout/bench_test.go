package rollout_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	goruntime "runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/rollout"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/bench"
)

// fleet is a cache over 5,000 nodes that gives its objects away without copying them.
type fleet struct {
	client.Client
	mu sync.Mutex
	// written counts the conditions of jobs that were written.
	written  int
	nodes    corev1.NodeList
	jobs     v1alpha1.FirmwareJobList
	policies v1alpha1.RolloutPolicyList
}

func (f *fleet) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *corev1.NodeList:
		*l = f.nodes
	case *v1alpha1.FirmwareJobList:
		*l = f.jobs
	case *v1alpha1.RolloutPolicyList:
		f.policies.DeepCopyInto(l)
	}
	return nil
}

// Create answers with no time, so that no report is too old.
var schemeOnce = sync.OnceValues(apitest.Scheme)

func (*fleet) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	scheme, err := schemeOnce()
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return apiutil.GVKForObject(o, scheme)
}

func (f *fleet) Create(context.Context, client.Object, ...client.CreateOption) error { return nil }

func (f *fleet) Status() client.SubResourceWriter { return keeper{f: f} }

// keeper takes the statuses of policies and the conditions of jobs.
type keeper struct {
	client.SubResourceWriter
	f *fleet
}

// Apply keeps the status of a policy, and why a job waits, as the API server would.
func (k keeper) Apply(_ context.Context, o runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	k.f.mu.Lock()
	defer k.f.mu.Unlock()
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var body struct {
		Kind     string            `json:"kind"`
		Metadata metav1.ObjectMeta `json:"metadata"`
		Status   json.RawMessage   `json:"status"`
	}
	if err := json.Unmarshal(text, &body); err != nil {
		return err
	}
	if body.Kind == "RolloutPolicy" {
		p := &k.f.policies.Items[0]
		p.Status = v1alpha1.RolloutPolicyStatus{}
		return json.Unmarshal(body.Status, &p.Status)
	}
	k.f.written++
	for i := range k.f.jobs.Items {
		if j := &k.f.jobs.Items[i]; j.Name == body.Metadata.Name {
			j.Status = v1alpha1.FirmwareJobStatus{}
			return json.Unmarshal(body.Status, &j.Status)
		}
	}
	return nil
}

// atRest is an operator that has nothing to do: 5,000 nodes, each with a job that waits and says why.
func atRest(tb testing.TB) (*rollout.Reconciler, *fleet) {
	tb.Helper()
	f := &fleet{policies: v1alpha1.RolloutPolicyList{Items: []v1alpha1.RolloutPolicy{*newPolicy("default", intstr.FromInt32(0), nil)}}}
	f.policies.Items[0].UID = "default"
	for i := range 5000 {
		name := fmt.Sprintf("n%d", i)
		f.nodes.Items = append(f.nodes.Items, *newNode(name, map[string]string{"pool": "gpu"}))
		f.jobs.Items = append(f.jobs.Items, v1alpha1.FirmwareJob{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec:       v1alpha1.FirmwareJobSpec{NodeName: name, Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate}},
		})
	}
	r := rollout.New(f, f, events.NewFakeRecorder(10), time.Now, "")
	for range 100 {
		result, err := r.Reconcile(tb.Context(), ctrl.Request{})
		require.NoError(tb, err)
		_, err = r.Tell(tb.Context())
		require.NoError(tb, err)
		if result.RequeueAfter == 0 {
			return r, f
		}
	}
	require.Fail(tb, "the operator does not come to rest")
	return nil, nil
}

// TestBenchmarks: each benchmark runs.
func TestBenchmarks(t *testing.T) { bench.Once(t) }

// BenchmarkPassAtRest5000 is the cost of one event that changes nothing.
func BenchmarkPassAtRest5000(b *testing.B) {
	r, _ := atRest(b)
	for b.Loop() {
		_, err := r.Reconcile(b.Context(), ctrl.Request{})
		require.NoError(b, err)
	}
}

// The page says what a pass costs, and is wrong when that changes by a fifth.
func TestTheGarbageOfAPassIsThatOfThePerformancePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/contributing/performance.md")
	require.NoError(t, err)
	figure := regexp.MustCompile(`One pass over 5,000 nodes with 5,000 waiting jobs takes about \d+ ms and (\d+) MB`).FindSubmatch(page)
	require.NotNil(t, figure)
	promised, err := strconv.ParseFloat(string(figure[1]), 64)
	require.NoError(t, err)
	r, f := atRest(t)
	require.Equal(t, 5000, f.written, "each job says why it waits")
	const passes = 5
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	for range passes {
		_, err := r.Reconcile(t.Context(), ctrl.Request{})
		require.NoError(t, err)
		_, err = r.Tell(t.Context())
		require.NoError(t, err)
	}
	goruntime.ReadMemStats(&after)
	assert.InEpsilon(t, promised, float64(after.TotalAlloc-before.TotalAlloc)/passes/1e6, 0.2)
	assert.Equal(t, 5000, f.written, "a pass at rest writes nothing")
}
