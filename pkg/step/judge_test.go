package step_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// What may be wrong with a node. The job has nic, disk, bios and raid; s6 and eth9 are devices that it does not have.
var (
	nicLink    = about(step.LinkSubject, "nic", inventory.NIC, true)
	nicGateway = about(step.GatewaySubject, "nic", inventory.NIC, true)
	nicGone    = about(step.DeviceSubject, "nic", inventory.NIC, true)
	nicVersion = about(step.VersionSubject, "nic", inventory.NIC, true)
	diskGone   = about(step.DeviceSubject, "disk", inventory.Disk, true)
	driveGone  = about(step.DeviceSubject, "s6", inventory.Disk, false)
	otherLink  = about(step.LinkSubject, "eth9", inventory.NIC, false)
	ownArray   = step.Complaint{Device: "disk", Class: inventory.Disk, Subject: step.Subject{Kind: step.ArraySubject}, Message: "md0 is degraded"}
	array      = step.Complaint{Class: inventory.Disk, Subject: step.Subject{Kind: step.ArraySubject}, Message: "md1 is degraded"}
	notReady   = step.Complaint{Subject: step.Subject{Kind: step.ReadySubject}, Message: "not Ready"}
	check      = step.Complaint{Subject: step.Subject{Kind: step.CheckSubject, Name: "a"}, Message: "check a"}
	otherCheck = step.Complaint{Subject: step.Subject{Kind: step.CheckSubject, Name: "b"}, Message: "check b"}
	slow       = step.Complaint{Subject: step.Subject{Kind: step.BootSubject}, Message: "slow"}
)

func about(kind step.SubjectKind, id string, class inventory.Class, ofJob bool) step.Complaint {
	c := step.Complaint{Class: class, Subject: step.Subject{Kind: kind, Of: id}, Message: string(kind) + " of " + id}
	if ofJob {
		c.Device = id
	}
	return c
}

func asBefore(c step.Complaint) step.Complaint { c.Before = true; return c }

// changed are updates of devices that are named after their class.
func changedDevices(names ...string) []step.Update {
	classes := map[string]inventory.Class{
		"nic": inventory.NIC, "disk": inventory.Disk, "bios": inventory.BIOS, "raid": inventory.StorageController,
	}
	var out []step.Update
	for _, n := range names {
		out = append(out, step.Update{Device: n, Class: classes[n], Version: "2"})
	}
	return out
}

// Before anything is restored: whose firmware may explain what is wrong.
func TestJudgementTable(t *testing.T) {
	const acquitted, suspected, convicted = step.Acquitted, step.Suspected, step.Convicted
	type list = []string
	type wrong = []step.Complaint
	for name, c := range map[string]struct {
		changed  list
		with     wrong
		guilt    step.Guilt
		devices  list
		evidence step.Evidence
	}{
		"the device itself":                  {list{"nic", "disk"}, wrong{nicGone}, convicted, list{"nic"}, step.OfDevice},
		"the version of the device":          {list{"nic"}, wrong{nicVersion}, convicted, list{"nic"}, step.OfDevice},
		"only its link":                      {list{"nic", "disk"}, wrong{nicLink}, suspected, list{"nic"}, step.Network},
		"only the gateway behind it":         {list{"nic"}, wrong{nicGateway, nicLink}, suspected, list{"nic"}, step.Network},
		"its link, and it is gone":           {list{"nic"}, wrong{nicLink, nicGone}, convicted, list{"nic"}, step.OfDevice},
		"its link, and the node":             {list{"nic", "disk"}, wrong{nicLink, notReady}, suspected, list{"nic"}, step.Network},
		"a drive that the job does not have": {list{"nic"}, wrong{driveGone}, acquitted, nil, step.OfDevice},
		"another drive":                      {list{"disk"}, wrong{driveGone}, acquitted, nil, step.OfDevice},
		"another drive, of a controller":     {list{"nic", "raid"}, wrong{driveGone}, suspected, list{"raid"}, step.OfNode},
		"another link, of a controller":      {list{"raid"}, wrong{otherLink}, acquitted, nil, step.OfDevice},
		"another link, of a BIOS":            {list{"nic", "bios"}, wrong{otherLink}, suspected, list{"bios"}, step.OfNode},
		"another drive, of a BIOS":           {list{"disk", "bios"}, wrong{driveGone}, suspected, list{"bios"}, step.OfNode},
		"its own device before the BIOS":     {list{"nic", "bios"}, wrong{nicLink}, suspected, list{"nic"}, step.Network},
		"an array with its drive":            {list{"disk", "nic"}, wrong{ownArray}, convicted, list{"disk"}, step.OfDevice},
		"an array without its drive":         {list{"disk", "nic"}, wrong{array}, acquitted, nil, step.OfDevice},
		"an array of a controller":           {list{"raid", "nic"}, wrong{array}, suspected, list{"raid"}, step.OfNode},
		"a device that it did not change":    {list{"disk"}, wrong{nicGone}, acquitted, nil, step.OfDevice},
		"the node as a whole":                {list{"nic", "disk"}, wrong{notReady}, suspected, list{"nic", "disk"}, step.OfNode},
		"a check":                            {list{"nic", "disk"}, wrong{check}, suspected, list{"nic", "disk"}, step.OfNode},
		"the boot":                           {list{"nic"}, wrong{slow}, suspected, list{"nic"}, step.OfNode},
		"a foreign drive and the node":       {list{"nic"}, wrong{driveGone, notReady}, suspected, list{"nic"}, step.OfNode},
		"the node, as before":                {list{"nic"}, wrong{asBefore(notReady)}, acquitted, nil, step.OfDevice},
		"its link, as before":                {list{"nic"}, wrong{asBefore(nicLink)}, acquitted, nil, step.OfDevice},
		"its link as before, and it is gone": {list{"nic"}, wrong{asBefore(nicLink), nicGone}, convicted, list{"nic"}, step.OfDevice},
		"it changed nothing":                 {nil, wrong{nicGone, notReady}, acquitted, nil, step.OfDevice},
	} {
		t.Run(name, func(t *testing.T) {
			got := step.Case{Changed: changedDevices(c.changed...), With: c.with}.Judge()
			assert.Equal(t, c.guilt, got.Guilt)
			assert.Equal(t, c.devices, got.Devices)
			assert.Equal(t, c.evidence, got.Evidence)
			assert.Equal(t, c.guilt == acquitted, got.Message != "", got.Message)
		})
	}
}

