package step_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/step"
)

// A boot is slow where it took more than twice as long and half a minute longer. What is not known is no evidence.
func TestSlowBootIsToldFromOthers(t *testing.T) {
	of := func(firmware, system time.Duration) step.BootTime {
		b := step.BootTime{Firmware: firmware * time.Second, System: system * time.Second}
		if firmware > 0 {
			b.By = "clock"
		}
		return b
	}
	other := of(300, 20)
	other.By = "another clock"
	for name, c := range map[string]struct {
		before, now step.BootTime
		slow        bool
	}{
		"more than twice as long":               {of(60, 20), of(150, 20), true},
		"twice as long":                         {of(60, 20), of(140, 20), false},
		"the system takes it":                   {of(60, 20), of(60, 101), true},
		"three times a few seconds":             {of(0, 9), of(0, 27), false},
		"half a minute longer":                  {of(0, 9), of(0, 39), true},
		"less than half a minute longer":        {of(0, 9), of(0, 38), false},
		"a small part of it":                    {of(240, 10), of(240, 60), false},
		"nothing was known before":              {of(0, 0), of(900, 900), false},
		"nothing is known now":                  {of(60, 20), of(0, 0), false},
		"the firmware was not known before":     {of(0, 60), of(900, 60), false},
		"the firmware is not known now":         {of(60, 20), of(0, 30), false},
		"the system was not known before":       {of(60, 0), of(60, 900), false},
		"the firmware is measured by another":   {of(60, 20), other, false},
		"the system alone, beside the firmware": {of(60, 20), of(0, 110), true},
		"faster":                                {of(300, 20), of(60, 20), false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.slow, c.now.Slow(c.before) != "", "%+v", c)
		})
	}
	assert.Equal(t, "the node took 2m50s to boot, 1m20s before the update", of(150, 20).Slow(of(60, 20)))
}

func TestSlowBootProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(48, 48))
	part := func() time.Duration {
		if random.IntN(4) == 0 {
			return 0
		}
		return time.Duration(random.Int64N(int64(10 * time.Minute)))
	}
	boot := func() step.BootTime {
		b := step.BootTime{Firmware: part(), System: part()}
		if b.Firmware > 0 {
			b.By = []string{"one", "two"}[random.IntN(2)]
		}
		return b
	}
	told := 0
	for range 10_000 {
		before, now := boot(), boot()
		slow := now.Slow(before) != ""
		require.Empty(t, before.Slow(before), "as long as before: %+v", before)
		require.Empty(t, step.BootTime{}.Slow(before), "nothing known now: %+v", before)
		require.Empty(t, now.Slow(step.BootTime{}), "nothing known before: %+v", now)
		longer := now
		if now.System > 0 {
			longer.System += part()
		}
		require.False(t, slow && longer.Slow(before) == "", "longer still: %+v, %+v, %+v", before, now, longer)
		if !slow {
			continue
		}
		told++
		sameFirmware := before.Firmware > 0 && now.Firmware > 0 && before.By == now.By
		sameSystem := before.System > 0 && now.System > 0
		require.True(t, sameFirmware && now.Firmware > before.Firmware || sameSystem && now.System > before.System,
			"slow for a part that is known of both: %+v, %+v", before, now)
	}
	assert.Greater(t, told, 500)
}

var (
	usual  = step.BootTime{Firmware: time.Minute, By: "clock", System: 20 * time.Second}
	slowly = step.BootTime{Firmware: 5 * time.Minute, By: "clock", System: 20 * time.Second}
)

// rebootedTo is a job at its gate after a reboot that activated its firmware.
func rebootedTo() step.Record {
	r := gated()
	rebooted(&r, 1)
	return r
}

func healthyAfter(boot step.BootTime) step.Facts {
	f := ready
	f.BootID, f.HealthKnown, f.Clean, f.Boot, f.BootBefore = "boot-2", true, time.Hour, boot, usual
	return f
}

