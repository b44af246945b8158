// Package quarantine decides which images may not be flashed to which models of device, because they made one unhealthy.
// It is pure: jobs and FirmwareQuarantines in, the set of quarantined images out.
package quarantine
