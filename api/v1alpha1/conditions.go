package v1alpha1

// Condition types. Ready is always present once an object has been reconciled. The conditions marked abnormal are
// present only while they are True, as kstatus expects.
const (
	// ConditionReady is True when the object is in the state its spec describes.
	ConditionReady = "Ready"
	// ConditionReconciling (abnormal) is True while work towards the spec is in progress.
	ConditionReconciling = "Reconciling"
	// ConditionStalled (abnormal) is True when no progress is made until a person acts.
	ConditionStalled = "Stalled"

	// ConditionConflict (abnormal) is True on a device that several rules or pins match, on each of their templates,
	// and on rollout policies that select the same node.
	ConditionConflict = "Conflict"
	// ConditionBlocked (abnormal) is True on a device that differs from its desired firmware and cannot be updated.
	ConditionBlocked = "Blocked"

	// ConditionInspected says on a NodeDevice whether the hardware could be read in the last scan.
	ConditionInspected = "Inspected"
	// ConditionDegraded (abnormal) is True on a NodeFirmware while a device of the node cannot be read, or a vendor's tool that its drivers
	// run is there in a version that is not supported or was not tested.
	ConditionDegraded = "Degraded"
	// ConditionHealthy says on a NodeFirmware what the last health gate found: whether the node was as healthy as before the job. It is
	// Unknown once the node runs under another boot id, and absent before the first one.
	ConditionHealthy = "Healthy"
	// ConditionCurrent says on a NodeFirmware whether every object that the firmware of its devices came from is unchanged, so that kubectl
	// can wait for it.
	ConditionCurrent = "Current"
	// ConditionClean says on a NodeFirmware whether a node that is new or OutOfService has passed the steps of its CleaningPolicy, and what it
	// waits for. It is absent for any other node. The operator writes it.
	ConditionClean = "Clean"
	// ConditionPinsUnmatched (abnormal) is True on a NodeFirmware while one of its pins matches no device of the node. Templates assign
	// nothing then to the devices that the pin may mean.
	ConditionPinsUnmatched = "PinsUnmatched"
	// ConditionDaemonReady is False on a NodeFirmware while the daemon of the node does not report. It is absent where that never was.
	ConditionDaemonReady = "DaemonReady"
	// ConditionFirmwareCompliant says on a Node, for schedulers and node-readiness controllers, whether every device with desired firmware runs
	// it. It is Unknown while that cannot be known, and absent before the first report of the daemon. The operator writes it.
	ConditionFirmwareCompliant = "FirmwareCompliant"
	// The conditions of a Node by which Kubernetes, from 1.37 on, has whoever maintains a node say how far that is. The operator writes them
	// while one of its jobs has the node, and they are absent otherwise.
	ConditionMaintenancePlanned    = "MaintenancePlanned"
	ConditionDrainInProgress       = "DrainInProgress"
	ConditionDrained               = "Drained"
	ConditionMaintenanceInProgress = "MaintenanceInProgress"
	// ConditionHeld (abnormal) is True on a NodeFirmware and on the FirmwareJob while a failed job keeps the node in
	// maintenance.
	ConditionHeld = "Held"

	// ConditionSignatureVerified says on a FirmwareSource whether every file is signed by a key or an identity that its spec trusts. It is absent
	// where the spec asks for no signature.
	ConditionSignatureVerified = "SignatureVerified"

	// ConditionAdmitted says on a FirmwareJob whether it has a place in the ledger of its RolloutPolicy.
	ConditionAdmitted = "Admitted"
	// ConditionMaintenanceReady says on a FirmwareJob whether the node is in maintenance for it.
	ConditionMaintenanceReady = "MaintenanceReady"
	// ConditionComplete is True on a FirmwareJob that reached its target. On a RolloutPolicy it is True while no job of the pool
	// waits or is admitted, and False otherwise.
	ConditionComplete = "Complete"
	// ConditionFailed is True on a FirmwareJob that ended without reaching its target.
	ConditionFailed = "Failed"
	// ConditionRollbackAvailable says on a FirmwareJob whether the firmware that ran before can be restored on each of
	// its devices.
	ConditionRollbackAvailable = "RollbackAvailable"
	// ConditionProtected says on a FirmwareJob what protects it. False names what is missing: nothing but the job itself may be able to end
	// a write, a node must open its disks by itself at the reboot, and one whose network adapter is updated must go on by itself after it
	// without the API server. True says that the last is so and that nothing so far lacked the others. It is absent until something is known.
	ConditionProtected = "Protected"
	// ConditionRolledBack is True on a FirmwareJob that failed and restored the previous firmware. It is False while
	// the rollback runs and when the rollback failed.
	ConditionRolledBack = "RolledBack"
	// ConditionCancelling (abnormal) is True on a FirmwareJob while its cancellation waits for the running step.
	ConditionCancelling = "Cancelling"
)

