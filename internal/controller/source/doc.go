// Package source downloads the files of each FirmwareSource, verifies them, and publishes which images are in store.
package source
