// Package quarantine is the reconciler that keeps in each FirmwareSource which of its images are quarantined, so that this
// is still known after the jobs that reported it are deleted.
package quarantine
