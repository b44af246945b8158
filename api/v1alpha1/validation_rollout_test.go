package v1alpha1_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Windows, freezes and limits of a RolloutPolicy. What needs a calendar or a list of time zones is a condition of the policy.
func TestRolloutWindowValidation(t *testing.T) {
	type change = validation[*v1alpha1.RolloutPolicy]
	hours := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Hour} }
	window := func(edit func(*v1alpha1.RolloutWindow)) func(*v1alpha1.RolloutPolicy) {
		return func(o *v1alpha1.RolloutPolicy) {
			w := v1alpha1.RolloutWindow{Name: "saturdays", Schedule: "0 22 * * 6", Duration: hours(4), TimeZone: "Europe/Paris"}
			edit(&w)
			o.Spec.Windows = append(o.Spec.Windows, w)
		}
	}
	freeze := func(edit func(*v1alpha1.RolloutFreeze)) func(*v1alpha1.RolloutPolicy) {
		return func(o *v1alpha1.RolloutPolicy) {
			start, end := metav1.Date(2026, 12, 20, 0, 0, 0, 0, time.UTC), metav1.Date(2027, 1, 4, 0, 0, 0, 0, time.UTC)
			f := v1alpha1.RolloutFreeze{Name: "holidays", Start: &start, End: &end}
			edit(&f)
			o.Spec.Freezes = append(o.Spec.Freezes, f)
		}
	}
	budget := func(key string, n intstr.IntOrString) func(*v1alpha1.RolloutPolicy) {
		return func(o *v1alpha1.RolloutPolicy) {
			o.Spec.TopologyBudgets = append(o.Spec.TopologyBudgets, v1alpha1.TopologyBudget{TopologyKey: key, MaxUnavailable: &n})
		}
	}
	const (
		oneForm     = "a freeze has either start and end, or schedule and duration, and a timeZone only with those"
		fields      = "schedule must have the five fields of cron: minute, hour, day of the month, month and day of the week, such as 0 22 * * 6"
		zone        = "timeZone must be a name of the IANA database, such as Europe/Paris"
		windowTime  = "duration must be a duration from 1m to 744h, such as 4h"
		freezeTime  = "duration must be a duration from 1m to 744h, such as 48h"
		expectation = "expectedDuration must be a duration from 1m to 24h, such as 30m"
	)
	checkCreate(t, func() *v1alpha1.RolloutPolicy {
		return &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	}, []change{
		{name: "a window", change: window(func(*v1alpha1.RolloutWindow) {})},
		{name: "names of days and months, steps and lists", change: window(func(w *v1alpha1.RolloutWindow) { w.Schedule = "*/15 0-4,22 ? jan-DEC sat,sun" })},
		{name: "a window without zone", change: window(func(w *v1alpha1.RolloutWindow) { w.TimeZone = "" })},
		{name: "a schedule of six fields", change: window(func(w *v1alpha1.RolloutWindow) { w.Schedule = "0 0 22 * * 6" }),
			field: "spec.windows[0].schedule", message: fields},
		{name: "a descriptor", change: window(func(w *v1alpha1.RolloutWindow) { w.Schedule = "@midnight" }),
			field: "spec.windows[0].schedule", message: fields},
		{name: "a zone in the schedule", change: window(func(w *v1alpha1.RolloutWindow) { w.Schedule = "TZ=UTC 0 22 * * 6" }),
			field: "spec.windows[0].schedule", message: fields},
		{name: "no duration", change: window(func(w *v1alpha1.RolloutWindow) { w.Duration = hours(0) }),
			field: "spec.windows[0].duration", message: "Required value"},
		{name: "a window of 32 days", change: window(func(w *v1alpha1.RolloutWindow) { w.Duration = hours(32 * 24) }),
			field: "spec.windows[0].duration", message: windowTime},
		{name: "the zone of the pod", change: window(func(w *v1alpha1.RolloutWindow) { w.TimeZone = "Local" }),
			field: "spec.windows[0].timeZone", message: zone},
		{name: "two windows of one name", change: func(o *v1alpha1.RolloutPolicy) {
			window(func(*v1alpha1.RolloutWindow) {})(o)
			window(func(*v1alpha1.RolloutWindow) {})(o)
		}, field: "spec.windows[1]", message: "Duplicate value"},
		{name: "a freeze from start to end", change: freeze(func(*v1alpha1.RolloutFreeze) {})},
		{name: "a freeze that recurs", change: freeze(func(f *v1alpha1.RolloutFreeze) {
			*f = v1alpha1.RolloutFreeze{Name: "month-end", Schedule: "0 0 28 * *", Duration: new(hours(96)), TimeZone: "Europe/Paris"}
		})},
		{name: "a freeze of both kinds", change: freeze(func(f *v1alpha1.RolloutFreeze) { f.Schedule, f.Duration = "0 0 28 * *", new(hours(1)) }),
			field: "spec.freezes[0]", message: oneForm},
		{name: "a freeze without end", change: freeze(func(f *v1alpha1.RolloutFreeze) { f.End = nil }), field: "spec.freezes[0]", message: oneForm},
		{name: "a freeze that recurs without duration", change: freeze(func(f *v1alpha1.RolloutFreeze) {
			*f = v1alpha1.RolloutFreeze{Name: "f", Schedule: "0 0 28 * *"}
		}), field: "spec.freezes[0]", message: oneForm},
		{name: "a freeze of 32 days", change: freeze(func(f *v1alpha1.RolloutFreeze) {
			*f = v1alpha1.RolloutFreeze{Name: "f", Schedule: "0 0 28 * *", Duration: new(hours(32 * 24))}
		}), field: "spec.freezes[0].duration", message: freezeTime},
		{name: "a freeze of six fields", change: freeze(func(f *v1alpha1.RolloutFreeze) {
			*f = v1alpha1.RolloutFreeze{Name: "f", Schedule: "0 0 0 28 * *", Duration: new(hours(1))}
		}), field: "spec.freezes[0].schedule", message: fields},
		{name: "a freeze in the zone of the pod", change: freeze(func(f *v1alpha1.RolloutFreeze) {
			*f = v1alpha1.RolloutFreeze{Name: "f", Schedule: "0 0 28 * *", Duration: new(hours(1)), TimeZone: "Local"}
		}), field: "spec.freezes[0].timeZone", message: zone},
		{name: "a freeze of nothing", change: freeze(func(f *v1alpha1.RolloutFreeze) { *f = v1alpha1.RolloutFreeze{Name: "f"} }),
			field: "spec.freezes[0]", message: oneForm},
		{name: "a freeze that ends before it starts", change: freeze(func(f *v1alpha1.RolloutFreeze) { f.End = &metav1.Time{Time: f.Start.Add(-time.Hour)} }),
			field: "spec.freezes[0].end", message: "end must be after start"},
		{name: "an expected duration of a week", change: func(o *v1alpha1.RolloutPolicy) { o.Spec.ExpectedDuration = new(hours(168)) },
			field: "spec.expectedDuration", message: expectation},
		{name: "a topology budget", change: budget("topology.kubernetes.io/zone", intstr.FromInt32(1))},
		{name: "a topology budget in percent", change: budget("rack", intstr.FromString("10%"))},
		{name: "a topology budget below 0", change: budget("rack", intstr.FromInt32(-1)),
			field: "spec.topologyBudgets[0].maxUnavailable", message: "maxUnavailable must be a number of nodes from 0 or a percentage from 0% to 100%"},
		{name: "a topology budget without sense", change: budget("rack", intstr.FromString("1 %")),
			field: "spec.topologyBudgets[0].maxUnavailable", message: "maxUnavailable must be a number of nodes from 0 or a percentage from 0% to 100%"},
		{name: "a key that is no label", change: budget("example.com/", intstr.FromInt32(1)),
			field: "spec.topologyBudgets[0].topologyKey", message: "should match"},
		{name: "a queue of nothing", change: func(o *v1alpha1.RolloutPolicy) { o.Spec.MaxQueued = new(int32(0)) },
			field: "spec.maxQueued", message: "greater than or equal to 1"},
	})
}
