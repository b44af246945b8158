package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

// FirmwareCatalogSpec names a machine model, and where and how often versions for it are looked for. The catalog with the name default has no
// machine: it gives the other catalogs the providers, the discoveryInterval and the versionsToStore that they leave out.
type FirmwareCatalogSpec struct {
	// machine is the model that the catalog is about. Required unless the name is default; immutable. Written by the operator, or by the
	// user who creates the catalog.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="machine is immutable; create another catalog"
	Machine CatalogMachine `json:"machine,omitzero"`
	// state is Active (default) or Paused, which cancels a discovery that waits or runs and starts none. Written by the user.
	// +optional
	// +kubebuilder:default=Active
	State CatalogState `json:"state,omitempty"`
	// discoveryInterval is how old the last discovery becomes before versions are looked for again, such as "24h"; at least 1m. Absent:
	// that of the catalog default, or 24h. Written by the user.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1m')",message="discoveryInterval must be a duration of at least 1m, such as 24h"
	DiscoveryInterval Duration `json:"discoveryInterval,omitempty"`
	// versionsToStore is how many versions of each component the status keeps: the newest ones where the format of the versions
	// is declared, otherwise the first ones in the order of the provider. 1 to 16. Absent: that of the catalog default, or 5. Written by
	// the user.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	VersionsToStore int32 `json:"versionsToStore,omitempty"`
	// requests of the user. Each is any text; one that differs from that in status.requests is acted on once.
	// +optional
	Requests CatalogRequests `json:"requests,omitzero"`
	// providers that are asked, at most 8. Absent: those of the catalog default, or the images of the FirmwareSources alone, for which no
	// connection is opened. Written by the user.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Providers []CatalogProvider `json:"providers,omitempty"`
}

// CatalogMachine is a machine model as the name of its catalog spells it.
type CatalogMachine struct {
	// vendor is what the firmware of the machines reports (DMI system vendor) in lower case, with a dash for what is neither an ASCII letter
	// nor a digit, such as dell-inc for "Dell Inc.".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=120
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+(-[a-z0-9]+)*$`
	Vendor string `json:"vendor,omitempty"`
	// model is the DMI product name, spelled like vendor.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=120
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+(-[a-z0-9]+)*$`
	Model string `json:"model,omitempty"`
}

// CatalogRequests are what a user requests of a catalog.
type CatalogRequests struct {
	// discover requests that all providers are asked now, such as "2026-11-22 new BIOS is out". In the status: the request that was acted
	// on last.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Discover string `json:"discover,omitempty"`
}

// CatalogProvider is one place that versions are looked for in.
// +kubebuilder:validation:XValidation:rule="(self.type == 'Sources') != has(self.url)",message="name the url of the provider; only the type Sources takes none"
// +kubebuilder:validation:XValidation:rule="!has(self.url) || (self.type == 'OCI' ? self.url.matches('^oci://[^ ]+$') : self.url.matches('^(https|file)://[^ ]+$'))",message="url must begin with https:// or file://, or with oci:// for the type OCI, and contain no spaces"
// +kubebuilder:validation:XValidation:rule="!has(self.url) || !self.url.matches('^[a-z]+://[^/]*@')",message="url must not carry credentials"
// +kubebuilder:validation:XValidation:rule="self.type != 'OCI' || !has(self.url) || self.url.matches('^oci://[^/]+/[^@:]+$')",message="url of the type OCI is oci://registry/repository, without a tag or digest"
// +kubebuilder:validation:XValidation:rule="self.type != 'Sources' || !has(self.secretRef) && !has(self.caRef)",message="the type Sources opens no connection and takes neither secretRef nor caRef"
// +kubebuilder:validation:XValidation:rule="!has(self.baseURL) || self.type == 'LVFS'",message="baseURL is for the type LVFS, whose metadata has the addresses of the service it comes from"
// +kubebuilder:validation:XValidation:rule="has(self.signers) == (self.type == 'LVFS')",message="signers are required for the type LVFS, whose metadata must be signed, and not allowed for other types"
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
	// baseURL is the directory of a mirror of LVFS that has its files, such as "https://mirror.example.com/lvfs": status.components has
	// then the address of a file there instead of that in the metadata, which the service signed with its own addresses. https, or file for a
	// path; no user name or password. The operator fetches nothing from it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^(https|file)://[^@ ?#]+$`
	BaseURL string `json:"baseURL,omitempty"`
	// signers are the X.509 certificates in PEM, at most 4 KiB, of the authorities that the signature of LVFS metadata must lead to.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Signers string `json:"signers,omitempty"`
	// secretRef names a Secret of the product's namespace with the credentials of the server: username and password, or token, and hosts,
	// the servers that get them, as in a FirmwareSource. They are sent over https only. The operator must be permitted to read
	// that Secret.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`
	// caRef names a ConfigMap of the product's namespace whose key ca.crt has certificates of authorities in PEM, which are trusted
	// besides those of the system. The operator must be permitted to read it.
	// +optional
	CARef *LocalReference `json:"caRef,omitempty"`
}

