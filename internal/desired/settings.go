package desired

import (
	"github.com/nodefirmware/node-firmware-operator/api/v1alpha1"
	"github.com/nodefirmware/node-firmware-operator/pkg/plan"
)

// Standing says how far a device has its desired settings.
type Standing int

// The standings.
const (
	// NoSettings: none are desired.
	NoSettings Standing = iota
	// SettingsUnknown: the daemon has not compared them yet.
	SettingsUnknown
	// SettingsInForce: all are as desired.
	SettingsInForce
	// SettingsDiffer: they are not, and are only validated.
	SettingsDiffer
	// SettingsDue: a job is to change them.
	SettingsDue
	// SettingsInvalid: the device does not take them.
	SettingsInvalid
	// SettingsFailed: they failed, and wait for a person.
	SettingsFailed
)

// StandingOf compares the settings that are desired, of which digest is the digest, with what the daemon says of them.
func StandingOf(c *v1alpha1.DesiredConfiguration, digest v1alpha1.Digest, is *v1alpha1.ObservedConfiguration, retry plan.Clearance) Standing {
	switch {
	case c == nil:
		return NoSettings
	case is == nil || is.Digest != digest:
		return SettingsUnknown
	case is.State == v1alpha1.ConfigurationUpToDate:
		return SettingsInForce
	case is.State == v1alpha1.ConfigurationInvalid:
		return SettingsInvalid
	case c.Policy == v1alpha1.PolicyValidate:
		return SettingsDiffer
	case is.Failure != nil && is.Failure.Digest == digest && !retry.Clears(&is.Failure.Request):
		return SettingsFailed
	}
	return SettingsDue
}
