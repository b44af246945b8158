// Package simhost is a simulated machine: a directory with the host tree, the firmware of its devices, and vendor tools
// with the real tools' arguments, output and exit codes.
package simhost
