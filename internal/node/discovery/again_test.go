package discovery_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/node/journal"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// booted is a machine whose card had RT=1 until it booted, and for which RT=1 and A=1 are desired.
func booted(t *testing.T) (*bench, *v1alpha1.DesiredConfiguration) {
	t.Helper()
	b := tuned(t)
	b.settings.all = append(b.settings.all, inventory.Parameter{Name: "RT", Current: inventory.Read("0"), Next: inventory.Read("0"), Volatile: true})
	want := parameters("A", "1", "RT", "1")
	b.book.view = journal.View{Devices: map[string]journal.Device{"aa": {
		UniqueID: "aa", Configured: &journal.Configured{Digest: string(want.Digest()), BootID: "boot-0"},
	}}}
	b.seen(t)
	return b, want
}

// What a boot took is given again by the daemon itself, without a job, so that nobody has to wait for a window or a place in a budget.
func TestWhatABootTookIsGivenAgain(t *testing.T) {
	b, want := booted(t)
	is := b.configured(t, want)
	assert.Equal(t, []inventory.Setting{{Name: "RT", Value: "1"}}, b.settings.given)
	assert.Equal(t, v1alpha1.ConfigurationUpToDate, is.Configuration.State)

	b.settings.given = nil
	b.change(func() { inventory.FindParameter(b.settings.all, "RT").Current = inventory.Read("0") })
	b.seen(t)
	assert.Empty(t, b.settings.given, "another program wants it otherwise, and is not fought")
	assert.Equal(t, v1alpha1.ConfigurationOutOfDate, b.device(t, "n1-nic-aa").Status.Configuration.State)

	b.change(func() { b.host.found.BootID = "boot-2" })
	b.seen(t)
	assert.Len(t, b.settings.given, 1, "once in each boot")
}

// Everything else is left to a job.
func TestOnlyWhatAGateFoundGoodIsGivenAgain(t *testing.T) {
	known := func(b *bench, change func(*journal.Device)) {
		d := b.book.view.Devices["aa"]
		change(&d)
		b.book.view.Devices["aa"] = d
	}
	parameter := func(b *bench, name string) *inventory.Parameter { return inventory.FindParameter(b.settings.all, name) }
	for name, c := range map[string]func(b *bench, want *v1alpha1.DesiredConfiguration){
		"no job gave them": func(b *bench, _ *v1alpha1.DesiredConfiguration) {
			known(b, func(d *journal.Device) { d.Configured = nil })
		},
		"others were good": func(b *bench, _ *v1alpha1.DesiredConfiguration) {
			known(b, func(d *journal.Device) { d.Configured.Digest = "x" })
		},
		"they were good in this boot": func(b *bench, _ *v1alpha1.DesiredConfiguration) {
			known(b, func(d *journal.Device) { d.Configured.BootID = "boot-1" })
		},
		"the boot has no id":            func(b *bench, _ *v1alpha1.DesiredConfiguration) { b.host.found.BootID = "" },
		"they are only validated":       func(_ *bench, want *v1alpha1.DesiredConfiguration) { want.Policy = v1alpha1.PolicyValidate },
		"one outlives boots":            func(b *bench, _ *v1alpha1.DesiredConfiguration) { parameter(b, "RT").Volatile = false },
		"another one is not as desired": func(b *bench, _ *v1alpha1.DesiredConfiguration) { parameter(b, "A").Current = inventory.Read("0") },
		"it needs an activation": func(b *bench, _ *v1alpha1.DesiredConfiguration) {
			parameter(b, "RT").Needs = inventory.ActivateDriverReload
		},
		"it interrupts the link": func(b *bench, _ *v1alpha1.DesiredConfiguration) { parameter(b, "RT").Disturbs = true },
		"the device does not take it now": func(b *bench, _ *v1alpha1.DesiredConfiguration) {
			parameter(b, "RT").ReadOnly = "the port is set up by another operator"
		},
		"the step configure is switched off": func(b *bench, _ *v1alpha1.DesiredConfiguration) { b.fixed = inventory.NIC },
		"a job runs": func(b *bench, _ *v1alpha1.DesiredConfiguration) {
			b.book.view.Jobs = []journal.Job{{Name: "j", UID: "u", Record: step.Record{}}}
		},
		"a job holds the node": func(b *bench, _ *v1alpha1.DesiredConfiguration) {
			b.book.view.Jobs = []journal.Job{{Name: "j", UID: "u", Record: step.Record{Outcome: step.Failed, Failure: &step.Failure{Held: true}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, want := booted(t)
			c(b, want)
			is := b.configured(t, want)
			assert.Empty(t, b.settings.given)
			assert.NotNil(t, is.Configuration)
		})
	}
}

// Between the look at the journal and the write, the turn of the device may be long in coming.
func TestAJobThatBeginsMeanwhileKeepsItsDevice(t *testing.T) {
	b, want := booted(t)
	b.settings.before = func() { b.book.view.Jobs = []journal.Job{{Name: "j", UID: "u", Record: step.Record{}}} }
	b.configured(t, want)
	assert.Empty(t, b.settings.given)
}

// A job only puts off what the daemon gives: what it left undone is given in the same boot.
func TestWhatWaitedForAJobIsGivenAgain(t *testing.T) {
	b, want := booted(t)
	b.book.view.Jobs = []journal.Job{{Name: "j", UID: "u", Record: step.Record{}}}
	b.configured(t, want)
	b.book.view.Jobs = nil
	b.seen(t)
	assert.Equal(t, []inventory.Setting{{Name: "RT", Value: "1"}}, b.settings.given)
}

func TestWhatIsNotTakenAfterABootIsLeftToAJob(t *testing.T) {
	b, want := booted(t)
	b.settings.refuses = errors.New("InUse: a virtual machine has it")
	is := b.configured(t, want)
	b.seen(t)
	assert.Len(t, b.settings.given, 1, "it is tried once")
	assert.Equal(t, v1alpha1.ConfigurationOutOfDate, is.Configuration.State)
}
