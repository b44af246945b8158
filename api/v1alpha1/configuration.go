package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConfigurationTemplateSpec says which settings should be in force on which devices of which nodes. Only the local mode of firmware-daemon
// reads it: a cluster does not have the kind yet.
type ConfigurationTemplateSpec struct {
	// nodeSelector selects nodes by their labels. An absent or empty selector selects every node.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// machine restricts the template to one machine model. Absent: any machine.
	Machine *MachineSelector `json:"machine,omitempty"`
	// state is Active (default), or Paused to change nothing.
	State TemplateState `json:"state,omitempty"`
	// rules say which settings should be in force on which devices. At most 64, each with a name that is unique in the template. A device
	// that several rules match is a conflict, and nothing of it is changed.
	Rules []ConfigurationRule `json:"rules,omitempty"`
}

// ConfigurationRule gives settings to the devices that its selector matches.
type ConfigurationRule struct {
	// name identifies the rule within its template.
	Name string `json:"name,omitempty"`
	// selector selects the devices.
	Selector DeviceSelector `json:"selector,omitzero"`

	DesiredConfiguration `json:",inline"`
}

// DesiredConfiguration is what a device is told to be.
type DesiredConfiguration struct {
	// policy is Apply (default) to change the device, or Validate to only report a difference.
	Policy Policy `json:"policy,omitempty"`
	// settings are those that mean the same on every device.
	Settings Settings `json:"settings,omitzero"`
	// parameters are the device's own, as its tool spells them. At most 128, each with a name of its own.
	Parameters []ParameterValue `json:"parameters,omitempty"`
	// unlisted is Keep (default) to leave all other parameters alone, or Reset to give them their defaults.
	Unlisted UnlistedPolicy `json:"unlisted,omitempty"`
}

// Settings are those that mean the same on every device. An absent one is left alone.
type Settings struct {
	// numVFs is how many virtual functions each port of an adapter has, and can have; 0 switches SR-IOV off.
	NumVFs *int32 `json:"numVFs,omitempty"`
	// linkType is the link layer of all ports of an adapter: Ethernet or InfiniBand.
	LinkType LinkType `json:"linkType,omitempty"`
	// maxReadRequestBytes is the largest read request that each function of an adapter makes: 128, 256, 512, 1024, 2048 or 4096.
	MaxReadRequestBytes *int32 `json:"maxReadRequestBytes,omitempty"`
}

// ParameterValue is a value for one of a device's own parameters.
type ParameterValue struct {
	// name of the parameter, as the device's tool spells it.
	Name string `json:"name,omitempty"`
	// value as the tool takes it. It may be empty.
	Value string `json:"value"`
}

// UnlistedPolicy says what becomes of parameters that are not named.
type UnlistedPolicy string

// The policies for parameters that are not named.
const (
	UnlistedKeep  UnlistedPolicy = "Keep"
	UnlistedReset UnlistedPolicy = "Reset"
)
