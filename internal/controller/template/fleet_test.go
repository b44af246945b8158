package template

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/trim"
)

// fleet is a test's cluster: the API, and the daemons' part played by the test.
type fleet struct {
	*testing.T
	*apitest.Env
	// writes counts the requests of the operator that were not refused: it tries again where its cache was behind.
	writes struct{ firmware, conditions, template atomic.Int64 }
	// hold keeps the writes of devices back until it is closed; nil for none.
	hold chan struct{}
	// sees is given every request of the operator, unless it is nil.
	sees func(*http.Request)
	stop context.CancelFunc
	done chan error
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{T: t, Env: apitest.New(t)}
	t.Cleanup(f.stopOperator)
	return f
}

// startOperator runs the controller as the operator does.
func (f *fleet) startOperator() {
	f.Helper()
	skip := true
	access := rest.CopyConfig(f.Config)
	if f.sees != nil {
		access.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(q *http.Request) (*http.Response, error) { f.sees(q); return next.RoundTrip(q) })
		})
	}
	mgr, err := ctrl.NewManager(access, ctrl.Options{
		Scheme:  f.Scheme,
		Cache:   cache.Options{DefaultTransform: trim.Object},
		Metrics: metricsserver.Options{BindAddress: "0"},
		NewClient: func(c *rest.Config, o client.Options) (client.Client, error) {
			w, err := client.NewWithWatch(c, o)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(w, f.count()), nil
		},
		Controller: config.Controller{SkipNameValidation: &skip},
	})
	require.NoError(f, err)
	require.NoError(f, SetupWithManager(mgr, 20*time.Millisecond))
	ctx, cancel := context.WithCancel(context.Background())
	f.stop, f.done = cancel, make(chan error, 1)
	go func() { f.done <- mgr.Start(ctx) }()
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

func (f *fleet) stopOperator() {
	if f.stop != nil {
		f.stop()
		assert.NoError(f, <-f.done)
		f.stop = nil
	}
}

func (f *fleet) count() interceptor.Funcs {
	return interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if f.hold != nil {
				<-f.hold
			}
			return counted(&f.writes.firmware, func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			writes := &f.writes.template
			if o.(runtime.Unstructured).GetObjectKind().GroupVersionKind().Kind == "NodeDevice" {
				writes = &f.writes.conditions
			}
			return counted(writes, func() error { return c.SubResource(sub).Apply(ctx, o, opts...) })
		},
	}
}

// counted counts a request before it is sent, since others can see what it wrote before it returns.
func counted(writes *atomic.Int64, send func() error) error {
	writes.Add(1)
	err := send()
	if err != nil {
		writes.Add(-1)
	}
	return err
}

// awaitWrites waits out a request that will be refused, which is counted until then.
func (f *fleet) awaitWrites(want int64, writes *atomic.Int64, msg string) {
	f.Helper()
	require.EventuallyWithT(f, func(c *assert.CollectT) { assert.Equal(c, want, writes.Load()) }, time.Minute, 10*time.Millisecond, msg)
}

func (f *fleet) create(o client.Object) {
	f.Helper()
	require.NoError(f, f.Client.Create(f.Context(), o))
}

func (f *fleet) node(name string, labels map[string]string) {
	f.Helper()
	f.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
}

func (f *fleet) edit(o client.Object, change func()) {
	f.Helper()
	require.EventuallyWithT(f, func(c *assert.CollectT) {
		require.NoError(c, f.Client.Get(f.Context(), client.ObjectKeyFromObject(o), o))
		change()
		require.NoError(c, f.Client.Update(f.Context(), o))
	}, time.Minute, 10*time.Millisecond)
}

// discover plays a daemon: it creates a NIC and writes its status.
func (f *fleet) discover(node, board, running string, change ...func(*v1alpha1.NodeDeviceStatus)) string {
	f.Helper()
	name := strings.ToLower(fmt.Sprintf("%s-nic-%s", node, strings.ReplaceAll(board, "_", "")))
	err := f.Client.Create(f.Context(), &v1alpha1.NodeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeDeviceSpec{NodeName: node},
	}, client.FieldOwner(v1alpha1.FieldOwnerDaemon))
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(f, err)
	}
	s := v1alpha1.NodeDeviceStatus{
		ObservedGeneration: 1, Class: v1alpha1.ClassNIC, UniqueID: name, PCIID: "15b3:101d", Model: "ConnectX-6 Dx", BoardID: board, SerialNumber: "MT1",
		Firmware: &v1alpha1.ObservedFirmware{
			Running: running, Stored: running, Driver: "mstflint", VersionFormat: v1alpha1.VersionFormatDotted, Activation: v1alpha1.ActivationReboot,
		},
	}
	for _, c := range change {
		c(&s)
	}
	require.NoError(f, fieldset.ApplyObservation(f.Context(), f.Client, name, s))
	return name
}

func imageFor(board, version string, n int) v1alpha1.StoredImage {
	return v1alpha1.StoredImage{Version: version, Class: v1alpha1.ClassNIC, BoardIDs: []string{board}, Digest: digest(n)}
}

func digest(n int) v1alpha1.Digest { return v1alpha1.Digest(fmt.Sprintf("sha256:%016d%048d", n, 0)) }

// source creates a FirmwareSource and plays its controller: ready with images, or not ready without.
func (f *fleet) source(name string, images ...v1alpha1.StoredImage) *v1alpha1.FirmwareSource {
	f.Helper()
	s := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareSourceSpec{
		Files: []v1alpha1.FirmwareFile{{URL: "https://example.com/" + name, Digest: v1alpha1.Digest("sha256:" + strings.Repeat("0", 64)), Images: []v1alpha1.ImageDescription{
			{Class: v1alpha1.ClassNIC, Version: "1"},
		}}},
	}}
	f.create(s)
	if len(images) > 0 {
		f.ready(s, images...)
	}
	return s
}

