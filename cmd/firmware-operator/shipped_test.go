package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/operator"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/controlplane"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// program is the operator, started by its flags, and the cluster around it.
type program struct {
	*testing.T
	client.Client
	probes, store, files string
	ended                chan error
}

func startShipped(t *testing.T, args ...string) *program {
	t.Helper()
	env := apitest.New(t)
	free := func() string {
		address, err := controlplane.FreeAddress()
		require.NoError(t, err)
		return address
	}
	p := &program{T: t, Client: env.Client, probes: free(), store: t.TempDir(), files: t.TempDir(), ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(t.Context())
	cmd := command(operator.Run)
	cmd.SetArgs(append(args, "--update-strategy=daemon", "--kubeconfig="+env.ControlPlane.KubeconfigPath(), "--log-level=error",
		"--health-probe-bind-address="+p.probes, "--metrics-bind-address="+free(), "--image-server-bind-address="+free(),
		"--image-server-dns-names=127.0.0.1", "--store-dir="+p.store, "--file-source-dir="+p.files))
	go func() { p.ended <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(func() { stop(); assert.NoError(t, <-p.ended, "a signal is no error") })
	return p
}

func (p *program) eventually(what string, is func() bool) {
	p.Helper()
	require.Eventually(p, func() bool {
		select {
		case err := <-p.ended:
			p.ended <- err
			return assert.Fail(p, "the operator ended", "%v", err)
		default:
			return is()
		}
	}, 5*time.Minute, 20*time.Millisecond, what) // a machine may have a load of 30
}

func (p *program) is(o client.Object, when func() bool) func() bool {
	return func() bool { return p.Get(p.Context(), client.ObjectKeyFromObject(o), o) == nil && when() }
}

func (p *program) create(o client.Object) {
	p.Helper()
	require.NoError(p, p.Create(p.Context(), o))
}

// node makes a Node, which is Ready from the beginning, as a kubelet registers it.
func (p *program) node(name string) {
	p.Helper()
	p.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}})
}

// bios makes a Node with a BIOS that runs version 1, as its daemon reports it.
func (p *program) bios(node string) *v1alpha1.NodeDevice {
	p.Helper()
	p.node(node)
	d := &v1alpha1.NodeDevice{ObjectMeta: metav1.ObjectMeta{Name: node + "-bios"}, Spec: v1alpha1.NodeDeviceSpec{NodeName: node}}
	p.create(d)
	p.report(d)
	return d
}

// report is the daemon's report about the device as it is desired now.
func (p *program) report(d *v1alpha1.NodeDevice) {
	p.Helper()
	now := metav1.Now()
	require.NoError(p, fieldset.ApplyObservation(p.Context(), p.Client, d.Name, v1alpha1.NodeDeviceStatus{
		ObservedGeneration: d.Generation, Class: v1alpha1.ClassBIOS, UniqueID: "bios-" + d.Spec.NodeName, Vendor: "Lenovo", Model: "7X21",
		Firmware: &v1alpha1.ObservedFirmware{Running: "1", Stored: "1", Driver: "fwupd", Activation: v1alpha1.ActivationReboot},
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonPending, LastTransitionTime: now},
			{Type: v1alpha1.ConditionInspected, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded, LastTransitionTime: now},
		},
	}))
}

func (p *program) jobs() (list v1alpha1.FirmwareJobList) {
	p.Helper()
	require.NoError(p, p.List(p.Context(), &list))
	return list
}

