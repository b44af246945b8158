// Package vendortool knows the programs of vendors that drivers run: which of their versions are supported, how a version is read, and what
// follows from a program being missing, too old, newer than any tested version, or not executable.
package vendortool
