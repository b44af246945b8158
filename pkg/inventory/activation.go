package inventory

// Activation is what a stored image needs before it runs. The kinds are ordered from the least to the most disruptive.
type Activation int

// The kinds of activation.
const (
	ActivateNone Activation = iota
	ActivateDeviceReset
	ActivateDriverReload
	ActivateReboot
	ActivatePowerCycle
)

var activationNames = [...]string{"None", "DeviceReset", "DriverReload", "Reboot", "PowerCycle"}

// String is the name the API uses for the kind.
func (a Activation) String() string {
	if a < 0 || int(a) >= len(activationNames) {
		return "Unknown"
	}
	return activationNames[a]
}
