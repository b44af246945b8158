package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/driver"
	"github.com/nodefirmware/node-firmware-operator/pkg/host"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// settings are those of the devices of a machine, all of them the same.
type settings struct {
	mu    *sync.Mutex
	all   []inventory.Parameter
	err   error
	asked []string
	// refuses is why the device takes nothing, and given what it was given.
	refuses error
	// before is called before the guard is asked.
	before func()
	given  []inventory.Setting
}

func (s *settings) Configure(_ context.Context, d inventory.Device, guard host.Guard, set []inventory.Setting) error {
	if s.before != nil {
		s.before()
	}
	if err := guard(d.Identity); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = append(s.given, set...)
	if s.refuses != nil {
		return s.refuses
	}
	for _, is := range set {
		p := inventory.FindParameter(s.all, is.Name)
		p.Current, p.Next = inventory.Read(is.Value), inventory.Read(is.Value)
	}
	return nil
}

func (s *settings) Parameters(_ context.Context, d inventory.Device, guard host.Guard) ([]inventory.Parameter, error) {
	if err := guard(d.Identity); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, d.UniqueID)
	return s.all, s.err
}

func parameter(name, current, next string) inventory.Parameter {
	return inventory.Parameter{
		Name: name, Current: inventory.Read(current), Next: inventory.Read(next), Default: inventory.Read("0"), Needs: inventory.ActivateReboot,
	}
}

// tuned is a bench with a card that has the parameters numVFs=4, A=1 and B=2, of which 0 is the default.
func tuned(t *testing.T) *bench {
	b := newBench(t)
	b.settings = &settings{mu: &b.mu, all: []inventory.Parameter{parameter("A", "1", "1"), parameter("B", "2", "2"), parameter("numVFs", "4", "4")}}
	b.restart()
	return b
}

// configure declares settings for the card, and shows them to the daemon.
func (b *bench) configure(t *testing.T, c *v1alpha1.DesiredConfiguration) {
	t.Helper()
	d := b.device(t, "n1-nic-aa")
	firmware := d.Spec.Origin
	if d.Spec.Firmware == nil {
		firmware = nil
	}
	d.Spec.Configuration, d.Spec.Origin = c, append([]v1alpha1.Origin{}, firmware[:min(len(firmware), 2)]...)
	if c != nil {
		d.Spec.Origin = append(d.Spec.Origin, tuning(c))
	}
	d.Generation++
	require.NoError(t, b.client.Update(t.Context(), d))
	b.Changed()
}

// tuning is what the settings come from.
func tuning(c *v1alpha1.DesiredConfiguration) v1alpha1.Origin {
	return v1alpha1.Origin{Kind: v1alpha1.OriginConfiguration, Name: "tuning", Rule: "cards", Hash: v1alpha1.ImageHash(c.Digest())}
}

func numVFs(n int32) *v1alpha1.DesiredConfiguration {
	return &v1alpha1.DesiredConfiguration{Policy: v1alpha1.PolicyApply, Settings: v1alpha1.Settings{NumVFs: &n}}
}

func parameters(pairs ...string) *v1alpha1.DesiredConfiguration {
	c := &v1alpha1.DesiredConfiguration{Policy: v1alpha1.PolicyApply}
	for i := 0; i < len(pairs); i += 2 {
		c.Parameters = append(c.Parameters, v1alpha1.ParameterValue{Name: pairs[i], Value: pairs[i+1]})
	}
	return c
}

// configured declares settings, and scans until their device was asked.
func (b *bench) configured(t *testing.T, c *v1alpha1.DesiredConfiguration) v1alpha1.NodeDeviceStatus {
	t.Helper()
	b.configure(t, c)
	b.seen(t)
	b.seen(t)
	return b.device(t, "n1-nic-aa").Status
}

