package protection_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/certificate"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/internal/index"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/protection"
	"github.com/nodefirmware/node-firmware-operator/internal/controller/quarantine"
	"github.com/nodefirmware/node-firmware-operator/internal/fieldset"
	"github.com/nodefirmware/node-firmware-operator/internal/testing/apitest"
	"github.com/nodefirmware/node-firmware-operator/internal/trim"
)

func TestMain(m *testing.M) { apitest.Main(m) }

const digest = v1alpha1.Digest("sha256:0000000000000000000000000000000000000000000000000000000000000001")

type cluster struct {
	*testing.T
	*apitest.Env
	// markers counts the jobs of stays.
	markers int
	events  *events.FakeRecorder
}

func newCluster(t *testing.T) *cluster {
	return &cluster{T: t, Env: apitest.New(t), events: events.NewFakeRecorder(1000)}
}

// start runs the operator's part that keeps finalizers, and the one that records quarantines if asked for.
func (c *cluster) start(quarantines bool) {
	c.Helper()
	skip := true
	mgr, err := ctrl.NewManager(c.Config, ctrl.Options{
		Scheme: c.Scheme, Cache: cache.Options{DefaultTransform: trim.Object}, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip},
	})
	require.NoError(c, err)
	require.NoError(c, index.Register(c.Context(), mgr.GetFieldIndexer()))
	require.NoError(c, protection.New(mgr.GetClient(), mgr.GetAPIReader(), c.events, apitest.Namespace).SetupWithManager(mgr))
	if quarantines {
		require.NoError(c, quarantine.New(mgr.GetClient(), events.NewFakeRecorder(100), time.Now).SetupWithManager(mgr))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	c.Cleanup(func() {
		cancel()
		assert.NoError(c, <-done)
	})
}

// job creates a job with these conditions.
func (c *cluster) job(name string, kinds ...string) *v1alpha1.FirmwareJob {
	c.Helper()
	j := &v1alpha1.FirmwareJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FirmwareJobSpec{
		NodeName: "n1", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeUpdate, Devices: []v1alpha1.TaskDevice{{
			Name: "n1-nic", UniqueID: "nic", Model: "15b3:101d", Version: "2", Digest: digest,
		}}},
	}}
	require.NoError(c, c.Client.Create(c.Context(), j))
	c.set(j, kinds...)
	return j
}

// set gives the job exactly these conditions, all True.
func (c *cluster) set(j *v1alpha1.FirmwareJob, kinds ...string) {
	c.Helper()
	c.update(j, func() {
		j.Status.Conditions = nil
		for _, kind := range kinds {
			meta.SetStatusCondition(&j.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test"})
		}
	})
}

func (c *cluster) update(j *v1alpha1.FirmwareJob, edit func()) {
	c.Helper()
	require.Eventually(c, func() bool {
		require.NoError(c, c.Client.Get(c.Context(), client.ObjectKeyFromObject(j), j))
		edit()
		return c.Client.Status().Update(c.Context(), j) == nil
	}, time.Minute, 10*time.Millisecond)
}

func (c *cluster) awaitProtected(j *v1alpha1.FirmwareJob) {
	c.Helper()
	require.Eventually(c, func() bool {
		require.NoError(c, c.Client.Get(c.Context(), client.ObjectKeyFromObject(j), j))
		return len(j.Finalizers) == 1 && j.Finalizers[0] == v1alpha1.JobFinalizer
	}, time.Minute, 10*time.Millisecond)
}

func (c *cluster) awaitGone(j *v1alpha1.FirmwareJob) {
	c.Helper()
	require.Eventually(c, func() bool {
		return apierrors.IsNotFound(c.Client.Get(c.Context(), client.ObjectKeyFromObject(j), j))
	}, time.Minute, 10*time.Millisecond)
}

// stays proves that a job is still there once another one, which was deleted later, is gone.
func (c *cluster) stays(j *v1alpha1.FirmwareJob) {
	c.Helper()
	c.markers++
	later := c.job(fmt.Sprintf("later-%d", c.markers))
	version, err := fieldset.ProtectJob(c.Context(), c.Client, later, later.ResourceVersion)
	require.NoError(c, err)
	require.NotEmpty(c, version)
	c.delete(later)
	c.awaitGone(later)
	require.NoError(c, c.Client.Get(c.Context(), client.ObjectKeyFromObject(j), j))
	assert.Contains(c, j.Finalizers, v1alpha1.JobFinalizer)
}

func (c *cluster) delete(o client.Object) {
	c.Helper()
	require.NoError(c, c.Client.Delete(c.Context(), o))
}

func TestKeepsAdmittedJobUntilEnd(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	c.start(false)
	j := c.job("j", v1alpha1.ConditionAdmitted)
	c.awaitProtected(j) // an older operator admitted it without
	c.delete(j)
	c.stays(j)
	c.set(j, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	c.stays(j)
	c.set(j, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed)
	c.awaitGone(j)
}

func TestReleasesFinishedJob(t *testing.T) {
	c := newCluster(t)
	c.start(false)
	j := c.job("j", v1alpha1.ConditionAdmitted)
	c.awaitProtected(j)
	c.set(j, v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete)
	require.Eventually(t, func() bool {
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(j), j))
		return len(j.Finalizers) == 0
	}, time.Minute, 10*time.Millisecond)
}

