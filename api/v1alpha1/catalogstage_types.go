package v1alpha1

// CatalogStage asks for one version that a provider offers to be stored in this cluster.
type CatalogStage struct {
	// source is the name of the FirmwareSource that the operator creates for it, once. Nobody must refer to the name before, so that
	// nothing is flashed because of it. From then on it is the user's: the operator neither changes nor deletes it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Source string `json:"source,omitempty"`
	// class of the component, as in status.components.
	// +required
	Class DeviceClass `json:"class,omitempty"`
	// pciID of the component; needed only where class does not select one component alone.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=9
	PCIID string `json:"pciID,omitempty"`
	// name of the component; needed only where class does not select one component alone.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`
	// boardID of the component; needed only where the others do not select one component alone.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	BoardID string `json:"boardID,omitempty"`
	// version of the firmware, as in status.components[].versions.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// sha256 of the file, as in status.components[].versions, as 64 hexadecimal digits. Whoever writes it vouches for the file: a
	// provider that names another one later changes nothing.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256,omitempty"`
}

// CatalogStaged says what became of one entry of spec.stage.
type CatalogStaged struct {
	// source is the name in spec.stage.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Source string `json:"source,omitempty"`
	// reason: Staged, Progressing, NotOffered, Ambiguous, DigestMismatch, InvalidURL, NameTaken or InUse.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message says what is wrong and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}