// TestAsksForParametersWhereSettingsAreDesired: at rest, no tool is called for a device of which no settings are desired; where some are, one
// scan more is made, and nothing is written again.
func TestAsksForParametersWhereSettingsAreDesired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tuned(t)
		run(t, b)
		time.Sleep(58 * time.Minute)
		assert.Empty(t, b.settings.asked)
		scans, writes := b.scans(), b.written()
		b.configure(t, numVFs(4))
		time.Sleep(time.Second)
		assert.Equal(t, scans+1, b.scans())
		assert.Equal(t, []string{"aa"}, b.settings.asked)
		is := b.device(t, "n1-nic-aa").Status
		assert.Equal(t, &v1alpha1.ObservedConfiguration{Digest: numVFs(4).Digest(), State: v1alpha1.ConfigurationUpToDate}, is.Configuration)
		assert.Equal(t, []v1alpha1.ObservedParameter{{Name: "numVFs", Current: ptr.To("4"), Next: ptr.To("4")}}, is.Parameters)
		assert.Equal(t, "Its 1 setting is in force.", b.ready(t, "n1-nic-aa").Message)
		assert.Equal(t, []v1alpha1.Origin{tuning(numVFs(4))}, is.Applied.Origin)
		assert.Equal(t, "3 devices found; all 1 with assigned firmware or settings have them.",
			meta.FindStatusCondition(b.node(t).Status.Conditions, v1alpha1.ConditionReady).Message)
		assert.Empty(t, is.Applied.Digest)
		assert.LessOrEqual(t, b.written()-writes, 3, "the device, and the node that has one more with something desired, and then another baseline")

		writes = b.written()
		time.Sleep(50 * time.Minute)
		assert.Equal(t, scans+11, b.scans(), "one each five minutes")
		assert.LessOrEqual(t, b.written()-writes, 1, "the time of the last scan")
		assert.Len(t, b.settings.asked, 11)

		b.settings.err = errors.New("the tool said no")
		time.Sleep(5 * time.Minute)
		assert.Equal(t, v1alpha1.ReasonReadFailed, b.ready(t, "n1-nic-aa").Reason)
		assert.Equal(t, is.Configuration, b.device(t, "n1-nic-aa").Status.Configuration, "what was read last")
		assert.Equal(t, is.Parameters, b.device(t, "n1-nic-aa").Status.Parameters)
		assert.Equal(t, scans+12, b.scans(), "what fails is tried with the next scan")

		b.configure(t, nil)
		time.Sleep(time.Second)
		is = b.device(t, "n1-nic-aa").Status
		assert.Nil(t, is.Configuration)
		assert.Empty(t, is.Parameters)
		assert.Equal(t, v1alpha1.ReasonNotAssigned, b.ready(t, "n1-nic-aa").Reason)
		asked := len(b.settings.asked)
		time.Sleep(time.Hour)
		assert.Len(t, b.settings.asked, asked)
	})
}

// TestADaemonThatStartsKeepsWhatItReadUntilItAsks: the status of a device that has its settings does not change because the daemon starts.
func TestADaemonThatStartsKeepsWhatItReadUntilItAsks(t *testing.T) {
	b := tuned(t)
	b.seen(t)
	b.configured(t, numVFs(4))
	before, writes := b.device(t, "n1-nic-aa").Status, b.writes
	b.restart()
	b.seen(t)
	assert.Equal(t, before, b.device(t, "n1-nic-aa").Status)
	b.seen(t)
	assert.Equal(t, before, b.device(t, "n1-nic-aa").Status)
	assert.LessOrEqual(t, b.writes-writes, 2, "the time of two requested scans")
}

func TestSettingsAreObserved(t *testing.T) {
	reset := func(c *v1alpha1.DesiredConfiguration) *v1alpha1.DesiredConfiguration {
		c.Unlisted = v1alpha1.UnlistedReset
		return c
	}
	validate := func(c *v1alpha1.DesiredConfiguration) *v1alpha1.DesiredConfiguration {
		c.Policy = v1alpha1.PolicyValidate
		return c
	}
	seen := func(name, value string) v1alpha1.ObservedParameter {
		return v1alpha1.ObservedParameter{Name: name, Current: &value, Next: &value}
	}
	outOfDate := v1alpha1.ObservedConfiguration{State: v1alpha1.ConfigurationOutOfDate, Activation: v1alpha1.ActivationReboot}
	invalid := v1alpha1.ObservedConfiguration{State: v1alpha1.ConfigurationInvalid}
	for name, tc := range map[string]struct {
		want       *v1alpha1.DesiredConfiguration
		is         v1alpha1.ObservedConfiguration
		parameters []v1alpha1.ObservedParameter
		reason     string
		says       string
	}{
		"they differ": {numVFs(8), outOfDate, []v1alpha1.ObservedParameter{seen("numVFs", "4")}, v1alpha1.ReasonPending, "(Reboot): numVFs is 4 instead of 8"},
		"they differ and that is reported": {validate(parameters("B", "2", "A", "0")), outOfDate,
			[]v1alpha1.ObservedParameter{seen("A", "1"), seen("B", "2")}, v1alpha1.ReasonOutOfDate, "A is 1 instead of 0."},
		"others are to be reset": {reset(numVFs(4)), outOfDate,
			[]v1alpha1.ObservedParameter{seen("A", "1"), seen("B", "2"), seen("numVFs", "4")}, v1alpha1.ReasonPending, "A is 1 instead of 0, B is 2 instead of 0."},
		"a misspelled name": {parameters("numVF", "4", "A", "1"), invalid, []v1alpha1.ObservedParameter{seen("A", "1")},
			v1alpha1.ReasonParameterInvalid, "the device has no parameter numVF: the nearest are numVFs"},
		"a name in other letters": {parameters("a", "1"), invalid, nil, v1alpha1.ReasonParameterInvalid, "no parameter a"},
	} {
		t.Run(name, func(t *testing.T) {
			b := tuned(t)
			b.seen(t)
			is := b.configured(t, tc.want)
			tc.is.Digest = tc.want.Digest()
			assert.Equal(t, &tc.is, is.Configuration)
			assert.Equal(t, tc.parameters, is.Parameters)
			assert.Equal(t, tc.reason, b.ready(t, "n1-nic-aa").Reason)
			assert.Contains(t, b.ready(t, "n1-nic-aa").Message, tc.says)
			assert.Nil(t, is.Applied, "they are not in force")
		})
	}
}

