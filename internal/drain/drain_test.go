package drain_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nodefirmware/node-firmware-operator/internal/drain"
)

// podsOn is a cluster with n pods on node n1, which answers each eviction with a function.
func podsOn(n int, evict func(pod string) error) (c *fake.Clientset, names []string) {
	c = fake.NewClientset()
	for i := range n {
		name := fmt.Sprintf("p%02d", i)
		names = append(names, "default/"+name)
		_ = c.Tracker().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: "n1"}})
	}
	c.Resources = []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods/eviction", Kind: "Eviction"}}}}
	c.PrependReactor("create", "pods/eviction", func(a clienttesting.Action) (bool, runtime.Object, error) {
		create, _ := a.(clienttesting.CreateAction)
		eviction, _ := create.GetObject().(*policyv1.Eviction)
		return true, nil, evict(eviction.Name)
	})
	return c, names
}

// A round that is over says which pods it leaves, and what kept it.
func TestARoundThatIsOverNamesThePodsThatAreLeft(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var asked atomic.Int32
	c, names := podsOn(40, func(string) error {
		if asked.Add(1) == 3 {
			cancel()
		}
		return nil
	})
	left, err := drain.Round(ctx, c, "n1", drain.Options{Force: true})
	require.NoError(t, err)
	assert.Equal(t, names, left.Pods)
	assert.Contains(t, left.Refusal, "the round of evictions took too long")
	assert.Less(t, int(asked.Load()), 40)
	assert.False(t, left.Done())
}

// One pod that is refused keeps no other from being evicted, and the reason that is shown is the refusal.
func TestARefusedPodKeepsNoOther(t *testing.T) {
	var evicted atomic.Int32
	c, names := podsOn(40, func(pod string) error {
		switch pod {
		case "p00":
			return apierrors.NewForbidden(policyv1.Resource("evictions"), pod, fmt.Errorf("it is dear to somebody"))
		case "p01":
			return apierrors.NewNotFound(corev1.Resource("pods"), pod)
		}
		evicted.Add(1)
		return nil
	})
	left, err := drain.Round(t.Context(), c, "n1", drain.Options{Force: true})
	require.NoError(t, err)
	assert.Equal(t, int32(38), evicted.Load())
	assert.Contains(t, left.Refusal, "default/p00: ")
	assert.Contains(t, left.Refusal, "dear to somebody")
	assert.Equal(t, append([]string{names[0]}, names[2:]...), left.Pods)
}
