// Package sourcefile knows the files of a FirmwareSource: which a spec has and who must have signed them, in the terms of package artifact, and the
// spec that describes files as vendors ship them.
package sourcefile