func (f *fleet) ready(s *v1alpha1.FirmwareSource, images ...v1alpha1.StoredImage) {
	f.Helper()
	s.Status.ObservedGeneration, s.Status.Images = s.Generation, images
	meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded})
	require.NoError(f, f.Client.Status().Update(f.Context(), s))
}

// template creates a template with one rule for the ConnectX-6 Dx of the nodes in a pool.
func (f *fleet) template(name, pool, version, source string, change ...func(*v1alpha1.FirmwareTemplate)) *v1alpha1.FirmwareTemplate {
	f.Helper()
	t := &v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareTemplateSpec{
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}},
		Rules: []v1alpha1.FirmwareRule{{
			Name: "cx6dx", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Vendor: "15b3", Models: []string{"101d"}},
			Version: version, SourceRef: v1alpha1.SourceReference{Name: source},
		}},
	}}
	for _, c := range change {
		c(t)
	}
	f.create(t)
	return t
}

// pinFor pins the NICs of one model of a node.
func pinFor(node, model string) *v1alpha1.NodeFirmware {
	return &v1alpha1.NodeFirmware{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: v1alpha1.NodeFirmwareSpec{Pins: []v1alpha1.FirmwareRule{{
			Name: "pin", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassNIC, Models: []string{model}}, Version: v1, SourceRef: v1alpha1.SourceReference{Name: "s"},
		}}},
	}
}

func (f *fleet) device(name string) *v1alpha1.NodeDevice {
	f.Helper()
	d := &v1alpha1.NodeDevice{}
	require.NoError(f, f.Client.Get(f.Context(), client.ObjectKey{Name: name}, d))
	return d
}

// awaitDevice waits until a device is as check wants it.
func (f *fleet) awaitDevice(name string, check func(*assert.CollectT, *v1alpha1.NodeDevice)) *v1alpha1.NodeDevice {
	f.Helper()
	d := &v1alpha1.NodeDevice{}
	require.EventuallyWithT(f, func(c *assert.CollectT) {
		*d = v1alpha1.NodeDevice{}
		require.NoError(c, f.Client.Get(f.Context(), client.ObjectKey{Name: name}, d))
		check(c, d)
	}, time.Minute, 10*time.Millisecond)
	return d
}

// awaitVersion waits until a device is assigned a version by an object.
func (f *fleet) awaitVersion(name, version, origin string) *v1alpha1.NodeDevice {
	f.Helper()
	return f.awaitDevice(name, func(c *assert.CollectT, d *v1alpha1.NodeDevice) {
		require.NotNil(c, d.Spec.Firmware)
		assert.Equal(c, version, d.Spec.Firmware.Version)
		assert.Equal(c, origin, d.Spec.Origin[0].Name)
	})
}

func (f *fleet) awaitUnassigned(name string) {
	f.Helper()
	f.awaitDevice(name, func(c *assert.CollectT, d *v1alpha1.NodeDevice) { assert.Nil(c, d.Spec.Firmware) })
}

func (f *fleet) awaitCondition(name, kind, reason string) *v1alpha1.NodeDevice {
	f.Helper()
	return f.awaitDevice(name, func(c *assert.CollectT, d *v1alpha1.NodeDevice) {
		got := meta.FindStatusCondition(d.Status.Conditions, kind)
		if reason == "" {
			assert.Nil(c, got)
			return
		}
		require.NotNil(c, got)
		assert.Equal(c, reason, got.Reason)
		assert.Equal(c, metav1.ConditionTrue, got.Status)
	})
}

func (f *fleet) awaitTemplate(name string, check func(*assert.CollectT, *v1alpha1.FirmwareTemplate)) *v1alpha1.FirmwareTemplate {
	f.Helper()
	t := &v1alpha1.FirmwareTemplate{}
	require.EventuallyWithT(f, func(c *assert.CollectT) {
		*t = v1alpha1.FirmwareTemplate{}
		require.NoError(c, f.Client.Get(f.Context(), client.ObjectKey{Name: name}, t))
		check(c, t)
	}, time.Minute, 10*time.Millisecond)
	return t
}

// awaitReady waits until a template's Ready condition has the reason, and requires what kstatus makes of it.
func (f *fleet) awaitReady(name, reason string, want status.Status) *v1alpha1.FirmwareTemplate {
	f.Helper()
	t := f.awaitTemplate(name, func(c *assert.CollectT, t *v1alpha1.FirmwareTemplate) {
		ready := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionReady)
		require.NotNil(c, ready)
		assert.Equal(c, reason, ready.Reason)
		assert.Equal(c, t.Generation, t.Status.ObservedGeneration)
	})
	apitest.RequireStatus(f, t, want)
	return t
}

// warnings counts the Warning events about an object.
func (f *fleet) warnings(kind, name, reason string) int {
	list := &eventsv1.EventList{}
	require.NoError(f, f.Client.List(f.Context(), list))
	n := 0
	for _, e := range list.Items {
		if e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == reason && e.Type == corev1.EventTypeWarning {
			n++
			if e.Series != nil {
				n += int(e.Series.Count) - 1
			}
		}
	}
	return n
}

func (f *fleet) awaitWarning(kind, name, reason string) {
	f.Helper()
	require.Eventually(f, func() bool { return f.warnings(kind, name, reason) == 1 }, time.Minute, 10*time.Millisecond,
		"one Warning %s about %s %s", reason, kind, name)
}
