// Package vm runs the real daemon on a real kernel: a virtual machine with Debian's kernel is a node of a real API server,
// its emulated devices are updated through the kernel's own interfaces, and it reboots for real.
package vm
