package v1alpha1

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
	// JobFinalizer keeps a FirmwareJob that may have begun until its node has let go of it and the sources list the images
	// that it reported as bad.
	JobFinalizer = "nodefirmware.io/job"
	// ConfirmGoneAnnotation on a FirmwareJob, with any value, says that a person made sure that the job is no longer running anywhere. It
	// counts when the Node of the job does not exist, and when the job has ended and no source records its report.
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
	// JobPodLabel marks the pods that execute FirmwareJobs; its value is the uid of the job. A drain does not evict
	// them.
	JobPodLabel = "nodefirmware.io/job"
)
