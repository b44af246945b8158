package v1alpha1

// Condition types. Ready is always present once an object was looked at; the others that are marked abnormal are
// present only while they are True, as kstatus expects.
const (
	// ConditionReady is True when the object is as its spec wants it.
	ConditionReady = "Ready"
	// ConditionReconciling (abnormal) is True while work towards the spec goes on.
	ConditionReconciling = "Reconciling"
	// ConditionStalled (abnormal) is True when no progress is made until a person acts.
	ConditionStalled = "Stalled"

	// ConditionConflict (abnormal) is True on a device that several rules or pins match, on each template that takes
	// part, and on rollout policies that choose the same node.
	ConditionConflict = "Conflict"
	// ConditionBlocked (abnormal) is True on a device whose assigned firmware cannot be planned as things are.
	ConditionBlocked = "Blocked"

	// ConditionInspected says on a NodeDevice whether the hardware could be read in the last scan.
	ConditionInspected = "Inspected"
	// ConditionDevicesUnreadable (abnormal) is True on a NodeFirmware while a device of the node cannot be read.
	ConditionDevicesUnreadable = "DevicesUnreadable"
	// ConditionHeld (abnormal) is True on a NodeFirmware and on the FirmwareJob while a failed job keeps the node in
	// maintenance.
	ConditionHeld = "Held"

	// ConditionQuarantined (abnormal) is True on a FirmwareSource while one of its images is quarantined.
	ConditionQuarantined = "Quarantined"
	// ConditionStorageAvailable says on a FirmwareSource whether the operator's store can be written.
	ConditionStorageAvailable = "StorageAvailable"
	// ConditionDownloaded says on a FirmwareSource whether every file was fetched with the right digest.
	ConditionDownloaded = "Downloaded"
	// ConditionVerified says on a FirmwareSource whether the files hold exactly the images the spec lists.
	ConditionVerified = "Verified"
	// ConditionPublished says on a FirmwareSource whether every image can be fetched by the daemons.
	ConditionPublished = "Published"

	// ConditionAdmitted says on a FirmwareJob whether it has a place in the ledger of its RolloutPolicy.
	ConditionAdmitted = "Admitted"
	// ConditionMaintenanceReady says on a FirmwareJob whether the node is in maintenance for it.
	ConditionMaintenanceReady = "MaintenanceReady"
	// ConditionComplete is True on a FirmwareJob that reached its target.
	ConditionComplete = "Complete"
	// ConditionFailed is True on a FirmwareJob that ended without reaching its target.
	ConditionFailed = "Failed"
	// ConditionRollbackAvailable says on a FirmwareJob whether the firmware that ran before can be brought back on each of
	// its devices.
	ConditionRollbackAvailable = "RollbackAvailable"
	// ConditionRolledBack is True on a FirmwareJob that failed and brought the firmware back that ran before, and False
	// while it tries and when it could not.
	ConditionRolledBack = "RolledBack"
)

