// Package sourcefile reads from the spec of a FirmwareSource which files it has and who must have signed them, in the terms of package artifact.
package sourcefile
