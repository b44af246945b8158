package planner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// configured is the device with settings that are to be in force, and how far they are.
func configured(d *v1alpha1.NodeDevice, vfs int32, state v1alpha1.ConfigurationState) *v1alpha1.NodeDevice {
	d.Spec.Configuration = &v1alpha1.DesiredConfiguration{
		Policy: v1alpha1.PolicyApply, Settings: v1alpha1.Settings{NumVFs: ptr.To(vfs)}, Unlisted: v1alpha1.UnlistedKeep,
	}
	d.Spec.Origin = append(d.Spec.Origin, v1alpha1.Origin{Kind: v1alpha1.OriginConfiguration, Name: "c", Rule: "r"})
	look(d, state)
	return d
}

// look is what the daemon says of the settings that are declared.
func look(d *v1alpha1.NodeDevice, state v1alpha1.ConfigurationState) {
	d.Status.Configuration = &v1alpha1.ObservedConfiguration{Digest: d.Spec.Configuration.Digest(), State: state}
}

// R001-24, R001-9: settings that are not in force are due, alone or with the firmware of their device in one job.
func TestSettingsAreDueWithFirmwareInOneJob(t *testing.T) {
	w := newWorld(t,
		configured(device("a", 0), 8, v1alpha1.ConfigurationOutOfDate), configured(device("b", 2), 8, v1alpha1.ConfigurationOutOfDate),
		configured(device("c", 2), 8, v1alpha1.ConfigurationUpToDate), configured(device("d", 2), 8, v1alpha1.ConfigurationInvalid),
		configured(device("e", 0), 8, v1alpha1.ConfigurationInvalid), configured(device("f", 1), 8, v1alpha1.ConfigurationUpToDate),
		device("g", 2),
	)
	w.settle()
	jobs := w.jobs()
	require.Len(t, jobs, 1)
	want := configured(device("a", 0), 8, "").Spec.Configuration.Digest()
	got := map[string][2]v1alpha1.Digest{}
	for _, u := range jobs[0].Spec.Task.Devices {
		got[u.Name] = [2]v1alpha1.Digest{u.Digest, u.Configuration}
	}
	assert.Equal(t, map[string][2]v1alpha1.Digest{
		node + "-a": {"", want}, node + "-b": {digest(2), want}, // firmware may reset what is in force:
		node + "-c": {digest(2), want}, node + "-d": {digest(2), ""}, node + "-g": {digest(2), ""},
	}, got)
}

func TestSettingsThatAreOnlyValidatedAreNeverDue(t *testing.T) {
	d := configured(device("a", 0), 8, v1alpha1.ConfigurationOutOfDate)
	d.Spec.Configuration.Policy = v1alpha1.PolicyValidate
	unknown := configured(device("b", 0), 8, "")
	unknown.Status.Configuration = nil
	w := newWorld(t, d, unknown)
	w.settle()
	assert.Empty(t, w.jobs())
}

// Other settings replace a queued job: the daemon would refuse the old ones.
func TestAnEditOfSettingsReplacesTheQueuedJob(t *testing.T) {
	w := newWorld(t, configured(device("a", 0), 8, v1alpha1.ConfigurationOutOfDate))
	w.settle()
	require.Len(t, w.jobs(), 1)
	first := w.jobs()[0]
	w.edit("a", func(d *v1alpha1.NodeDevice) { d.Spec.Configuration.Settings.NumVFs = ptr.To[int32](9) })
	w.settle()
	assert.Nil(t, w.queued(), "the daemon has not compared them yet")
	w.edit("a", func(d *v1alpha1.NodeDevice) { look(d, v1alpha1.ConfigurationOutOfDate) })
	w.settle()
	w.settle()
	require.Len(t, w.jobs(), 1)
	second := w.jobs()[0]
	assert.NotEqual(t, first.Name, second.Name)
	assert.NotEqual(t, first.Spec.Task.Devices[0].Configuration, second.Spec.Task.Devices[0].Configuration)

	w.edit("a", func(d *v1alpha1.NodeDevice) { // the operator was away meanwhile
		d.Spec.Configuration.Settings.NumVFs = ptr.To[int32](10)
		look(d, v1alpha1.ConfigurationOutOfDate)
	})
	w.settle()
	w.settle()
	require.NotNil(t, w.queued())
	assert.NotEqual(t, second.Spec.Task.Devices[0].Configuration, w.queued().Spec.Task.Devices[0].Configuration)
}

