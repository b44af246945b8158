package catalog

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/access"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/watch"
	"github.com/nodefirmware/node-firmware-operator/pkg/artifact"
	"github.com/nodefirmware/node-firmware-operator/pkg/catalog"
)

const r650 = "dell-inc.poweredge-r650"

// world is an operator's catalog controller without an API server, with a network whose answers a test sets.
type world struct {
	testing.TB
	client     client.WithWatch
	reconciler *Reconciler
	net        *network
	clock      time.Time
	ended      chan string
	events     *events.FakeRecorder
	writes     int
	creates    int
	// read counts the objects that lists returned.
	read int
	// limits of the processes that begin.
	limits catalog.Limits
	// start begins a new process of the operator.
	start func(Bounds)
}

// network answers by URL, and counts what was opened. An answer that is absent is an error; one in hold waits until its context ends
// or the channel is closed.
type network struct {
	mu     sync.Mutex
	answer map[string]string
	tags   map[string][]artifact.Tag
	hold   map[string]chan struct{}
	opened []string
	// access is what was presented last, by URL.
	access map[string]*artifact.Access
	begun  chan string
}

func (n *network) Open(ctx context.Context, url string, a *artifact.Access) (io.ReadCloser, error) {
	if err := n.reach(ctx, url, a); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	answer, ok := n.answer[url]
	if !ok {
		return nil, fmt.Errorf("fetch %s: the server answered 404 Not Found", url)
	}
	return io.NopCloser(strings.NewReader(answer)), nil
}

func (n *network) Tags(ctx context.Context, url string, a *artifact.Access) iter.Seq2[artifact.Tag, error] {
	return func(yield func(artifact.Tag, error) bool) {
		if err := n.reach(ctx, url, a); err != nil {
			yield(artifact.Tag{}, err)
			return
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, t := range n.tags[url] {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// reach returns when a URL answers.
func (n *network) reach(ctx context.Context, url string, a *artifact.Access) error {
	n.mu.Lock()
	hold := n.hold[url]
	n.opened = append(n.opened, url)
	n.access[url] = a
	n.mu.Unlock()
	n.begun <- url
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func newNetwork() *network {
	return &network{answer: map[string]string{}, tags: map[string][]artifact.Tag{}, hold: map[string]chan struct{}{}, access: map[string]*artifact.Access{}, begun: make(chan string, 1000)}
}

func (n *network) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.opened)
}

func newWorld(t testing.TB) *world {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	w := &world{
		TB: t, clock: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC),
		events: events.NewFakeRecorder(100),
		net:    newNetwork(),
	}
	w.client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.FirmwareCatalog{}, &v1alpha1.NodeFirmware{}, &v1alpha1.NodeDevice{}, &v1alpha1.FirmwareSource{}).
		WithIndex(&v1alpha1.NodeDevice{}, index.NodeName, index.ByNode).WithIndex(&v1alpha1.NodeFirmware{}, index.Model, index.ByModel).Build(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			w.read += meta.LenList(list)
			return err
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			w.creates++
			if err := c.Apply(ctx, o, opts...); err != nil {
				return err
			}
			w.edit(func(s *v1alpha1.FirmwareCatalogSpec) { s.State = v1alpha1.CatalogActive }) // as the API server does
			made := w.get()
			made.Status.ObservedGeneration = -1
			return c.Status().Update(ctx, made)
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			w.writes++
			return c.SubResource(sub).Apply(ctx, o, opts...)
		},
	})
	w.start = func(b Bounds) {
		ctx, stop := context.WithCancel(t.Context())
		// A test reads the clock through the queue's lock only after a discovery has ended, and sets it while none runs.
		w.reconciler = New(w.client, Options{Now: func() time.Time { return w.clock }, Network: w.net, Access: access.Reader{Client: w.client, Namespace: "product"}, Bounds: b, Limits: w.limits, Events: w.events})
		w.ended = make(chan string, 1000)
		ended := w.ended
		discoveries := w.reconciler.discoveries // a test that starts anew has another one
		discoveries.Ended = func(name string) { ended <- name }
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = discoveries.Start(ctx)
		}()
		t.Cleanup(func() { stop(); <-done })
	}
	w.start(Bounds{})
	return w
}