// A slow boot is no evidence by itself: the host boots once more while it is drained.
func TestSlowBootIsTriedOnceMore(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*step.Record, *step.Facts)
		again  bool
	}{
		"a slow boot":                     {func(*step.Record, *step.Facts) {}, true},
		"before the host has proven well": {func(_ *step.Record, f *step.Facts) { f.Clean = 0 }, true},
		"a boot as usual":                 {func(_ *step.Record, f *step.Facts) { f.Boot = usual }, false},
		"an unhealthy host": {func(_ *step.Record, f *step.Facts) {
			f.Unhealthy, f.Complaining = []step.Complaint{nicGone}, time.Hour
		}, false},
		"a host that nobody can ask about": {func(_ *step.Record, f *step.Facts) { f.HealthKnown = false }, false},
		"a job without a reboot": {func(r *step.Record, _ *step.Facts) {
			for i := range r.Steps {
				if r.Steps[i].Kind == plan.Reboot {
					r.Steps[i].State, r.Steps[i].Attempt = step.Skipped, 0
				}
			}
		}, false},
		"a job that changed no firmware": {func(r *step.Record, _ *step.Facts) {
			for i := range r.Updates {
				r.Updates[i].Version = ""
			}
		}, false},
		"another device has had its second boot": {func(r *step.Record, _ *step.Facts) { r.SecondBoot = true }, false},
		"only the rollback's reboot was left":    {func(r *step.Record, _ *step.Facts) { rebooted(r, step.MaxReboots-1) }, false},
		"another kernel that starts slowly": {func(_ *step.Record, f *step.Facts) {
			f.Boot, f.OtherKernel = step.BootTime{Firmware: time.Minute, By: "clock", System: 5 * time.Minute}, "6.2, before 6.1"
		}, false},
		"another kernel after slow firmware": {func(_ *step.Record, f *step.Facts) { f.OtherKernel = "6.2, before 6.1" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, f := rebootedTo(), healthyAfter(slowly)
			c.change(&r, &f)
			a := step.Next(r, f, step.DefaultLimits())
			require.Equal(t, c.again, a.Verb == step.RebootAgain, a.Message)
			if !c.again {
				assert.NotContains(t, a.Message, "to boot")
				return
			}
			assert.Contains(t, a.Message, "the node took 5m20s to boot, 1m20s before the update")
			r = step.Apply(r, a, f.BootID, time.Unix(0, 0))
			assert.Equal(t, plan.Reboot, r.Steps[r.Current()].Kind)
			assert.Nil(t, r.Verdict)
			assert.Equal(t, step.Begin, step.Next(r, f, step.DefaultLimits()).Verb, "the host is asked to reboot")
		})
	}
}

// secondBoot is the job at its gate after the second boot, whose reboot ended in a state.
func secondBoot(t *testing.T, reboot step.State) step.Record {
	r, f := rebootedTo(), healthyAfter(slowly)
	r = step.Apply(r, step.Next(r, f, step.DefaultLimits()), f.BootID, time.Unix(0, 0))
	require.True(t, r.SlowBoot)
	for i := range r.Steps {
		switch r.Steps[i].Kind {
		case plan.Reboot:
			r.Steps[i].State = reboot
		case plan.Verify:
			r.Steps[i].State = step.Succeeded
		case plan.Health:
			r.Steps[i].State = step.Running
		}
	}
	return r
}

// Only what is slow twice is told, and the job has succeeded all the same.
func TestSecondSlowBootIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		reboot step.State
		boot   step.BootTime
		told   bool
	}{
		"slow again":                      {step.Succeeded, slowly, true},
		"as usual":                        {step.Succeeded, usual, false},
		"nothing is known of the second":  {step.Succeeded, step.BootTime{}, false},
		"there was no second boot at all": {step.Skipped, slowly, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, f := secondBoot(t, c.reboot), healthyAfter(c.boot)
			a := step.Next(r, f, step.DefaultLimits())
			require.Equal(t, step.Succeeded, a.State, a.Message)
			r = step.Apply(r, a, f.BootID, time.Unix(0, 0))
			assert.True(t, r.Verdict.Healthy)
			if !c.told {
				assert.Empty(t, r.Verdict.Complaints)
				return
			}
			require.Len(t, r.Verdict.Complaints, 1)
			assert.Equal(t, "the node took 5m20s to boot, 1m20s before the update; two boots in a row were slow", r.Verdict.Complaints[0].Message)
			assert.Contains(t, a.Message, "as healthy as before, but the node took 5m20s")
		})
	}
}

