package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SourceVerification says who must have signed the files of a source: one of the keys, or one of the identities. Verification needs no
// network.
// +kubebuilder:validation:XValidation:rule="has(self.keys) != has(self.trustedRoot)",message="verification needs either keys, or trustedRoot and identities"
// +kubebuilder:validation:XValidation:rule="has(self.trustedRoot) == has(self.identities)",message="trustedRoot and identities must be set together"
type SourceVerification struct {
	// keys are the public keys of those who may sign, at most 8: a minisign key (the line that begins with RW), or an ECDSA key
	// on the curve P-256 in PEM, as PUBLIC KEY or as CERTIFICATE, which expires. Absent: trustedRoot and identities say it. Written
	// by the user.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=4096
	Keys []string `json:"keys,omitempty"`
	// trustedRoot is the trusted_root.json of the Sigstore that the publisher signs with, of at most 32 KiB: its certificate authorities,
	// transparency logs, certificate logs and timestamp authorities, and when each was valid. Each kind that it lists is required of a
	// bundle: a log entry, or a timestamp if it lists no log. Written by the user.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	TrustedRoot string `json:"trustedRoot,omitempty"`
	// identities of those who may sign, at most 16, one of whom is enough. Written by the user.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Identities []SignerIdentity `json:"identities,omitempty"`
}

// SignerIdentity is who signs, as the certificate of a signature says.
// +kubebuilder:validation:XValidation:rule="has(self.subject) != has(self.subjectRegExp)",message="an identity needs either subject or subjectRegExp"
type SignerIdentity struct {
	// issuer is the URL of the OpenID Connect issuer that knew the signer, such as https://token.actions.githubusercontent.com.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Issuer string `json:"issuer,omitempty"`
	// subject is the signer: an e-mail address, or a URI such as that of a workflow.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Subject string `json:"subject,omitempty"`
	// subjectRegExp is a regular expression (RE2) that the whole subject matches, for a URI that changes with each release.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	SubjectRegExp string `json:"subjectRegExp,omitempty"`
}

// FirmwareSourceSpec says where images come from, how they are verified and what they are.
// +kubebuilder:validation:XValidation:rule="self.files.all(f, has(f.signatureURL) == has(self.verification))",message="signatureURL is required for every file if verification is set, and not allowed otherwise, because it would not be verified"
type FirmwareSourceSpec struct {
	// files to fetch, at most 64. Every one must be fetched and verified before the source is Ready.
	// Written by the user.
	// +required
	// +listType=map
	// +listMapKey=url
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Files []FirmwareFile `json:"files,omitempty"`
	// verification says who must have signed the files. Absent: nobody. Nodes may require signatures whatever is said here. Written
	// by the user.
	// +optional
	Verification *SourceVerification `json:"verification,omitempty"`
	// secretRef names a Secret of the product's namespace with the credentials of the servers: username and password, or token, and hosts,
	// the servers that get them, separated by blanks or commas, each as its URL has it. They are sent over https only. The operator
	// must be permitted to read that Secret. Written by the user.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`
	// caRef names a ConfigMap of the product's namespace whose key ca.crt has certificates of authorities in PEM, which are trusted
	// besides those of the system. The operator must be permitted to read it. Written by the user.
	// +optional
	CARef *LocalReference `json:"caRef,omitempty"`
	// upgradePaths restricts which version may be flashed over which, for every template and pin that uses this source, at most 128.
	// Absent: nothing is restricted. Written by the user.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	UpgradePaths []UpgradePath `json:"upgradePaths,omitempty"`
}

