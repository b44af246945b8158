package v1alpha1

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/nodefirmware/node-firmware-operator/pkg/text"
)

// Names shared by several parts of the product.
const (
	// FieldOwnerOperator is the server-side-apply field manager of the operator.
	FieldOwnerOperator = "node-firmware-operator"
	// FieldOwnerDaemon is the server-side-apply field manager of the node daemon.
	FieldOwnerDaemon = "firmware-daemon"
	// ManagedByLabel marks what the operator made and may replace; its value is FieldOwnerOperator.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// SourceFinalizer keeps a FirmwareSource until no template or pin refers to it.
	SourceFinalizer = "nodefirmware.io/source"
	// JobFinalizer keeps a FirmwareJob that may have begun until its node has let go of it, FirmwareQuarantines list what it
	// blamed, and what it erased is certified.
	JobFinalizer = "nodefirmware.io/job"
	// ConfirmGoneAnnotation on a FirmwareJob, with any value, says that a person made sure that the job is no longer running anywhere. It
	// counts when the Node of the job does not exist, and when the job has ended and no FirmwareQuarantine lists its report.
	ConfirmGoneAnnotation = "nodefirmware.io/confirm-gone"
	// ObsoleteLabel, with the value "true", is on a NodeFirmware while its status lists obsolete references. It is absent
	// otherwise. The operator writes it.
	ObsoleteLabel = "nodefirmware.io/obsolete"
	// MaintenanceRequestorID is the requestor id of the product in a NodeMaintenance.
	MaintenanceRequestorID = "nodefirmware.io"
	// ImageTokenAudience is the audience of the tokens with which daemons fetch images from the operator.
	ImageTokenAudience = "images.nodefirmware.io"
	// CordonedAnnotation on a Node says that the operator cordoned it, which it does with --maintenance=Drain alone; its value is
	// the id of the request. The operator uncordons no Node without it.
	CordonedAnnotation = "nodefirmware.io/cordoned"
	// ExcludedAnnotation on a Node says that the operator excluded it from the remediation of medik8s; its value is the id of the request. The
	// operator removes no label of medik8s without it.
	ExcludedAnnotation = "nodefirmware.io/excluded-from-remediation"
	// UnverifiedTaint is the key of the taint with which a Node registers that is to be proven before anything is scheduled on it. The operator
	// removes it, and never sets it.
	UnverifiedTaint = "nodefirmware.io/unverified"
	// OutOfServiceTaint is the key of the taint of a Node whose NodeFirmware is OutOfService; its value is when the operator set it, and stands
	// for that stay out of service.
	OutOfServiceTaint = "nodefirmware.io/out-of-service"
	// CleaningAnnotation on a Node names the job whose steps run on it: until they have ended, a person may not uncordon it. The operator writes it.
	CleaningAnnotation = "nodefirmware.io/cleaning"
	// ConsentedByAnnotation on a FirmwareJob or a CleaningPolicy that erases drives names the user who writes it, who consents by that. An
	// admission policy compares it with the user who writes. The certificates of the drives repeat it. The operator copies it to the jobs of a policy.
	ConsentedByAnnotation = "nodefirmware.io/consented-by"
	// TraceParentAnnotation on a FirmwareJob is the span that the job belongs to, as a traceparent of W3C Trace Context. The planner writes it
	// where traces are exported; whoever makes a job may write it, so that the job is part of a trace of their own.
	TraceParentAnnotation = "nodefirmware.io/traceparent"
	// TraceLinksAnnotation on a FirmwareJob lists further spans that it belongs to, in the same form and with commas between: those of the other
	// templates and pins that its updates come from. The planner writes it.
	TraceLinksAnnotation = "nodefirmware.io/tracelinks"
	// UpdateWhileCordonedAnnotation on a Node, with the value "true", lets the product update the Node while somebody else has cordoned it.
	// People write it; without it such a Node waits. It is about a plain cordon alone, and the Node stays cordoned after the update.
	UpdateWhileCordonedAnnotation = "nodefirmware.io/update-while-cordoned"
	// LifecycleReason is the reason of the conditions MaintenancePlanned, DrainInProgress, Drained and MaintenanceInProgress that the operator
	// writes on a Node. One with another reason is somebody else's.
	LifecycleReason = "FirmwareUpdate"
	// JobPodLabel marks the pods that execute FirmwareJobs; its value is the uid of the job. A drain does not evict
	// them.
	JobPodLabel = "nodefirmware.io/job"
)

// DefaultCatalog is the name of the FirmwareCatalog that gives the others what they leave out.
const DefaultCatalog = "default"

// maxCatalogText bounds vendor and model of a FirmwareCatalog, in characters.
const maxCatalogText = 120

// CatalogOf spells vendor and model of a machine as its FirmwareCatalog does. Machines that are spelled the same are of one model. It
// fails when one of the texts is too long or has neither letter nor digit; there is no catalog for such machines.
func CatalogOf(vendor, model string) (CatalogMachine, error) {
	out := CatalogMachine{Vendor: text.Slug(vendor), Model: text.Slug(model)}
	switch {
	case out.Vendor == "" || out.Model == "":
		return CatalogMachine{}, fmt.Errorf("name model of vendor %q and model %q: one has neither an ASCII letter nor a digit", vendor, model)
	case len(out.Vendor) > maxCatalogText || len(out.Model) > maxCatalogText:
		return CatalogMachine{}, fmt.Errorf("name model of vendor %.20q… and model %.20q…: one is longer than %d characters", vendor, model, maxCatalogText)
	}
	return out, nil
}

// CatalogName is the name of the catalog of the machine, the only one that the API server accepts for its model.
func (m CatalogMachine) CatalogName() string { return m.Vendor + "." + m.Model }

// nameDigits is how many digits of the digest are part of the name of a FirmwareQuarantine.
const nameDigits = 16

// What the API server accepts as digest and as model.
var (
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	modelForm  = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*:[a-z0-9]+(-[a-z0-9]+)*$`)
)

// QuarantineName is the name of the FirmwareQuarantine of an image and a model, the only one that the API server accepts for them.
// It is empty where the digest or the model is none, so that there can be no quarantine.
func QuarantineName(d Digest, model string) string {
	if !digestForm.MatchString(string(d)) || !modelForm.MatchString(model) || len(model) > 2*maxModelPart+1 {
		return ""
	}
	return strings.TrimPrefix(string(d), "sha256:")[:nameDigits] + "." + strings.Replace(model, ":", ".", 1)
}

// AnyModel is the ModelKey that stands for every model.
const AnyModel = anyPart + ":" + anyPart

// anyPart stands for a vendor or a model that is not known.
const anyPart = "any"

// maxModelPart bounds each part of a ModelKey, so that the name of an object holds both. Longer names that begin alike are of one model.
const maxModelPart = 112

// ModelKey returns the model of a device in the form that jobs, rollouts and quarantines use, vendor:model: by PCI ids if there
// are any ("15b3:101d"), otherwise the slugs of the names that the device reports ("dell-inc:bios"). A part that is not known is
// "any"; AnyModel where the device reports neither.
func ModelKey(vendorID, deviceID, vendor, model string) string {
	if vendorID != "" && deviceID != "" {
		vendor, model = vendorID, deviceID
	}
	return modelPart(vendor) + ":" + modelPart(model)
}

func modelPart(name string) string {
	s := text.Slug(name)
	return cmp.Or(strings.TrimRight(s[:min(len(s), maxModelPart)], "-"), anyPart)
}
