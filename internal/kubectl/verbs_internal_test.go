package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/quarantine"
)

// world is an API of objects in memory, where something may go wrong.
func world(t *testing.T, wrong interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	kinds, err := scheme()
	require.NoError(t, err)
	create := wrong.Create
	wrong.Create = func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		if review, is := o.(*authenticationv1.SelfSubjectReview); is {
			review.Status.UserInfo.Username = "anna"
			return nil
		}
		if create != nil {
			return create(ctx, c, o, options...)
		}
		return c.Create(ctx, o, options...)
	}
	node := func(o client.Object) []string {
		switch o := o.(type) {
		case *v1alpha1.NodeDevice:
			return []string{o.Spec.NodeName}
		case *v1alpha1.FirmwareJob:
			return []string{o.Spec.NodeName}
		}
		return nil
	}
	return fake.NewClientBuilder().WithScheme(kinds).WithObjects(objects...).WithReturnManagedFields().WithInterceptorFuncs(wrong).
		WithIndex(&corev1.Event{}, "involvedObject.apiVersion", func(o client.Object) []string { return []string{o.(*corev1.Event).InvolvedObject.APIVersion} }).
		WithIndex(&v1alpha1.NodeDevice{}, "spec.nodeName", node).WithIndex(&v1alpha1.FirmwareJob{}, "spec.nodeName", node).Build()
}

// types is a person who types a command.
func types(ctx context.Context, api client.Client, args ...string) (out, said string, err error) {
	var stdout, stderr bytes.Buffer
	logs := func(context.Context, string, string, *corev1.PodLogOptions) (io.ReadCloser, error) {
		return nil, errors.New("no kubelet answers")
	}
	if has, is := api.(interface{ podLogs() podLogs }); is {
		logs = has.podLogs()
	}
	s := &session{logs: logs, IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &stdout, ErrOut: &stderr}, flags: genericclioptions.NewConfigFlags(true), api: api, now: anna.now.Local, random: strings.NewReader(strings.Repeat("7", 16))}
	c := s.root()
	c.SetArgs(args)
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	err = c.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

func forbids(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.GroupName, Resource: resource}, "", errors.New("no"))
}

func policyNamed(name string, state v1alpha1.RolloutState) *v1alpha1.RolloutPolicy {
	return &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RolloutPolicySpec{State: state}}
}