// A host that is well is not given up because the boot that was only to be measured cannot be made.
func TestRebootForSpeedMayFail(t *testing.T) {
	r, f := rebootedTo(), healthyAfter(slowly)
	r = step.Apply(r, step.Next(r, f, step.DefaultLimits()), f.BootID, time.Unix(0, 0))
	for name, change := range map[string]func(*step.Record, *step.Facts){
		"somebody returned the node to service": func(_ *step.Record, f *step.Facts) { f.Maintenance = step.MaintenanceNone },
		"the host refuses to reboot": func(r *step.Record, f *step.Facts) {
			f.Waited = time.Hour
			*r = step.Apply(*r, step.Action{Verb: step.Begin, Step: r.Current()}, f.BootID, time.Unix(0, 0))
			*r = step.Report(*r, r.Current(), step.Returned{Failure: &step.Failure{Reason: step.RebootFailed, Message: "an inhibitor is there"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, f := r.Clone(), f
			change(&r, &f)
			a := step.Next(r, f, step.DefaultLimits())
			assert.Equal(t, step.Skipped, a.State, a.Message)
			assert.Nil(t, a.Failure)
			assert.Contains(t, a.Message, "whether the node boots slowly again is not known")
			// The reboot of a job that needs it fails the job, as ever.
			r.SlowBoot = false
			assert.NotNil(t, step.Next(r, f, step.DefaultLimits()).Failure)
		})
	}

	// A reboot that was accepted may still come: the node stays out of service.
	f.Waited = time.Hour
	r = step.Apply(r, step.Action{Verb: step.Begin, Step: r.Current()}, f.BootID, time.Unix(0, 0))
	r = step.Report(r, r.Current(), step.Returned{})
	a := step.Next(r, f, step.DefaultLimits())
	require.NotNil(t, a.Failure)
	assert.True(t, a.Failure.Held)
}

// TestScheduleOfSlowBoots: whatever dies when, a slow boot is told only after two of them, and told where each boot with the image was slow.
func TestScheduleOfSlowBoots(t *testing.T) {
	told, once := 0, 0
	for seed := range uint64(5_000) {
		w, r := play(4*seed+3, sound)
		require.Empty(t, w.violations, "seed %d", 4*seed+3)
		if r.Outcome == step.Complete && r.Verdict != nil && len(r.Verdict.Complaints) > 0 {
			told++
		}
		if r.Outcome == step.Complete && r.SlowBoot && len(r.Verdict.Complaints) == 0 {
			once++
		}
	}
	assert.Greater(t, told, 30)
	assert.Greater(t, once, 10)
}

// boots is how the boots of a world take their time.
type boots struct {
	random *rand.Rand
	// image makes each boot slow while a device runs its target; slow says that this boot was, and count how many were.
	image, slow bool
	count, all  int
}

// next draws the time of a boot.
func (b *boots) next(w *world) {
	if b == nil {
		return
	}
	atTarget := false
	for _, d := range w.devices {
		atTarget = atTarget || d.wasOff && d.running == target
	}
	b.slow = b.image && atTarget || b.random.IntN(4) == 0
	b.all++
	if b.slow {
		b.count++
	}
}

// time is what the host says of this boot.
func (b *boots) time() step.BootTime {
	switch {
	case b == nil:
		return step.BootTime{}
	case b.slow:
		return slowly
	}
	return usual
}

// judgeBoots is called when a job is complete.
func (w *world) judgeBoots(r step.Record) {
	if w.boots == nil {
		return
	}
	told := r.Verdict != nil && len(r.Verdict.Complaints) > 0
	counts := r.Reboots() > 0 && len(r.Suspects([]step.Complaint{{Message: "host"}})) > 0
	switch {
	case told && (w.boots.count < 2 || !counts):
		w.violate("R002-19", "told of %d slow boots", w.boots.count)
	case told || !counts || w.boots.count < w.boots.all || r.SecondBoot && !r.SlowBoot:
	case r.SlowBoot && r.Reboots() > r.Rebooted:
		w.violate("R002-19", "%d slow boots are not told", w.boots.count)
	case !r.SecondBoot && rebootAttempts(r) < step.MaxReboots-1:
		w.violate("R002-19", "a slow boot was not tried again")
	}
}

func rebootAttempts(r step.Record) (n int32) {
	for _, s := range r.Steps {
		if s.Kind == plan.Reboot {
			n += s.Attempt
		}
	}
	return n
}
