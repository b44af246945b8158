package job

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/archive"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

func entryOf(uniqueID, version, digit string) archive.Entry {
	return archive.Entry{Name: uniqueID + "/" + version + "_" + digit, Manifest: archive.Manifest{
		UniqueID: uniqueID, Class: inventory.NIC, Version: inventory.Version(version), Digest: "sha256:" + strings.Repeat(digit, 64),
	}}
}

// restoring is a node with two adapters that run 3.0 and should run 4.0, and a job that restores the first of them.
func restoring(devices ...v1alpha1.TaskDevice) state {
	f := state{
		object: &v1alpha1.FirmwareJob{Spec: v1alpha1.FirmwareJobSpec{NodeName: "n1", Task: v1alpha1.JobTask{
			Type: v1alpha1.JobTypeRestore, Devices: devices,
		}}},
		devices: map[string]v1alpha1.NodeDevice{}, records: map[string]journal.Device{},
		entries: []archive.Entry{entryOf("a", "3.0", "3"), entryOf("a", "2.0", "2"), entryOf("a", "2.0", "1"), entryOf("a", "1.0", "0"), entryOf("b", "9.0", "9")},
	}
	for _, id := range []string{"a", "b"} {
		f.devices["nic-"+id] = v1alpha1.NodeDevice{
			ObjectMeta: metav1.ObjectMeta{Name: "nic-" + id},
			Spec: v1alpha1.NodeDeviceSpec{NodeName: "n1", Firmware: &v1alpha1.DesiredFirmware{
				Version: "4.0", Digest: image("4"), Policy: v1alpha1.PolicyApply, Downgrade: v1alpha1.DowngradeForbid,
			}},
			Status: v1alpha1.NodeDeviceStatus{Class: v1alpha1.ClassNIC, UniqueID: id, Firmware: &v1alpha1.ObservedFirmware{
				Running: "3.0", Driver: "sim", VersionFormat: v1alpha1.VersionFormatDotted, Rollback: v1alpha1.RollbackReadBack,
			}},
		}
	}
	return f
}

func TestRestorePicksTheEntry(t *testing.T) {
	for name, c := range map[string]struct {
		device v1alpha1.TaskDevice
		given  func(*state)
		want   string
	}{
		"the newest that does not run":       {v1alpha1.TaskDevice{}, nil, "a/2.0_2"},
		"the last that was good":             {v1alpha1.TaskDevice{}, func(f *state) { f.records["a"] = journal.Device{LastGood: "1.0"} }, "a/1.0_0"},
		"the last that was good, as it runs": {v1alpha1.TaskDevice{}, func(f *state) { f.records["a"] = journal.Device{LastGood: "3.0"} }, "a/3.0_3"},
		"a version":                          {v1alpha1.TaskDevice{Version: "2.0"}, nil, "a/2.0_2"},
		"a digest":                           {v1alpha1.TaskDevice{Digest: image("1")}, nil, "a/2.0_1"},
		"both":                               {v1alpha1.TaskDevice{Version: "2.0", Digest: image("1")}, nil, "a/2.0_1"},
		"both, which do not agree":           {v1alpha1.TaskDevice{Version: "1.0", Digest: image("1")}, nil, ""},
		"another device's":                   {v1alpha1.TaskDevice{Version: "9.0"}, nil, ""},
		"never evidence":                     {v1alpha1.TaskDevice{Version: "1.0"}, func(f *state) { f.entries[3].Unhealthy = true }, ""},
		"never a damaged one":                {v1alpha1.TaskDevice{}, func(f *state) { f.entries[1].Err = errors.New("no image") }, "a/2.0_1"},
	} {
		t.Run(name, func(t *testing.T) {
			c.device.Name = "nic-a"
			f := restoring(c.device)
			if c.given != nil {
				c.given(&f)
			}
			got, failure := restores(f)
			if c.want == "" {
				require.NotNil(t, failure)
				assert.Equal(t, step.RollbackUnavailable, failure.Reason)
				assert.Contains(t, failure.Message, "nic-a: the archive of this node holds no image")
				return
			}
			require.Nil(t, failure, "%+v", failure)
			require.Len(t, got, 1)
			assert.Equal(t, c.want, got[0].Archived)
			assert.Equal(t, "a", got[0].UniqueID)
			assert.True(t, got[0].AllowDowngrade)
			assert.Empty(t, got[0].Origin, "no template put it there")
			assert.Equal(t, &journal.Desired{Version: "4.0", Digest: string(image("4"))}, got[0].Desired)
		})
	}
}

