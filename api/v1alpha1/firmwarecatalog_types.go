package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CatalogState says whether versions are looked for.
// +kubebuilder:validation:Enum=Active;Paused
type CatalogState string

const (
	// CatalogActive looks for versions when the last discovery is older than the interval.
	CatalogActive CatalogState = "Active"
	// CatalogPaused cancels a discovery that waits or runs, and starts none. What was found stays in the status.
	CatalogPaused CatalogState = "Paused"
)

// CatalogProviderType names the form in which a provider tells its versions.
// +kubebuilder:validation:Enum=Sources;LVFS;Dell;Index;OCI
type CatalogProviderType string

const (
	// ProviderSources are the images of the FirmwareSources of this cluster. It is the only one that opens no connection.
	ProviderSources CatalogProviderType = "Sources"
	// ProviderLVFS is AppStream metadata of the Linux Vendor Firmware Service or of a mirror of it, with its jcat signature.
	ProviderLVFS CatalogProviderType = "LVFS"
	// ProviderDell is the catalog XML of Dell, or one in the same form.
	ProviderDell CatalogProviderType = "Dell"
	// ProviderIndex is a JSON index as docs/kinds/firmwarecatalog.md defines it.
	ProviderIndex CatalogProviderType = "Index"
	// ProviderOCI is the tags of a repository of an OCI registry.
	ProviderOCI CatalogProviderType = "OCI"
)

// FirmwareCatalogSpec names a machine model, and where and how often versions for it are looked for.
type FirmwareCatalogSpec struct {
	// manufacturer of the machines: what their firmware reports (DMI system vendor) in lower case, with a dash for what is neither
	// an ASCII letter nor a digit, such as dell-inc for "Dell Inc.". Immutable. Written by the operator or the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=120
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+(-[a-z0-9]+)*$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="manufacturer is immutable; create another catalog"
	Manufacturer string `json:"manufacturer,omitempty"`
	// model of the machines (DMI product name), spelled like manufacturer. Immutable. Written by the operator or the user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=120
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+(-[a-z0-9]+)*$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="model is immutable; create another catalog"
	Model string `json:"model,omitempty"`
	// state is Active (default) or Paused, which cancels a discovery that waits or runs and starts none. Written by the user.
	// +optional
	// +kubebuilder:default=Active
	State CatalogState `json:"state,omitempty"`
	// discoveryInterval is the age of the last discovery at which versions are looked for again, as a duration such as "24h"
	// (the default). At least 1m. Written by the user.
	// +optional
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1m')",message="discoveryInterval must be a duration of at least 1m, such as 24h"
	DiscoveryInterval string `json:"discoveryInterval,omitempty"`
	// versionsToStore is how many versions of each component the status keeps: the newest ones where the format of the versions
	// is declared, otherwise the first ones in the order of the provider. 1 to 16, by default 5. Written by the user.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	VersionsToStore int32 `json:"versionsToStore,omitempty"`
	// discover requests a discovery now. It is any text of at most 128 bytes, such as "2026-11-22 new BIOS is out", and it is a
	// request whenever it differs from status.discover. Removing it requests nothing. Written by the user.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Discover string `json:"discover,omitempty"`
	// providers that are asked, at most 8. Absent: the images of the FirmwareSources alone, for which no connection is opened.
	// Written by the user.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Providers []CatalogProvider `json:"providers,omitempty"`
	// stage lists versions to store in this cluster, at most 16: for each of them the operator creates a FirmwareSource, which no
	// template refers to. Nothing is assigned or flashed because of it. Written by the user.
	// +optional
	// +listType=map
	// +listMapKey=source
	// +kubebuilder:validation:MaxItems=16
	Stage []CatalogStage `json:"stage,omitempty"`
}

