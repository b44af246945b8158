// Package inventory holds the values every layer shares about the hardware of one machine: devices, their identity,
// PCI addresses, firmware versions, settings and kinds of activation. It does no I/O.
package inventory