// After the rollback: what is as wrong with the previous firmware is not the new one's doing, and what it mended is.
func TestRetrialTable(t *testing.T) {
	const acquitted, suspected, convicted = step.Acquitted, step.Suspected, step.Convicted
	type list = []string
	type wrong = []step.Complaint
	nic := list{"nic"}
	for name, c := range map[string]struct {
		changed, restored list
		with, without     wrong
		alone             bool
		guilt             step.Guilt
		devices           list
		evidence          step.Evidence
	}{
		"the link is down with both":             {nic, nic, wrong{nicLink}, wrong{nicLink}, false, acquitted, nil, ""},
		"so it is where nobody can be asked":     {nic, nic, wrong{nicLink, nicGateway}, wrong{nicLink, nicGateway}, true, acquitted, nil, ""},
		"the link is down with both, and more":   {nic, nic, wrong{nicLink}, wrong{nicLink, driveGone}, false, acquitted, nil, ""},
		"the link is mended, a drive is not":     {nic, nic, wrong{nicLink, driveGone}, wrong{driveGone}, false, convicted, nic, ""},
		"the link is mended, and a drive died":   {nic, nic, wrong{nicLink}, wrong{driveGone}, false, convicted, nic, ""},
		"the device with the link is gone now":   {nic, nic, wrong{nicLink}, wrong{nicGone}, false, acquitted, nil, ""},
		"the device is back, its link is not":    {nic, nic, wrong{nicGone}, wrong{nicLink}, false, convicted, nic, ""},
		"the previous firmware does not run":     {nic, nic, wrong{nicGone}, wrong{nicVersion, nicLink}, false, convicted, nic, ""},
		"so it is where only the link was down":  {nic, nic, wrong{nicLink}, wrong{nicVersion, nicLink}, false, suspected, nic, step.Network},
		"one of two is mended":                   {list{"nic", "disk"}, list{"nic", "disk"}, wrong{nicLink, diskGone}, wrong{diskGone}, false, convicted, nic, ""},
		"the node is as unready":                 {list{"nic", "disk"}, list{"nic", "disk"}, wrong{notReady}, wrong{notReady}, false, acquitted, nil, ""},
		"nobody says whether the node is Ready":  {nic, nic, wrong{notReady}, wrong{nicLink}, true, suspected, nic, step.OfNode},
		"the node is Ready, and a link is down":  {nic, nic, wrong{notReady}, wrong{nicLink}, false, convicted, nic, ""},
		"a check did not run again":              {nic, nic, wrong{check}, wrong{driveGone}, false, suspected, nic, step.OfNode},
		"another check fails":                    {nic, nic, wrong{check}, wrong{otherCheck}, false, convicted, nic, ""},
		"the same check fails":                   {nic, nic, wrong{check}, wrong{check}, false, acquitted, nil, ""},
		"the machine boots slowly with both":     {nic, nic, wrong{slow}, wrong{slow}, false, acquitted, nil, ""},
		"the link stays down, the node is Ready": {nic, nic, wrong{nicLink, notReady}, wrong{nicLink}, false, suspected, nic, step.OfNode},
		"another device may explain it":          {list{"nic", "bios"}, nic, wrong{nicLink}, wrong{nicLink}, false, suspected, list{"bios"}, step.OfNode},
		"another device does not explain it":     {list{"nic", "disk"}, nic, wrong{nicLink}, wrong{nicLink}, false, acquitted, nil, ""},
		"a link that explains an unready node":   {list{"nic", "disk"}, nic, wrong{nicLink}, wrong{nicLink, notReady}, false, acquitted, nil, ""},
		"an array does not take its drive back":  {list{"disk"}, list{"disk"}, wrong{ownArray}, wrong{array}, false, suspected, list{"disk"}, step.OfNode},
		"an array is degraded, of other drives":  {list{"nic"}, list{"nic"}, wrong{nicLink, array}, wrong{nicLink, array}, false, acquitted, nil, ""},
		"what was not restored is gone then":     {list{"nic", "disk"}, nic, wrong{nicGone}, wrong{diskGone}, false, convicted, list{"nic", "disk"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := step.Case{
				Changed: changedDevices(c.changed...), With: c.with, Restored: c.restored, Without: c.without, Alone: c.alone,
			}.Judge()
			assert.Equal(t, c.guilt, got.Guilt, got.Message)
			assert.Equal(t, c.devices, got.Devices, got.Message)
			assert.Equal(t, c.evidence, got.Evidence, got.Message)
			assert.NotEmpty(t, got.Message)
		})
	}
}

