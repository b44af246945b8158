package v1alpha1

// UpgradePath restricts over which running versions one version is flashed. Versions are compared literally, spelled as a device that
// runs them reports them; only below needs their order.
// +kubebuilder:validation:XValidation:rule="has(self.from) != has(self.below)",message="an upgrade path needs either from or below"
// +kubebuilder:validation:XValidation:rule="!has(self.via) || self.via != self.to",message="via must not be the version in to"
// +kubebuilder:validation:XValidation:rule="!has(self.from) || !(self.to in self.from) && !(has(self.via) && self.via in self.from)",message="from must not contain the version in to or via"
type UpgradePath struct {
	// to is the version to be flashed. Written by the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	To string `json:"to,omitempty"`
	// from are the running versions that the path is about, at most 64. Absent: below says it. Written by the user.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	From []string `json:"from,omitempty"`
	// below says that the path is about every running version that is older than this one. A device whose version cannot be ordered
	// against it is blocked. Absent: from says it. Written by the user.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Below string `json:"below,omitempty"`
	// via is the version to flash first, as an update of its own, whose image the source must hold too. Absent: the version is not
	// flashed over these at all. Written by the user.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Via string `json:"via,omitempty"`
}

// UpgradeStep is an upgrade path of the source that matters for the desired version of one device.
// +kubebuilder:validation:XValidation:rule="has(self.via) == has(self.digest)",message="via needs the digest of its image"
type UpgradeStep struct {
	UpgradePath `json:",inline"`
	// digest of the image of via for the device's board. Written by the operator.
	// +optional
	Digest Digest `json:"digest,omitempty"`
}