// owned makes managers own a field of the spec.
func owned(o client.Object, field string, managers ...string) {
	for _, m := range managers {
		o.SetManagedFields(append(o.GetManagedFields(), metav1.ManagedFieldsEntry{Manager: m, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: v1alpha1.GroupVersion.String(),
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:` + field + `":{}}}`)}))
	}
}

func objects(f *nodeFacts) []client.Object {
	out := []client.Object{f.node}
	for _, d := range f.devices {
		out = append(out, d)
	}
	for i := range f.jobs {
		out = append(out, &f.jobs[i])
	}
	return out
}

// Nobody is asked about nothing, whatever input there is, and a flag that is wrong is wrong where nothing is to be done too.
func TestNobodyIsAskedAboutNothing(t *testing.T) {
	api := world(t, interceptor.Funcs{}, policyNamed("gpu", v1alpha1.RolloutPaused))
	for _, line := range []string{"stop", "resume", "pause --all", "retry --all-held"} {
		out, said, err := types(t.Context(), api, strings.Fields(line)...)
		require.NoError(t, err, line)
		assert.Empty(t, out, line)
		assert.NotContains(t, said, "Do it?", line)
		assert.NotEmpty(t, said, line)
		_, _, err = types(t.Context(), api, append(strings.Fields(line), "--dry-run=client")...)
		require.ErrorContains(t, err, "want none or server", line)
	}
	f := heldNode() // what holds the only node cannot be tried again
	f.devices[0].Spec.Firmware.Digest = "sha256:other"
	f.devices[0].Status.Conditions = []metav1.Condition{yes(v1alpha1.ConditionReady)}
	out, said, err := types(t.Context(), world(t, interceptor.Funcs{}, objects(f)...), "retry", "--all-held")
	require.NoError(t, err)
	assert.Empty(t, out)
	assert.Contains(t, said, "Not tried again: a retry does nothing on node/n")
	assert.Contains(t, said, "Nothing is to be done.")
}

// What was not read is neither refused nor absent: the others go on, and the command fails.
func TestWhatWasNotReadIsNoRefusal(t *testing.T) {
	running := jobNamed("k", 1, yes(v1alpha1.ConditionAdmitted))
	unlisted := func(kind client.ObjectList, err error) interceptor.Funcs {
		return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, policies := list.(*v1alpha1.RolloutPolicyList); policies == (kind == nil) {
				return err
			}
			return c.List(ctx, list, options...)
		}}
	}
	all := []client.Object{policyNamed("gpu", v1alpha1.RolloutActive), &running}
	out, said, err := types(t.Context(), world(t, unlisted(&v1alpha1.FirmwareJobList{}, forbids("firmwarejobs")), all...), "stop", "--yes")
	require.ErrorContains(t, err, "what was not read is as it was: 1 read failed")
	assert.Equal(t, "policy/gpu: stopped\n", out)
	assert.Contains(t, said, "The jobs were not read, and may be more than what follows: ")

	out, said, err = types(t.Context(), world(t, unlisted(nil, forbids("rolloutpolicies")), all...), "stop", "--yes")
	require.Error(t, err)
	assert.Equal(t, "job/k: cancelled\n", out)
	assert.Contains(t, said, "The policies were not read")

	out, _, err = types(t.Context(), world(t, unlisted(nil, forbids("rolloutpolicies")), all...), "resume", "--yes")
	require.Error(t, err)
	assert.Empty(t, out)

	f := heldNode()
	other := heldNode()
	other.node.Name, other.jobs[0].Spec.NodeName, other.devices[0].Spec.NodeName = "m", "m", "m"
	other.devices[0].Name, other.jobs[0].Name, other.node.Status.HeldBy, other.jobs[0].Spec.Task.Devices[0].Name = "m-nic", "mj", "mj", "m-nic"
	once := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if key.Name == "m" {
			return &url.Error{Op: "Get", URL: "https://api", Err: errors.New("connection refused")}
		}
		return c.Get(ctx, key, o, options...)
	}}
	out, said, err = types(t.Context(), world(t, once, append(objects(f), objects(other)...)...), "retry", "--all-held", "--yes")
	require.ErrorContains(t, err, "what was not read is as it was")
	assert.Equal(t, "node/n: retry requested\n", out)
	assert.Contains(t, said, "Not tried again: the cluster does not answer: ")
}

// A job that is admitted while its policy is being paused is named.
func TestAStopNamesWhatWasAdmittedMeanwhile(t *testing.T) {
	late := jobNamed("late", 1)
	admits := interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
		if err := c.Patch(ctx, o, patch, options...); err != nil {
			return err
		}
		admitted := late.DeepCopy()
		if err := c.Get(ctx, client.ObjectKey{Name: "late"}, admitted); err != nil {
			return err
		}
		admitted.Status.Conditions = []metav1.Condition{yes(v1alpha1.ConditionAdmitted)}
		return c.Update(ctx, admitted)
	}}
	_, said, err := types(t.Context(), world(t, admits, policyNamed("gpu", v1alpha1.RolloutActive), &late), "stop", "--yes")
	require.NoError(t, err)
	assert.Contains(t, said, "Admitted before its policy was paused, and not cancelled: late. To end that too, type the command again")
	_, said, err = types(t.Context(), world(t, interceptor.Funcs{}, policyNamed("gpu", v1alpha1.RolloutActive), &late), "stop", "--yes")
	require.NoError(t, err)
	assert.NotContains(t, said, "Admitted before", "it waits, and is not admitted any more")
}

// An interrupt ends it between two writes: what comes after it is not written.
func TestAnInterruptEndsItBetweenTwoWrites(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupts := interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
		interrupt()
		return c.Patch(context.WithoutCancel(ctx), o, patch, options...)
	}}
	api := world(t, interrupts, policyNamed("a", v1alpha1.RolloutActive), policyNamed("b", v1alpha1.RolloutActive))
	_, _, err := types(ctx, api, "pause", "--all", "--yes")
	require.ErrorIs(t, err, context.Canceled)
	active := 0
	for _, name := range []string{"a", "b"} {
		p := &v1alpha1.RolloutPolicy{}
		require.NoError(t, api.Get(t.Context(), client.ObjectKey{Name: name}, p))
		if isActive(p) {
			active++
		}
	}
	assert.Equal(t, 1, active)
}