// Settings that failed wait for a person, and do not keep firmware from the device; firmware that failed does not keep settings from it.
func TestFailedSettingsAndFailedFirmwareDoNotBlockEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		step           string
		firmware, sets bool
	}{
		"settings": {"configure", true, false},
		"firmware": {"flash", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, configured(device("a", 2), 8, v1alpha1.ConfigurationOutOfDate))
			w.settle()
			require.Len(t, w.jobs(), 1)
			w.set(w.queued(), []v1alpha1.JobStep{{Name: c.step, Device: node + "-a", State: v1alpha1.StepFailed}}, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed)
			w.clock = w.clock.Add(24 * time.Hour)
			w.settle()
			w.settle()
			next := w.queued()
			require.NotNil(t, next)
			require.Len(t, next.Spec.Task.Devices, 1)
			assert.Equal(t, c.firmware, next.Spec.Task.Devices[0].Digest != "")
			assert.Equal(t, c.sets, next.Spec.Task.Devices[0].Configuration != "")
			w.set(next, nil, v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete)
			w.edit("a", func(d *v1alpha1.NodeDevice) {
				if c.firmware {
					d.Status.Firmware.Running = "2"
				} else {
					d.Status.Configuration.State = v1alpha1.ConfigurationUpToDate
				}
			})
			w.settle()
			assert.Nil(t, w.queued(), "what failed waits for a person")
			w.retry()
			w.settle()
			assert.NotNil(t, w.queued())
		})
	}
}

// Settings that are not in force may need the last version: on the way to it they are left.
func TestSettingsWaitForTheLastHop(t *testing.T) {
	d := configured(device("a", 3), 8, v1alpha1.ConfigurationOutOfDate)
	d.Spec.Firmware.Path = []v1alpha1.UpgradeStep{{UpgradePath: v1alpha1.UpgradePath{To: "3", From: []string{"1"}, Via: "2"}, Digest: digest(2)}}
	w := newWorld(t, d)
	w.settle()
	require.NotNil(t, w.queued())
	assert.Equal(t, "2", w.queued().Spec.Task.Devices[0].Version)
	assert.Empty(t, w.queued().Spec.Task.Devices[0].Configuration)
	w.set(w.queued(), nil, v1alpha1.ConditionAdmitted, v1alpha1.ConditionComplete)
	w.edit("a", func(d *v1alpha1.NodeDevice) { d.Status.Firmware.Running = "2" })
	w.settle()
	require.NotNil(t, w.queued())
	assert.Equal(t, "3", w.queued().Spec.Task.Devices[0].Version)
	assert.Equal(t, d.Spec.Configuration.Digest(), w.queued().Spec.Task.Devices[0].Configuration)
}

// A node that settings hold gets a job when they are declared otherwise, or on request.
func TestANodeThatSettingsHoldGetsOtherSettings(t *testing.T) {
	w := newWorld(t, configured(device("a", 0), 8, v1alpha1.ConfigurationOutOfDate))
	w.settle()
	held := w.queued()
	w.set(held, []v1alpha1.JobStep{{Name: "verify", Device: node + "-a", State: v1alpha1.StepFailed}}, v1alpha1.ConditionAdmitted, v1alpha1.ConditionFailed, v1alpha1.ConditionHeld)
	w.settle()
	assert.Nil(t, w.queued())
	w.edit("a", func(d *v1alpha1.NodeDevice) {
		d.Spec.Configuration.Settings.NumVFs = ptr.To[int32](9)
		look(d, v1alpha1.ConfigurationOutOfDate)
	})
	w.settle()
	require.NotNil(t, w.queued())
	assert.Equal(t, held.Name, w.queued().Spec.Task.Follows)

	w.edit("a", func(d *v1alpha1.NodeDevice) {
		d.Spec.Configuration.Settings.NumVFs = ptr.To[int32](8)
		look(d, v1alpha1.ConfigurationOutOfDate)
	})
	w.settle()
	w.settle()
	assert.Nil(t, w.queued(), "the same settings")
	w.edit("a", func(d *v1alpha1.NodeDevice) { d.Status.Configuration.State = v1alpha1.ConfigurationUpToDate })
	w.retry()
	w.settle()
	require.NotNil(t, w.queued(), "a retry repeats the job though the settings are in force, because only a job returns the node to service")
	assert.Equal(t, held.Spec.Task.Devices[0].Configuration, w.queued().Spec.Task.Devices[0].Configuration)
}
