// Package pci reads and changes what the kernel lets be set of the PCI functions of a network adapter, whichever driver updates its
// firmware: their virtual functions, and how much they read at once.
package pci
