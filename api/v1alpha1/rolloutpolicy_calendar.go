package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RolloutWindow is a time that recurs and in which nodes may be admitted.
type RolloutWindow struct {
	// name of the window, unique in the list. Messages name it. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// schedule is when the window begins, as the clock on the wall of the time zone shows it: the five fields of cron (minute, hour, day of
	// the month, month of the year, day of the week), such as "0 22 * * 6". A time that daylight saving leaves out is when clocks are put
	// forward; of a time that is shown twice, the first showing counts. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-0-9a-zA-Z*/,?]+([ ]+[-0-9a-zA-Z*/,?]+){4}$')",message="schedule must have the five fields of cron: minute, hour, day of the month, month and day of the week, such as 0 22 * * 6"
	Schedule string `json:"schedule,omitempty"`
	// duration of the window, as elapsed time, from 1m to 744h. Written by the user.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('744h')",message="duration must be a duration from 1m to 744h, such as 4h"
	Duration metav1.Duration `json:"duration,omitzero"`
	// timeZone is the name of a zone in the IANA database, such as Europe/Paris. Default UTC. Written by the user.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self != 'Local'",message="timeZone must be a name of the IANA database, such as Europe/Paris"
	TimeZone string `json:"timeZone,omitempty"`
}

// RolloutFreeze is a time in which no node is admitted: one with a start and an end, or one that recurs.
// +kubebuilder:validation:XValidation:rule="has(self.schedule) ? has(self.duration) && !has(self.start) && !has(self.end) : has(self.start) && has(self.end) && !has(self.duration) && !has(self.timeZone)",message="a freeze has either start and end, or schedule and duration, and a timeZone only with those"
// +kubebuilder:validation:XValidation:rule="!has(self.start) || !has(self.end) || self.end > self.start",message="end must be after start",fieldPath=".end"
type RolloutFreeze struct {
	// name of the freeze, unique in the list. Messages name it. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// start of a freeze that happens once. Written by the user.
	// +optional
	Start *metav1.Time `json:"start,omitempty"`
	// end of a freeze that happens once. Written by the user.
	// +optional
	End *metav1.Time `json:"end,omitempty"`
	// schedule is when the freeze begins, as the clock on the wall of the time zone shows it: the five fields of cron (minute, hour, day of
	// the month, month of the year, day of the week), such as "0 22 * * 6". A time that daylight saving leaves out is when clocks are put
	// forward; of a time that is shown twice, the first showing counts. Written by the user.
	// +optional
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-0-9a-zA-Z*/,?]+([ ]+[-0-9a-zA-Z*/,?]+){4}$')",message="schedule must have the five fields of cron: minute, hour, day of the month, month and day of the week, such as 0 22 * * 6"
	Schedule string `json:"schedule,omitempty"`
	// duration of a freeze that recurs, as elapsed time, from 1m to 744h. Written by the user.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('744h')",message="duration must be a duration from 1m to 744h, such as 48h"
	Duration *metav1.Duration `json:"duration,omitempty"`
	// timeZone is the name of a zone in the IANA database, such as Europe/Paris. Default UTC. Written by the user.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self != 'Local'",message="timeZone must be a name of the IANA database, such as Europe/Paris"
	TimeZone string `json:"timeZone,omitempty"`
}
