package view_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/view"
)

// browser asks a view with the token of its address.
type browser struct {
	base, token string
	http        *http.Client
}

func browse(t testing.TB, address string) *browser {
	u, err := url.Parse(address)
	require.NoError(t, err)
	return &browser{"http://" + u.Host, strings.TrimPrefix(u.Fragment, "token="), &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

func (b *browser) get(ctx context.Context, t testing.TB, path string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+path, nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+b.token)
	answer, err := b.http.Do(r)
	require.NoError(t, err)
	return answer
}

// read asks for one thing and reads the answer.
func (b *browser) read(t testing.TB, path string, into any) (status int, text string) {
	t.Helper()
	answer := b.get(t.Context(), t, path)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	if answer.StatusCode == http.StatusOK && into != nil {
		require.NoError(t, json.Unmarshal(body, into))
	}
	return answer.StatusCode, string(body)
}

// event is what a stream said.
type event struct{ name, data string }

// events reads a stream until it has sent an event of that name that is as wanted.
func events(t testing.TB, lines *bufio.Scanner, name string, wanted func(data string) bool) (before []event) {
	t.Helper()
	e := event{}
	for lines.Scan() {
		switch kind, value, _ := strings.Cut(lines.Text(), ": "); kind {
		case "event":
			e.name = value
		case "data":
			e.data = value
			before = append(before, e)
			if e.name == name && wanted(e.data) {
				return before
			}
		}
	}
	require.NoError(t, lines.Err())
	t.Fatal("the stream ended")
	return nil
}

func scanner(r io.Reader) *bufio.Scanner {
	out := bufio.NewScanner(r)
	out.Buffer(nil, 16<<20)
	return out
}

func anything(string) bool { return true }

func TestAChangeArrivesAsADelta(t *testing.T) {
	api := inMemory(t, fleet(time.Now(), 96))
	address, stop := serve(t, api, time.Now)
	defer stop()
	b := browse(t, address)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	answer := b.get(ctx, t, "/api/stream?label=pool")
	defer answer.Body.Close()
	assert.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	stream := scanner(answer.Body)
	first := events(t, stream, "outage", anything)
	require.Equal(t, "nodes", first[0].name)
	var all view.Delta
	require.NoError(t, json.Unmarshal([]byte(first[0].data), &all))
	require.Len(t, all.Rows, 96, "the first it is told is everything")
	assert.Equal(t, "edge", all.Rows[0].Group, "the value of the label that it asked for")
	said := map[string]string{}
	for _, e := range first {
		said[e.name] = e.data
	}
	assert.Contains(t, said["summary"], `"cluster":"production"`)
	for _, of := range []string{"pools", "needs"} {
		assert.Contains(t, said[of], `"kubectl firmware --context=production resume storage"`)
		assert.Equal(t, strings.Count(said[of], `"typed":`), strings.Count(said[of], " --context=production "), "a command that is copied goes to the cluster that is shown")
	}

	hold(t, api, "edge-096")
	var delta view.Delta
	events(t, stream, "nodes", func(data string) bool {
		delta = view.Delta{}
		require.NoError(t, json.Unmarshal([]byte(data), &delta))
		require.Len(t, delta.Rows, 1, "nothing but what changed")
		return delta.Rows[0].State == view.Held
	})
	assert.Equal(t, "edge-096", delta.Rows[0].Name)
	assert.Equal(t, "edge", delta.Rows[0].Group)

	n := &v1alpha1.NodeFirmware{}
	n.Name = "edge-095"
	require.NoError(t, api.Delete(t.Context(), n))
	events(t, stream, "nodes", func(data string) bool { return strings.Contains(data, `"name":"edge-095","state":"unknown"`) })
}

// The label of the racks is that of a budget, and a budget comes and goes while a page is open.
func TestTheRacksOfAnOpenPageFollowTheBudget(t *testing.T) {
	api := inMemory(t, fleet(time.Now(), 96))
	address, stop := serve(t, api, time.Now)
	defer stop()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	answer := browse(t, address).get(ctx, t, "/api/stream")
	defer answer.Body.Close()
	stream := scanner(answer.Body)
	first := events(t, stream, "outage", anything)
	var delta view.Delta
	require.NoError(t, json.Unmarshal([]byte(first[0].data), &delta))
	assert.Equal(t, "r06", delta.Rows[0].Group)

	gpu := &v1alpha1.RolloutPolicy{}
	require.NoError(t, api.Get(t.Context(), client.ObjectKey{Name: "gpu"}, gpu))
	gpu.Spec.TopologyBudgets[0].TopologyKey = "pool"
	require.NoError(t, api.Update(t.Context(), gpu))
	said := events(t, stream, "summary", func(data string) bool { return strings.Contains(data, `"rack":"pool"`) })
	for _, e := range said {
		if e.name == "nodes" {
			delta = view.Delta{}
			require.NoError(t, json.Unmarshal([]byte(e.data), &delta))
		}
	}
	require.Len(t, delta.Rows, 96)
	assert.Equal(t, "edge", delta.Rows[0].Group)
}

func TestAPageThatGoesAwayLeavesNothing(t *testing.T) {
	api := inMemory(t, fleet(time.Now(), 24))
	address, stop := serve(t, api, time.Now)
	defer stop()
	b := browse(t, address)
	before := runtime.NumGoroutine()
	for range 20 {
		ctx, leave := context.WithCancel(t.Context())
		answer := b.get(ctx, t, "/api/stream")
		events(t, scanner(answer.Body), "outage", anything)
		leave()
		require.NoError(t, answer.Body.Close())
	}
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+2 }, 5*time.Minute, 10*time.Millisecond, "each page had a goroutine of the server and one of the client")
}