// The finalizer is written before the admission. A job that is deleted between the two is begun by nobody.
func TestUnadmittedJobGoesAtOnce(t *testing.T) {
	c := newCluster(t)
	j := c.job("j")
	_, err := fieldset.ProtectJob(t.Context(), c.Client, j, j.ResourceVersion)
	require.NoError(t, err)
	c.start(false)
	c.stays(j)
	c.delete(j)
	c.awaitGone(j)
}

func TestAHeldJobGoesWithItsNode(t *testing.T) {
	c := newCluster(t)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	require.NoError(t, c.Client.Create(t.Context(), n))
	c.start(false)
	j := c.job("j", v1alpha1.ConditionAdmitted)
	c.awaitProtected(j)
	c.set(j, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	c.delete(j)
	c.stays(j)
	c.delete(n)
	c.awaitGone(j)
}

// A job that is deleted while it runs reports its images all the same, and is kept until a quarantine lists them.
func TestADeletedJobsReportIsRecorded(t *testing.T) {
	for name, records := range map[string]bool{"recorded": true, "not recorded": false} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.start(records)
			j := c.job("j", v1alpha1.ConditionAdmitted)
			c.awaitProtected(j)
			c.delete(j)
			c.update(j, func() {
				j.Status.Blamed = []v1alpha1.BlamedDevice{{Device: "n1-nic"}}
				j.Status.Conditions = append(j.Status.Conditions, metav1.Condition{
					Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUnhealthy, LastTransitionTime: metav1.Now(),
				})
			})
			if !records {
				c.stays(j)
				return
			}
			c.awaitGone(j)
			q := &v1alpha1.FirmwareQuarantine{}
			require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: v1alpha1.QuarantineName(digest, "15b3:101d")}, q))
			require.Len(t, q.Status.Reports, 1)
			assert.Equal(t, "j", q.Status.Reports[0].Job)
		})
	}
}

func TestAPersonLetsAReportGo(t *testing.T) {
	c := newCluster(t)
	c.start(false)
	j := c.job("j", v1alpha1.ConditionAdmitted)
	c.awaitProtected(j)
	c.update(j, func() {
		j.Status.Blamed = []v1alpha1.BlamedDevice{{Device: "n1-nic"}}
	})
	c.confirm(j)
	c.delete(j)
	c.stays(j) // it has not ended
	c.set(j, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed)
	c.awaitGone(j)
}

func (c *cluster) confirm(j *v1alpha1.FirmwareJob) {
	c.Helper()
	require.Eventually(c, func() bool {
		require.NoError(c, c.Client.Get(c.Context(), client.ObjectKeyFromObject(j), j))
		metav1.SetMetaDataAnnotation(&j.ObjectMeta, v1alpha1.ConfirmGoneAnnotation, "looked at it")
		return c.Client.Update(c.Context(), j) == nil
	}, time.Minute, 10*time.Millisecond)
}

// erased is a job whose node reports that it erased the drive of that serial number, which the job names as S1.
func (c *cluster) erased(name, serial string, kinds ...string) *v1alpha1.FirmwareJob {
	c.Helper()
	j := &v1alpha1.FirmwareJob{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{v1alpha1.JobFinalizer}, Annotations: map[string]string{v1alpha1.ConsentedByAnnotation: "alice"}},
		Spec: v1alpha1.FirmwareJobSpec{NodeName: "n1", Task: v1alpha1.JobTask{Type: v1alpha1.JobTypeSteps, Steps: []v1alpha1.RequestedStep{
			{Name: "erase", Device: "n1-disk", Arguments: []v1alpha1.StepArgument{{Name: "serialNumber", Value: "S1"}}},
		}}},
	}
	require.NoError(c, c.Client.Create(c.Context(), j))
	at := metav1.Now().Rfc3339Copy()
	c.update(j, func() {
		j.Status.Steps = []v1alpha1.JobStep{{
			Name: "erase", Device: "n1-disk", State: v1alpha1.StepSucceeded, CompletionTime: &at,
			Sanitization: &v1alpha1.Sanitization{StartTime: at, SerialNumber: serial, Method: "NVMe sanitize, block erase", Log: "log page 81h", Samples: 64},
		}}
	})
	c.set(j, kinds...)
	return j
}