// Nobody is blamed whose previous firmware changed nothing, and nobody is cleared whose previous firmware did.
func TestBlameNeedsClearing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pool := []step.Complaint{nicLink, nicGone, diskGone, driveGone, otherLink, ownArray, array, notReady}
	some := func() []step.Complaint {
		var out []step.Complaint
		for _, c := range pool {
			if random.IntN(3) == 0 {
				out = append(out, c)
			}
		}
		return out
	}
	has := func(list []step.Complaint, c step.Complaint) bool {
		return slices.ContainsFunc(list, func(o step.Complaint) bool { return o.Subject == c.Subject })
	}
	seen := map[step.Guilt]int{}
	for range 20_000 {
		c := step.Case{Changed: changedDevices("nic", "disk"), With: some(), Without: some()}
		for i := range c.With {
			c.With[i].Before = random.IntN(8) == 0
		}
		c.Restored = step.Case{Changed: c.Changed, With: c.With}.Judge().Devices
		if len(c.Restored) == 0 || len(c.Without) == 0 {
			continue
		}
		got := c.Judge()
		seen[got.Guilt]++
		require.Equal(t, got.Guilt == step.Acquitted, len(got.Devices) == 0)
		mended := slices.DeleteFunc(slices.Clone(c.With), func(w step.Complaint) bool { return w.Before || has(c.Without, w) })
		for _, d := range got.Devices {
			if got.Guilt == step.Convicted {
				require.NotEmpty(t, mended, "%s is convicted: %+v", d, c)
			}
		}
		for _, m := range mended {
			if m.Subject.Kind == step.DeviceSubject && m.Device != "" {
				require.Contains(t, got.Devices, m.Device, "%+v", c)
			}
		}
	}
	for _, g := range []step.Guilt{step.Acquitted, step.Suspected, step.Convicted} {
		assert.Greater(t, seen[g], 100, g)
	}
}

// gated is a job that changed its devices and stands in its health gate, with the classes that a job has.
func gated() step.Record {
	r := at(plan.Health, running)
	for i := range r.Updates {
		r.Updates[i].From, r.Updates[i].Rollback = "1", inventory.RollbackReadBack
		r.Updates[i].Class = map[string]inventory.Class{"nic": inventory.NIC, "disk": inventory.Disk}[r.Updates[i].Device]
	}
	return r
}