// LocalReference names an object of the product's namespace.
type LocalReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// FirmwareFile is one file to fetch.
// +kubebuilder:validation:XValidation:rule="has(self.digest) || self.url.startsWith('oci://')",message="digest is required: without it any file would be accepted"
// +kubebuilder:validation:XValidation:rule="size(self.images) == 1 || self.images.all(i, has(i.path))",message="a file of several images is an archive: each needs its path within it"
type FirmwareFile struct {
	// url of the file: https, http, file or oci. A URL may not carry a user name or password. A file URL names a path on the
	// operator's own file system, below the operator's configured source directory. An OCI reference,
	// oci://registry/repository@sha256:digest, names a manifest with one layer, which is the file; a tag alone is refused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^(https?|file)://[^ ]+$') || self.startsWith('oci://')",message="url must begin with https://, http://, file:// or oci:// and contain no spaces"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('oci://') || self.matches('^oci://[^/ @]+/[^ @]+@sha256:[0-9a-f]{64}$')",message="an OCI reference is oci://registry/repository@sha256:digest, because a registry may move a tag to another artifact"
	// +kubebuilder:validation:XValidation:rule="self.startsWith('oci://') || !self.matches('^[a-z]+://[^/]*@')",message="url must not carry credentials"
	URL string `json:"url,omitempty"`
	// digest of the file, sha256: and 64 hexadecimal digits. A file with another one is refused. Required, but for an OCI reference, whose
	// digest is that of the manifest. Written by the user.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",messageExpression="self.lowerAscii().matches('^(sha256:)?[0-9a-f]{64}$') ? 'write the digest as sha256:' + self.lowerAscii().replace('sha256:', '') : 'a digest is sha256: and 64 hexadecimal digits in lower case, as sha256sum FILE prints them'"
	Digest Digest `json:"digest,omitempty"`
	// signatureURL is where the signature of the file is: a minisign signature (.minisig), an ECDSA signature of the file's sha256 in
	// DER, bare or in base64, or a bundle of Sigstore (.sigstore.json); at most 32 KiB. https, http or file, as for url. Required
	// with spec.verification, and not allowed without. Written by the user.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^(https?|file)://[^/ @]*(/[^ ]*)?$`
	SignatureURL string `json:"signatureURL,omitempty"`
	// images says what the file holds, at most 64. One without a path is the file itself, a cabinet for fwupd for example. With paths the
	// file is an archive: a zip, a cabinet, an RPM package, a tar, which may be compressed with gzip, xz or zstd, a program with a zip behind it or a
	// script with a compressed tar behind it, detected by its first bytes; members that are not listed are ignored. Written by the user.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Images []ImageDescription `json:"images,omitempty"`
}

// ImageDescription says what an image is for. The daemon checks it again against the device and the image itself
// before it writes.
type ImageDescription struct {
	// path of the image within the archive, without a leading slash and without "..". In a tar archive within the archive: the name of that, a
	// slash, and the name in it. Absent: the file is the image.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^/]+(/[^/]+)*$') && !self.matches('(^|/)[.][.](/|$)')",message="path must be relative and without empty or '..' elements"
	Path string `json:"path,omitempty"`
	// class of the devices the image is for.
	// +required
	Class DeviceClass `json:"class,omitempty"`
	// vendor the image is for, as in a template's selector. Absent: not restricted. "any": every device of the class may get it, also
	// where the image does not say itself for which boards it is.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`[A-Za-z0-9]`
	Vendor string `json:"vendor,omitempty"`
	// models the image is for, as in a template's selector. Absent: not restricted. At most 64.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Models []string `json:"models,omitempty"`
	// boardIDs the image is for (PSID, board.id). Absent: those that the image names itself, or else not restricted. At most 64. An image
	// that does not say itself for which boards it is needs boardIDs, models or the vendor any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	BoardIDs []string `json:"boardIDs,omitempty"`
	// version of the firmware, spelled as a device that runs it reports it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// digest of the image itself, as it is within the archive or artifact, as sha256:<hex>. Nodes flash no other image for this description.
	// Absent: of a file that is the image, that of the file; of an image with a path, and of an artifact without a digest, any.
	// +optional
	Digest Digest `json:"digest,omitempty"`
}

// FirmwareSourceStatus is written by the operator.
type FirmwareSourceStatus struct {
	// observedGeneration is the generation of the spec this status describes; -1 before the first reconciliation.
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Reconciling, Stalled, and SignatureVerified where spec.verification asks for signatures. The reason of Ready
	// says at which stage the pipeline stopped.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// images that are verified and in store, in order of version and board id. At most 512. Together with the spec they take at
	// most 128 KiB; a source that describes more is not Ready.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Images []StoredImage `json:"images,omitempty"`
}

// StoredImage is one verified image in the operator's store.
type StoredImage struct {
	// version of the firmware.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// class of the devices the image is for.
	// +required
	Class DeviceClass `json:"class,omitempty"`
	// vendor the image is for.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Vendor string `json:"vendor,omitempty"`
	// models the image is for.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	Models []string `json:"models,omitempty"`
	// boardIDs the image is for.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	BoardIDs []string `json:"boardIDs,omitempty"`
	// digest of the image as it is stored and served.
	// +required
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest Digest `json:"digest,omitempty"`
}

// FirmwareSource says where images come from, how they are verified and what is in store.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fws,categories=firmware
// +kubebuilder:printcolumn:name="Signed",type=string,JSONPath=`.status.conditions[?(@.type=="SignatureVerified")].status`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FirmwareSource struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec describes the files and the images they hold. Written by the user.
	// +required
	Spec FirmwareSourceSpec `json:"spec,omitzero"`
	// status is what is in store. Written by the operator.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status FirmwareSourceStatus `json:"status,omitzero"`
}

// FirmwareSourceList is a list of FirmwareSource.
//
// +kubebuilder:object:root=true
type FirmwareSourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FirmwareSource `json:"items"`
}

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
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest Digest `json:"digest,omitempty"`
}
