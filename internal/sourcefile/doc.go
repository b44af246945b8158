// Package sourcefile reads from the spec of a FirmwareSource which files it has, in the terms of package artifact.
package sourcefile