// Who may not read Nodes is told what may keep the job, and is refused nothing because of it.
func TestAPolicyThatWasNotReadRefusesNothing(t *testing.T) {
	f := heldNode()
	quarantined := v1alpha1.FirmwareQuarantine{ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec:   v1alpha1.FirmwareQuarantineSpec{Digest: f.devices[0].Spec.Firmware.Digest, Model: "15b3:101d", State: v1alpha1.QuarantineActive},
		Status: v1alpha1.FirmwareQuarantineStatus{Scope: v1alpha1.QuarantinePolicies, Reports: []v1alpha1.QuarantineReport{{Job: "j", Node: "n", Policy: "storage", State: v1alpha1.ReportCounted}}}}
	f.bad = quarantine.Compute(quarantine.Facts{Quarantines: []v1alpha1.FirmwareQuarantine{quarantined}, Pool: func(string) string { return "" }})
	hidden := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if _, is := o.(*corev1.Node); is {
			return forbids("nodes")
		}
		return c.Get(ctx, key, o, options...)
	}}
	halted := policyNamed("halted", v1alpha1.RolloutActive)
	halted.Status.Rollouts = []v1alpha1.RolloutStatus{{Version: "2", HaltedTime: &metav1.Time{Time: anna.now}}}
	api := world(t, hidden, append(objects(f), &quarantined, halted, policyNamed("gpu", v1alpha1.RolloutPaused), policyNamed("storage", v1alpha1.RolloutActive))...)
	_, said, err := types(t.Context(), api, "retry", "n", "--yes")
	require.NoError(t, err)
	assert.Contains(t, said, "On n-nic nothing is flashed if the node is of a policy for which its image is quarantined (storage): kubectl firmware quarantine lift q.")
	assert.Contains(t, said, "You may not read Nodes, so it is not known whether this waits for its policy: gpu is Paused.", "a held node does not wait for a halt")
	g, err := gatherNode(t.Context(), api, "n")
	require.NoError(t, err)
	g.node.Status.HeldBy = ""
	assert.Contains(t, g.limits(), "gpu is Paused, halted has halted the update to 2.")
	g.unclear = slices.DeleteFunc(g.unclear, func(p *v1alpha1.RolloutPolicy) bool { return p.Name != "storage" })
	assert.Empty(t, g.limits())
	require.ErrorContains(t, g.mayRetry(g.job("j"), nil), "while its image is quarantined", "every policy that it may be has it")
	_, err = gatherNode(t.Context(), world(t, interceptor.Funcs{}, objects(heldNode())...), "n")
	require.NoError(t, err, "a Node that is gone hides nothing")
}

func TestAHaltKeepsNoHeldNode(t *testing.T) {
	f := heldNode()
	f.policy.Status.Rollouts = []v1alpha1.RolloutStatus{{Version: "2", HaltedTime: &metav1.Time{Time: anna.now}}}
	assert.Empty(t, f.limits())
	f.node.Status.HeldBy = ""
	assert.Contains(t, f.limits(), "Policy gpu has halted the update to 2")
	f.policy.Spec.State = v1alpha1.RolloutAborted
	assert.Contains(t, f.limits(), "It waits while policy gpu is Aborted")
}

