// Package quarantine is the reconciler that keeps in each FirmwareSource which of its images are quarantined, so that
// this outlives the jobs that found it out.
package quarantine