// CatalogProvider is one place that versions are looked for in.
// +kubebuilder:validation:XValidation:rule="(self.type == 'Sources') != has(self.url)",message="name the url of the provider; only the type Sources takes none"
// +kubebuilder:validation:XValidation:rule="!has(self.url) || (self.type == 'OCI' ? self.url.matches('^oci://[^ ]+$') : self.url.matches('^(https|file)://[^ ]+$'))",message="url must begin with https:// or file://, and with oci:// for the type OCI, and hold no blanks"
// +kubebuilder:validation:XValidation:rule="!has(self.url) || !self.url.matches('^[a-z]+://[^/]*@')",message="url must not carry credentials"
// +kubebuilder:validation:XValidation:rule="self.type != 'OCI' || !has(self.url) || self.url.matches('^oci://[^/]+/[^@:]+$')",message="url of the type OCI is oci://registry/repository, without a tag or digest"
// +kubebuilder:validation:XValidation:rule="self.type != 'Sources' || !has(self.secretRef) && !has(self.caRef)",message="the type Sources opens no connection and takes neither secretRef nor caRef"
// +kubebuilder:validation:XValidation:rule="has(self.signers) == (self.type == 'LVFS')",message="name the signers of LVFS metadata, which must be signed; the other types have no signatures"
type CatalogProvider struct {
	// name identifies the provider within the catalog.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// type of the provider.
	// +required
	Type CatalogProviderType `json:"type,omitempty"`
	// url of the metadata: https, or file for a path on the operator's own file system below its configured source directory, or
	// oci for a repository. No user name or password. The jcat signature of LVFS metadata is expected beside it, with ".jcat"
	// added to the path.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	URL string `json:"url,omitempty"`
	// signers are the X.509 certificates in PEM, at most 4 KiB, of the authorities that the signature of LVFS metadata must lead to.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Signers string `json:"signers,omitempty"`
	// secretRef names a Secret of the product's namespace with the credentials of the server: username and password, or token, and hosts,
	// the servers that get them, as in a FirmwareSource. They are sent over https only. The operator must be permitted to read
	// that Secret. Written by the user.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`
	// caRef names a ConfigMap of the product's namespace whose key ca.crt has certificates of authorities in PEM, which are trusted
	// besides those of the system. The operator must be permitted to read it. Written by the user.
	// +optional
	CARef *LocalReference `json:"caRef,omitempty"`
}

// FirmwareCatalogStatus is written by the operator. With the spec it stays under 256 KiB: what does not fit is counted.
type FirmwareCatalogStatus struct {
	// observedGeneration is the generation of the spec this status describes; -1 before the first reconciliation.
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready (every provider answered within the interval), Staged where spec.stage lists versions, and TagsMoved, Reconciling
	// or Stalled while they are True.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// lastDiscoveryTime is when the provider answered last whose answer is the oldest, by the clock of the operator. Absent until each
	// has answered.
	// +optional
	LastDiscoveryTime *metav1.Time `json:"lastDiscoveryTime,omitempty"`
	// discover is the request of spec.discover that was acted on last.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Discover string `json:"discover,omitempty"`
	// machine is the manufacturer and model as a machine of the model reports them; absent while there is none.
	// +optional
	Machine *CatalogMachine `json:"machine,omitempty"`
	// nodes counts the nodes of this model.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Nodes int32 `json:"nodes"`
	// devices counts their devices.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Devices int32 `json:"devices"`
	// devicesBehind counts the devices that run an older version than the newest one that a provider offers.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DevicesBehind int32 `json:"devicesBehind"`
	// devicesVulnerable counts the devices whose running version has a known vulnerability by the issue tags of a provider.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DevicesVulnerable int32 `json:"devicesVulnerable"`
	// devicesUnknown counts the devices of which it is not known whether they are behind: no provider knows them, they could
	// not be read, or no format of their versions is declared.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DevicesUnknown int32 `json:"devicesUnknown"`
	// providers is what each provider answered last. At most 8.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Providers []CatalogProviderStatus `json:"providers,omitempty"`
	// staged says what became of each entry of spec.stage. At most 16.
	// +optional
	// +listType=map
	// +listMapKey=source
	// +kubebuilder:validation:MaxItems=16
	Staged []CatalogStaged `json:"staged,omitempty"`
	// components are the kinds of devices of these machines, the BIOS first, with the versions that run and that are offered. At
	// most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Components []CatalogComponent `json:"components,omitempty"`
	// componentsNotListed counts the components that components leaves out because there are too many, or the object would
	// become too large.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ComponentsNotListed int32 `json:"componentsNotListed,omitempty"`
}

