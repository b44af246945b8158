package plan_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

var digest = inventory.Digest{1}

func TestDecide(t *testing.T) {
	under := plan.Clearance("first").InForce()
	desired := plan.Desired{Version: "2.0", Digest: digest}
	runs1 := plan.Facts{Driver: "sim", Running: "1.0", Stored: "1.0", Activation: inventory.ActivateReboot}
	for name, c := range map[string]struct {
		desired func(*plan.Desired)
		facts   func(*plan.Facts)
		want    plan.Outcome
		why     plan.Reason
	}{
		"nothing desired":                    {func(d *plan.Desired) { *d = plan.Desired{} }, nil, plan.NothingDesired, ""},
		"another version runs":               {nil, nil, plan.DueFlash, ""},
		"desired version runs":               {nil, func(f *plan.Facts) { f.Running = "2.0" }, plan.UpToDate, ""},
		"desired version is stored":          {nil, func(f *plan.Facts) { f.Stored = "2.0" }, plan.DueActivation, ""},
		"store is not known":                 {nil, func(f *plan.Facts) { f.Stored = "" }, plan.DueFlash, ""},
		"policy only reports":                {func(d *plan.Desired) { d.ReportOnly = true }, nil, plan.Differs, ""},
		"device unreadable":                  {nil, func(f *plan.Facts) { f.Unreadable = "EIO" }, plan.Blocked, plan.ReasonReadFailed},
		"no driver":                          {nil, func(f *plan.Facts) { f.Driver = "" }, plan.Blocked, plan.ReasonNotUpdatable},
		"read-only device":                   {nil, func(f *plan.Facts) { f.ReadOnly = "OEM locked" }, plan.Blocked, plan.ReasonNotUpdatable},
		"no image for the board":             {func(d *plan.Desired) { d.Digest = inventory.Digest{} }, nil, plan.Blocked, plan.ReasonImageNotFound},
		"only a power-cycle activates":       {nil, func(f *plan.Facts) { f.Activation = inventory.ActivatePowerCycle }, plan.Blocked, plan.ReasonPowerCycleRequired},
		"same image failed":                  {nil, func(f *plan.Facts) { f.FailedDigest, f.FailedUnder = digest, under }, plan.Blocked, plan.ReasonUpdateFailed},
		"restored over an image":             {nil, func(f *plan.Facts) { f.FailedDigest, f.FailedUnder, f.Restored = digest, under, true }, plan.Blocked, plan.ReasonRestored},
		"restored before an image was known": {nil, func(f *plan.Facts) { f.FailedUnder, f.Restored = under, true }, plan.Blocked, plan.ReasonRestored},
		"restored over another image":        {nil, func(f *plan.Facts) { f.FailedDigest, f.FailedUnder, f.Restored = inventory.Digest{2}, under, true }, plan.DueFlash, ""},
		"unhealthy device":                   {nil, func(f *plan.Facts) { f.Unhealthy, f.UnhealthyUnder = true, under }, plan.Blocked, plan.ReasonDeviceUnhealthy},
		"unhealthy device cleared": {
			func(d *plan.Desired) { d.Retry = "after repair" },
			func(f *plan.Facts) { f.Unhealthy, f.UnhealthyUnder = true, under }, plan.DueFlash, "",
		},
		"other image failed": {nil, func(f *plan.Facts) { f.FailedDigest, f.FailedUnder = inventory.Digest{2}, under }, plan.DueFlash, ""},
		"failure cleared": {
			func(d *plan.Desired) { d.Retry = "after reseating" },
			func(f *plan.Facts) { f.FailedDigest, f.FailedUnder = digest, under }, plan.DueFlash, "",
		},
		"failed under the same request": {
			func(d *plan.Desired) { d.Retry = plan.Clearance(*under) },
			func(f *plan.Facts) { f.FailedDigest, f.FailedUnder = digest, under }, plan.Blocked, plan.ReasonUpdateFailed,
		},
		"downgrade":                    {nil, func(f *plan.Facts) { f.Running, f.Format = "3.0", inventory.FormatDotted }, plan.Blocked, plan.ReasonDowngradeForbidden},
		"unordered in declared format": {nil, func(f *plan.Facts) { f.Running, f.Format = "x", inventory.FormatDotted }, plan.Blocked, plan.ReasonDowngradeForbidden},
		"order unknown, none declared": {nil, func(f *plan.Facts) { f.Running = "3.0" }, plan.DueFlash, ""},
		"downgrade allowed": {
			func(d *plan.Desired) { d.AllowDowngrade = true },
			func(f *plan.Facts) { f.Running, f.Format = "3.0", inventory.FormatDotted }, plan.DueFlash, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, f := desired, runs1
			if c.desired != nil {
				c.desired(&d)
			}
			if c.facts != nil {
				c.facts(&f)
			}
			got := plan.Decide(d, f)
			assert.Equal(t, c.want, got.Outcome, got.Message)
			assert.Equal(t, c.why, got.Reason)
			assert.Equal(t, got.Outcome == plan.Blocked, got.Message != "")
		})
	}
}

func TestFactsSayWhyDeviceUnknown(t *testing.T) {
	assert.Equal(t, "EIO", plan.FactsOf(inventory.Device{Driver: "sim", Err: errors.New("EIO")}).Unreadable)
	assert.NotEmpty(t, plan.FactsOf(inventory.Device{Driver: "sim"}).Unreadable, "a driver that reports nothing read nothing")
	assert.Empty(t, plan.FactsOf(inventory.Device{}).Unreadable, "a device without a driver was not to be read")
}

// The order of steps depends on the devices alone, never on the order they are given in (R003-9, R003-18).
func TestStepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		targets := []plan.Target{
			{Device: "bios", Class: inventory.BIOS}, {Device: "nic-a", Class: inventory.NIC},
			{Device: "nic-b", Class: inventory.NIC}, {Device: "raid", Class: inventory.StorageController},
			{Device: "disk", Class: inventory.Disk},
		}
		var got []string
		for _, s := range plan.DefaultCatalog().Steps(rapid.Permutation(targets).Draw(t, "targets")) {
			got = append(got, string(s.Kind)+" "+s.Device)
		}
		assert.Equal(t, []string{
			"preflight ", "archive bios", "archive nic-a", "archive nic-b", "archive raid", "archive disk", "maintenance ",
			"flash bios", "flash nic-a", "flash nic-b", "flash raid", "flash disk",
			"activate bios", "activate nic-a", "activate nic-b", "activate raid", "activate disk",
			"reboot ", "verify bios", "verify nic-a", "verify nic-b", "verify raid", "verify disk", "health ", "release ",
		}, got)
	})
}
