// Package artifact fetches firmware files, verifies them against a known digest, unpacks the images in them, and keeps
// the images in a content-addressed store.
package artifact