// FirmwareCatalogStatus is written by the operator. With the spec it stays under 256 KiB: the message of Ready counts what does not fit.
type FirmwareCatalogStatus struct {
	// observedGeneration is the generation of the spec this status describes; -1 before the first reconciliation.
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready (every provider answered within the interval), and Reconciling or Stalled while they are True.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// lastDiscoveryTime is the time of the oldest of the providers' last answers, by the clock of the operator. Absent until each
	// has answered.
	// +optional
	LastDiscoveryTime *metav1.Time `json:"lastDiscoveryTime,omitempty"`
	// requests that were acted on last.
	// +optional
	Requests CatalogRequests `json:"requests,omitzero"`
	// nodes counts the nodes of this model.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Nodes int32 `json:"nodes"`
	// devices counts their devices.
	// +optional
	Devices CatalogDevices `json:"devices"`
	// providers is what each provider answered last. At most 8.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Providers []CatalogProviderStatus `json:"providers,omitempty"`
	// components are the kinds of devices of these machines, the BIOS first, with the versions that run and that are offered. At
	// most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Components []CatalogComponent `json:"components,omitempty"`
}

// CatalogDevices counts the devices of a machine model.
type CatalogDevices struct {
	// total counts all of them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Total int32 `json:"total"`
	// behind counts the devices that run an older version than the newest one that a provider offers.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Behind int32 `json:"behind"`
	// vulnerable counts the devices whose running version has a known vulnerability by the issue tags of a provider. Absent where no
	// provider says of any of these devices whether it has one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Vulnerable *int32 `json:"vulnerable,omitempty"`
	// unknown counts the devices of which it is not known whether they are behind: no provider knows them, they could
	// not be read, or their versions cannot be ordered.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unknown int32 `json:"unknown"`
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
	// reason why the last attempt failed: DownloadFailed, SignatureInvalid, Replayed, InvalidCatalog or TimedOut. Absent if it
	// succeeded.
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
	// vendor of the devices, as they report it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Vendor string `json:"vendor,omitempty"`
	// model name of the devices, as they report it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model,omitempty"`
	// pciID is the PCI vendor and device id, such as "15b3:101d"; absent for devices that are not on the PCI bus.
	// +optional
	// +kubebuilder:validation:MaxLength=9
	PCIID string `json:"pciID,omitempty"`
	// subsystemID is the PCI vendor and device id of the board around the chip, such as "15b3:0016"; absent for devices that do not
	// report it.
	// +optional
	// +kubebuilder:validation:MaxLength=9
	SubsystemID string `json:"subsystemID,omitempty"`
	// boardID is the id that the board checks an image against.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BoardID string `json:"boardID,omitempty"`
	// running are the versions that the devices run, the most frequent ones first. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Running []CatalogRunning `json:"running,omitempty"`
	// versions that are offered, at most spec.versionsToStore, spelled as the devices do where the provider is known to spell them otherwise:
	// the newest first, and behind them those that cannot be ordered, in the order of the providers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Versions []CatalogVersion `json:"versions,omitempty"`
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
	// issues are the known vulnerabilities that this version has, such as "CVE-2026-12345". At most 16. An empty list: a provider tells
	// those of these devices, and this version has none. Absent: nobody says whether it has any.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	Issues []string `json:"issues,omitzero"`
	// limit is the least number of power-on hours at which a device that runs this version fails, by its vulnerabilities. Absent where none
	// has a limit.
	// +optional
	Limit *CatalogLimit `json:"limit,omitempty"`
	// fixedIn is the nearest newer version of those that are offered that is known to fix all of them and that the upgrade paths of its
	// source, and its provider, allow, at once or by way of others. Absent where there is none, or versions are not ordered.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	FixedIn string `json:"fixedIn,omitempty"`
}

