package status

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/internal/wayout"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// SettingsFacts is what the daemon knows about the desired settings of a device.
type SettingsFacts struct {
	// Declared counts the settings that are named.
	Declared int
	// ReportOnly says that a difference is only reported (policy Validate).
	ReportOnly bool
	// Unread says why the settings could not be read; empty when they were.
	Unread string
	// Decision is what the device needs in view of what was read.
	Decision plan.ConfigurationDecision
	// Failure describes the last failed change to these settings for people, unless a person asked to try again since; empty when
	// none failed.
	Failure string
	// Restored says that a person restored the settings of the archive in their place, which is no failure.
	Restored bool
}

// settingsReady is Ready of a device whose firmware is as desired, where any is. Blocked is what the operator says about its settings, nil for
// nothing.
func settingsReady(f DeviceFacts, blocked *metav1.Condition) []Condition {
	s := f.Settings
	d := s.Decision
	switch {
	case s.Unread != "":
		return reconciling(v1alpha1.ReasonReadFailed, fmt.Sprintf("The settings of the device cannot be read: %s. Every scan tries again; to scan now: %s",
			s.Unread, wayout.Request("nfw", f.Node, "scan")))
	case d.Refusal != "":
		return stalled(v1alpha1.ReasonParameterInvalid, fmt.Sprintf("The device cannot have its settings, and none of them is written; correct the "+
			"ConfigurationTemplate: %s.", strings.TrimSuffix(d.Refusal, ".")))
	case len(d.Changes)+len(d.Later) == 0:
		return ready(v1alpha1.ReasonUpToDate, settingsInForce(f))
	case s.ReportOnly:
		return stalled(v1alpha1.ReasonOutOfDate, fmt.Sprintf("Its settings differ, and the policy is Validate, so none is changed; set policy to Apply to "+
			"change them: %s.", differing(d)))
	case blocked != nil && blocked.Reason == v1alpha1.ReasonSourceNotReady:
		return reconciling(blocked.Reason, blocked.Message)
	case blocked != nil:
		return stalled(blocked.Reason, blocked.Message)
	case s.Restored:
		return stalled(v1alpha1.ReasonRestored, fmt.Sprintf("A person restored archived settings, and those that are declared are not given in their place until "+
			"they are declared otherwise. To have them given: %s", wayout.Retry(f.Node)))
	case s.Failure != "":
		return stalled(v1alpha1.ReasonUpdateFailed, fmt.Sprintf("The change of its settings failed and is not retried automatically%s. To try again: %s",
			detail(s.Failure), wayout.Retry(f.Node)))
	case d.Activation == inventory.ActivateNone:
		return reconciling(v1alpha1.ReasonPending, fmt.Sprintf("The change of its settings waits for a job, and needs no activation: %s.", differing(d)))
	}
	return reconciling(v1alpha1.ReasonPending, fmt.Sprintf("The change of its settings waits for a job, and needs an activation (%s): %s.",
		d.Activation, differing(d)))
}

func settingsInForce(f DeviceFacts) string {
	are := "settings are"
	if n := f.Settings.Declared; n > 0 {
		are = text.Quantity(n, "setting is", "settings are")
	}
	if f.Verdict.Outcome != plan.UpToDate {
		return fmt.Sprintf("Its %s in force.", are)
	}
	runs := upToDate(f)
	if s := f.Observed.Stored; s != "" && s != f.Observed.Running {
		return fmt.Sprintf("%s Its %s in force.", runs, are)
	}
	return fmt.Sprintf("%s, and its %s in force.", strings.TrimSuffix(runs, "."), are)
}

// Drifted is a setting that an update of the firmware changed and nobody declares.
type Drifted struct {
	Name string
	// Is the value that the device stores, nil where that is not known, and Was the one that it stored before.
	Is  *string
	Was string
}

func drifted(of []Drifted) string {
	var out []string
	for _, d := range of {
		is := "unknown"
		if d.Is != nil {
			is = shown(*d.Is)
		}
		out = append(out, fmt.Sprintf("%s is %s and was %s", d.Name, is, shown(d.Was)))
	}
	return fmt.Sprintf("The update of its firmware changed %s; declare the old values in a ConfigurationTemplate to have them back, or those of now "+
		"to keep them: %s.", text.Quantity(len(of), "setting that nobody declares", "settings that nobody declares"), text.Some(out, fewSettings))
}

// fewSettings is how many settings are named in a message.
const fewSettings = 12

// differing names the settings that are not in force, with what the device has and what it should have.
func differing(d plan.ConfigurationDecision) string {
	var out []string
	for _, c := range d.Changes {
		out = append(out, fmt.Sprintf("%s is %s instead of %s", c.Name, shown(c.Had.String()), shown(c.Value)))
	}
	for _, name := range d.Later {
		out = append(out, fmt.Sprintf("%s is unknown to its firmware", name))
	}
	return text.Some(out, fewSettings)
}

// shown is a value for people, who must see an empty one.
func shown(value string) string {
	if value == "" {
		return "empty"
	}
	return text.Clip(value, 64)
}
