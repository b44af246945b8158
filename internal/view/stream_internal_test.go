package view

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// A page that hears nothing takes what it shows for stale, so a stream on which nothing is new says that it is there.
func TestAStreamAtRestIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{Options: Options{Now: time.Now}, cluster: &cluster{}, drawn: Draw(&Objects{}, time.Now()), pages: map[chan struct{}]bool{}}
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		answer := httptest.NewRecorder()
		go s.stream(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/stream", nil))
		said := func() (beats int) {
			synctest.Wait()
			return strings.Count(answer.Body.String(), "\n\n:\n\n")
		}
		assert.Zero(t, said())
		time.Sleep(beat - time.Second)
		assert.Zero(t, said())
		time.Sleep(time.Second)
		assert.Equal(t, 1, said())

		time.Sleep(beat - time.Second)
		s.mu.Lock()
		s.drawn = Draw(&Objects{}, time.Now())
		s.drawn.Devices = 1
		for page := range s.pages {
			page <- struct{}{}
		}
		s.mu.Unlock()
		time.Sleep(time.Second)
		assert.Equal(t, 1, said(), "what was new said as much")
		time.Sleep(beat - time.Second)
		assert.Equal(t, 2, said())
	})
}

// listed is an API server in memory, which client-go lists before it watches.
type listed struct{ client.WithWatch }

func (listed) IsWatchListSemanticsUnSupported() bool { return true }

// A kubelet writes its Node every few minutes. Nothing that is shown changes, so no picture is made.
func TestAHeartbeatMakesNoPicture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		require.NoError(t, clientgoscheme.AddToScheme(scheme))
		require.NoError(t, v1alpha1.AddToScheme(scheme))
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"rack": "r1"}}}
		api := listed{fake.NewClientBuilder().WithScheme(scheme).WithObjects(n).WithStatusSubresource(n).Build()}
		ctx, leave := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer leave()
		c, err := connect(ctx, api, time.Now)
		require.NoError(t, err)
		changed := func() bool {
			synctest.Wait()
			select {
			case <-c.changed:
				return true
			default:
				return false
			}
		}
		require.True(t, changed(), "everything was read")
		first := Draw(c.objects(), time.Now()).Rows["n"].Version

		require.NoError(t, api.Get(ctx, client.ObjectKey{Name: "n"}, n))
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
		require.NoError(t, api.Status().Update(ctx, n))
		assert.False(t, changed())
		assert.Equal(t, n.ResourceVersion, c.objects().Nodes[0].ResourceVersion, "it was seen")
		assert.Equal(t, first, Draw(c.objects(), time.Now()).Rows["n"].Version, "the page of the node is not asked for again")

		n.Labels["rack"] = "r2"
		require.NoError(t, api.Update(ctx, n))
		assert.True(t, changed())
	})
}
