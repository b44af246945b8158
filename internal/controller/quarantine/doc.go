// Package quarantine is the reconciler that keeps a FirmwareQuarantine for each image and model that a job reported, so that this
// is still known after the job is deleted, and a person can decide about it.
package quarantine
