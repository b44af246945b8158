// Package discovery finds the devices of this machine and keeps their NodeDevices, and the node's NodeFirmware, up to date.
package discovery