// Only what would be flashed over the restored version is kept away: the hop where one is due, and nothing where nothing would be.
func TestRestoreKeepsWhatWouldBeFlashedNextAway(t *testing.T) {
	f := restoring(v1alpha1.TaskDevice{Name: "nic-a", Version: "1.0"})
	d := f.devices["nic-a"]
	d.Spec.Firmware.Path = []v1alpha1.UpgradeStep{{UpgradePath: v1alpha1.UpgradePath{To: "4.0", From: []string{"1.0"}, Via: "2.5"}, Digest: image("b")}}
	got, failure := restores(f)
	require.Nil(t, failure)
	assert.Equal(t, &journal.Desired{Version: "2.5", Digest: string(image("b"))}, got[0].Desired)
	for name, desired := range map[string]*v1alpha1.DesiredFirmware{
		"nothing is desired": nil,
		"it is desired":      {Version: "1.0", Digest: image("a"), Policy: v1alpha1.PolicyApply},
		"a report only":      {Version: "4.0", Digest: image("a"), Policy: v1alpha1.PolicyValidate},
	} {
		d.Spec.Firmware = desired
		f.devices["nic-a"] = d
		got, failure = restores(f)
		require.Nil(t, failure)
		assert.Nil(t, got[0].Desired, name)
	}
	d.Spec.Firmware = &v1alpha1.DesiredFirmware{Version: "4.0", Policy: v1alpha1.PolicyApply}
	f.devices["nic-a"] = d
	got, failure = restores(f)
	require.Nil(t, failure)
	assert.Equal(t, &journal.Desired{Version: "4.0"}, got[0].Desired, "its source has no image yet")
}

// A restore returns a held node to service, so it must bring along whatever the job that holds it left behind.
func TestRestoreLeavesNothingBehind(t *testing.T) {
	held := func() *journal.Job {
		j := &journal.Job{Name: "update", Record: step.New([]plan.Step{
			{Kind: plan.Flash, Device: "nic-a"}, {Kind: plan.Flash, Device: "nic-b"}, {Kind: plan.Verify, Device: "nic-a"}, {Kind: plan.Verify, Device: "nic-b"},
		}, step.Update{Device: "nic-a"}, step.Update{Device: "nic-b"})}
		j.Record.Steps[0].Attempt = 1
		j.Record.Failure = &step.Failure{Reason: step.Unhealthy, Held: true}
		return j
	}
	one, two := []v1alpha1.TaskDevice{{Name: "nic-a"}}, []v1alpha1.TaskDevice{{Name: "nic-a"}, {Name: "nic-b"}}
	for name, c := range map[string]struct {
		devices []v1alpha1.TaskDevice
		given   func(*state)
		refused bool
	}{
		"nothing was done to the other":   {one, func(*state) {}, false},
		"the other was written":           {one, func(f *state) { f.stays.Record.Steps[1].Attempt = 1 }, true},
		"it was written, and is restored": {two, func(f *state) { f.stays.Record.Steps[1].Attempt = 1 }, false},
		"it was written and read back": {one, func(f *state) {
			f.stays.Record.Steps[1].Attempt, f.stays.Record.Steps[3].State = 1, step.Succeeded
		}, false},
		"it is unhealthy": {one, func(f *state) { f.records["b"] = journal.Device{Unhealthy: &journal.UnhealthyMark{Job: "update"}} }, true},
		"a person cleared that": {one, func(f *state) {
			f.records["b"], f.retry = journal.Device{Unhealthy: &journal.UnhealthyMark{}}, "mended"
		}, false},
		"it is unhealthy, and nobody holds": {one, func(f *state) { f.records["b"], f.stays = journal.Device{Unhealthy: &journal.UnhealthyMark{}}, nil }, false},
		"an earlier restore took it over and wrote nothing": {one, func(f *state) {
			f.stays.Record.Inherited, f.stays.Updates = true, []journal.Update{{Device: "nic-a"}, {Device: "nic-b"}}
		}, true},
		"an earlier restore of this one took it over": {one, func(f *state) {
			f.stays.Record.Inherited, f.stays.Updates = true, []journal.Update{{Device: "nic-a"}}
		}, false},
		"the other is gone": {one, func(f *state) {
			f.stays.Record.Steps[1].Attempt = 1
			delete(f.devices, "nic-b")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := restoring(c.devices...)
			f.stays = held()
			f.entries = append(f.entries, entryOf("b", "2.0", "8"))
			c.given(&f)
			_, failure := restores(f)
			if !c.refused {
				require.Nil(t, failure, "%+v", failure)
				return
			}
			require.NotNil(t, failure)
			assert.Equal(t, step.JobRejected, failure.Reason)
			assert.Contains(t, failure.Message, "nic-b: job update, which holds the node")
		})
	}
	f := restoring(two...)
	f.stays = held()
	f.stays.Record.Failure = &step.Failure{Reason: step.JobRejected, Held: true}
	_, failure := restores(f)
	require.NotNil(t, failure)
	assert.Contains(t, failure.Message, "nobody knows what job update, which holds the node, has done")

}

