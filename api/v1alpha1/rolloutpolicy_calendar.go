package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WindowEffect says what a window does.
// +kubebuilder:validation:Enum=Allow;Deny
type WindowEffect string

// The effects of a window.
const (
	// WindowAllow: nodes may be admitted inside it.
	WindowAllow WindowEffect = "Allow"
	// WindowDeny: no node is admitted inside it, whatever other windows say.
	WindowDeny WindowEffect = "Deny"
)

// RolloutWindow is a time in which nodes may be admitted, or may not: one that recurs, or one that happens once.
// +kubebuilder:validation:XValidation:rule="has(self.schedule) ? has(self.duration) && !has(self.startTime) && !has(self.endTime) : has(self.startTime) && has(self.endTime) && !has(self.duration) && !has(self.timeZone)",message="a window has either schedule and duration, or startTime and endTime, and a timeZone only with a schedule"
// +kubebuilder:validation:XValidation:rule="!has(self.startTime) || !has(self.endTime) || self.endTime > self.startTime",message="endTime must be after startTime",fieldPath=".endTime"
type RolloutWindow struct {
	// name of the window, unique in the list. Messages name it. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// effect is Allow (default) or Deny. Written by the user.
	// +optional
	// +kubebuilder:default=Allow
	Effect WindowEffect `json:"effect,omitempty"`
	// schedule is when the window begins, in the local time of timeZone: the five fields of cron (minute, hour, day of the month, month of
	// the year, day of the week), such as "0 22 * * 6", or @yearly, @monthly, @weekly, @daily or @hourly. Of the days of the week, 0 and 7
	// are Sunday. A local time that daylight saving skips counts as the moment the clocks go forward; of one that occurs twice, the first
	// counts. Written by the user.
	// +optional
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[-0-9a-zA-Z*/,?]+([ ]+[-0-9a-zA-Z*/,?]+){4})$')",message="schedule must have the five fields of cron: minute, hour, day of the month, month and day of the week, such as 0 22 * * 6"
	Schedule string `json:"schedule,omitempty"`
	// duration of a window with a schedule, as elapsed time, from 1m to 744h. Written by the user.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('744h')",message="duration must be a duration from 1m to 744h, such as 4h"
	Duration Duration `json:"duration,omitempty"`
	// timeZone of the schedule is the name of a zone in the IANA database, such as Europe/Paris. Default UTC. Written by the user.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self != 'Local'",message="timeZone must be a name of the IANA database, such as Europe/Paris"
	TimeZone string `json:"timeZone,omitempty"`
	// startTime of a window that happens once. Written by the user.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime of a window that happens once. Written by the user.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
}
