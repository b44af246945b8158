package v1alpha1_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
)

// Windows and limits of a RolloutPolicy. What needs a calendar or a list of time zones is a condition of the policy.
func TestRolloutWindowValidation(t *testing.T) {
	type change = validation[*v1alpha1.RolloutPolicy]
	window := func(edit func(*v1alpha1.RolloutWindow)) func(*v1alpha1.RolloutPolicy) {
		return func(o *v1alpha1.RolloutPolicy) {
			w := v1alpha1.RolloutWindow{Name: "saturdays", Schedule: "0 22 * * 6", Duration: "4h", TimeZone: "Europe/Paris"}
			edit(&w)
			o.Spec.Windows = append(o.Spec.Windows, w)
		}
	}
	once := func(edit func(*v1alpha1.RolloutWindow)) func(*v1alpha1.RolloutPolicy) {
		return func(o *v1alpha1.RolloutPolicy) {
			start, end := metav1.Date(2026, 12, 20, 0, 0, 0, 0, time.UTC), metav1.Date(2027, 1, 4, 0, 0, 0, 0, time.UTC)
			w := v1alpha1.RolloutWindow{Name: "holidays", Effect: v1alpha1.WindowDeny, StartTime: &start, EndTime: &end}
			edit(&w)
			o.Spec.Windows = append(o.Spec.Windows, w)
		}
	}
	budget := func(key string, n intstr.IntOrString) func(*v1alpha1.RolloutPolicy) {
		return func(o *v1alpha1.RolloutPolicy) {
			o.Spec.TopologyBudgets = append(o.Spec.TopologyBudgets, v1alpha1.TopologyBudget{TopologyKey: key, MaxUnavailable: &n})
		}
	}
	const (
		oneForm = "a window has either schedule and duration, or startTime and endTime, and a timeZone only with a schedule"
		fields  = "schedule must have the five fields of cron: minute, hour, day of the month, month and day of the week, such as 0 22 * * 6"
		zone    = "timeZone must be a name of the IANA database, such as Europe/Paris"
		length  = "duration must be a duration from 1m to 744h, such as 4h"
	)
	checkCreate(t, func() *v1alpha1.RolloutPolicy {
		return &v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	}, []change{
		{name: "a window", change: window(func(*v1alpha1.RolloutWindow) {})},
		{name: "one that denies", change: window(func(w *v1alpha1.RolloutWindow) { w.Effect = v1alpha1.WindowDeny })},
		{name: "names of days and months, steps and lists", change: window(func(w *v1alpha1.RolloutWindow) { w.Schedule = "*/15 0-4,22 ? jan-DEC sat,sun" })},
		{name: "7 for Sunday", change: window(func(w *v1alpha1.RolloutWindow) { w.Schedule = "0 22 * * 7" })},
		{name: "each week", change: window(func(w *v1alpha1.RolloutWindow) { w.Schedule = "@weekly" })},
		{name: "a window without zone", change: window(func(w *v1alpha1.RolloutWindow) { w.TimeZone = "" })},
		{name: "another effect", change: window(func(w *v1alpha1.RolloutWindow) { w.Effect = "Freeze" }), field: "spec.windows[0].effect", message: "Deny"},
		{name: "a schedule of six fields", change: window(func(w *v1alpha1.RolloutWindow) { w.Schedule = "0 0 22 * * 6" }),
			field: "spec.windows[0].schedule", message: fields},
		{name: "a period", change: window(func(w *v1alpha1.RolloutWindow) { w.Schedule = "@every 1h" }),
			field: "spec.windows[0].schedule", message: fields},
		{name: "a zone in the schedule", change: window(func(w *v1alpha1.RolloutWindow) { w.Schedule = "TZ=UTC 0 22 * * 6" }),
			field: "spec.windows[0].schedule", message: fields},
		{name: "no duration", change: window(func(w *v1alpha1.RolloutWindow) { w.Duration = "" }), field: "spec.windows[0]", message: oneForm},
		{name: "a window of 32 days", change: window(func(w *v1alpha1.RolloutWindow) { w.Duration = "768h" }),
			field: "spec.windows[0].duration", message: length},
		{name: "the zone of the pod", change: window(func(w *v1alpha1.RolloutWindow) { w.TimeZone = "Local" }),
			field: "spec.windows[0].timeZone", message: zone},
		{name: "two windows of one name", change: func(o *v1alpha1.RolloutPolicy) {
			window(func(*v1alpha1.RolloutWindow) {})(o)
			window(func(*v1alpha1.RolloutWindow) {})(o)
		}, field: "spec.windows[1]", message: "Duplicate value"},
		{name: "a window that happens once", change: once(func(*v1alpha1.RolloutWindow) {})},
		{name: "one that allows once", change: once(func(w *v1alpha1.RolloutWindow) { w.Effect = v1alpha1.WindowAllow })},
		{name: "a window of both kinds", change: once(func(w *v1alpha1.RolloutWindow) { w.Schedule, w.Duration = "0 0 28 * *", "1h" }),
			field: "spec.windows[0]", message: oneForm},
		{name: "a window without end", change: once(func(w *v1alpha1.RolloutWindow) { w.EndTime = nil }), field: "spec.windows[0]", message: oneForm},
		{name: "a window in a zone without a schedule", change: once(func(w *v1alpha1.RolloutWindow) { w.TimeZone = "Europe/Paris" }),
			field: "spec.windows[0]", message: oneForm},
		{name: "a window of nothing", change: once(func(w *v1alpha1.RolloutWindow) { *w = v1alpha1.RolloutWindow{Name: "f"} }),
			field: "spec.windows[0]", message: oneForm},
		{name: "a window that ends before it starts", change: once(func(w *v1alpha1.RolloutWindow) { w.EndTime = &metav1.Time{Time: w.StartTime.Add(-time.Hour)} }),
			field: "spec.windows[0].endTime", message: "endTime must be after startTime"},
		{name: "demands", change: func(o *v1alpha1.RolloutPolicy) {
			o.Spec.Require = v1alpha1.Requirements{v1alpha1.RequireRollback, v1alpha1.RequireWriteProtection}
		}},
		{name: "an unknown demand", change: func(o *v1alpha1.RolloutPolicy) { o.Spec.Require = v1alpha1.Requirements{"Luck"} },
			field: "spec.require[0]", message: "Rollback"},
		{name: "a demand twice", change: func(o *v1alpha1.RolloutPolicy) {
			o.Spec.Require = v1alpha1.Requirements{v1alpha1.RequireRollback, v1alpha1.RequireRollback}
		}, field: "spec.require[1]", message: "Duplicate value"},
		{name: "healthy for an hour and a half", change: func(o *v1alpha1.RolloutPolicy) { o.Spec.HealthyFor = "1h30m" },
			field: "spec.healthyFor", message: "healthyFor must be a duration from 0s to 1h, such as 60s"},
		{name: "healthy for long", change: func(o *v1alpha1.RolloutPolicy) { o.Spec.HealthyFor = "long" },
			field: "spec.healthyFor", message: "healthyFor must be a duration from 0s to 1h, such as 60s"},
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