// TestANameThatComesWithFirmware: what the running firmware does not know may come with the one that is due.
func TestANameThatComesWithFirmware(t *testing.T) {
	b := tuned(t)
	b.seen(t)
	b.assign(t, v1alpha1.DesiredFirmware{Version: "22.41.1000"})
	is := b.configured(t, parameters("NEW", "1"))
	assert.Equal(t, &v1alpha1.ObservedConfiguration{Digest: parameters("NEW", "1").Digest(), State: v1alpha1.ConfigurationOutOfDate}, is.Configuration)
	assert.Contains(t, b.ready(t, "n1-nic-aa").Message, "the update to 22.41.1000 waits")
	b.host.found.Devices[0].Firmware.Running, b.host.found.Devices[0].Firmware.Stored = "22.41.1000", "22.41.1000"
	b.seen(t)
	is = b.device(t, "n1-nic-aa").Status
	assert.Equal(t, v1alpha1.ConfigurationInvalid, is.Configuration.State)
	assert.Equal(t, []v1alpha1.OriginKind{v1alpha1.OriginTemplate, v1alpha1.OriginSource}, kinds(is.Applied.Origin))

	b.settings.all = append(b.settings.all, parameter("NEW", "1", "1"))
	b.seen(t)
	is = b.device(t, "n1-nic-aa").Status
	assert.Equal(t, "Runs 22.41.1000 as desired, and its 1 setting is in force.", b.ready(t, "n1-nic-aa").Message)
	assert.Equal(t, []v1alpha1.OriginKind{v1alpha1.OriginTemplate, v1alpha1.OriginSource, v1alpha1.OriginConfiguration}, kinds(is.Applied.Origin))
}

func kinds(origin []v1alpha1.Origin) (out []v1alpha1.OriginKind) {
	for _, o := range origin {
		out = append(out, o.Kind)
	}
	return out
}

// What desires other settings takes no place of what those in force came from while these cannot be read.
func TestUnreadSettingsComeFromWhereTheyDid(t *testing.T) {
	b := tuned(t)
	b.seen(t)
	was := b.configured(t, numVFs(4)).Applied
	require.Equal(t, []v1alpha1.OriginKind{v1alpha1.OriginConfiguration}, kinds(was.Origin))
	b.settings.err = errors.New("the tool said no")
	is := b.configured(t, numVFs(8))
	assert.Equal(t, numVFs(4).Digest(), is.Configuration.Digest)
	assert.Equal(t, was, is.Applied)
	assert.Equal(t, v1alpha1.ReasonReadFailed, b.ready(t, "n1-nic-aa").Reason)
}

// TestADeviceWithoutSettings: that a device has no settings is no failure that passes.
func TestADeviceWithoutSettings(t *testing.T) {
	b := tuned(t)
	b.seen(t)
	b.settings.err = fmt.Errorf("driver nvme reads and changes no settings: %w", driver.ErrNotSupported)
	is := b.configured(t, numVFs(4))
	assert.Equal(t, &v1alpha1.ObservedConfiguration{Digest: numVFs(4).Digest(), State: v1alpha1.ConfigurationInvalid}, is.Configuration)
	assert.Contains(t, b.ready(t, "n1-nic-aa").Message, "ConfigurationTemplate: driver nvme reads and changes no settings.")
}