// TestShipped: each part of the program works, as its flags say.
func TestShipped(t *testing.T) {
	const quiet = 2 * time.Second
	p := startShipped(t, "--quiet-period="+quiet.String())
	p.eventually("it is ready", func() bool {
		response, err := http.Get("http://" + p.probes + "/readyz")
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: apitest.Namespace, Name: "node-firmware-operator"}}
	p.eventually("it leads", p.is(lease, func() bool { return lease.Spec.HolderIdentity != nil }))
	policy := &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	p.eventually("there is a default policy", p.is(policy, func() bool { return true }))
	before := policy.DeepCopy()
	policy.Spec.MaxQueued = ptr.To[int32](1)
	require.NoError(t, p.Patch(t.Context(), policy, client.MergeFrom(before))) // the operator writes its status

	catalog := &v1alpha1.FirmwareCatalog{ObjectMeta: metav1.ObjectMeta{Name: "lenovo.7x21"}, Spec: v1alpha1.FirmwareCatalogSpec{Machine: v1alpha1.CatalogMachine{Vendor: "lenovo", Model: "7x21"}}}
	p.create(catalog)
	p.eventually("the catalog is looked at", p.is(catalog, func() bool { return len(catalog.Status.Conditions) > 0 }))

	image := []byte("bios version 2")
	digest := fmt.Sprintf("%x", sha256.Sum256(image))
	file := filepath.Join(p.files, "bios.cab")
	require.NoError(t, os.WriteFile(file, image, 0o600))
	source := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "bios"}, Spec: v1alpha1.FirmwareSourceSpec{Files: []v1alpha1.FirmwareFile{{
		URL: "file://" + file, Digest: v1alpha1.Digest("sha256:" + digest),
		Images: []v1alpha1.ImageDescription{{Class: v1alpha1.ClassBIOS, Models: []string{"7x21"}, Version: "2"}},
	}}}}
	p.create(source)
	p.eventually("the image is stored under its digest", func() bool {
		stored, err := os.ReadFile(filepath.Join(p.store, "blobs", digest))
		return err == nil && string(stored) == string(image)
	})

	p.create(&v1alpha1.FirmwareTemplate{ObjectMeta: metav1.ObjectMeta{Name: "bios"}, Spec: v1alpha1.FirmwareTemplateSpec{Rules: []v1alpha1.FirmwareRule{{
		Name: "bios", Selector: v1alpha1.DeviceSelector{Class: v1alpha1.ClassBIOS, Vendor: v1alpha1.AnyVendor}, Version: "2", SourceRef: v1alpha1.SourceReference{Name: "bios"},
	}}}})
	devices := []*v1alpha1.NodeDevice{p.bios("n1"), p.bios("n2"), p.bios("n3")}
	node := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n3"}}
	p.eventually("the node has its object", p.is(node, func() bool { return true }))
	var due time.Time
	for _, d := range devices {
		p.eventually("the device is assigned", p.is(d, func() bool { return d.Spec.Firmware != nil && d.Spec.Firmware.Digest != "" }))
		if due.IsZero() {
			due = time.Now() // the operator may see the report before this test goes on
		}
		p.report(d)
	}
	p.eventually("a job is queued", func() bool { return len(p.jobs().Items) > 0 })
	assert.GreaterOrEqual(t, time.Since(due), quiet, "after the quiet period")
	p.eventually("of three nodes one is admitted, one is queued and one is refused", func() bool {
		return len(p.jobs().Items) == 2 && p.is(policy, func() bool { return policy.Status.Nodes.Refused == 1 })()
	})
	p.eventually("which is an event", func() bool {
		var events eventsv1.EventList
		require.NoError(t, p.List(t.Context(), &events))
		for _, e := range events.Items {
			if e.Reason == v1alpha1.ReasonQueueFull && e.Regarding.Name == "default" {
				return true
			}
		}
		return false
	})

	admitted := &v1alpha1.FirmwareJob{}
	p.eventually("a job is admitted", func() bool {
		for _, j := range p.jobs().Items {
			if j.Admitted() {
				admitted = &j
			}
		}
		return admitted.Admitted()
	})
	require.Contains(t, admitted.Finalizers, v1alpha1.JobFinalizer)
	require.NoError(t, p.Delete(t.Context(), admitted))
	p.eventually("a deleted job stays until it has ended", p.is(admitted, func() bool {
		meta.SetStatusCondition(&admitted.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded,
		})
		return p.Status().Update(t.Context(), admitted) == nil
	}))
	p.eventually("and goes then", func() bool {
		return apierrors.IsNotFound(p.Get(t.Context(), client.ObjectKeyFromObject(admitted), admitted))
	})
}

// The flag alone has the operator take the Lease of medik8s before a node.
func TestShippedOperatorTakesTheLeaseOfMedik8s(t *testing.T) {
	p := startShipped(t, "--maintenance=Drain", "--medik8s-lease-namespace="+apitest.Namespace)
	p.node("n1")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	job := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: v1alpha1.FirmwareJobSpec{NodeName: "n1", Task: v1alpha1.JobTask{
		Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{{Name: "verify-firmware"}},
	}}}
	p.create(job)
	p.eventually("the job is admitted", func() bool { // as if before a restart
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return false
		}
		_, err := fieldset.ApplyAdmission(t.Context(), p.Client, job, job.ResourceVersion, []metav1.Condition{{
			Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAdmitted, LastTransitionTime: metav1.Now(),
		}})
		return err == nil
	})
	nfw := &v1alpha1.NodeFirmware{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	p.eventually("there is a NodeFirmware", p.is(nfw, func() bool { return true }))
	require.NoError(t, fieldset.ApplyMaintenanceRequest(t.Context(), p.Client, "n1", v1alpha1.MaintenanceRequest{ID: "1", Type: v1alpha1.MaintenanceDrain}))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: apitest.Namespace, Name: "node-n1"}}
	p.eventually("it takes the Lease", p.is(lease, func() bool { return ptr.Deref(lease.Spec.HolderIdentity, "") == "node-firmware-operator" }))
	p.eventually("it cordons the node", p.is(node, func() bool { return node.Spec.Unschedulable }))
}