// CatalogMachine is a machine model as the machines report it.
type CatalogMachine struct {
	// manufacturer is the DMI system vendor.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Manufacturer string `json:"manufacturer,omitempty"`
	// model is the DMI product name.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model,omitempty"`
}

// CatalogProviderStatus is what one provider answered last.
type CatalogProviderStatus struct {
	// name of the provider.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// lastDiscoveryTime is when it last answered. Absent: never.
	// +optional
	LastDiscoveryTime *metav1.Time `json:"lastDiscoveryTime,omitempty"`
	// signedTime is when the metadata that was used last was signed, as its signature says. What was signed before is refused.
	// +optional
	SignedTime *metav1.Time `json:"signedTime,omitempty"`
	// versions counts the versions that it offers for the components of these machines.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Versions int32 `json:"versions"`
	// reason why the last attempt failed: DownloadFailed, SignatureInvalid, Replayed, InvalidCatalog, TooLarge, DeadlineExceeded
	// or Unsupported. Absent if it succeeded.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message says what went wrong, or what a provider without a reason could not list. What the provider answered before stays in the
	// status.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// CatalogComponent is one kind of device of the machines: same class, model and board.
type CatalogComponent struct {
	// class of the devices.
	// +required
	Class DeviceClass `json:"class,omitempty"`
	// manufacturer of the devices.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Manufacturer string `json:"manufacturer,omitempty"`
	// name is the model name of the devices.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`
	// pciID is the PCI vendor and device id, such as "15b3:101d"; absent for devices that are not on the PCI bus.
	// +optional
	// +kubebuilder:validation:MaxLength=9
	PCIID string `json:"pciID,omitempty"`
	// boardID is the id that the board checks an image against.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BoardID string `json:"boardID,omitempty"`
	// versionFormat says how the versions are ordered: Dotted, or absent when no format is declared. Then versions are listed in
	// the order of the provider, and nothing is said to be behind.
	// +optional
	VersionFormat VersionFormat `json:"versionFormat,omitempty"`
	// newest is the newest version offered; absent when nothing is offered or no format is declared.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Newest string `json:"newest,omitempty"`
	// running are the versions that the devices run, the most frequent ones first. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Running []CatalogRunning `json:"running,omitempty"`
	// runningNotListed counts the devices that run a version that running leaves out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RunningNotListed int32 `json:"runningNotListed,omitempty"`
	// versions that are offered, newest first, at most spec.versionsToStore.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Versions []CatalogVersion `json:"versions,omitempty"`
	// issues are the known vulnerabilities of these devices by the issue tags of the providers, those of running versions first.
	// At most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Issues []CatalogIssue `json:"issues,omitempty"`
	// issuesNotListed counts the vulnerabilities that issues leaves out; there may be more.
	// +optional
	// +kubebuilder:validation:Minimum=0
	IssuesNotListed int32 `json:"issuesNotListed,omitempty"`
}

// CatalogPosition is where a running version stands among the versions that are offered.
// +kubebuilder:validation:Enum=Newest;Behind;Ahead;Unknown
type CatalogPosition string

const (
	// PositionNewest is the newest version offered.
	PositionNewest CatalogPosition = "Newest"
	// PositionBehind is older than the newest version offered.
	PositionBehind CatalogPosition = "Behind"
	// PositionAhead is newer than every version offered.
	PositionAhead CatalogPosition = "Ahead"
	// PositionUnknown cannot be compared, or nothing is offered.
	PositionUnknown CatalogPosition = "Unknown"
)

// CatalogRunning is one version that devices run.
type CatalogRunning struct {
	// version that runs; "unknown" for devices that could not be read.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// devices that run it.
	// +required
	// +kubebuilder:validation:Minimum=0
	Devices int32 `json:"devices"`
	// position among the versions offered: Newest, Behind, Ahead or Unknown.
	// +required
	Position CatalogPosition `json:"position,omitempty"`
	// nodeDevices are the first NodeDevices by name that run it, where it is behind or has a known vulnerability. At most 5, and none where
	// the object would become too large.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=253
	NodeDevices []string `json:"nodeDevices,omitempty"`
	// issues are the known vulnerabilities that this version has. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	Issues []string `json:"issues,omitempty"`
	// mendedByNewest are those of issues that the newest version mends. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	MendedByNewest []string `json:"mendedByNewest,omitempty"`
	// issuesNotListed counts those that issues leaves out; there may be more.
	// +optional
	// +kubebuilder:validation:Minimum=0
	IssuesNotListed int32 `json:"issuesNotListed,omitempty"`
}

// CatalogVersion is one version that is offered.
type CatalogVersion struct {
	// version of the firmware.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// providers that offer it. At most 8.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	Providers []string `json:"providers,omitempty"`
	// source is a FirmwareSource that holds an image of it; absent when none does.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Source string `json:"source,omitempty"`
	// released is when the provider says it was released.
	// +optional
	Released *metav1.Time `json:"released,omitempty"`
	// urgency as the provider calls it, such as "critical".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Urgency string `json:"urgency,omitempty"`
	// tag of the registry that points to it; only from providers of the type OCI. url has the digest of what it pointed to.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Tag string `json:"tag,omitempty"`
	// moved says that the tag or the version pointed to another artifact before. It stays until the version is not listed any more, or
	// a discovery that was requested by spec.discover has ended.
	// +optional
	Moved *CatalogMove `json:"moved,omitempty"`
	// url that the provider names for it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	URL string `json:"url,omitempty"`
	// sha256 of the file at url, as the provider says, as 64 hexadecimal digits.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256,omitempty"`
}

// CatalogMove says what a tag of a registry pointed to before.
type CatalogMove struct {
	// from is the digest of the manifest that it pointed to, as "sha256:" and 64 hexadecimal digits.
	// +required
	// +kubebuilder:validation:MaxLength=71
	From string `json:"from,omitempty"`
	// time at which the operator noticed, by its clock.
	// +required
	Time metav1.Time `json:"time,omitzero"`
}

// CatalogIssue is a known vulnerability by the issue tags of the providers.
type CatalogIssue struct {
	// id of the vulnerability, such as "CVE-2026-12345".
	// +required
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id,omitempty"`
	// mendedIn are the versions that a provider says mend it. At most 8.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=64
	MendedIn []string `json:"mendedIn,omitempty"`
	// affects are the versions that a provider says have it. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	Affects []string `json:"affects,omitempty"`
	// devices whose running version has it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Devices int32 `json:"devices"`
}

// FirmwareCatalog says which firmware versions exist for one machine model, and which of its devices run behind. The
// operator creates one when the first node of a model appears; its name follows from manufacturer and model, so that there is only
// one for each.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fwc,categories=firmware
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.manufacturer + '.' + self.spec.model",message="the name must be manufacturer and model joined by a dot, such as dell-inc.poweredge-r650; there is one catalog for each model"
// +kubebuilder:printcolumn:name="Manufacturer",type=string,JSONPath=`.spec.manufacturer`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Devices",type=integer,JSONPath=`.status.devices`,priority=1
// +kubebuilder:printcolumn:name="Behind",type=integer,JSONPath=`.status.devicesBehind`
// +kubebuilder:printcolumn:name="Vulnerable",type=integer,JSONPath=`.status.devicesVulnerable`
// +kubebuilder:printcolumn:name="Discovered",type=date,JSONPath=`.status.lastDiscoveryTime`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FirmwareCatalog struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec names the model and the providers. Created by the operator, edited by the user.
	// +required
	Spec FirmwareCatalogSpec `json:"spec,omitzero"`
	// status is what was found. Written by the operator.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status FirmwareCatalogStatus `json:"status,omitzero"`
}

// FirmwareCatalogList is a list of FirmwareCatalog.
//
// +kubebuilder:object:root=true
type FirmwareCatalogList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FirmwareCatalog `json:"items"`
}