// Reasons. They are stable; messages are not.
const (
	// ReasonSucceeded: the object is in the state its spec describes.
	ReasonSucceeded = "Succeeded"
	// ReasonProgressing: work is in progress.
	ReasonProgressing = "Progressing"
	// ReasonPending: work is queued and has not begun.
	ReasonPending = "Pending"
	// ReasonInvalidSpec: the spec is invalid; the message names the field.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonNoMatch: no device matches a template yet, no node a rollout policy, or no device a pin that may be meant for this one.
	ReasonNoMatch = "NoMatch"
	// ReasonPaused: the object is paused by its spec.
	ReasonPaused = "Paused"
	// ReasonNotAssigned: no template or pin assigns firmware to the device.
	ReasonNotAssigned = "NotAssigned"
	// ReasonUpToDate: the device runs the desired version.
	ReasonUpToDate = "UpToDate"
	// ReasonOutOfDate: the device runs another version and its update policy only reports that.
	ReasonOutOfDate = "OutOfDate"
	// ReasonReferencesChanged: objects that running firmware came from have changed or are gone.
	ReasonReferencesChanged = "ReferencesChanged"
	// ReasonUpdateFailed: the last update to the desired image failed and is not retried automatically.
	ReasonUpdateFailed = "UpdateFailed"
	// ReasonConflict: more than one rule or pin matches a device, whose last valid assignment stays; or more than one rollout policy
	// selects a node.
	ReasonConflict = "Conflict"
	// ReasonSourceNotFound: the named FirmwareSource does not exist.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonSourceNotReady: the named FirmwareSource is not ready.
	ReasonSourceNotReady = "SourceNotReady"
	// ReasonImageNotFound: the FirmwareSource holds no image of this version for this board.
	ReasonImageNotFound = "ImageNotFound"
	// ReasonImageAmbiguous: the FirmwareSource holds more than one image of this version for this board.
	ReasonImageAmbiguous = "ImageAmbiguous"
	// ReasonRestored: a person restored other firmware over the desired one, which is not flashed again by itself.
	ReasonRestored = "Restored"
	// ReasonDowngradeForbidden: the desired version is older than the running one, or cannot be compared with it.
	ReasonDowngradeForbidden = "DowngradeForbidden"
	// ReasonNotUpdatable: no driver can write the device, or none knows it; or it is one of more than the operator looks at.
	ReasonNotUpdatable = "NotUpdatable"

	// ReasonReadFailed: the device is there but could not be read.
	ReasonReadFailed = "ReadFailed"
	// ReasonToolUnsupported: a vendor's tool is not one of a version that was tested; the message says whether it is used.
	ReasonToolUnsupported = "ToolUnsupported"

	// ReasonStorageFailed: the operator's store cannot be read or written; of a job, the file system of the node's state directory has no room for
	// the image, and nothing was written to the device.
	ReasonStorageFailed = "StorageFailed"
	// ReasonDownloadFailed: a file could not be fetched, or is larger than the limit.
	ReasonDownloadFailed = "DownloadFailed"
	// ReasonDigestMismatch: a fetched file has another digest than the spec says.
	ReasonDigestMismatch = "DigestMismatch"
	// ReasonUnpackFailed: an archive could not be unpacked, exceeds a limit or lacks an image.
	ReasonUnpackFailed = "UnpackFailed"
	// ReasonImageMismatch: the image's own metadata names another version or other boards than the source does.
	ReasonImageMismatch = "ImageMismatch"
	// ReasonBoardsUnknown: neither an image nor the source says for which boards or models it is. Nothing was stored.
	ReasonBoardsUnknown = "BoardsUnknown"
	// ReasonSignatureMissing: a file, or an image on its node, has no signature where one is required. Nothing was stored or written.
	ReasonSignatureMissing = "SignatureMissing"
	// ReasonSignatureInvalid: a signature is damaged, is none, or is not of this file. Nothing was stored or written. Of a
	// catalog: metadata is not signed by whom it trusts.
	ReasonSignatureInvalid = "SignatureInvalid"
	// ReasonSignatureUntrusted: a signature is by a key or an identity that is not trusted, or an authority or log vouches for it that is
	// not known, or one of them was not valid at that time. Nothing was stored or written.
	ReasonSignatureUntrusted = "SignatureUntrusted"
	// ReasonReplayed: the metadata was signed earlier than metadata that the catalog has already used.
	ReasonReplayed = "Replayed"
	// ReasonInvalidCatalog: what a provider answered is not in the form of its type, or exceeds a limit.
	ReasonInvalidCatalog = "InvalidCatalog"
	// ReasonTagMoved: a tag of a registry points to another artifact than before. Of an event of a catalog.
	ReasonTagMoved = "TagMoved"
	// ReasonInUse: the source is being deleted, and a template or pin refers to it.
	ReasonInUse = "InUse"

	// ReasonAdmitted: the job has a place in the ledger.
	ReasonAdmitted = "Admitted"
	// ReasonBudgetExhausted: the policy allows no more nodes to be disturbed now.
	ReasonBudgetExhausted = "BudgetExhausted"
	// ReasonOutsideWindow: the windows of the policy let no node be admitted now, or the job is expected to take longer than they do.
	ReasonOutsideWindow = "OutsideWindow"
	// ReasonNeverOpens: Deny windows cover all Allow windows, or no window is long enough for the expected duration of a job.
	ReasonNeverOpens = "NeverOpens"
	// ReasonQueueFull: as many nodes wait as the policy allows, so no more jobs are queued.
	ReasonQueueFull = "QueueFull"
	// ReasonAborted: the rollout policy is aborted by its spec, so nothing is queued and nothing admitted.
	ReasonAborted = "Aborted"
	// ReasonWaitingForWave: the open wave of an update of the job does not include the node yet, or soaks, or the update is in doubt.
	ReasonWaitingForWave = "WaitingForWave"
	// ReasonWaveEmpty: the open wave chooses no node that waits, and no node has succeeded yet.
	ReasonWaveEmpty = "WaveEmpty"
	// ReasonRolloutHalted: too many nodes failed with the image. No node is admitted for it until spec.requests.resume of
	// the rollout policy changes.
	ReasonRolloutHalted = "RolloutHalted"
	// ReasonNodeBusy: another job holds the node.
	ReasonNodeBusy = "NodeBusy"
	// ReasonNotReporting: the daemon of the node does not report; the message says why.
	ReasonNotReporting = "NotReporting"
	// ReasonNodeNotReady: the Node is not Ready, or somebody else has it, so nothing new is started on it.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonNodeGone: the Node no longer exists.
	ReasonNodeGone = "NodeGone"
	// ReasonSuperseded: the desired firmware changed before the job was admitted; a new job replaces it.
	ReasonSuperseded = "Superseded"

	// ReasonMaintenanceUnavailable: the maintenance-operator's API is not installed; nothing proceeds.
	ReasonMaintenanceUnavailable = "MaintenanceUnavailable"
	// ReasonMaintenanceLost: the NodeMaintenance was deleted or ended by somebody else while the job ran.
	ReasonMaintenanceLost = "MaintenanceLost"

	// ReasonJobRejected: the daemon does not do what the job says: something else is desired of the device, the job was started before and the journal
	// does not have it, or the state directory is in memory. Nothing was written; where the job had taken the node out of service before, it holds it.
	ReasonJobRejected = "JobRejected"
	// ReasonImageRejected: the image is not one for exactly this board, or is damaged. Nothing was written.
	ReasonImageRejected = "ImageRejected"
	// ReasonParameterInvalid: the device does not take a setting. Where it said so before it was told, nothing was written.
	ReasonParameterInvalid = "ParameterInvalid"
	// ReasonImageUnavailable: the image could not be fetched from the operator, or the node's copy of it changed after it was verified. It says
	// nothing about the image.
	ReasonImageUnavailable = "ImageUnavailable"
	// ReasonHardwareChanged: the device is gone or other hardware is in its place, or the pins of the node are for another machine, which
	// had its name before. Nothing was written.
	ReasonHardwareChanged = "HardwareChanged"
	// ReasonWriteFailed: the vendor tool failed to write the image, and the read-back confirms that the device holds
	// another.
	ReasonWriteFailed = "WriteFailed"
	// ReasonActivationFailed: the image is stored but could not be activated.
	ReasonActivationFailed = "ActivationFailed"
	// ReasonRebootFailed: the node did not come back under a new boot id.
	ReasonRebootFailed = "RebootFailed"
	// ReasonVerifyFailed: after activation the device does not report the desired version.
	ReasonVerifyFailed = "VerifyFailed"
	// ReasonUnhealthy: after the update the node is not as healthy as before.
	ReasonUnhealthy = "Unhealthy"
	// ReasonUnhealthyBefore: a check of the node failed before anything was changed. Nothing was written.
	ReasonUnhealthyBefore = "UnhealthyBefore"
	// ReasonTimedOut: a step exceeded its deadline; a write is never killed because of it. Of a catalog: a provider did not answer in time.
	ReasonTimedOut = "TimedOut"
	// ReasonPowerCycleRequired: an image needs a power-cycle, which the product cannot do.
	ReasonPowerCycleRequired = "PowerCycleRequired"
	// ReasonCancelled: the job was cancelled.
	ReasonCancelled = "Cancelled"
	// ReasonWaitingForStep: the job is cancelled, and ends after the running step: it writes to the hardware, may not be interrupted, or has until the
	// end of the grace period.
	ReasonWaitingForStep = "WaitingForStep"
	// ReasonArchiveFailed: the running firmware could not be archived. Nothing was written.
	ReasonArchiveFailed = "ArchiveFailed"
	// ReasonRollbackUnavailable: the running firmware could not be restored and the policy requires that it can be, so
	// nothing was written; or a rollback was needed and not possible.
	ReasonRollbackUnavailable = "RollbackUnavailable"
	// ReasonGuardUnavailable: the kubelet runs no guard; the message says why. The job goes on. If new firmware cuts the node off across a
	// reboot, a person has to restore it.
	ReasonGuardUnavailable = "GuardUnavailable"
	// ReasonWriteUnprotected: the end of the daemon's container would have ended a write, and the policy requires that it would not.
	// Nothing was written.
	ReasonWriteUnprotected = "WriteUnprotected"
	// ReasonUnlockUnavailable: an encrypted disk of the node depends on registers of the TPM that the update changes, or what opens it is
	// not known, and the policy requires that it opens by itself. The message names the disk and what to do.
	ReasonUnlockUnavailable = "UnlockUnavailable"
	// ReasonRolledBack: the previous firmware runs again and the node is healthy.
	ReasonRolledBack = "RolledBack"
	// ReasonNeedsIntervention: nothing more is done until a person acts.
	ReasonNeedsIntervention = "NeedsIntervention"
	// ReasonQuarantined: the image made a device of this model unhealthy. It is not flashed to any device of the model
	// until a person lifts the quarantine.
	ReasonQuarantined = "Quarantined"
	// ReasonDeviceUnhealthy: a job left the device unhealthy; nothing is flashed to it until a person requests a retry.
	ReasonDeviceUnhealthy = "DeviceUnhealthy"
	// ReasonPathBlocked: the upgrade paths of the source do not allow the version to be flashed over the running one.
	ReasonPathBlocked = "PathBlocked"
	// ReasonAttemptsExhausted: the image was written to the device as often as is allowed without a retry request.
	ReasonAttemptsExhausted = "AttemptsExhausted"
	// ReasonStepFailed: a step of a Steps job failed; the message names it.
	ReasonStepFailed = "StepFailed"
	// ReasonNoRunner: nothing is configured to execute the job, or its pod could not be made; the message says which.
	ReasonNoRunner = "NoRunner"
	// ReasonHealthAdvice: an executable of wanted.d reports the node as unhealthy, or has stopped doing so. It is
	// emitted as an event only; no decision depends on it.
	ReasonHealthAdvice = "HealthAdvice"
	// ReasonReleased: a person returned the held node to service.
	ReasonReleased = "Released"
)
