// Package hotplug reports when hardware of this machine may have come, gone or changed its link.
package hotplug
