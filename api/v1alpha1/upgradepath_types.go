package v1alpha1

// UpgradePaths restricts which version may be flashed over which. Versions are compared literally, spelled as a device
// that runs them reports them. Those of a template's rule and of its source both apply.
type UpgradePaths struct {
	// blockedEdges lists the steps between two versions that must not be made. At most 64.
	// +optional
	// +listType=map
	// +listMapKey=to
	// +kubebuilder:validation:MaxItems=64
	BlockedEdges []BlockedEdge `json:"blockedEdges,omitempty"`
	// hops lists versions that must run in between. Each is an update of its own, one after the other. At most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Hops []VersionHop `json:"hops,omitempty"`
	// minimumVersions lists what must run at least before a version is flashed. They need a device whose versions are
	// ordered. At most 64.
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

// VersionHop asks for a version in between.
// +kubebuilder:validation:XValidation:rule="self.via != self.to && !(self.via in self.from) && !(self.to in self.from)",message="to, via and the versions in from must differ"
type VersionHop struct {
	// to is the version that cannot be reached directly.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	To string `json:"to,omitempty"`
	// from are the running versions from which it cannot. At most 64.
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

// MinimumVersion says what must run at least before a version is flashed.
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

// UpgradePath is what the paths of template and source mean for one device's wanted version.
type UpgradePath struct {
	// blockedFrom are the running versions over which the wanted one must not be flashed. At most 128.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=64
	BlockedFrom []string `json:"blockedFrom,omitempty"`
	// minimumVersion is the oldest version it may be flashed over.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	MinimumVersion string `json:"minimumVersion,omitempty"`
	// hops are the versions to flash first, each with the versions from which. At most 32.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Hops []UpgradeHop `json:"hops,omitempty"`
}

// UpgradeHop is a version on the way to the wanted one.
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