// Reasons. They are stable; messages are not.
const (
	// ReasonSucceeded: the object is as its spec wants it.
	ReasonSucceeded = "Succeeded"
	// ReasonProgressing: work goes on.
	ReasonProgressing = "Progressing"
	// ReasonPending: work is queued and has not begun.
	ReasonPending = "Pending"
	// ReasonInvalidSpec: the spec cannot be worked with; the message names the field.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonNoMatch: no device matches.
	ReasonNoMatch = "NoMatch"
	// ReasonPaused: the object is paused by its spec.
	ReasonPaused = "Paused"
	// ReasonNotAssigned: no template and no pin assigns a firmware to the device.
	ReasonNotAssigned = "NotAssigned"
	// ReasonUpToDate: the device runs the wanted version.
	ReasonUpToDate = "UpToDate"
	// ReasonUpdatePending: the device runs another version than the wanted one and its update is due.
	ReasonUpdatePending = "UpdatePending"
	// ReasonActivationPending: the wanted version is stored on the device and waits for its activation.
	ReasonActivationPending = "ActivationPending"
	// ReasonUpdating: a job works on the device.
	ReasonUpdating = "Updating"
	// ReasonVersionMismatch: the device runs another version and its policy is to only report that.
	ReasonVersionMismatch = "VersionMismatch"
	// ReasonUpdateFailed: the last update to the wanted image failed and is not tried again by itself.
	ReasonUpdateFailed = "UpdateFailed"
	// ReasonMultipleMatches: more than one rule or pin matches the device; the last valid assignment stays.
	ReasonMultipleMatches = "MultipleMatches"
	// ReasonSourceNotFound: the named FirmwareSource does not exist.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonSourceNotReady: the named FirmwareSource is not ready.
	ReasonSourceNotReady = "SourceNotReady"
	// ReasonImageNotFound: the FirmwareSource holds no image of this version for this board.
	ReasonImageNotFound = "ImageNotFound"
	// ReasonImageAmbiguous: the FirmwareSource holds more than one image of this version for this board.
	ReasonImageAmbiguous = "ImageAmbiguous"
	// ReasonDowngradeForbidden: the wanted version is older than the running one, or cannot be ordered against it.
	ReasonDowngradeForbidden = "DowngradeForbidden"
	// ReasonNotUpdatable: no driver can write the device.
	ReasonNotUpdatable = "NotUpdatable"

	// ReasonRead: the device was read.
	ReasonRead = "Read"
	// ReasonReadFailed: the device is there but could not be read.
	ReasonReadFailed = "ReadFailed"
	// ReasonNoDriver: no driver knows the device; it is listed from sysfs alone.
	ReasonNoDriver = "NoDriver"

	// ReasonStorageFailed: the operator's store cannot be read or written.
	ReasonStorageFailed = "StorageFailed"
	// ReasonDownloadFailed: a file could not be fetched.
	ReasonDownloadFailed = "DownloadFailed"
	// ReasonDigestMismatch: a fetched file has another digest than the spec says.
	ReasonDigestMismatch = "DigestMismatch"
	// ReasonTooLarge: a file or an image exceeds the size limit.
	ReasonTooLarge = "TooLarge"
	// ReasonUnpackFailed: an archive could not be unpacked or lacks an image.
	ReasonUnpackFailed = "UnpackFailed"
	// ReasonInUse: the source is to be deleted but a template or pin still refers to it.
	ReasonInUse = "InUse"

	// ReasonAdmitted: the job has a place in the ledger.
	ReasonAdmitted = "Admitted"
	// ReasonBudgetExhausted: as many nodes as the policy allows are disturbed already.
	ReasonBudgetExhausted = "BudgetExhausted"
	// ReasonPolicyPaused: the node's rollout policy is paused.
	ReasonPolicyPaused = "PolicyPaused"
	// ReasonPolicyConflict: more than one rollout policy chooses the node.
	ReasonPolicyConflict = "PolicyConflict"
	// ReasonNodeBusy: another job holds the node.
	ReasonNodeBusy = "NodeBusy"
	// ReasonNodeNotReady: the Node is not Ready, so nothing new is started on it.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonNodeGone: the Node no longer exists.
	ReasonNodeGone = "NodeGone"
	// ReasonSuperseded: the wish changed before the job was admitted; a new job replaces it.
	ReasonSuperseded = "Superseded"

	// ReasonMaintenanceRequested: a NodeMaintenance exists and is not ready yet.
	ReasonMaintenanceRequested = "MaintenanceRequested"
	// ReasonMaintenanceReady: the node is cordoned and drained.
	ReasonMaintenanceReady = "MaintenanceReady"
	// ReasonMaintenanceUnavailable: the maintenance-operator's API is not installed; nothing proceeds.
	ReasonMaintenanceUnavailable = "MaintenanceUnavailable"
	// ReasonMaintenanceReleased: the maintenance is over.
	ReasonMaintenanceReleased = "MaintenanceReleased"
	// ReasonMaintenanceLost: the maintenance was taken away while the job worked.
	ReasonMaintenanceLost = "MaintenanceLost"

	// ReasonImageRejected: the image is not one for exactly this board, or is damaged. Nothing was written.
	ReasonImageRejected = "ImageRejected"
	// ReasonImageUnavailable: the image could not be fetched from the operator.
	ReasonImageUnavailable = "ImageUnavailable"
	// ReasonDeviceChanged: the device is gone or other hardware is in its place. Nothing was written.
	ReasonDeviceChanged = "DeviceChanged"
	// ReasonWriteFailed: the vendor tool failed to write the image, and the device confirms that it holds another.
	ReasonWriteFailed = "WriteFailed"
	// ReasonActivationFailed: the image is stored but could not be activated.
	ReasonActivationFailed = "ActivationFailed"
	// ReasonRebootFailed: the node did not come back under a new boot id.
	ReasonRebootFailed = "RebootFailed"
	// ReasonVerifyFailed: after activation the device does not report the wanted version.
	ReasonVerifyFailed = "VerifyFailed"
	// ReasonUnhealthy: after the update the node is not as healthy as before.
	ReasonUnhealthy = "Unhealthy"
	// ReasonUnhealthyBefore: a check of the node failed before anything was changed, so nothing was.
	ReasonUnhealthyBefore = "UnhealthyBefore"
	// ReasonTimedOut: a step outlasted its deadline. A write is never killed for that.
	ReasonTimedOut = "TimedOut"
	// ReasonPowerCycleRequired: an image needs a power-cycle, which the product cannot do.
	ReasonPowerCycleRequired = "PowerCycleRequired"
	// ReasonCancelled: the job was cancelled.
	ReasonCancelled = "Cancelled"
	// ReasonArchiveFailed: what runs could not be archived, so nothing was written.
	ReasonArchiveFailed = "ArchiveFailed"
	// ReasonArchived: what ran before is archived, stays in a slot, or is at hand as an image.
	ReasonArchived = "Archived"
	// ReasonRollbackUnavailable: what runs could not be brought back, and the policy requires that, so nothing was
	// written; or it could not when it was needed.
	ReasonRollbackUnavailable = "RollbackUnavailable"
	// ReasonRollingBack: the firmware that ran before is being brought back.
	ReasonRollingBack = "RollingBack"
	// ReasonRolledBack: the firmware that ran before runs again and the node is healthy.
	ReasonRolledBack = "RolledBack"
	// ReasonNeedsIntervention: nothing more is done until a person has looked.
	ReasonNeedsIntervention = "NeedsIntervention"
	// ReasonQuarantined: the image made a device of this model unhealthy and is flashed to none until a person lifts it.
	ReasonQuarantined = "Quarantined"
	// ReasonDeviceUnhealthy: a job left the device unhealthy; nothing is flashed to it until a person forgives that.
	ReasonDeviceUnhealthy = "DeviceUnhealthy"
	// ReasonEdgeBlocked: the wanted version must not be flashed over the running one.
	ReasonEdgeBlocked = "EdgeBlocked"
	// ReasonBelowMinimumVersion: the running version is older than what the wanted one needs, or cannot be ordered.
	ReasonBelowMinimumVersion = "BelowMinimumVersion"
	// ReasonInvalidUpgradePath: the upgrade paths of template and source cannot be followed.
	ReasonInvalidUpgradePath = "InvalidUpgradePath"
	// ReasonAttemptsExhausted: the image was written to the device as often as is allowed without a person.
	ReasonAttemptsExhausted = "AttemptsExhausted"
	// ReasonStepFailed: a step of a Steps job failed; the message names it.
	ReasonStepFailed = "StepFailed"
	// ReasonHealthAdvice: an executable of wanted.d complains about the health of the node, or does no longer. It is told as
	// an event, and nothing is decided by it.
	ReasonHealthAdvice = "HealthAdvice"
	// ReasonNoHandler: no image is configured that executes jobs on the machine's model. Nothing was done.
	ReasonNoHandler = "NoHandler"
	// ReasonPodCreated: a pod was made that executes the job.
	ReasonPodCreated = "PodCreated"
	// ReasonPodNotCreated: the pod that is to execute the job could not be made; it is tried again.
	ReasonPodNotCreated = "PodNotCreated"
	// ReasonReleased: a person returned the held node to service.
	ReasonReleased = "Released"
)