// CatalogLimit is when a device fails.
type CatalogLimit struct {
	// issue is the vulnerability that has the limit.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Issue string `json:"issue,omitempty"`
	// powerOnHours is after how many hours of power the device fails.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	PowerOnHours int64 `json:"powerOnHours,omitempty"`
	// firstFailureTime is when the first of the devices that run the version has been on for so long, if it stays on. Absent where none of
	// them says for how long it was on.
	// +optional
	FirstFailureTime *metav1.Time `json:"firstFailureTime,omitempty"`
}

// CatalogVersion is one version that is offered.
type CatalogVersion struct {
	// version of the firmware.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
	// provider that url and digest are from; where none names a url, the first that offers the version.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Provider string `json:"provider,omitempty"`
	// source is a FirmwareSource that holds an image of it; absent when none does.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Source string `json:"source,omitempty"`
	// url that the provider names for it. Of a registry it has the digest of the artifact, not the tag.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	URL string `json:"url,omitempty"`
	// digest of the file at url, as the provider says; absent where it does not.
	// +optional
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest Digest `json:"digest,omitempty"`
}

// FirmwareCatalog says which firmware versions exist for one machine model, and which of its devices are behind. The operator creates one
// when the first node of a model appears; its name follows from the machine, so that there is only one for each. The catalog with the name
// default gives the others what they leave out.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fwc,categories=firmware
// +kubebuilder:validation:XValidation:rule="self.metadata.name == (has(self.spec.machine) ? self.spec.machine.vendor + '.' + self.spec.machine.model : 'default')",message="the name must be vendor and model of the machine joined by a dot, such as dell-inc.poweredge-r650, or default without a machine; there is one catalog for each model"
// +kubebuilder:validation:XValidation:rule="has(self.spec.machine) || self.spec.state == 'Active' && !has(self.spec.requests)",message="the catalog default discovers no versions itself; pause the other catalogs, or request a discovery there"
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Behind",type=integer,JSONPath=`.status.devices.behind`
// +kubebuilder:printcolumn:name="Vulnerable",type=integer,JSONPath=`.status.devices.vulnerable`
// +kubebuilder:printcolumn:name="Unknown",type=integer,JSONPath=`.status.devices.unknown`,priority=1
// +kubebuilder:printcolumn:name="Discovered",type=date,JSONPath=`.status.lastDiscoveryTime`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FirmwareCatalog struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec names the model and the providers. The operator writes the machine, the user the rest.
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

// FirstFailure is when the first of the devices fails by a limit of the version that it runs; nil where none does.
func (s *FirmwareCatalogStatus) FirstFailure() (first *metav1.Time) {
	for i := range s.Components {
		first = sooner(first, s.Components[i].FirstFailure())
	}
	return first
}

// FirstFailure is when the first device of the component fails by a limit of the version that it runs; nil where none does.
func (c *CatalogComponent) FirstFailure() (first *metav1.Time) {
	for i := range c.Running {
		first = sooner(first, c.Running[i].FirstFailure())
	}
	return first
}

// FirstFailure is when the first device that runs the version fails by its limit; nil where none does.
func (r *CatalogRunning) FirstFailure() *metav1.Time {
	if r.Limit == nil {
		return nil
	}
	return r.Limit.FirstFailureTime
}

func sooner(a, b *metav1.Time) *metav1.Time {
	if a == nil || b != nil && b.Before(a) {
		return b
	}
	return a
}

// UnknownVersion is what a catalog lists as the version of devices that could not be read.
const UnknownVersion = "unknown"

// RunningVersion is how the devices of the component stand that run the version, which is empty for those that could not be read; nil where the
// catalog does not list them.
func (c *CatalogComponent) RunningVersion(version string) *CatalogRunning {
	for i := range c.Running {
		if c.Running[i].Version == cmp.Or(version, UnknownVersion) {
			return &c.Running[i]
		}
	}
	return nil
}
