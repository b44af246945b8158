package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConfigurationTemplateSpec says which settings should be in force on which devices of which nodes.
// +kubebuilder:validation:XValidation:rule="has(self.machine) || !has(self.rules) || self.rules.all(d, d.selector.class != 'BIOS' || has(d.selector.vendor) || has(d.selector.models) || has(d.selector.boardIDs) || has(d.selector.serialNumbers))",fieldPath=".rules",message="a rule of class BIOS must name a vendor, models, boardIDs or serialNumbers unless spec.machine names the machine; for the BIOS of every machine, set its vendor to any"
type ConfigurationTemplateSpec struct {
	// nodeSelector selects nodes by their labels. An absent or empty selector selects every node. Written by the user.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && size(e.values) > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || size(e.values) == 0))",message="operator must be In or NotIn, with values, or Exists or DoesNotExist, without"
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// machine restricts the template to one machine model, as the node's DMI tables report it. Absent: any machine.
	// Written by the user.
	// +optional
	Machine *MachineSelector `json:"machine,omitempty"`

	// state is Active (default) to assign settings, or Paused to assign nothing new and withdraw nothing. Written by
	// the user.
	// +optional
	// +kubebuilder:default=Active
	State TemplateState `json:"state,omitempty"`

	// priority orders the jobs that wait with settings of this template: higher is admitted first, whatever their age. Default 0,
	// from -1000 to 1000. Written by the user.
	// +optional
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=1000
	Priority int32 `json:"priority,omitempty"`

	// rules say which settings should be in force on which devices. At most 64, each with a name that is unique in the template. A device
	// that several rules match, of one template or of several, is a conflict, and its settings are left as they are. Written by the user.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Rules []ConfigurationRule `json:"rules,omitempty"`
}

// ConfigurationRule gives settings to the devices that its selector matches.
type ConfigurationRule struct {
	// name identifies the rule within its template.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// selector selects the devices.
	// +required
	Selector DeviceSelector `json:"selector,omitzero"`

	DesiredConfiguration `json:",inline"`
}

// DesiredConfiguration is what a device is told to be.
// +kubebuilder:validation:XValidation:rule="has(self.settings) || has(self.parameters) || has(self.unlisted) && self.unlisted == 'Reset'",message="name settings or parameters, or set unlisted to Reset"
type DesiredConfiguration struct {
	// policy is Apply (default) to change the device, or Validate to only report a difference.
	// +optional
	// +kubebuilder:default=Apply
	Policy Policy `json:"policy,omitempty"`
	// settings are those that mean the same on every device.
	// +optional
	Settings Settings `json:"settings,omitzero"`
	// parameters are the device's own, as its tool spells them. At most 128, each with a name of its own, and 16384 characters of names
	// and values together. No passwords: everybody who may read the object reads them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:XValidation:rule="self.map(p, size(p.name) + size(p.value)).sum() <= 16384",message="names and values of the parameters of one device are at most 16384 characters together"
	Parameters []ParameterValue `json:"parameters,omitempty"`
	// unlisted is Keep (default) to leave all other parameters alone, or Reset to give them their defaults.
	// +optional
	// +kubebuilder:default=Keep
	Unlisted UnlistedPolicy `json:"unlisted,omitempty"`
}

// Settings are those that mean the same on every device. An absent one is left alone.
// +kubebuilder:validation:MinProperties=1
type Settings struct {
	// numVFs is how many virtual functions each port of an adapter has, and can have; 0 switches SR-IOV off. At most 65535.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	NumVFs *int32 `json:"numVFs,omitempty"`
	// linkType is the link layer of all ports of an adapter: Ethernet or InfiniBand.
	// +optional
	// +kubebuilder:validation:Enum=Ethernet;InfiniBand
	LinkType LinkType `json:"linkType,omitempty"`
	// maxReadRequestBytes is the largest read request that each function of an adapter makes: 128, 256, 512, 1024, 2048 or 4096.
	// +optional
	// +kubebuilder:validation:Enum=128;256;512;1024;2048;4096
	MaxReadRequestBytes *int32 `json:"maxReadRequestBytes,omitempty"`
}

// ParameterValue is a value for one of a device's own parameters.
type ParameterValue struct {
	// name of the parameter, as the device's tool spells it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`
	// value as the tool takes it. It may be empty.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Value string `json:"value"`
}

// UnlistedPolicy says what becomes of parameters that are not named.
// +kubebuilder:validation:Enum=Keep;Reset
type UnlistedPolicy string

// The policies for parameters that are not named.
const (
	// UnlistedKeep leaves them as they are.
	UnlistedKeep UnlistedPolicy = "Keep"
	// UnlistedReset gives them their defaults.
	UnlistedReset UnlistedPolicy = "Reset"
)

// Digest identifies the settings that the configuration declares, in whatever order and under whatever policy.
func (c *DesiredConfiguration) Digest() Digest {
	if c == nil {
		return ""
	}
	values := map[string]string{}
	for _, p := range c.Parameters {
		values[p.Name] = p.Value
	}
	content, _ := json.Marshal([]any{c.Settings, values, c.Unlisted == UnlistedReset}) // these always marshal, and maps in order
	sum := sha256.Sum256(content)
	return Digest("sha256:" + hex.EncodeToString(sum[:]))
}

// SettingsOnly reports whether the update changes settings, and no firmware.
func (u *TaskDevice) SettingsOnly() bool {
	return u.Configuration != "" && u.Version == "" && u.Digest == ""
}

// Target is the version that the update brings, with the digest of its image; of one that only changes settings, what stands for these.
func (u *TaskDevice) Target() (version string, digest Digest) {
	if u.SettingsOnly() {
		return SettingsVersion(u.Configuration), u.Configuration
	}
	return u.Version, u.Digest
}

// Contents are the digests of what the update writes: of an image, of settings, or of both.
func (u *TaskDevice) Contents() []Digest {
	return slices.DeleteFunc([]Digest{u.Digest, u.Configuration}, func(d Digest) bool { return d == "" })
}

// Called is the version of a content of the update.
func (u *TaskDevice) Called(content Digest) string {
	if content == u.Configuration {
		return SettingsVersion(content)
	}
	return u.Version
}

// SettingsVersion is what settings are called where an image has its version.
func SettingsVersion(d Digest) string { return "settings " + ImageHash(d)[:min(len(ImageHash(d)), 8)] }

// ConfigurationTemplate says which settings should be in force on which devices.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fct,categories=firmware
// +kubebuilder:printcolumn:name="Selected",type=integer,JSONPath=`.status.nodes.selected`
// +kubebuilder:printcolumn:name="Up-To-Date",type=integer,JSONPath=`.status.nodes.upToDate`
// +kubebuilder:printcolumn:name="Out-Of-Date",type=integer,JSONPath=`.status.nodes.outOfDate`
// +kubebuilder:printcolumn:name="Baselines",type=integer,JSONPath=`.status.nodes.baselines`,priority=1
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.devices.failed`,priority=1
// +kubebuilder:printcolumn:name="Conflicts",type=integer,JSONPath=`.status.devices.conflicting`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ConfigurationTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec says which settings should be in force where. Written by the user.
	// +required
	Spec ConfigurationTemplateSpec `json:"spec,omitzero"`
	// status counts the matched devices and how far their settings are. Written by the operator.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status TemplateStatus `json:"status,omitzero"`
}

// ConfigurationTemplateList is a list of ConfigurationTemplate.
//
// +kubebuilder:object:root=true
type ConfigurationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ConfigurationTemplate `json:"items"`
}