// TestParametersAreNotReadWhileTheirDeviceIsWritten: they wait for the end of the write, as the device itself does.
func TestParametersAreNotReadWhileTheirDeviceIsWritten(t *testing.T) {
	b := tuned(t)
	b.seen(t)
	b.configured(t, numVFs(4))
	asked := len(b.settings.asked)
	writing := journal.Job{Name: "j", Updates: []journal.Update{{Device: "n1-nic-aa", UniqueID: "aa", Class: inventory.NIC}}, Record: step.Record{
		Steps: []step.Step{{Step: plan.Step{Kind: plan.Configure, Device: "n1-nic-aa", Changes: true}, State: step.Running}},
	}}
	b.book.view = journal.View{Jobs: []journal.Job{writing}}
	b.seen(t)
	assert.Len(t, b.settings.asked, asked)
	is := b.device(t, "n1-nic-aa").Status
	assert.Equal(t, v1alpha1.ConfigurationUpToDate, is.Configuration.State, "what was read last")
	assert.Equal(t, v1alpha1.ReasonProgressing, b.ready(t, "n1-nic-aa").Reason)
}

// TestObservedParametersAreBounded: the API server takes what a device says, however much that is.
func TestObservedParametersAreBounded(t *testing.T) {
	b := tuned(t)
	b.seen(t)
	long := strings.Repeat("v", 600)
	b.settings.all = []inventory.Parameter{parameter("zz", long, long), parameter(strings.Repeat("n", 129), "1", "1")}
	for i := range 200 {
		b.settings.all = append(b.settings.all, parameter(fmt.Sprintf("P%03d", i), "1", "1"))
	}
	c := parameters("zz", "1")
	c.Unlisted = v1alpha1.UnlistedReset
	is := b.configured(t, c)
	require.Len(t, is.Parameters, 160)
	assert.Equal(t, "zz", is.Parameters[159].Name, "what is declared comes first")
	assert.LessOrEqual(t, len(*is.Parameters[159].Current), 512)
	assert.LessOrEqual(t, len(b.ready(t, "n1-nic-aa").Message), 1024)
}

// TestFailedSettingsAreKeptAway: a failure of the settings stays in the status until others are desired, a retry is requested, or they are in
// force, also where the journal is lost.
func TestFailedSettingsAreKeptAway(t *testing.T) {
	b := tuned(t)
	b.seen(t)
	b.configured(t, numVFs(8))
	remember := func(digest v1alpha1.Digest) {
		b.book.view = journal.View{Devices: map[string]journal.Device{"aa": {UniqueID: "aa", SettingsFailure: &journal.Failure{
			Digest: string(digest), Reason: "VerifyFailed", Message: "the device has numVFs 4 instead of 8", Job: "j", Time: noon, Retry: ptr.To("first"),
		}}}}
	}
	is := func() *v1alpha1.ObservedConfiguration {
		b.seen(t)
		return b.device(t, "n1-nic-aa").Status.Configuration
	}
	remember(numVFs(8).Digest())
	require.NotNil(t, is().Failure)
	assert.Equal(t, numVFs(8).Digest(), is().Failure.Digest)
	assert.Equal(t, "first", is().Failure.Request)
	assert.Equal(t, v1alpha1.ReasonUpdateFailed, b.ready(t, "n1-nic-aa").Reason)
	assert.Contains(t, b.ready(t, "n1-nic-aa").Message, "(VerifyFailed: the device has numVFs 4 instead of 8)")
	assert.Nil(t, b.device(t, "n1-nic-aa").Status.Failure, "nothing is wrong with its firmware")

	b.book.view.Devices["aa"].SettingsFailure.Reason = v1alpha1.ReasonRestored
	b.seen(t)
	assert.Equal(t, v1alpha1.ReasonRestored, b.ready(t, "n1-nic-aa").Reason)
	assert.Contains(t, b.ready(t, "n1-nic-aa").Message, "A person restored archived settings")
	b.settings.all[2].Current, b.settings.all[2].Next = inventory.Read("8"), inventory.Read("8")
	assert.Nil(t, is().Failure, "what was restored is what is declared")
	b.settings.all[2].Current, b.settings.all[2].Next = inventory.Read("4"), inventory.Read("4")
	remember(numVFs(8).Digest())
	require.NotNil(t, is().Failure)

	b.book.view = journal.View{}
	require.NotNil(t, is().Failure, "the journal was lost")
	b.settings.err = errors.New("the tool said no")
	require.NotNil(t, is().Failure)
	b.settings.err = nil

	n := b.node(t)
	n.Spec.Requests.Retry = "second"
	require.NoError(t, b.client.Update(t.Context(), n))
	assert.Nil(t, is().Failure, "a retry is requested")
	assert.Equal(t, v1alpha1.ReasonPending, b.ready(t, "n1-nic-aa").Reason)
	n = b.node(t)
	n.Spec.Requests.Retry = ""
	require.NoError(t, b.client.Update(t.Context(), n))

	remember(numVFs(8).Digest())
	require.NotNil(t, is().Failure)
	b.configure(t, numVFs(16))
	assert.Nil(t, is().Failure, "others are desired")
	b.configure(t, numVFs(8))
	require.NotNil(t, is().Failure)
	b.book.view = journal.View{Devices: map[string]journal.Device{"aa": {UniqueID: "aa"}}}
	b.settings.all[2] = parameter("numVFs", "8", "8")
	assert.Equal(t, &v1alpha1.ObservedConfiguration{Digest: numVFs(8).Digest(), State: v1alpha1.ConfigurationUpToDate}, is(), "a later job succeeded")
}