// node adds a machine with one NIC and a BIOS.
func (w *world) node(name, model, nic string) {
	w.create(&v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1alpha1.NodeFirmwareStatus{Machine: &v1alpha1.Machine{Vendor: "Dell Inc.", Model: model}}})
	w.device(name, "bios", v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassBIOS, Vendor: "Dell Inc.", Model: model,
		Firmware: &v1alpha1.ObservedFirmware{Running: "1.9.2"}})
	w.device(name, "nic", v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC, Vendor: "Mellanox", Model: "ConnectX-6 Dx", PCIID: "15b3:101d",
		BoardID: "MT_0000000359", Firmware: &v1alpha1.ObservedFirmware{Running: nic, VersionFormat: v1alpha1.VersionFormatDotted}})
}

func (w *world) device(node, name string, s v1alpha1.NodeDeviceStatus) {
	w.create(&v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + name}, Spec: v1alpha1.NodeDeviceSpec{NodeName: node}, Status: s})
}

func (w *world) create(o client.Object) {
	w.Helper()
	withStatus := o.DeepCopyObject().(client.Object)
	require.NoError(w, w.client.Create(w.Context(), o))
	withStatus.SetResourceVersion(o.GetResourceVersion())
	require.NoError(w, w.client.Status().Update(w.Context(), withStatus))
}

// source holds an image for the NIC.
func (w *world) source(name, version string) {
	w.create(&v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.FirmwareSourceStatus{Images: []v1alpha1.StoredImage{{
		Version: version, Class: v1alpha1.ClassNIC, Vendor: "15b3", Models: []string{"101d"}, BoardIDs: []string{"MT_0000000359"},
		Digest: v1alpha1.Digest("sha256:" + strings.Repeat("a", 64)),
	}}}})
}

func (w *world) get() *v1alpha1.FirmwareCatalog {
	w.Helper()
	var c v1alpha1.FirmwareCatalog
	require.NoError(w, w.client.Get(w.Context(), client.ObjectKey{Name: r650}, &c))
	return &c
}

// edit changes the spec as a user does.
func (w *world) edit(change func(*v1alpha1.FirmwareCatalogSpec)) {
	w.Helper()
	c := w.get()
	change(&c.Spec)
	c.Generation++
	require.NoError(w, w.client.Update(w.Context(), c))
}

// look is one pass.
func (w *world) look() time.Duration {
	w.Helper()
	out, err := w.reconciler.Reconcile(w.Context(), watch.Requests(r650)[0])
	require.NoError(w, err)
	return out.RequeueAfter
}

// wait returns when a discovery has ended.
func (w *world) wait() {
	w.Helper()
	select {
	case <-w.ended:
	case <-time.After(time.Minute):
		w.Fatal("no discovery has ended")
	}
}

// discover is a pass that begins a discovery, and another one when that has ended.
func (w *world) discover() time.Duration {
	w.Helper()
	w.look()
	w.wait()
	return w.look()
}

// begun returns when a URL is being opened.
func (w *world) begun() string {
	w.Helper()
	select {
	case url := <-w.net.begun:
		return url
	case <-time.After(time.Minute):
		w.Fatal("nothing was opened")
	}
	return ""
}

func (w *world) ready() metav1.Condition {
	w.Helper()
	c := meta.FindStatusCondition(w.get().Status.Conditions, v1alpha1.ConditionReady)
	require.NotNil(w, c)
	return *c
}

// requireStatus is the kstatus check of the house.
func (w *world) requireStatus(want status.Status) {
	w.Helper()
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w.get())
	require.NoError(w, err)
	got, err := status.Compute(&unstructured.Unstructured{Object: raw})
	require.NoError(w, err)
	require.Equal(w, want, got.Status, got.Message)
}

func (w *world) component(class v1alpha1.DeviceClass) v1alpha1.CatalogComponent {
	w.Helper()
	for _, c := range w.get().Status.Components {
		if c.Class == class {
			return c
		}
	}
	w.Fatalf("no component of class %s", class)
	return v1alpha1.CatalogComponent{}
}

func versionsOf(c v1alpha1.CatalogComponent) []string {
	var out []string
	for _, v := range c.Versions {
		out = append(out, v.Version)
	}
	return out
}

func indexOf(entries ...string) string {
	return `{"schema": "nodefirmware.io/catalog/v1", "versions": [` + strings.Join(entries, ",") + `]}`
}

func nicEntry(version string, more ...string) string {
	return `{"class":"NIC","vendor":"15b3","models":["101d"],"version":"` + version + `"` + strings.Join(more, "") + `}`
}

const ours = "https://mirror.example.com/index.json"

func withIndex(s *v1alpha1.FirmwareCatalogSpec) {
	s.Providers = []v1alpha1.CatalogProvider{{Name: "sources", Type: v1alpha1.ProviderSources}, {Name: "ours", Type: v1alpha1.ProviderIndex, URL: ours}}
}
