// Package source fetches what a FirmwareSource names, verifies it, and publishes what is in store.
package source