// A restore ends no hold that is about other devices, or about the host.
func TestRestoreEndsNoOtherHold(t *testing.T) {
	flash := []plan.Step{{Kind: plan.Flash, Device: "nic-b"}, {Kind: plan.Verify, Device: "nic-b"}, {Kind: "of-host", Task: true, Changes: true}}
	for name, c := range map[string]struct {
		given   func(*journal.Job)
		refused bool
	}{
		"steps of the host": {func(j *journal.Job) {
			j.Requested, j.Record.Failure.Step = []journal.RequestedStep{{Name: "of-host"}}, "of-host"
		}, true},
		"steps of the host, after one of the device": {func(j *journal.Job) {
			j.Requested, j.Record.Failure.Step = []journal.RequestedStep{{Name: "of-host"}}, "of-host"
			j.Record.Steps = append(j.Record.Steps, step.Step{Step: plan.Step{Kind: "reset", Device: "nic-a", Task: true, Changes: true}, State: step.Succeeded, Attempt: 1})
		}, true},
		"steps of the device": {func(j *journal.Job) {
			j.Requested, j.Record.Failure.Device = []journal.RequestedStep{{Name: "look", Device: "nic-a"}}, "nic-a"
		}, false},
		"an update of another device that was read back": {func(j *journal.Job) {
			j.Record.Steps[0].Attempt, j.Record.Steps[1].State = 1, step.Succeeded
		}, true},
		"an update that failed on the device before a write": {func(j *journal.Job) { j.Record.Failure.Device = "nic-a" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := restoring(v1alpha1.TaskDevice{Name: "nic-a"})
			f.stays = &journal.Job{Name: "other", Record: step.New(flash)}
			f.stays.Record.Failure = &step.Failure{Reason: step.StepFailed, Held: true}
			c.given(f.stays)
			_, failure := restores(f)
			if !c.refused {
				require.Nil(t, failure, "%+v", failure)
				return
			}
			require.NotNil(t, failure)
			assert.Equal(t, step.JobRejected, failure.Reason)
			assert.Contains(t, failure.Message, "job other holds the node for something other")
		})
	}
}

func TestJobsOfPersonsAreForDevicesOfTheNode(t *testing.T) {
	for want, u := range map[string]v1alpha1.TaskDevice{
		"node n1 has no NodeDevice of that name":            {Name: "nic-z"},
		"the job is for the device with the id z, but this": {Name: "nic-a", UniqueID: "z"},
	} {
		_, failure := restores(restoring(u))
		require.NotNil(t, failure)
		assert.Contains(t, failure.Message, want)
		_, failure = backups(restoring(u))
		require.NotNil(t, failure)
		assert.Contains(t, failure.Message, want)
	}
	all, failure := backups(restoring())
	require.Nil(t, failure)
	require.Len(t, all, 2)
	assert.Equal(t, []string{"nic-a", "nic-b"}, []string{all[0].Device, all[1].Device})
	assert.Empty(t, all[0].Archived)
	_, failure = backups(state{object: restoring().object})
	require.NotNil(t, failure)
}

// The settings of the entry come back with its image, in place of those that are declared.
func TestRestoreTakesTheSettingsOfTheEntry(t *testing.T) {
	f := restoring(v1alpha1.TaskDevice{Name: "nic-a"})
	got, failure := restores(f)
	require.Nil(t, failure)
	assert.False(t, got[0].ArchivedSettings)

	f.entries[1].Manifest.Settings = []archive.Setting{{Name: "NUM_OF_VFS", Value: "4"}}
	got, _ = restores(f)
	assert.True(t, got[0].ArchivedSettings && got[0].Configures())
	assert.Empty(t, got[0].Configuration)

	d := f.devices["nic-a"]
	d.Spec.Configuration = &v1alpha1.DesiredConfiguration{Policy: v1alpha1.PolicyApply, Settings: v1alpha1.Settings{NumVFs: new(int32)}}
	f.devices["nic-a"] = d
	got, _ = restores(f)
	assert.Equal(t, string(d.Spec.Configuration.Digest()), got[0].Configuration)
	assert.Equal(t, []string{"numVFs"}, got[0].Declared)
}