func TestThePageOfANodeAndOfAVersion(t *testing.T) {
	api := inMemory(t, fleet(time.Now(), 96))
	address, stop := serve(t, api, time.Now)
	defer stop()
	b := browse(t, address)
	var n view.Node
	status, text := b.read(t, "/api/node?name=gpu-008", &n)
	require.Equal(t, http.StatusOK, status, text)
	assert.Len(t, n.Devices, 8)
	require.Equal(t, 0, n.Job, "the job that holds it")
	assert.Len(t, n.Jobs[0].Steps, 9)
	assert.Equal(t, "kubectl firmware --context=production retry gpu-008", n.Next[0].Typed)
	assert.Equal(t, "fleet/nic", n.Devices[7].By)
	assert.Equal(t, v1alpha1.PositionBehind, n.Devices[7].Position)
	require.NoError(t, api.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new-1"}}))
	require.Eventually(t, func() bool { status, _ = b.read(t, "/api/node?name=new-1", &n); return status == http.StatusOK }, time.Minute, 10*time.Millisecond)
	assert.Contains(t, n.Says, "Nothing has looked at this node yet.")
	assert.Equal(t, "kubectl --context=production get pods -A -o wide -l app.kubernetes.io/name=node-firmware-operator,app.kubernetes.io/component=daemon --field-selector spec.nodeName=new-1", n.Next[0].Typed)
	status, text = b.read(t, "/api/node?name=none", nil)
	assert.Equal(t, http.StatusNotFound, status)
	assert.Contains(t, text, "explained: ")

	var names []string
	b.read(t, "/api/running?class=NIC&model=ConnectX-6+Dx&version=28.39.2048", &names)
	assert.Equal(t, []string{"storage-057", "storage-067", "storage-077"}, names)
	var coming view.Coming
	b.read(t, "/api/forecast", &coming)
	assert.Equal(t, 60, coming.Pools["gpu"].Total, "a job that waits for a person is not coming")
	assert.Equal(t, []v1alpha1.WaitingNodes{{Reason: v1alpha1.ReasonRolloutHalted, Nodes: 1}}, coming.Pools["gpu"].Waits)
	assert.Equal(t, "gpu-060", coming.Pools["gpu"].Jobs[0].Node)
	all := 0
	for _, n := range coming.Pools["gpu"].Starts {
		all += n
	}
	assert.Equal(t, 60, all)
	status, text = b.read(t, "/", nil)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, "view.js")
}

