// Package trust reads from the spec of a FirmwareSource who must have signed its files.
package trust
