package v1alpha1

// UpgradePaths restricts which version may be flashed over which. Versions are compared literally, spelled as a device
// that runs them reports them. The paths of the template rule and those of the source both apply.
type UpgradePaths struct {
	// blockedEdges lists the transitions between two versions that are forbidden. At most 64.
	// +optional
	// +listType=map
	// +listMapKey=to
	// +kubebuilder:validation:MaxItems=64
	BlockedEdges []BlockedEdge `json:"blockedEdges,omitempty"`
	// hops lists the versions that must be installed on the way. Each hop is a separate update. At most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Hops []VersionHop `json:"hops,omitempty"`
	// minimumVersions lists the oldest version that must run before a version is flashed. They apply only to devices
	// whose versions can be ordered. At most 64.
	// +optional
	// +listType=map
	// +listMapKey=to
	// +kubebuilder:validation:MaxItems=64
	MinimumVersions []MinimumVersion `json:"minimumVersions,omitempty"`
}

// BlockedEdge forbids flashing one version over some others.
// +kubebuilder:validation:XValidation:rule="!(self.to in self.from)",message="from must not contain the version in to"
type BlockedEdge struct {
	// to is the version that must not be flashed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	To string `json:"to,omitempty"`
	// from are the running versions over which it must not be flashed. At most 64.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	From []string `json:"from,omitempty"`
}

// VersionHop requires an intermediate version.
// +kubebuilder:validation:XValidation:rule="self.via != self.to && !(self.via in self.from) && !(self.to in self.from)",message="to, via and the versions in from must differ"
type VersionHop struct {
	// to is the version that cannot be reached directly.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	To string `json:"to,omitempty"`
	// from are the running versions from which it cannot be reached directly. At most 64.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	From []string `json:"from,omitempty"`
	// via is the version to flash first. The source must hold its image too.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Via string `json:"via,omitempty"`
}

// MinimumVersion is the oldest version that must run before another version is flashed.
type MinimumVersion struct {
	// to is the version to be flashed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	To string `json:"to,omitempty"`
	// version is the oldest one it may be flashed over.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
}

// UpgradePath is the combined upgrade paths of template and source for the desired version of one device.
type UpgradePath struct {
	// blockedFrom are the running versions over which the desired one must not be flashed. At most 128.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=64
	BlockedFrom []string `json:"blockedFrom,omitempty"`
	// minimumVersion is the oldest version it may be flashed over.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	MinimumVersion string `json:"minimumVersion,omitempty"`
	// hops are the versions to flash first, each with the running versions it applies to. At most 32.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Hops []UpgradeHop `json:"hops,omitempty"`
}

// UpgradeHop is an intermediate version on the way to the desired one.
type UpgradeHop struct {
	// from are the running versions from which this hop is taken. At most 64.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	From []string `json:"from,omitempty"`
	// version to flash.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// digest of its image for the device's board.
	// +required
	Digest Digest `json:"digest,omitempty"`
	// blockedFrom are the running versions over which this one must not be flashed. At most 128.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=64
	BlockedFrom []string `json:"blockedFrom,omitempty"`
	// minimumVersion is the oldest version this one may be flashed over.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	MinimumVersion string `json:"minimumVersion,omitempty"`
}
