// Package devlink is the driver of network adapters whose kernel driver updates their firmware through the netlink
// family devlink. It asks the kernel what an adapter runs and stores, and writes through the tool firmware-devlink,
// which is part of this package.
package devlink
