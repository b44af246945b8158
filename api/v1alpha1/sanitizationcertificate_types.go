package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Sanitization is how a drive erased all that it stored, and what proves it, as its node found it.
type Sanitization struct {
	// serialNumber of the drive.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	SerialNumber string `json:"serialNumber,omitempty"`
	// vendor that the drive reports.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Vendor string `json:"vendor,omitempty"`
	// model that the drive reports.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model,omitempty"`
	// sizeBytes is what a host could read of the drive, of an NVMe drive all of its namespaces together.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// method by which the drive erased itself, in the drive's words, such as "NVMe sanitize, block erase".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Method string `json:"method,omitempty"`
	// log is what the drive's own log said at the end: of an NVMe drive the log page 81h, with SSTAT, SPROG and SCDW10. A SAS drive keeps none: it is then what
	// the drive reported while it erased itself (sense data), or that it was never seen to, so that samples alone say it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Log string `json:"log,omitempty"`
	// samples is how many blocks of 4096 bytes were read before and after, over the whole drive. None was afterwards what it had been, or looked
	// like a partition table, a file system or the like.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Samples int32 `json:"samples,omitempty"`
	// heldData is how many of the samples had data before. Where none had, only log says that the data are gone.
	// +optional
	// +kubebuilder:validation:Minimum=0
	HeldData int32 `json:"heldData,omitempty"`
	// startTime is when the node began, by its clock.
	// +required
	StartTime metav1.Time `json:"startTime,omitzero"`
	// seed by which the samples were chosen, as a hexadecimal number.
	// +optional
	// +kubebuilder:validation:MaxLength=18
	Seed string `json:"seed,omitempty"`
	// version of the daemon that saw to it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
}

// SanitizationTerm is how thorough a sanitization is, by NIST SP 800-88.
// +kubebuilder:validation:Enum=Purge
type SanitizationTerm string

// TermPurge makes recovery infeasible with state of the art laboratory techniques.
const TermPurge SanitizationTerm = "Purge"

// SanitizationRecord is what a certificate certifies.
type SanitizationRecord struct {
	Sanitization `json:",inline"`
	// term of NIST SP 800-88 for the method: Purge.
	// +required
	Term SanitizationTerm `json:"term,omitempty"`
	// nodeName is the Node that the drive was in.
	// +required
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName,omitempty"`
	// device is the NodeDevice of the drive.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Device string `json:"device,omitempty"`
	// job is the FirmwareJob that had the drive erase itself.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Job string `json:"job,omitempty"`
	// jobUID tells the job from another one of its name.
	// +required
	// +kubebuilder:validation:MaxLength=63
	JobUID string `json:"jobUID,omitempty"`
	// cleaningPolicy is the CleaningPolicy that made the job; absent for a job of a person.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CleaningPolicy string `json:"cleaningPolicy,omitempty"`
	// consentedBy is the user who created the job, or wrote the policy, as the API server knew them. Absent where the admission policy that sees
	// to that was not installed when they did.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ConsentedBy string `json:"consentedBy,omitempty"`
	// completionTime is when the proof was complete, by the clock of the node.
	// +required
	CompletionTime metav1.Time `json:"completionTime,omitzero"`
	// remains says what may still be read from the drive, and what nobody could look at.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Remains string `json:"remains,omitempty"`
}

// SanitizationCertificateSpec is a record and its signature.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a certificate is never changed"
type SanitizationCertificateSpec struct {
	// record is what is certified.
	// +required
	Record SanitizationRecord `json:"record,omitzero"`
	// signature of the record, as compact JSON with sorted keys (RFC 8785): ECDSA with SHA-256, in ASN.1, by the key of this installation.
	// +required
	// +kubebuilder:validation:MaxLength=256
	Signature []byte `json:"signature,omitempty"`
	// publicKey that the signature is valid for, as PEM. It proves something only to whoever knows this key from elsewhere.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	PublicKey string `json:"publicKey,omitempty"`
}

// SanitizationCertificate certifies that a drive erased all that it stored. The operator creates it at the end of a job that had the drive erase
// itself and proved it. It has no owner and no end: it stays when the job and the node are gone, until somebody deletes it or the definition of its kind.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=scert,categories=firmware
// +kubebuilder:printcolumn:name="Serial Number",type=string,JSONPath=`.spec.record.serialNumber`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.record.model`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.record.nodeName`
// +kubebuilder:printcolumn:name="Term",type=string,JSONPath=`.spec.record.term`
// +kubebuilder:printcolumn:name="Method",type=string,JSONPath=`.spec.record.method`
// +kubebuilder:printcolumn:name="Consented By",type=string,JSONPath=`.spec.record.consentedBy`,priority=1
// +kubebuilder:printcolumn:name="Completed",type=date,JSONPath=`.spec.record.completionTime`
type SanitizationCertificate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec is the record and its signature. Written by the operator.
	// +required
	Spec SanitizationCertificateSpec `json:"spec,omitzero"`
}

// SanitizationCertificateList is a list of SanitizationCertificate.
//
// +kubebuilder:object:root=true
type SanitizationCertificateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SanitizationCertificate `json:"items"`
}