// follow executes the job to its end. What is wrong depends on whether the previous firmware was restored.
func follow(t *testing.T, r step.Record, with, without []step.Complaint) step.Record {
	t.Helper()
	boot := "boot-1"
	version := map[string]inventory.Version{"nic": "2", "disk": "2"}
	for range 100 {
		if r.Outcome != "" {
			return r
		}
		f := step.Facts{BootID: boot, Maintenance: step.MaintenanceReady, HealthKnown: true, Unhealthy: with, Complaining: time.Hour, Waited: time.Hour}
		if r.Rollback != nil {
			f.Unhealthy = without
		}
		f.Devices = map[string]step.Device{}
		for name, v := range version {
			f.Devices[name] = step.Device{Running: v, Stored: v}
		}
		a := step.Next(r, f, step.DefaultLimits())
		r = step.Apply(r, a, boot, time.Unix(0, 0))
		if a.Verb == step.Begin && r.Steps[a.Step].Kind == plan.Restore {
			version[r.Steps[a.Step].Device] = "1"
			r = step.Report(r, a.Step, step.Returned{})
		}
	}
	t.Fatal("the job does not end")
	return r
}

// A drive that the job does not have dies: nothing is restored, nobody is blamed, and a person is asked for.
func TestForeignComplaint(t *testing.T) {
	r := follow(t, gated(), []step.Complaint{driveGone}, nil)
	assert.Nil(t, r.Rollback)
	assert.Empty(t, r.Failure.Blames)
	assert.True(t, r.Failure.Held)
	assert.False(t, r.NeedsIntervention())
	assert.Contains(t, r.Failure.Message, "Device of s6. This job changed nothing that explains it (it changed nic, disk)")
}

// What is as wrong with the previous firmware acquits the new one.
func TestOldFirmwareAsSick(t *testing.T) {
	r := follow(t, gated(), []step.Complaint{nicLink}, []step.Complaint{nicLink})
	require.NotNil(t, r.Rollback)
	assert.Equal(t, []string{"nic"}, r.Rollback.Devices)
	assert.Empty(t, r.Failure.Blames)
	assert.True(t, r.Failure.Held)
	assert.False(t, r.NeedsIntervention())
	assert.False(t, r.RolledBack())
	assert.Contains(t, r.Failure.Message, "so no image is blamed")
	assert.Contains(t, r.Rollback.Failure.Message, "the previous firmware runs again on nic, and the node is still unhealthy: Link of nic")
}

// Of two devices that were restored only the one that was mended by it is blamed.
func TestPartlyCleared(t *testing.T) {
	r := follow(t, gated(), []step.Complaint{nicLink, diskGone}, []step.Complaint{diskGone})
	assert.Equal(t, []string{"nic", "disk"}, r.Rollback.Devices)
	assert.Equal(t, []string{"nic"}, r.Failure.Blames)
	assert.Equal(t, step.OfDevice, r.Evidence())
	assert.True(t, r.NeedsIntervention())
	assert.Contains(t, r.Failure.Message, "these complaints are gone: Link of nic")
}

// A machine that boots as slowly with the previous firmware is no evidence against the new one.
func TestSlowBootBothWays(t *testing.T) {
	for took, blames := range map[time.Duration]bool{time.Hour: false, time.Minute: true} {
		r := gated()
		r.Failure = &step.Failure{Reason: step.Unhealthy, Step: plan.Health, Held: true, Blames: []string{"nic", "disk"}, Complaints: []step.Complaint{slow}}
		r.Rollback = &step.Rollback{Devices: []string{"nic", "disk"}}
		r.Steps = append(r.Steps,
			step.Step{Step: plan.Step{Kind: plan.Reboot, Rollback: true}, State: step.Succeeded},
			step.Step{Step: plan.Step{Kind: plan.Health, Rollback: true}, State: step.Running, Attempt: 1})
		f := ready
		f.HealthKnown, f.Boot.System, f.Clean = true, took, time.Hour
		for i := range r.Steps {
			if r.Steps[i].Kind == plan.Health && !r.Steps[i].Rollback {
				r.Steps[i].State = step.StepFault
			}
		}
		r = step.Apply(r, step.Next(r, f, step.DefaultLimits()), f.BootID, time.Unix(0, 0))
		assert.Equal(t, blames, len(r.Failure.Blames) > 0, took)
		assert.Equal(t, blames, r.RolledBack(), took)
	}
}

// The sentence names another kernel that the reboot started.
func TestOtherKernelIsSaid(t *testing.T) {
	f := ready
	f.HealthKnown, f.Unhealthy, f.Complaining, f.OtherKernel = true, []step.Complaint{nicGone}, time.Hour, "6.1.0-28, before 6.1.0-25"
	a := step.Next(gated(), f, step.DefaultLimits())
	require.NotNil(t, a.Failure)
	assert.Contains(t, a.Failure.Message, "Device of nic. The reboot also started another kernel (6.1.0-28, before 6.1.0-25)")
}
