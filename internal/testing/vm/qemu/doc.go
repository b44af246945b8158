// Package qemu runs the virtual machine of the labs: one definition of a machine, which boots from whatever kernel, file
// systems and disks it is given.
package qemu
