// Package vendortool knows the programs of vendors that drivers run: which of their versions are supported, how a version is read, and
// what follows of a program that is missing, too old, newer than any that was tested, or not executable.
package vendortool