// TestSettingsThatAFlashChangedAreReported: with what they were, for the one device that has some, until it stores that again or somebody declares
// them. Nothing else is asked for that.
func TestSettingsThatAFlashChangedAreReported(t *testing.T) {
	b := tuned(t)
	b.seen(t)
	require.Empty(t, b.settings.asked)
	b.book.view = journal.View{Devices: map[string]journal.Device{"aa": {UniqueID: "aa", Drift: []journal.Setting{
		{Name: "A", Value: "7"}, {Name: "B", Value: ""}, {Name: "numVFs", Value: "4"}, {Name: "GONE", Value: "1"},
	}}}}
	baseline := b.node(t).Status.Baseline
	b.seen(t)
	assert.Equal(t, []string{"aa"}, b.settings.asked)
	drifted := func(name, is, was string) v1alpha1.ObservedParameter {
		return v1alpha1.ObservedParameter{Name: name, Current: &is, Next: &is, Was: &was}
	}
	is := b.device(t, "n1-nic-aa").Status
	assert.Equal(t, []v1alpha1.ObservedParameter{drifted("A", "1", "7"), drifted("B", "2", "")}, is.Parameters)
	ready := b.ready(t, "n1-nic-aa")
	assert.Equal(t, v1alpha1.ReasonNotAssigned, ready.Reason)
	assert.Contains(t, ready.Message, "The update of its firmware changed 2 settings that nobody declares; declare the old values")
	assert.Contains(t, ready.Message, "A is 1 and was 7, B is 2 and was empty.")
	assert.Equal(t, baseline, b.node(t).Status.Baseline)

	b.settings.err = errors.New("the tool said no")
	b.seen(t)
	assert.Equal(t, is.Parameters, b.device(t, "n1-nic-aa").Status.Parameters, "what was read last")
	b.settings.err = nil

	is = b.configured(t, parameters("A", "1"))
	assert.Equal(t, []v1alpha1.ObservedParameter{{Name: "A", Current: ptr.To("1"), Next: ptr.To("1")}, drifted("B", "2", "")}, is.Parameters)
	assert.Contains(t, b.ready(t, "n1-nic-aa").Message, "Its 1 setting is in force. The update of its firmware changed 1 setting")
	b.settings.err = errors.New("the tool said no")
	b.seen(t)
	assert.Equal(t, is.Parameters, b.device(t, "n1-nic-aa").Status.Parameters)
	b.settings.err = nil
	all := parameters("A", "1")
	all.Unlisted = v1alpha1.UnlistedReset
	b.configured(t, all)
	assert.NotContains(t, b.ready(t, "n1-nic-aa").Message, "nobody declares")

	b.configure(t, nil)
	b.settings.all = []inventory.Parameter{parameter("A", "7", "7"), parameter("B", "", "")}
	b.seen(t)
	assert.Empty(t, b.device(t, "n1-nic-aa").Status.Parameters)
	assert.NotContains(t, b.ready(t, "n1-nic-aa").Message, "nobody declares")
	asked := len(b.settings.asked)
	b.seen(t)
	assert.Len(t, b.settings.asked, asked, "it is as it was, and need not be asked again")
}