// outage is an API server that can go away.
type outage struct {
	memory
	away    atomic.Bool
	watches atomic.Pointer[func()]
}

var errAway = &url.Error{Op: "Get", URL: "https://api.example.com", Err: errors.New("connection refused")}

func (o *outage) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if o.away.Load() {
		return errAway
	}
	return o.memory.List(ctx, list, opts...)
}

func (o *outage) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	if o.away.Load() {
		return nil, errAway
	}
	w, err := o.memory.Watch(ctx, list, opts...)
	if _, is := list.(*v1alpha1.RolloutPolicyList); is && err == nil {
		stop := w.Stop
		o.watches.Store(&stop)
	}
	return w, err
}

func TestAnAPIServerThatGoesAwayIsToldAndComesBack(t *testing.T) {
	api := &outage{memory: inMemory(t, fleet(time.Now(), 24))}
	address, stop := serve(t, api, time.Now)
	defer stop()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	answer := browse(t, address).get(ctx, t, "/api/stream")
	defer answer.Body.Close()
	stream := scanner(answer.Body)
	said := events(t, stream, "outage", anything)
	assert.JSONEq(t, `{"since":null}`, said[len(said)-1].data)
	api.away.Store(true)
	(*api.watches.Load())()
	var told view.Outage
	events(t, stream, "outage", func(data string) bool {
		require.NoError(t, json.Unmarshal([]byte(data), &told))
		return told.Since != nil
	})
	assert.Contains(t, told.Says, "explained: ")
	assert.Contains(t, told.Says, "connection refused")
	api.away.Store(false)
	events(t, stream, "outage", func(data string) bool { return data == `{"since":null}` })
}

func TestAMissingRightEndsTheVerb(t *testing.T) {
	api := &denied{inMemory(t, nil)}
	err := view.Serve(t.Context(), view.Options{API: api, Now: time.Now, Explain: error.Error, Ready: func(string) { t.Error("it is ready") }})
	assert.True(t, apierrors.IsForbidden(err), err)
}

// denied is an API server that does not let devices be read.
type denied struct{ memory }

func (d *denied) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, is := list.(*v1alpha1.NodeDeviceList); is {
		return apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.GroupName, Resource: "nodedevices"}, "", errors.New("no"))
	}
	return d.memory.List(ctx, list, opts...)
}

func TestAPortThatIsTakenIsSaid(t *testing.T) {
	api := inMemory(t, nil)
	address, stop := serve(t, api, time.Now)
	defer stop()
	u, err := url.Parse(address)
	require.NoError(t, err)
	var port int
	require.NoError(t, json.Unmarshal([]byte(u.Port()), &port))
	err = view.Serve(t.Context(), view.Options{API: api, Port: port, Now: time.Now})
	assert.ErrorContains(t, err, "--port")
}

// listing is an API server whose watches do not begin with what is there.
type listing struct{ client.WithWatch }

func (l *listing) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	o := client.ListOptions{}
	if o.ApplyOptions(opts); o.Raw != nil && o.Raw.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", field.ErrorList{field.Forbidden(field.NewPath("sendInitialEvents"), "there is no WatchList")})
	}
	return l.WithWatch.Watch(ctx, list, opts...)
}

func TestAnAPIServerWithoutWatchListIsListed(t *testing.T) {
	address, stop := serve(t, &listing{inMemory(t, fleet(time.Now(), 24)).WithWatch}, time.Now)
	defer stop()
	status, text := browse(t, address).read(t, "/api/node?name=gpu-001", nil)
	assert.Equal(t, http.StatusOK, status, text)
}