// A retry is refused where it would do nothing, and only there.
func TestARetryThatWouldDoNothing(t *testing.T) {
	bad := func(f *nodeFacts) {
		f.bad = quarantine.Compute(quarantine.Facts{Pool: func(string) string { return "" }, Quarantines: []v1alpha1.FirmwareQuarantine{{ObjectMeta: metav1.ObjectMeta{Name: "q"},
			Spec: v1alpha1.FirmwareQuarantineSpec{Digest: f.devices[0].Spec.Firmware.Digest, Model: "15b3:101d", State: v1alpha1.QuarantineConfirmed}}}})
	}
	for name, c := range map[string]struct {
		change  func(f *nodeFacts)
		refusal string
	}{
		"the image that failed is quarantined": {bad, "quarantine lift q. To return the node to service as it is: kubectl firmware release n"},
		"another device is at fault": {func(f *nodeFacts) {
			bad(f)
			f.jobs[0].Status.Steps[0].Device = "n-x"
		}, ""},
		"nothing is wanted, and a pin only validates": {func(f *nodeFacts) { f.devices[0].Spec.Firmware.Policy = v1alpha1.PolicyValidate }, "what job j did is not desired any more"},
		"the device is gone":                          {func(f *nodeFacts) { f.devices = nil }, "what job j did is not desired any more"},
		"one of two that failed may be flashed": {func(f *nodeFacts) {
			bad(f)
			f.node.Status.HeldBy = ""
			other := *f.devices[0].DeepCopy()
			other.Name, other.Spec.Firmware.Digest = "n-x", "sha256:other"
			f.devices = append(f.devices, &other)
		}, ""},
		"an unhealthy device is judged again": {func(f *nodeFacts) {
			bad(f)
			f.node.Status.HeldBy, f.devices[0].Status.Failure.Reason, f.devices[0].Status.Failure.Digest = "", v1alpha1.ReasonUnhealthy, ""
		}, ""},
		"a failure on a device to which nothing is assigned": {func(f *nodeFacts) {
			f.node.Status.HeldBy, f.devices[0].Spec.Firmware = "", nil
		}, ""},
		"all that failed is quarantined": {func(f *nodeFacts) { bad(f); f.node.Status.HeldBy = "" }, "while its image is quarantined"},
	} {
		t.Run(name, func(t *testing.T) {
			f := heldNode()
			c.change(f)
			_, err := f.retry(anna)
			if c.refusal == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.refusal)
		})
	}
}

// A pin by which nothing could be flashed is refused, with the operator's own words.
func TestAPinThatCouldNotBeFlashed(t *testing.T) {
	image := v1alpha1.Digest("sha256:" + strings.Repeat("41", 32))
	for name, c := range map[string]struct {
		change  func(d *v1alpha1.NodeDevice, s *v1alpha1.FirmwareSource)
		refusal string
	}{
		"it could": {func(*v1alpha1.NodeDevice, *v1alpha1.FirmwareSource) {}, ""},
		"it must not be flashed over what runs": {func(_ *v1alpha1.NodeDevice, s *v1alpha1.FirmwareSource) {
			s.Spec.UpgradePaths = []v1alpha1.UpgradePath{{To: "3", From: []string{"1"}}}
		}, "device/n-nic: "},
		"it takes a power cycle": {func(d *v1alpha1.NodeDevice, _ *v1alpha1.FirmwareSource) {
			d.Status.Firmware.Activation = v1alpha1.ActivationPowerCycle
		}, "device/n-nic: "},
		"it cannot be written": {func(d *v1alpha1.NodeDevice, _ *v1alpha1.FirmwareSource) {
			d.Status.Firmware.Access = v1alpha1.AccessReadOnly
		}, "device/n-nic: "},
	} {
		t.Run(name, func(t *testing.T) {
			f := heldNode()
			d := f.devices[0]
			f.node.Status.HeldBy, f.jobs, d.Status.Failure, d.Spec.Firmware = "", nil, nil, nil
			d.Status.Class, d.Status.SerialNumber, d.Status.Firmware.Driver = v1alpha1.ClassNIC, "S", "mstflint"
			source := &v1alpha1.FirmwareSource{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
			source.Status.Images = []v1alpha1.StoredImage{{Class: v1alpha1.ClassNIC, Version: "3", Digest: image, Models: []string{"101d"}}}
			c.change(d, source)
			_, err := f.pin(d, []*v1alpha1.FirmwareSource{source}, pinOptions{version: "3"})
			if c.refusal == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.refusal)
		})
	}
}

