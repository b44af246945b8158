// Package node gives every Node its NodeFirmware binds its pins to its machine, and removes what belongs to Nodes that are gone.
package node
