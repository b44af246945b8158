// Package artifact fetches firmware files, verifies them against a digest known beforehand, takes out the images they
// hold, and keeps those in a content-addressed store.
package artifact