func (c *cluster) certificates() []v1alpha1.SanitizationCertificate {
	c.Helper()
	var all v1alpha1.SanitizationCertificateList
	require.NoError(c, c.Client.List(c.Context(), &all))
	return all.Items
}

// TestWhatIsErasedIsCertified: the certificate is there before the job may go, is signed by a key that stays, and outlives the job. A job that fails
// later has erased the drive all the same.
func TestWhatIsErasedIsCertified(t *testing.T) {
	c := newCluster(t)
	c.start(false)
	running := c.erased("running", "S1", v1alpha1.ConditionAdmitted)
	require.Eventually(t, func() bool { return len(c.certificates()) == 1 }, time.Minute, 20*time.Millisecond)
	c.set(running, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed)
	over := c.erased("over", "S1", v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete)
	for _, j := range []*v1alpha1.FirmwareJob{running, over} {
		require.NoError(t, c.Client.Delete(t.Context(), j))
		require.Eventually(t, func() bool {
			return apierrors.IsNotFound(c.Client.Get(t.Context(), client.ObjectKeyFromObject(j), &v1alpha1.FirmwareJob{}))
		}, time.Minute, 20*time.Millisecond)
	}
	all := c.certificates()
	require.Len(t, all, 2)
	for i := range all {
		assert.Equal(t, "alice", all[i].Spec.Record.ConsentedBy)
		assert.Equal(t, all[0].Spec.PublicKey, all[i].Spec.PublicKey, "one key")
		key, err := certificate.ReadPublicKey([]byte(all[i].Spec.PublicKey))
		require.NoError(t, err)
		require.NoError(t, key.Verify(&all[i]))
	}
	var secret corev1.Secret
	require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Namespace: apitest.Namespace, Name: protection.KeyName}, &secret))
	assert.Equal(t, corev1.SecretTypeOpaque, secret.Type)
}

// TestLieIsNotCertified: a node that says of another drive that it is erased than its job names gets no certificate, and the job may go.
func TestLieIsNotCertified(t *testing.T) {
	c := newCluster(t)
	c.start(false)
	j := c.erased("lies", "S2", v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete)
	require.NoError(t, c.Client.Delete(t.Context(), j))
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(c.Client.Get(t.Context(), client.ObjectKeyFromObject(j), &v1alpha1.FirmwareJob{}))
	}, time.Minute, 20*time.Millisecond)
	assert.Empty(t, c.certificates())
	assert.Contains(t, <-c.events.Events, `(serial number "S2") is erased, which is not certified: the job does not ask for that`)
}

// TestJobWaitsForItsCertificate: with a key that cannot be used the job stays, until the key is mended or a person lets it go.
func TestJobWaitsForItsCertificate(t *testing.T) {
	c := newCluster(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: apitest.Namespace, Name: protection.KeyName}, Data: map[string][]byte{protection.KeyFile: []byte("rubbish")}}
	require.NoError(t, c.Client.Create(t.Context(), secret))
	r := protection.New(c.Client, c.Client, c.events, apitest.Namespace)
	reconcile := func(j *v1alpha1.FirmwareJob) error {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(j)})
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKeyFromObject(j), j))
		return err
	}
	j := c.erased("erased", "S1", v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete)
	require.ErrorContains(t, reconcile(j), "put an ECDSA key there, or delete the Secret")
	assert.Contains(t, j.Finalizers, v1alpha1.JobFinalizer)
	lost := c.erased("lost", "S1", v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete)
	metav1.SetMetaDataAnnotation(&lost.ObjectMeta, v1alpha1.ConfirmGoneAnnotation, "x")
	require.NoError(t, c.Client.Update(t.Context(), lost))
	require.NoError(t, reconcile(lost))
	assert.Empty(t, lost.Finalizers)
	assert.Empty(t, c.certificates())
	assert.Contains(t, <-c.events.Events, "put an ECDSA key there", "an event says so too")
	require.NoError(t, c.Client.Delete(t.Context(), secret))
	require.NoError(t, reconcile(j))
	assert.Empty(t, j.Finalizers)
	assert.Len(t, c.certificates(), 1)
	confirmed := c.erased("confirmed", "S1", v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete)
	metav1.SetMetaDataAnnotation(&confirmed.ObjectMeta, v1alpha1.ConfirmGoneAnnotation, "x")
	require.NoError(t, c.Client.Update(t.Context(), confirmed))
	require.NoError(t, reconcile(confirmed))
	assert.Empty(t, confirmed.Finalizers)
	assert.Len(t, c.certificates(), 2, "what can be certified is")
}