// Where nobody reads on, what was agreed to is done all the same, and its events are there.
func TestWhatWasAgreedToIsDoneWhereNobodyReadsOn(t *testing.T) {
	api := world(t, interceptor.Funcs{}, policyNamed("a", v1alpha1.RolloutActive), policyNamed("b", v1alpha1.RolloutActive))
	s := &session{IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: closedPipe{}, ErrOut: io.Discard}, flags: genericclioptions.NewConfigFlags(true), api: api, now: anna.now.Local, random: strings.NewReader(strings.Repeat("7", 16))}
	c := s.root()
	c.SetArgs([]string{"stop", "--yes"})
	c.SetErr(io.Discard)
	require.ErrorContains(t, c.ExecuteContext(t.Context()), "print what was written: broken pipe")
	for _, name := range []string{"a", "b"} {
		p := &v1alpha1.RolloutPolicy{}
		require.NoError(t, api.Get(t.Context(), client.ObjectKey{Name: name}, p))
		assert.False(t, isActive(p), name)
	}
	var events eventsv1.EventList
	require.NoError(t, api.List(t.Context(), &events))
	assert.Len(t, events.Items, 2)
}

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWhatIsNamedTwiceIsWrittenOnce(t *testing.T) {
	out, said, err := types(t.Context(), world(t, interceptor.Funcs{}, policyNamed("gpu", v1alpha1.RolloutActive)), "pause", "gpu", "policy/gpu", "--yes")
	require.NoError(t, err)
	assert.Equal(t, "policy/gpu: paused\n", out)
	assert.Equal(t, 1, strings.Count(said, "Policy gpu begins no further job"))
	f := heldNode()
	out, _, err = types(t.Context(), world(t, interceptor.Funcs{}, objects(f)...), "retry", "n", "j", "--yes")
	require.NoError(t, err)
	assert.Equal(t, "node/n: retry requested\n", out)
	_, devices, err := gatherDevices(t.Context(), world(t, interceptor.Funcs{}, objects(f)...), []string{"n-nic", "device/n-nic"})
	require.NoError(t, err)
	assert.Equal(t, []string{"n-nic"}, namesOfDevices(devices))
}

// A stop of a large fleet asks for no job alone, and says of each whether its node was held before.
func TestAStopReadsTheJobsOnce(t *testing.T) {
	const many = 20
	all := []client.Object{policyNamed("gpu", v1alpha1.RolloutActive)}
	for i := range many {
		j := jobNamed(fmt.Sprintf("j%03d", i), i, yes(v1alpha1.ConditionAdmitted))
		j.Spec.NodeName = fmt.Sprintf("n%03d", i)
		all = append(all, &j)
	}
	held := heldNode()
	held.jobs[0].Name, held.jobs[0].Spec.NodeName = "before", "n007"
	all = append(all, &held.jobs[0])
	asked := 0
	counts := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		asked++
		return c.Get(ctx, key, o, options...)
	}}
	out, said, err := types(t.Context(), world(t, counts, all...), "stop", "--yes")
	require.NoError(t, err)
	assert.Equal(t, many+1, strings.Count(out, "\n"))
	assert.Equal(t, 1, asked, "the policy")
	assert.Contains(t, said, "Job j007 ends, and node n007 stays out of service, held by job before: it has written nothing.")
	assert.Contains(t, said, "Job j008 ends and returns node n008 to service")
}

// A bare name may be that of a kind that may be read, where others may not.
func TestANameIsLookedForInEveryKindThatMayBeRead(t *testing.T) {
	f := heldNode()
	noNodes := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if _, is := o.(*v1alpha1.NodeFirmware); is {
			return forbids("nodefirmwares")
		}
		return c.Get(ctx, key, o, options...)
	}, List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return forbids("firmwarejobs")
	}}
	api := world(t, noNodes, objects(f)...)
	o, err := lookUp(t.Context(), api, "j")
	require.NoError(t, err)
	assert.Equal(t, "job/j", named(o))
	_, err = lookUp(t.Context(), api, "x")
	require.True(t, apierrors.IsForbidden(err), "it may be a node: %v", err)
	_, err = lookUp(t.Context(), api, "job/x")
	require.ErrorContains(t, err, `there is no job "x"`)
	_, _, err = types(t.Context(), api, "wait", "j", "--timeout", "-1s")
	require.ErrorContains(t, err, "--timeout -1s: want 0")
}
